"""loops: a loop that is spread over tasks gets a control loop on each of them.

The primitives by which a variable goes round a loop stay together, on one device; what a loop
reads from outside enters it on the device that reads it, once for all iterations. Then every task
with nodes of the loop gets two nodes. A *token*, an Enter that is alive when the loop runs, makes
the frame there and stands for the beginning of every iteration: what arrives from other tasks
waits for it, and so belongs to an iteration. A *gate* reads the LoopCond and begins the next
iteration; its edge is the one small message that a task gets per iteration from the owner of the
predicate. The scheme is that of "Dynamic control flow in large-scale machine learning" (EuroSys
2018), whose control loops are these two nodes.
"""

from __future__ import annotations

import numpy as np

from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, frame_after, same_everywhere
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    ENTER_TYPES,
    EXIT_TYPES,
    LOOP_GATE,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    StepGraph,
    new_node,
    topological,
)
from hpcflow.dtypes import bool as bool_type
from hpcflow.errors import InvalidArgumentError


def spread_loops(graph: StepGraph) -> None:
    """Prepare the placed graph's loops for more than one task; nothing for one task.

    Raises ``InvalidArgumentError`` for inputs from different frames, and for a loop over several
    tasks without a LoopCond of its own.
    """
    if len({task_of(n.device) for n in graph.nodes}) < 2 or not any(
            n.type in ENTER_TYPES for n in graph.nodes):
        return
    _keep_variables_together(graph)
    _enter_where_read(graph)
    graph.nodes = topological(graph.nodes)
    _Spreader(graph).run()
    graph.nodes = topological(graph.nodes)


# ---------------------------------------------------------------- primitives


def is_loop_merge(node: Node) -> bool:
    """True for the Merge by which a variable of a loop comes round."""
    return node.type in MERGE_TYPES and any(s.type in BACK_EDGE_TYPES for s, _ in node.inputs)


def _keep_variables_together(graph: StepGraph) -> None:
    """Place Enter and NextIteration where their Merge is, since only one of them gives it a value
    in an iteration, and Exit where its Switch is, since it gives a value once, not in every
    iteration."""
    for node in graph.nodes:
        if is_loop_merge(node):
            for source, _ in node.inputs:
                if source.type in BACK_EDGE_TYPES or not source.attrs.get("is_constant"):
                    source.device = node.device
        elif node.type in EXIT_TYPES:
            node.device = node.inputs[0][0].device


def _enter_where_read(graph: StepGraph) -> None:
    """Copy the Enter of an invariant of a loop to each device that reads it."""
    copies: dict[tuple[Node, str], Node] = {}
    waiting = list(graph.nodes)
    while waiting:  # a copy reads invariants of the loop around, which are copied then
        node = waiting.pop()
        count = len(copies)
        for i, (source, index) in enumerate(node.inputs):
            if _can_be_copied(source) and source.device != node.device:
                node.inputs[i] = (_copy(source, node.device, copies), index)
        if any(_can_be_copied(c) and c.device != node.device for c in node.controls):
            node.controls = [_copy(c, node.device, copies) if _can_be_copied(c)
                             and c.device != node.device else c for c in node.controls]
        waiting += list(copies.values())[count:]
    if copies:
        graph.nodes += copies.values()
        graph.sweep()


def _can_be_copied(node: Node) -> bool:
    return (node.type == "Enter" and bool(node.attrs.get("is_constant"))
            and node.dtypes[0].name not in ("resource", "variant"))


def _copy(enter: Node, device: str, copies: dict[tuple[Node, str], Node]) -> Node:
    found = copies.get((enter, device))
    if found is None:
        found = copies[enter, device] = new_node(
            enter.type, enter.name, enter.attrs, list(enter.inputs), list(enter.controls), device,
            list(enter.dims), enter.order)
        found.op, found.site = enter.op, enter.site
    return found


# ---------------------------------------------------------------- tokens and gates


class _Spread:
    """A frame with nodes on several tasks.

    Attributes:
        info: the frame.
        devices: task -> the device there that its token and gate are on.
        number: tells the loop from the others of the step.
        cond: its LoopCond.
        early: whether some task but the owner has work before the predicate is known.
        waits: what the loop begins after, and is dead with.
    """

    def __init__(self, info: FrameInfo, devices: dict[str, str], number: int, cond: Node,
                 enter: Node, early: bool) -> None:
        self.info = info
        self.devices = devices
        self.number = number
        self.cond = cond
        self.enter = enter
        self.early = early
        self.waits: list[Node] = []
        self.pivots: dict[str, Node] = {}

    @property
    def owner(self) -> str:
        """The task that computes the predicate."""
        return task_of(self.cond.device)


class _Spreader:
    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.root = FrameInfo("", None)
        self.frames = assign_frames(graph.nodes, self.root, same_everywhere)
        self.new: list[Node] = []

    def run(self) -> None:
        """Give every frame that is spread over tasks its tokens and gates."""
        places = self._places()
        spread = {info: self._describe(info, devices, number)
                  for number, (info, devices) in enumerate(places.items())
                  if info is not self.root and len(devices) > 1}
        for frame in spread.values():
            self._begin(frame)
            for task, device in frame.devices.items():
                self._join(frame, task, device)
        for node in self.graph.nodes:
            if node.type == "Const" and node.controls and self.frames[node] in spread:
                self._anchor(node, spread[self.frames[node]])
            elif node.type == "ControlTrigger" and self.frames[node] in spread:
                self._join_waits(node)
        self.graph.nodes += self.new

    def _places(self) -> dict[FrameInfo, dict[str, str]]:
        """Frame -> task -> a device; a task is in all frames around one that it is in."""
        places: dict[FrameInfo, dict[str, str]] = {i: {} for i in _inside_out(self.root)}
        for node in self.graph.nodes:
            if same_everywhere(node):
                continue
            found = [self.frames[node]]
            if node.type in ENTER_TYPES:  # what sends its value elsewhere is in the loop
                found.append(frame_after(node, self.frames[node]))
            for info in found:
                places[info].setdefault(task_of(node.device), node.device)
        for info, devices in places.items():
            if info.parent is not None and len(devices) > 1:
                for task, device in devices.items():
                    places[info.parent].setdefault(task, device)
        return places

    def _describe(self, info: FrameInfo, devices: dict[str, str], number: int) -> _Spread:
        inside = [n for n in self.graph.nodes if self.frames[n] is info]
        conds = [n for n in inside if n.type == "LoopCond"]
        if len(conds) != 1:
            raise node_error(
                InvalidArgumentError,
                f"The loop '{info.name}' is spread over the tasks {', '.join(sorted(devices))}: "
                f"it must have one LoopCond, but it has {len(conds)}", inside[0])
        return _Spread(info, devices, number, conds[0], self._first_enter(info, conds[0]),
                       _is_early(inside, conds[0]))

    def _first_enter(self, info: FrameInfo, cond: Node) -> Node:
        """An Enter that decides whether the loop runs: of a variable that the predicate reads."""
        enters = [n for n in self.graph.nodes
                  if n.type == "Enter" and frame_after(n, self.frames[n]) is info]
        behind = self._behind(cond)
        for test in (lambda n: n in behind and not n.attrs.get("is_constant"),
                     lambda n: not n.attrs.get("is_constant"), lambda n: True):
            found = [n for n in enters if test(n)]
            if found:
                return min(found, key=lambda n: n.order)
        raise node_error(InvalidArgumentError, f"Nothing enters the loop '{info.name}', which is "
                         "spread over tasks, by value", cond)

    def _behind(self, node: Node) -> set[Node]:
        seen = {node}
        stack = [node]
        while stack:
            reader = stack.pop()
            if reader.type in ENTER_TYPES:
                continue
            for source, _ in reader.inputs:
                if source not in seen and source.type not in BACK_EDGE_TYPES:
                    seen.add(source)
                    stack.append(source)
        return seen

    # ------------------------------------------------------------ the nodes

    def _begin(self, frame: _Spread) -> None:
        """Find out what the tokens wait for: what the Enter that stands for the loop waits for."""
        enter = frame.enter
        source, index = enter.inputs[0]
        waits = list(enter.controls)
        if source.type in SWITCH_TYPES:  # of its outputs one is dead
            alive = new_node("Identity", f"{enter.name}/_runs", {"T": enter.dtypes[0].base_dtype},
                             [(source, index)], [], source.device, [source.dims[index]],
                             source.order + 0.25)
            self._add(alive, enter, self.frames[enter])
            waits.append(alive)
        elif not same_everywhere(source):
            waits.append(source)
        frame.waits = list(dict.fromkeys(waits))

    def _join(self, frame: _Spread, task: str, device: str) -> None:
        """Add the token and the gate of one task."""
        info, enter = frame.info, frame.enter
        true = new_node("Const", f"{info.name}/_true",
                        {"dtype": bool_type, "value": np.array(True)}, [], [], device, [()],
                        enter.order)
        attrs = {"T": bool_type, "frame_name": info.name.encode(), "is_constant": True,
                 "parallel_iterations": info.parallel}
        token = new_node("Enter", f"{info.name}/_token", attrs, [(true, 0)], list(frame.waits),
                         device, [()], enter.order)
        followers = [] if task != frame.owner else [
            t.encode() for t in frame.devices if t != frame.owner]
        gate = new_node(LOOP_GATE, f"{info.name}/_gate",
                        {"loop": frame.number, "frame_name": info.name.encode(),
                         "owner": frame.owner.encode(), "followers": followers,
                         "early": frame.early},
                        [(frame.cond, 0)], [], device, [], frame.cond.order + 0.5)
        self._add(true, enter, self.root)
        self._add(token, enter, self.frames[enter])
        self._add(gate, frame.cond, info)
        self.graph.kept.append(gate)
        self.graph.kept.append(token)
        self.graph.tokens[info.path, task] = token

    def _add(self, node: Node, origin: Node, frame: FrameInfo) -> None:
        node.op, node.site = origin.op, origin.site
        self.frames[node] = frame
        self.new.append(node)

    def _join_waits(self, trigger: Node) -> None:
        """Let a node that waits for all pushes onto stacks in an iteration get one message from
        each task, not one for each push."""
        by_device: dict[str, list[Node]] = {}
        for source in trigger.controls:
            by_device.setdefault(source.device, []).append(source)
        for device, sources in by_device.items():
            if len(sources) == 1 or task_of(device) == task_of(trigger.device):
                continue
            joined = new_node("ControlTrigger", f"{trigger.name}/_join", {}, [], sources, device,
                              [], max(s.order for s in sources) + 0.5)
            self._add(joined, trigger, self.frames[trigger])
            trigger.controls = [c for c in trigger.controls if c not in sources] + [joined]

    # ------------------------------------------------------------ constants

    def _anchor(self, const: Node, frame: _Spread) -> None:
        """Let a constant in a loop wait for something on its own task. It waits for the value of a
        variable, which says that there is an iteration, or in the body another; on other tasks the
        token and the predicate say so too."""
        task = task_of(const.device)
        for i, source in enumerate(const.controls):
            if task_of(source.device) == task:
                continue
            if _is_body_value(source, frame.cond):
                const.controls[i] = self._pivot(frame, task)
            elif is_loop_merge(source):
                const.controls[i] = self.graph.tokens[frame.info.path, task]

    def _pivot(self, frame: _Spread, task: str) -> Node:
        found = frame.pivots.get(task)
        if found is None:
            token = self.graph.tokens[frame.info.path, task]
            switch = new_node("Switch", f"{frame.info.name}/_switch", {"T": bool_type},
                              [(token, 0), (frame.cond, 0)], [], token.device, [(), ()],
                              frame.cond.order + 0.5)
            found = frame.pivots[task] = new_node(
                "Identity", f"{frame.info.name}/_pivot", {"T": bool_type}, [(switch, 1)], [],
                token.device, [()], frame.cond.order + 0.5)
            self._add(switch, frame.cond, frame.info)
            self._add(found, frame.cond, frame.info)
        return found


def _is_early(inside: list[Node], cond: Node) -> bool:
    """True if some of a loop's nodes, sorted, run on other tasks and do not wait for `cond`."""
    behind = {cond}
    owner = task_of(cond.device)
    for node in inside:
        if any(s in behind for s in [*(s for s, _ in node.inputs), *node.controls]
               if s.type not in BACK_EDGE_TYPES):
            behind.add(node)
        elif not (is_loop_merge(node) or same_everywhere(node) or node.type in ENTER_TYPES
                  or task_of(node.device) == owner):
            return True
    return False


def _is_body_value(node: Node, cond: Node) -> bool:
    """True for the Identity of a loop variable in the body."""
    if node.type != "Identity" or node.controls:
        return False
    source, index = node.inputs[0]
    return source.type == "Switch" and index == 1 and source.inputs[1][0] is cond


def _inside_out(root: FrameInfo) -> list[FrameInfo]:
    """All frames, those inside others first."""
    found: list[FrameInfo] = []
    stack: list[FrameInfo] = [root]
    while stack:
        info = stack.pop()
        found.append(info)
        stack += info.children.values()
    return found[::-1]


