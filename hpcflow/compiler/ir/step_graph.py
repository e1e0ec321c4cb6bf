"""The compiler's working form of a graph: light, mutable nodes in a fixed order.

A :class:`Node` has the fields of an Operation; what the passes add are the device it was placed on
and the key of the region that it may share.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.opdef import OpDef, get_op_def
from hpcflow.graph.operation import Operation, arg_length, arg_types
from hpcflow.kernels.registry import ASYNC, Kernel, find_kernel

BACK_EDGE_TYPES = frozenset({"NextIteration", "RefNextIteration"})
MERGE_TYPES = frozenset({"Merge", "RefMerge"})
SWITCH_TYPES = frozenset({"Switch", "RefSwitch"})
ENTER_TYPES = frozenset({"Enter", "RefEnter"})
EXIT_TYPES = frozenset({"Exit", "RefExit"})
FRAME_TYPES = ENTER_TYPES | EXIT_TYPES | BACK_EDGE_TYPES
CONTROL_FLOW_TYPES = MERGE_TYPES | SWITCH_TYPES | FRAME_TYPES
BARRIER_TYPES = CONTROL_FLOW_TYPES | {"LoopCond", "ControlTrigger"}

FEED, FETCH = "_Feed", "_Fetch"
KEEP = "_Keep"
SEND, RECV = "_Send", "_Recv"
LOOP_GATE = "_LoopGate"


Port = tuple["Node", int]  # one output of a node


class Node:
    """One operation of the step being compiled.

    Attributes:
        inputs: (producer, output index) per data input.
        controls: producers to wait for.
        device: requested, and after placement canonical, device string.
        dims: static dims per output; dtypes: element type per output (ref types for handles).
        order: position of the operation in the graph; ties of scheduling are broken by it.
        region: key of the region the node may share, set by the ``regions`` pass.
        absorbed: True for a node of a conditional or loop that runs inside its region.
        op: the user's Operation, for messages; None for nodes that passes made or that came over
            the network.
        site: the user's line where there is no Operation to tell it.
    """

    __slots__ = ("type", "name", "op_def", "attrs", "inputs", "controls", "device", "dtypes",
                 "dims", "order", "region", "absorbed", "op", "site")  # fmt: skip

    def __init__(self, type: str, name: str, op_def: OpDef, attrs: dict[str, Any],
                 inputs: list[tuple[Node, int]], controls: list[Node], device: str,
                 dtypes: list[DType], dims: list, order: float,
                 op: Operation | None = None) -> None:
        self.type = type
        self.name = name
        self.op_def = op_def
        self.attrs = attrs
        self.inputs = inputs
        self.controls = controls
        self.device = device
        self.dtypes = dtypes
        self.dims = dims
        self.order = order
        self.region: Any = None
        self.absorbed = False
        self.op = op
        self.site: tuple[str, int, str] | None = None

    @property
    def creation_site(self) -> tuple[str, int, str] | None:
        """(filename, lineno, function) of the user's line, as known."""
        return self.op.creation_site if self.op is not None else self.site

    @property
    def is_const(self) -> bool:
        """True for a constant that does not wait for anything."""
        return self.type == "Const" and not self.controls

    def __repr__(self) -> str:
        return f"<Node {self.type} {self.name}>"


def new_node(type: str, name: str, attrs: dict[str, Any], inputs: list, controls: list, device: str,
             dims: list, order: float) -> Node:
    """A node made by a pass; its output types follow from the attributes."""
    op_def = get_op_def(type)
    return Node(type, name, op_def, attrs, inputs, controls, device,
                arg_types(op_def.outputs, attrs), dims, order)


@functools.lru_cache(maxsize=4096)
def device_type(device: str) -> str:
    """The type part of a canonical device name."""
    return device.rpartition("/device:")[2].partition(":")[0]


def kernel_of(node: Node) -> Kernel | None:
    """The kernel of a placed node, or None."""
    return find_kernel(node.type, device_type(node.device), node.attrs)


def is_barrier(node: Node) -> bool:
    """True if `node` always runs by itself: it may wait, or decides what is alive."""
    if node.absorbed:
        return False
    if node.type in BARRIER_TYPES:
        return True
    kernel = kernel_of(node)
    return kernel is not None and kernel.mode == ASYNC


def ref_inputs(node: Node) -> list[bool]:
    """For each input of the definition, whether it takes a reference; empty if none does."""
    if not takes_references(node.op_def):
        return []
    return [a.is_ref for a in node.op_def.inputs for _ in range(arg_length(a, node.attrs))]


@functools.cache
def takes_references(op_def: OpDef) -> bool:
    """True if some input of the definition is a reference."""
    return any(a.is_ref for a in op_def.inputs)


_WRITES_RESOURCE = re.compile(
    "Assign.*VariableOp|Resource(Sparse)?Apply.*|ResourceScatter.*|ResourceStridedSliceAssign|"
    "DestroyResourceOp|Rng(ReadAnd)?Skip")
_READS_BY_REFERENCE = CONTROL_FLOW_TYPES | {"RefIdentity", "RefSelect", "IsVariableInitialized"}


def writes_state(node: Node) -> bool:
    """True for updates of variables: the reads that are free to come before them do."""
    if takes_references(node.op_def):
        return node.type not in _READS_BY_REFERENCE
    return node.op_def.is_stateful and _WRITES_RESOURCE.fullmatch(node.type) is not None


#: The attribute of a node whose step keeps its bits, whatever has been compiled so far.
EQUAL_BITS = "_equal_bits"


class StepGraph:
    """The nodes of one step, in an order in which producers come before consumers (back edges
    of loops excepted), with its feeds and fetches. The feeds of an `incremental` step arrive one by
    one.

    Attributes:
        kept: nodes that no fetch depends on, but that the step cannot do without.
        tokens: (path of a frame, task) -> the node that stands there for the beginning of an
            iteration; of loops that are spread over tasks.
        packs: (node, output, another device) -> the number of the message in which it goes there,
            of the values that do not go alone.
    """

    def __init__(self, nodes: list[Node], feeds: list[Node], fetches: list[Node],
                 incremental: bool = False) -> None:
        self.nodes = nodes
        self.feeds = feeds
        self.fetches = fetches
        self.incremental = incremental
        self.kept: list[Node] = []
        self.tokens: dict[tuple[tuple[str, ...], str], Node] = {}
        self.packs: dict[tuple[Node, int, str], int] = {}

    def consumers(self) -> dict[Node, list[Node]]:
        """Node -> nodes that read or wait for it."""
        found: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for node in self.nodes:
            for source, _ in node.inputs:
                found[source].append(node)
            for source in node.controls:
                found[source].append(node)
        return found

    def replace(self, mapping: dict[Node, Node]) -> None:
        """Redirect every use of the mapped nodes to their replacements and drop the mapped."""
        if not mapping:
            return
        for node in self.nodes:
            if any(s in mapping for s, _ in node.inputs):
                node.inputs = [(mapping.get(s, s), i) for s, i in node.inputs]
            if any(c in mapping for c in node.controls):
                node.controls = _unique(mapping.get(c, c) for c in node.controls)
        self.nodes = [n for n in self.nodes if n not in mapping]

    def sweep(self) -> None:
        """Drop the nodes that neither a fetch nor a kept node depends on."""
        alive: set[Node] = set()
        stack = [*self.fetches, *self.kept]
        while stack:
            node = stack.pop()
            if node in alive:
                continue
            alive.add(node)
            stack += [s for s, _ in node.inputs if s not in alive]
            stack += node.controls
        self.nodes = [n for n in self.nodes if n in alive]


def _unique(nodes: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(nodes))


def topological(nodes: list[Node]) -> list[Node]:
    """`nodes` sorted producers first, by ``order`` where free. Edges out of NextIteration are
    ignored.

    Raises ``InvalidArgumentError`` naming nodes on a cycle.
    """
    import heapq

    inside = set(nodes)
    waiting: dict[Node, int] = {}
    readers: dict[Node, list[Node]] = {n: [] for n in nodes}
    for node in nodes:
        sources = {s for s, _ in node.inputs}
        sources.update(node.controls)
        count = 0
        for source in sources:
            if source in inside and source.type not in BACK_EDGE_TYPES:
                readers[source].append(node)
                count += 1
        waiting[node] = count
    serial = {n: i for i, n in enumerate(nodes)}

    def key(n: Node) -> tuple:
        return (n.order, serial[n], n)

    ready = [key(n) for n in nodes if not waiting[n]]
    heapq.heapify(ready)
    result = []
    while ready:
        node = heapq.heappop(ready)[-1]
        result.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, key(reader))
    if len(result) < len(nodes):
        found = sorted(n.name for n in _cycle([n for n in nodes if waiting[n]], readers))
        raise InvalidArgumentError(None, None, f"Graph is invalid, contains a cycle with "
                                   f"{len(found)} nodes, including: {', '.join(found[:5])}")
    return result


def _cycle(stuck: list[Node], readers: dict[Node, list[Node]]) -> list[Node]:
    """The nodes of one cycle, each of which reads the next; all of `stuck` wait for one of them."""
    source = {reader: node for node in stuck for reader in readers[node]}
    path = {stuck[0]: 0}
    while (node := source[next(reversed(path))]) not in path:
        path[node] = len(path)
    return list(path)[path[node]:]
