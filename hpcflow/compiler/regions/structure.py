"""structure: conditionals and loops that lie in one region, as nested blocks of a program.

A region's nodes are dataflow: Switch, Merge, Enter, Exit and NextIteration say when a node is
alive. What the generated function needs is a program. The *condition* of a node is the set of
(predicate, outcome) pairs under which it is alive; a Merge of two values whose conditions differ
in the outcome of one predicate is alive under what they have in common. Nodes of one condition are
put below one ``if``, as far as their order allows, the nodes of a frame into a ``while``.

What has no such form (:class:`Unstructured`) is left to the executor, which runs every graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, NamedTuple

from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, frame_after, same_everywhere
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    ENTER_TYPES,
    EXIT_TYPES,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    Port,
    StepGraph,
    writes_state,
)

# Python nests no deeper: 20 loops, of which a Loop is two, and 100 levels of indentation.
_MOST_LOOPS, _MOST_LEVELS = 9, 80

Literal = tuple[Port, bool]  # a predicate and its outcome
Condition = frozenset[Literal]
ALWAYS: Condition = frozenset()

# Nodes without a statement: they only order and name.
_SILENT = SWITCH_TYPES | MERGE_TYPES | ENTER_TYPES | EXIT_TYPES | BACK_EDGE_TYPES | {
    "NoOp", "ControlTrigger", "Const"}


class Unstructured(Exception):
    """These nodes have no form as a program; ``node`` is where that shows."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"{node.name}: {reason}")
        self.node = node


class Copy(NamedTuple):
    """Input `position` of a Merge becomes its value."""

    merge: Node
    position: int


class Branch(NamedTuple):
    """``if predicate: then; else: otherwise``; `switch` is a node that the predicate decides."""

    predicate: Port
    switch: Node
    then: list
    otherwise: list


class Loop(NamedTuple):
    """``while True: before; if not predicate: break; body`` and then ``after``.

    `merges` are the loop's variables: (Merge, entering port, next port). `exits` leave the loop.
    """

    condition: Node
    merges: list[tuple[Node, Port, Port]]
    before: list
    body: list
    after: list
    exits: list[Node]


Block = list[Any]  # of Node, Copy, Branch, Loop


def root_of(port: Port) -> Port:
    """The port of which `port` is a copy."""
    while port[0].type == "Identity" and not port[0].inputs[0][0].dtypes[
            port[0].inputs[0][1]]._is_ref_dtype:
        port = port[0].inputs[0]
    return port


class Conditions:
    """Frame and condition of each node; `nodes` come with producers first.

    Only the control-flow nodes with ``absorbed`` set count; of others nothing is known. With
    `problems`, what has no structure is noted there instead of raised.
    """

    def __init__(self, nodes: list[Node], frames: dict[Node, FrameInfo], root: FrameInfo,
                 problems: list[Node] | None = None) -> None:
        self.nodes = nodes
        self.frames = frames
        self.root = root
        self.of: dict[Node, Condition] = {}
        self.loop_conditions: dict[FrameInfo, Node] = {}
        self.enters: dict[FrameInfo, list[Node]] = {}
        self.switches: dict[Port, list[Node]] = {}
        self.resolved: dict[Node, Port] = {}  # a Merge, and the predicate that decides it
        self._problems = problems
        for node in nodes:
            if node.absorbed and node.type == "LoopCond":
                if frames[node] in self.loop_conditions:
                    self.reject(node, "a second loop condition")
                self.loop_conditions[frames[node]] = node
        for node in nodes:
            self.of[node] = self._condition(node)

    def reject(self, node: Node, reason: str) -> None:
        """Raise Unstructured, or note the node where problems are collected."""
        if self._problems is None:
            raise Unstructured(node, reason)
        self._problems.append(node)

    def at(self, port: Port) -> Condition:
        """Return the condition under which one output is alive, for its readers."""
        node, index = port
        if node not in self.of or not node.absorbed:
            return self.of.get(node, ALWAYS)
        if node.type in ENTER_TYPES:
            return ALWAYS
        if node.type in EXIT_TYPES:
            enters = self.enters.get(self.frames[node])
            return self.of[enters[0]] if enters else ALWAYS
        if node.type in SWITCH_TYPES:
            return self.of[node] | {(self.predicate(node), bool(index))}
        return self.of[node]

    def predicate(self, switch: Node) -> Port:
        """Return the value that decides a Switch."""
        return root_of(switch.inputs[1])

    def is_loop_merge(self, node: Node) -> bool:
        """True for a variable of an absorbed loop."""
        return any(s.type in BACK_EDGE_TYPES for s, _ in node.inputs)

    # ------------------------------------------------------------ the conditions

    def _condition(self, node: Node) -> Condition:
        if node.absorbed and node.type in MERGE_TYPES:
            return self._of_merge(node)
        if node.type == "ControlTrigger":
            return ALWAYS
        found = ALWAYS
        for port in node.inputs:
            found |= self.at(port)
        for source in node.controls:
            if source.type in EXIT_TYPES and source.absorbed:
                found |= self.at((source, 0))
            elif source.type != "ControlTrigger" and not (
                    source.absorbed and source.type in ENTER_TYPES):
                found |= self.of.get(source, ALWAYS)
        if len({port for port, _ in found}) < len(found):
            self.reject(node, "never alive")
        if node.absorbed:
            self._check(node, found)
        return found

    def _of_merge(self, node: Node) -> Condition:
        if self.is_loop_merge(node):
            kinds = sorted(s.type in ENTER_TYPES and s.absorbed for s, _ in node.inputs)
            if kinds != [False, True] or node.controls:
                self.reject(node, "a loop variable has one Enter and one NextIteration")
            return ALWAYS
        if len(node.inputs) != 2:
            self.reject(node, "a Merge of other than two values")
            return ALWAYS
        one, other = (self.at(p) for p in node.inputs)
        differing = one ^ other
        if len(differing) == 2 and len({p for p, _ in differing}) == 1 and not any(
                p[0].type == "LoopCond" for p, _ in differing):
            self.resolved[node] = next(iter(differing))[0]
            return one & other
        self.reject(node, "its inputs are not the two branches of one conditional")
        return one & other

    def _check(self, node: Node, condition: Condition) -> None:
        """Reject a loop that has not the form of a ``while``, as far as `node` shows."""
        frame = self.frames[node]
        if node.type in SWITCH_TYPES:
            self.switches.setdefault(self.predicate(node), []).append(node)
            deciding = self.predicate(node)[0]
            if deciding.type == "LoopCond" and not deciding.absorbed:
                self.reject(node, "its loop is not absorbed")
        elif node.type in ENTER_TYPES:
            child = frame.child(node)
            known = self.enters.setdefault(child, [])
            known.append(node)
            if self.of.get(known[0], condition) != condition:
                self.reject(node, "a loop is entered under different conditions")
            if child not in self.loop_conditions:
                self.reject(node, "a loop without a condition")
        elif node.type == "LoopCond" and condition:
            self.reject(node, "a condition that is not always decided")
        elif node.type in EXIT_TYPES or node.type in BACK_EDGE_TYPES:
            outcome = node.type in BACK_EDGE_TYPES
            if condition != {((self.loop_conditions.get(frame), 0), outcome)}:
                self.reject(node, "it does not run in every iteration, or not at the end")


class _Arranger:
    """List scheduling of the members of one frame: nodes, copies into Merges, and inner loops."""

    def __init__(self, conditions: Conditions, frame: FrameInfo, members: dict[FrameInfo, list],
                 serial: dict[Node, int], level: int = 0) -> None:
        self.conditions = conditions
        self.frame = frame
        self.members = members
        self.serial = serial
        self.level = level
        self.waiting: dict[Any, int] = {}
        self.readers: dict[Any, list] = {}
        self.silent: list = []
        self.ready: dict[tuple, list] = {}  # by path
        self.left = 0
        self._collect()

    # ------------------------------------------------------------ members and their order

    def _collect(self) -> None:
        inside = self.members[self.frame]
        nodes = set(inside)
        sources: dict[Any, set] = {}
        inner = [f for f in self.conditions.enters if f.parent is self.frame]
        for node in inside:
            if node.type in EXIT_TYPES and node.absorbed:
                continue
            is_merge = node.type in MERGE_TYPES and node.absorbed
            if is_merge and self.conditions.is_loop_merge(node):
                sources[node] = set()
                continue
            if is_merge:
                copies = [Copy(node, i) for i in range(len(node.inputs))]
                for copy in copies:
                    sources[copy] = self._behind([node.inputs[copy.position][0]], nodes)
                sources[node] = self._behind(node.controls, nodes) | set(copies)
            else:
                sources[node] = self._behind([*(s for s, _ in node.inputs), *node.controls], nodes)
        for frame in inner:
            sources[frame] = set(self.conditions.enters[frame])
        for member, behind in sources.items():
            self.waiting[member] = len(behind)
            for source in behind:
                self.readers.setdefault(source, []).append(member)
        self.left = len(sources)
        for member in sources:
            if not self.waiting[member]:
                self._push(member)

    def _behind(self, found: Iterable[Node], nodes: set[Node]) -> set:
        """Return the members of this frame that stand for nodes: an Exit for its whole loop."""
        result: set = set()
        for node in found:
            frame = self.conditions.frames.get(node)
            if node.type in EXIT_TYPES and node.absorbed and frame is not self.frame:
                result.add(frame)
            elif node in nodes and node.type not in BACK_EDGE_TYPES:
                result.add(node)
        return result

    def _condition(self, member: Node | Copy | FrameInfo) -> Condition:
        if isinstance(member, Copy):
            return self.conditions.at(member.merge.inputs[member.position])
        if isinstance(member, FrameInfo):
            return self.conditions.of[self.conditions.enters[member][0]]
        return self.conditions.of[member]

    def _path(self, member: Node | Copy | FrameInfo) -> tuple:
        """The literals, outer predicates first."""
        of, serial = self.conditions.of, self.serial

        def rank(literal: Literal) -> tuple:
            (node, index), _ = literal
            is_own = self.conditions.loop_conditions.get(self.frame) is node
            return (not is_own, len(of.get(node, ALWAYS)), serial.get(node, -1), index)

        return tuple(sorted(self._condition(member), key=rank))

    def _push(self, member: Node | Copy | FrameInfo) -> None:
        if isinstance(member, Node) and member.type in _SILENT:
            heap = self.silent
        else:
            heap = self.ready.setdefault(self._path(member), [])
        heapq.heappush(heap, (*self._rank(member), id(member), member))

    def _rank(self, member: Node | Copy | FrameInfo) -> tuple:
        """Writes of variables wait until nothing else is ready."""
        if isinstance(member, Copy):
            return False, self.serial[member.merge], 1 + member.position
        if isinstance(member, FrameInfo):
            nodes = self.members[member]
            return any(map(writes_state, nodes)), self.serial[nodes[0]], 0
        return writes_state(member), self.serial[member], 0

    # ------------------------------------------------------------ blocks

    def block(self, path: tuple = ()) -> Block:
        """Return the block that runs below the branches of `path`, once that is reached."""
        result: Block = []
        level = self.level + len(path)
        if level > _MOST_LEVELS:
            raise Unstructured(self.conditions.switches[path[-1][0]][0], "it is nested too deep")
        while True:
            while self.silent:
                self._take(self.silent, result, level)
            own = self.ready.get(path)
            inner = None if own and not own[0][0] else self._inner_path(path)
            if inner is not None:
                predicate = inner[len(path)][0]
                switch = self.conditions.switches[predicate][0]
                result.append(Branch(predicate, switch, self.block((*path, (predicate, True))),
                                     self.block((*path, (predicate, False)))))
            elif own:
                self._take(own, result, level)
            else:
                return result

    def _take(self, heap: list, result: Block, level: int) -> None:
        member = heapq.heappop(heap)[-1]
        self.left -= 1
        if isinstance(member, FrameInfo):
            if member.depth > _MOST_LOOPS:
                raise Unstructured(self.conditions.enters[member][0], "it is nested too deep")
            result.append(_Arranger(self.conditions, member, self.members, self.serial,
                                    level + 2).loop())
        else:
            result.append(member)
        for reader in self.readers.get(member, ()):
            self.waiting[reader] -= 1
            if not self.waiting[reader]:
                self._push(reader)

    def _inner_path(self, path: tuple) -> tuple | None:
        """The first longer path below which something is ready."""
        best: tuple | None = None
        for found, heap in self.ready.items():
            if not heap or len(found) <= len(path) or found[: len(path)] != path:
                continue
            if not path and self._is_own_predicate(found[0][0]):
                continue
            if best is None or heap[0][:3] < best[0]:
                best = heap[0][:3], found
        return best[1] if best else None

    def _is_own_predicate(self, port: Port) -> bool:
        return port[0] is self.conditions.loop_conditions.get(self.frame)

    def loop(self) -> Loop:
        """The whole frame as a loop."""
        condition = self.conditions.loop_conditions[self.frame]
        predicate: Port = (condition, 0)
        before = self.block()
        body = self.block(((predicate, True),))
        after = self.block(((predicate, False),))
        self.check_complete()
        nodes = self.members[self.frame]
        merges = [_variable(n) for n in nodes
                  if n.type in MERGE_TYPES and n.absorbed and self.conditions.is_loop_merge(n)]
        exits = [n for n in nodes if n.type in EXIT_TYPES and n.absorbed]
        return Loop(condition, merges, before, body, after, exits)

    def check_complete(self) -> None:
        """Raise if something could not be placed."""
        if self.left:
            stuck = next(n for n in self.members[self.frame] if n.absorbed)
            raise Unstructured(stuck, "there is no order")


def _variable(merge: Node) -> tuple[Node, Port, Port]:
    first, second = merge.inputs
    enter, following = (second, first) if first[0].type in BACK_EDGE_TYPES else (first, second)
    return merge, (enter[0], enter[1]), following[0].inputs[0]


def always_alive(graph: StepGraph) -> set[Node]:
    """The nodes that run once in every step: those outside of loops and of branches, with the
    Exit nodes that lead there."""
    if not any(n.type in CONTROL_FLOW_TYPES for n in graph.nodes):
        return set(graph.nodes)
    root = FrameInfo("", None)
    frames = assign_frames(graph.nodes, root, same_everywhere)
    for node in graph.nodes:
        node.absorbed = node.type in CONTROL_FLOW_TYPES or node.type == "LoopCond"
    unstructured: list[Node] = []
    conditions = Conditions(graph.nodes, frames, root, unstructured)
    if unstructured:
        found = _before_control_flow(graph.nodes)
    else:
        found = {n for n in graph.nodes if _ends_in(frames[n], n) is root
                 and not (conditions.at((n, 0)) if n.type in EXIT_TYPES else conditions.of[n])}
    for node in graph.nodes:
        node.absorbed = False
    return found


def _ends_in(frame: FrameInfo, node: Node) -> FrameInfo:
    return frame if node.type not in EXIT_TYPES else frame_after(node, frame)


def _before_control_flow(nodes: list[Node]) -> set[Node]:
    """The nodes, of which producers come first, that depend on no control flow."""
    found: set[Node] = set()
    for node in nodes:
        if node.type not in CONTROL_FLOW_TYPES and found.issuperset(
                [*(s for s, _ in node.inputs), *node.controls]):
            found.add(node)
    return found


def arrange(nodes: list[Node]) -> Block:
    """The program of a region's nodes, which come with producers first.

    Raises :class:`Unstructured` where there is none.
    """
    if not any(n.absorbed for n in nodes):
        return list(nodes)
    root = FrameInfo("", None)
    frames = assign_frames(nodes, root, same_everywhere)
    conditions = Conditions(nodes, frames, root)
    members: dict[FrameInfo, list[Node]] = {}
    for node in nodes:
        members.setdefault(frames[node], []).append(node)
    _check_readers(nodes)
    members.setdefault(root, [])
    serial = {n: i for i, n in enumerate(nodes)}
    arranger = _Arranger(conditions, root, members, serial)
    block = arranger.block()
    arranger.check_complete()
    return block


def _check_readers(nodes: list[Node]) -> None:
    """Raise Unstructured for reads that a ``while`` has no place for: a variable reads what enters
    the loop once as its first value, and a NextIteration; all other nodes read invariants."""
    for node in nodes:
        for source, _ in node.inputs:
            if not source.absorbed or source.type not in ENTER_TYPES | BACK_EDGE_TYPES:
                continue
            is_variable = node.type in MERGE_TYPES and node.absorbed
            if source.type in BACK_EDGE_TYPES and not is_variable:
                raise Unstructured(node, "it reads a NextIteration")
            if source.type in ENTER_TYPES and bool(
                    source.attrs.get("is_constant")) == is_variable:
                raise Unstructured(node, "it reads a value that enters once")
