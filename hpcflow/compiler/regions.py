"""regions: which nodes may run as one.

Two nodes may share a region when they are on one device and have the same *asynchronous
ancestors*: the edges between devices, asynchronous kernels and control-flow nodes that they wait
for, directly or not. A region then never waits for something that one of its own nodes must
start. The sets are computed on the whole placed graph, before it is partitioned.
"""

from __future__ import annotations

from hpcflow.compiler.ir import BACK_EDGE_TYPES, CONTROL_FLOW_TYPES, FEED, Node, StepGraph
from hpcflow.kernels.registry import ASYNC, find_kernel

_BARRIERS = CONTROL_FLOW_TYPES | {"LoopCond", "ControlTrigger"}


def is_barrier(node: Node) -> bool:
    """True if `node` always runs by itself: it may wait, or decides what is alive."""
    if node.type in _BARRIERS:
        return True
    kernel = find_kernel(node.type, device_type(node.device), node.attrs)
    return kernel is not None and kernel.mode == ASYNC


def device_type(device: str) -> str:
    """The type part of a canonical device name."""
    return device.rpartition("/device:")[2].partition(":")[0]


def assign_regions(graph: StepGraph) -> None:
    """Set ``node.region`` to the number of the set of its asynchronous ancestors."""
    bits: dict[object, int] = {}
    ancestors: dict[Node, int] = {}
    numbers: dict[tuple[str, int], int] = {}

    def bit(thing: object) -> int:
        return 1 << bits.setdefault(thing, len(bits))

    barriers: set[Node] = set()
    for node in graph.nodes:
        mask = 0
        for source, index in [*node.inputs, *((c, -1) for c in node.controls)]:
            if source.type in BACK_EDGE_TYPES:
                continue
            mask |= ancestors[source]
            if source in barriers:
                mask |= bit(source)
            if source.device != node.device and not source.is_const and source.type != FEED:
                mask |= bit((source, index, node.device))
        ancestors[node] = mask
        if is_barrier(node):
            barriers.add(node)
        node.region = numbers.setdefault((node.device, mask), len(numbers))
