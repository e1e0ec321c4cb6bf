"""regions: which nodes may run as one.

Two nodes may share a region when they are on one device, have the same *asynchronous ancestors*
(the edges between devices, asynchronous kernels and control-flow nodes that they wait for,
directly or not) and are *dead together* (they depend on the same branches of the same
conditionals). A region then never waits for something that one of its own nodes must start, and
is skipped as a whole or not at all. The sets are computed on the whole placed graph, before it is
partitioned.

Along an edge between two regions the first set grows, or it stays and the second grows: so the
graph of regions has no cycle.

Ops that are to start early (gradients to be reduced) would have to wait for the whole region that
computes their inputs. So regions are cut into *stages*: what the first of them needs, what the
second needs besides, and so on, and the rest. Along an edge the stage grows or stays.

Conditionals and loops that lie wholly inside a region belong to it (``absorb``): these are neither
waited for, nor do their branches make anything dead outside. A loop counts as one node.
"""

from __future__ import annotations

import heapq
from typing import Any

from hpcflow.compiler.distribute.packs import Packs
from hpcflow.compiler.ir.frames import FrameInfo
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    BARRIER_TYPES,
    EXIT_TYPES,
    FEED,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    StepGraph,
    is_barrier,
)
from hpcflow.compiler.regions.structurize import Absorption
from hpcflow.kernels.registry import is_early

# Dead for reasons of their own: a Merge when all its inputs are, an Exit when its loop never ran.
_OWN_DEADNESS = MERGE_TYPES | EXIT_TYPES


def assign_regions(graph: StepGraph, packs: bool = True) -> None:
    """Set ``node.region`` to the number of the node's region on its device, and find what goes to
    other tasks in `packs` if there are to be some."""
    absorption = Absorption(graph)
    while True:
        _Regions(graph, absorption, packs).assign()
        if not absorption.reject_torn():
            return


class _Regions:
    """The two sets of every node, as bits of integers."""

    def __init__(self, graph: StepGraph, absorption: Absorption, makes_packs: bool) -> None:
        self.graph = graph
        self.makes_packs = makes_packs
        self.packs: Packs | None = None
        self.absorption = absorption
        self.bits: dict[object, int] = {}
        self.kernels = self.feeds = 0  # the bits of asynchronous kernels, and of late feeds
        self.waits: dict[Node, int] = {}  # asynchronous ancestors
        self.dead: dict[Node, int] = {}  # what it dies with
        self.barriers: set[Node] = set()

    def assign(self) -> None:
        """Number the regions; loops that cannot be one unit are taken back first."""
        misfits = self._number()
        while misfits:
            for frame in misfits:
                self.absorption.drop_unit(frame)
            misfits = self._number()
        if self.packs is not None:
            self.graph.packs = self.packs.numbers()

    def _number(self) -> list[FrameInfo]:
        self.bits, self.kernels, self.feeds = {}, 0, 0
        self.waits, self.dead = {}, {}
        self.packs = Packs(self.graph) if self.makes_packs else None
        self.barriers = {n for n in self.graph.nodes if is_barrier(n)}
        units = {n: self.absorption.unit_of(n) for n in self.graph.nodes}
        groups, misfits = _contracted(self.graph.nodes, units)
        stages = stages_of(self.graph, units)
        numbers: dict[tuple[str, int, int, int], int] = {}
        inputs: dict[FrameInfo, list[tuple[int, int]]] = {}
        for group in groups:
            sets = [self._sets(n) for n in group]
            waits = dead = 0
            for some, others in sets:
                waits |= some
                dead |= others
            frame = units[group[0]]
            if frame is not None:
                enters = self.absorption.conditions.enters[frame]
                inputs[frame] = [s for n, s in zip(group, sets) if n in enters]
            for node in group:
                self.waits[node] = waits
                self.dead[node] = dead
                key = (node.device, waits, dead, stages.get(node, -1))
                node.region = numbers.setdefault(key, len(numbers))
                if self.packs is not None:
                    self.packs.ran(node)
        return misfits or self._misfits(inputs)

    def _sets(self, node: Node) -> tuple[int, int]:
        """Return two bit sets, what `node` waits for and what it is dead with, by the nodes seen so
        far."""
        waits = dead = 0
        for source, index in node.inputs:
            if source.type not in BACK_EDGE_TYPES and source in self.waits:
                waits |= self._waits_over(source, index, node)
                dead |= self._dead_over(source, index)
        for source in node.controls:
            if source.type not in BACK_EDGE_TYPES and source in self.waits:
                waits |= self._waits_over(source, -1, node)
                dead |= self._dead_over(source, -1)
        return waits, dead

    def _bit(self, thing: object) -> int:
        return 1 << self.bits.setdefault(thing, len(self.bits))

    def _waits_over(self, source: Node, index: int, node: Node) -> int:
        waits = self.waits[source]
        if source in self.barriers or self.graph.incremental and source.type == FEED:
            bit = self._bit(source)
            waits |= bit
            if source.type == FEED:
                self.feeds |= bit
            elif source.type not in BARRIER_TYPES:
                self.kernels |= bit
        if source.device != node.device and not source.is_const and source.type != FEED:
            waits |= self._bit((source, index, node.device) if self.packs is None
                               else self.packs.event(source, index, node.device))
        return waits

    def _dead_over(self, source: Node, index: int) -> int:
        if source.type == "ControlTrigger":  # always alive
            return 0
        if source.absorbed:
            return self.dead[source]
        if source.type in _OWN_DEADNESS:
            return self._bit(("dead", source))
        if source.type in SWITCH_TYPES and index >= 0:
            return self.dead[source] | self._bit(("dead", source, index))
        return self.dead[source]

    def _misfits(self, inputs: dict[FrameInfo, list[tuple[int, int]]]) -> list[FrameInfo]:
        """Return the loops that do not fit one unit: they are entered partly, or something waits
        for part of one that the loop waits for.

        The latter may be behind a queue: a loop that waits for an asynchronous kernel with one
        input only, and on which some asynchronous kernel depends. Or behind the client, who feeds
        what is left when it has seen a result.
        """
        found = []
        leading: set[Node] | None = None
        for frame, sets in inputs.items():
            waits = dead = 0
            for some, others in sets:
                waits |= some
                dead |= others
            if any(others != dead or (waits & ~some) & self.feeds for some, others in sets):
                found.append(frame)
            elif any((waits & ~some) & self.kernels for some, _ in sets):
                leading = self._leading() if leading is None else leading
                if any(n in leading for n in self.absorption.conditions.enters[frame]):
                    found.append(frame)
        return found

    def _leading(self) -> set[Node]:
        """The nodes that asynchronous kernels depend on."""
        found: set[Node] = set()
        readers = self.graph.consumers()
        for node in reversed(self.graph.nodes):
            if any(r in found or r in self.barriers and r.type not in BARRIER_TYPES
                   for r in readers[node]):
                found.add(node)
        return found


def _contracted(nodes: list[Node], units: dict[Node, FrameInfo | None],
                ) -> tuple[list[list[Node]], list[FrameInfo]]:
    """Return the nodes in order, with those of a unit together, and the units for which there is no
    such order."""
    if not any(units.values()):
        return [[n] for n in nodes], []
    members: dict[Any, list[Node]] = {}
    for node in nodes:
        members.setdefault(units[node] or node, []).append(node)
    order = {key: i for i, key in enumerate(members)}
    readers: dict[Any, set] = {key: set() for key in members}
    for node in nodes:
        key = units[node] or node
        for source in [*(s for s, _ in node.inputs), *node.controls]:
            behind = units[source] or source
            if behind is not key and source.type not in BACK_EDGE_TYPES:
                readers[behind].add(key)
    waiting = dict.fromkeys(members, 0)
    for found in readers.values():
        for key in found:
            waiting[key] += 1
    ready = [order[key] for key, count in waiting.items() if not count]
    keys = list(members)
    groups = []
    while ready:
        key = keys[heapq.heappop(ready)]
        groups.append(members[key])
        for reader in readers[key]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, order[reader])
    stuck = [key for key, count in waiting.items() if count and isinstance(key, FrameInfo)]
    return groups, stuck


def stages_of(graph: StepGraph, units: dict[Node, FrameInfo | None]) -> dict[Node, int]:
    """Node -> the first op to start early, in graph order, that needs it; nothing for the rest."""
    stages: dict[Node, int] = {}
    early = [n for n in graph.nodes if is_early(n.type)]
    members: dict[FrameInfo, list[Node]] = {}
    if early:
        for node, unit in units.items():
            if unit is not None:
                members.setdefault(unit, []).append(node)
    for number, start in enumerate(early):
        stack = [s for s, _ in start.inputs] + start.controls
        while stack:
            node = stack.pop()
            if node not in stages:
                stages[node] = number
                unit = units[node]
                stack += [s for s, _ in node.inputs] + node.controls
                stack += members.pop(unit, []) if unit is not None else []
    return stages
