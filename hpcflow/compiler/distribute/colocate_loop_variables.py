"""colocate_loop_variables: nodes of a loop that only pass values on go to the task of these values.

The primitives of a loop, and the copies inside it, are made in the device scope around the loop,
or in none, wherever the operations of its body are. Without this pass a variable that is computed
on one task would go round by way of another, twice over the network in each iteration.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, same_everywhere
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    ENTER_TYPES,
    EXIT_TYPES,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    StepGraph,
)
from hpcflow.device_spec import DeviceSpec
from hpcflow.host.tuning import compiler as tuning

_STACKS = frozenset({"Stack", "StackV2", "StackPush", "StackPushV2", "StackPop", "StackPopV2",
                     "Const"})
_FOLLOWERS = (SWITCH_TYPES | EXIT_TYPES | BACK_EDGE_TYPES | MERGE_TYPES | ENTER_TYPES
              | {"Identity", "LoopCond"})


def follow_loop_values(graph: StepGraph, groups: dict[Node, Any],
                       remembered: dict[str, str]) -> None:
    """Give primitives and copies inside loops the task that their values come from.

    `groups` are the nodes that have to share a device, each with its ``device`` so far; none is
    chosen for a group with a node in `remembered`, which has a place already.
    """
    if not any(n.type in ENTER_TYPES for n in graph.nodes):
        return
    root = FrameInfo("", None)
    frames = assign_frames(graph.nodes, root, same_everywhere)
    tasks = _Tasks(groups, remembered)
    followers = [n for n in graph.nodes if n.type in _FOLLOWERS and tasks.is_free(n) and (
        frames[n] is not root or n.type in ENTER_TYPES)]
    merges = _merges_after(graph)
    _move_variables(graph, tasks, merges)
    for _ in range(tuning.COLOCATE_ROUNDS):
        if not [n for n in followers if not tasks.of(n) and _follow(n, tasks, merges)]:
            return


class _Tasks:
    """The tasks of nodes, as far as they are known before placement."""

    def __init__(self, groups: dict[Node, Any], remembered: dict[str, str]) -> None:
        self.groups = groups
        self.remembered = remembered

    def is_free(self, node: Node) -> bool:
        """True if the program says nothing about where `node` is."""
        if any(t._is_ref_dtype or t.name in ("resource", "variant") for t in node.dtypes):
            return False
        group = self.groups.get(node)
        if group is None:
            return not node.device
        return not group.device and not any(n.name in self.remembered for n in group.nodes)

    def of(self, node: Node) -> str:
        """The task that `node` is asked to be on; empty if it may be on any."""
        device = self.groups[node].device if node in self.groups else node.device
        if not device:
            return ""
        spec = DeviceSpec.from_string(device)
        if spec.job is None:
            return ""
        return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()

    def put(self, node: Node, task: str) -> None:
        """Ask for `task`."""
        if node in self.groups:
            self.groups[node].device = task
        else:
            node.device = task


    def put_if_movable(self, node: Node, task: str) -> None:
        """Ask for `task`, unless something else keeps `node` where it is."""
        if self.is_movable(node):
            self.put(node, task)

    def is_movable(self, node: Node) -> bool:
        """True if all that has to be with `node` passes values on, or keeps them for gradients."""
        if any(t._is_ref_dtype or t.name in ("resource", "variant") for t in node.dtypes):
            return False
        members = self.groups[node].nodes if node in self.groups else [node]
        return all(n.name not in self.remembered and (n.type in _FOLLOWERS or n.type in _STACKS)
                   for n in members)


def _move_variables(graph: StepGraph, tasks: _Tasks, merges: dict[Node, Node]) -> None:
    """Move each variable of a loop to the task where the body computes its next value, also where
    the whole loop was built in the scope of another task."""
    variables = [n for n in graph.nodes if n.type in MERGE_TYPES and tasks.of(n)
                 and any(s.type in BACK_EDGE_TYPES for s, _ in n.inputs)]
    moved: dict[Node, str] = {}
    for _ in range(tuning.COLOCATE_ROUNDS):
        count = len(moved)
        for merge in variables:
            back = next(s for s, _ in merge.inputs if s.type in BACK_EDGE_TYPES)
            task = tasks.of(back.inputs[0][0])
            if merge not in moved and task and task != tasks.of(merge) and (
                    tasks.is_movable(merge)):
                moved[merge] = task
                tasks.put(merge, task)
                tasks.put_if_movable(back, task)
        _carry_on(graph, tasks, moved, merges)
        if len(moved) == count:
            return


def _carry_on(graph: StepGraph, tasks: _Tasks, moved: dict[Node, str],
              merges: dict[Node, Node]) -> None:
    """Move the nodes that pass on the value of a moved variable to its task."""
    if not moved:
        return
    follows = dict(moved)
    for node in graph.nodes:
        if node in moved:
            continue
        if node.type in ENTER_TYPES:
            task = moved.get(merges[node]) if node in merges else None
        elif node.type in SWITCH_TYPES or node.type in EXIT_TYPES or (
                node.type == "Identity" and node.inputs[0][0].type in SWITCH_TYPES):
            task = follows.get(node.inputs[0][0])
        else:
            continue
        if task is not None:
            follows[node] = task
            tasks.put_if_movable(node, task)


def _merges_after(graph: StepGraph) -> dict[Node, Node]:
    """Return a map from each Enter to the Merge of its variable."""
    return {s: n for n in graph.nodes if n.type in MERGE_TYPES
            for s, _ in n.inputs if s.type in ENTER_TYPES}


def _follow(node: Node, tasks: _Tasks, merges: dict[Node, Node]) -> bool:
    if node.type in ENTER_TYPES:
        sources = [merges[node]] if node in merges else []
    elif node.type in MERGE_TYPES:
        back = [s for s, _ in node.inputs if s.type in BACK_EDGE_TYPES]
        sources = back or [s for s, _ in node.inputs if not same_everywhere(s)]
    else:
        sources = [node.inputs[0][0]]
    found = {tasks.of(s) for s in sources}
    if len(found) != 1 or "" in found:
        return False
    tasks.put(node, found.pop())
    return True
