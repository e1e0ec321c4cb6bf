"""regions: which nodes may run as one.

Two nodes may share a region when they are on one device, have the same *asynchronous ancestors*
(the edges between devices, asynchronous kernels and control-flow nodes that they wait for,
directly or not) and are *dead together* (they depend on the same branches of the same
conditionals). A region then never waits for something that one of its own nodes must start, and
is skipped as a whole or not at all. The sets are computed on the whole placed graph, before it is
partitioned.

Along an edge between two regions the first set grows, or it stays and the second grows: so the
graph of regions has no cycle.
"""

from __future__ import annotations

from hpcflow.compiler.ir import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    EXIT_TYPES,
    FEED,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    StepGraph,
    kernel_of,
)
from hpcflow.kernels.registry import ASYNC

_BARRIERS = CONTROL_FLOW_TYPES | {"LoopCond", "ControlTrigger"}
# Dead for reasons of their own: a Merge when all its inputs are, an Exit when its loop never ran.
_OWN_DEADNESS = MERGE_TYPES | EXIT_TYPES


def is_barrier(node: Node) -> bool:
    """True if `node` always runs by itself: it may wait, or decides what is alive."""
    if node.type in _BARRIERS:
        return True
    kernel = kernel_of(node)
    return kernel is not None and kernel.mode == ASYNC


def assign_regions(graph: StepGraph) -> None:
    """Set ``node.region`` to the number of the node's region on its device."""
    _Regions().assign(graph)


class _Regions:
    """The two sets of every node, as bits of integers."""

    def __init__(self) -> None:
        self.bits: dict[object, int] = {}
        self.waits: dict[Node, int] = {}  # asynchronous ancestors
        self.dead: dict[Node, int] = {}  # what it dies with
        self.barriers: set[Node] = set()

    def assign(self, graph: StepGraph) -> None:
        numbers: dict[tuple[str, int, int], int] = {}
        for node in graph.nodes:
            waits = dead = 0
            for source, index in node.inputs:
                if source.type not in BACK_EDGE_TYPES:
                    waits |= self._waits_over(source, index, node)
                    dead |= self._dead_over(source, index)
            for source in node.controls:
                if source.type not in BACK_EDGE_TYPES:
                    waits |= self._waits_over(source, -1, node)
                    dead |= self._dead_over(source, -1)
            self.waits[node] = waits
            self.dead[node] = dead
            if is_barrier(node):
                self.barriers.add(node)
            node.region = numbers.setdefault((node.device, waits, dead), len(numbers))

    def _bit(self, thing: object) -> int:
        return 1 << self.bits.setdefault(thing, len(self.bits))

    def _waits_over(self, source: Node, index: int, node: Node) -> int:
        waits = self.waits[source]
        if source in self.barriers:
            waits |= self._bit(source)
        if source.device != node.device and not source.is_const and source.type != FEED:
            waits |= self._bit((source, index, node.device))
        return waits

    def _dead_over(self, source: Node, index: int) -> int:
        if source.type == "ControlTrigger":  # always alive
            return 0
        if source.type in _OWN_DEADNESS:
            return self._bit(("dead", source))
        if source.type in SWITCH_TYPES and index >= 0:
            return self.dead[source] | self._bit(("dead", source, index))
        return self.dead[source]
