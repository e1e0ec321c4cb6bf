"""executable: the form of one task's part of a step that the executor runs.

Items are what the executor schedules: generated functions (regions), asynchronous kernels, edges
to other tasks, and the primitives of control flow. Everything that does not change between steps
is computed here once; a step only counts down and calls.
"""

from __future__ import annotations

import sys
from typing import Any

from hpcflow import config
from hpcflow.compiler import codegen
from hpcflow.compiler.bind import Binder
from hpcflow.compiler.codegen import Bound, Port, RegionFunction
from hpcflow.compiler.ir import (
    CONTROL_FLOW_TYPES,
    FEED,
    FETCH,
    RECV,
    SEND,
    Node,
    topological,
)
from hpcflow.compiler.partition import task_of
from hpcflow.kernels.registry import ASYNC, STEP, Kernel

# Kinds of items.
CALL, CALL_ASYNC, RECEIVE, SOURCE, SWITCH, MERGE, ENTER, EXIT, NEXT = range(9)

_CONTROL_KINDS = {
    "Switch": SWITCH, "RefSwitch": SWITCH, "Merge": MERGE, "RefMerge": MERGE, "Enter": ENTER,
    "RefEnter": ENTER, "Exit": EXIT, "RefExit": EXIT, "NextIteration": NEXT,
    "RefNextIteration": NEXT,
}  # fmt: skip


class Item:
    """One thing the executor schedules.

    Attributes:
        slot: position of its first input among the slots of an iteration; ``count`` inputs.
        pending: inputs and control inputs to wait for (for a Merge see the executor).
        outs: per output port, the (item, slot) pairs that read it.
        control_outs: items that wait for it.
        results: (output port, fetch index) pairs.
    """

    __slots__ = ("index", "kind", "function", "region", "nodes", "inputs", "outputs", "slot",
                 "count", "pending", "controls", "outs", "control_outs", "results", "attrs",
                 "is_enter", "edge")  # fmt: skip

    def __init__(self, index: int, kind: int, nodes: list[Node], inputs: list[Port],
                 outputs: list[Port]) -> None:
        self.index = index
        self.kind = kind
        self.nodes = nodes
        self.inputs = inputs
        self.outputs = outputs
        self.function: Any = None
        self.region: RegionFunction | None = None
        self.slot = 0
        self.count = len(inputs)
        self.pending = 0
        self.controls = 0
        self.outs: list[list[tuple[Item, int]]] = [[] for _ in outputs]
        self.control_outs: list[Item] = []
        self.results: list[tuple[int, int]] = []
        self.attrs = nodes[0].attrs if nodes else {}
        self.is_enter = kind == ENTER
        self.edge: Any = None

    def __repr__(self) -> str:
        return f"<Item {self.index} {', '.join(n.name for n in self.nodes[:3])}>"


class Edge:
    """A tensor's way from this task to another or back, fixed when the step is compiled."""

    __slots__ = ("key", "node", "peer", "nbytes", "dims", "dtype", "is_control", "index")

    def __init__(self, node: Node, sending: bool, index: int) -> None:
        self.key: bytes = node.attrs["tensor_name"]
        self.node = node
        other = node.attrs["recv_device" if sending else "send_device"].decode()
        self.peer = task_of(other)
        self.is_control = node.type.endswith("Control")
        self.index = index
        self.dtype = None if self.is_control else (
            node.attrs["T"] if sending else node.attrs["tensor_type"])
        self.dims = None
        if not self.is_control:
            source, port = node.inputs[0] if sending else (node, 0)
            dims = source.dims[port]
            if dims is not None and None not in dims and self.dtype.size:
                self.dims = dims
        self.nbytes = self._static_bytes()

    def _static_bytes(self) -> int:
        """Size of the message when it is known to both ends and not empty, else 0."""
        if self.dims is None:
            return 0
        size = self.dtype.size
        for d in self.dims:
            size *= d
        return size


class Executable:
    """One task's part of a compiled step."""

    def __init__(self, nodes: list[Node], task: str, devices: dict[str, Any], context: Any,
                 compiled: bool) -> None:
        self.task = task
        self.sends: list[Edge] = []
        self.recvs: list[Edge] = []
        self.items: list[Item] = []
        self.feeds: dict[int, Item] = {}
        self.fetch_count = 0
        self.known_results: dict[int, Any] = {}
        self.resources_version = context.resources.version if context is not None else 0
        self._build(nodes, Binder(devices, context), compiled)
        self.has_frames = any(i.kind in (ENTER, EXIT, NEXT) for i in self.items)
        self.initial_pending = [i.pending for i in self.items]
        self.sources = [i for i in self.items if i.pending == 0 and i.kind != SOURCE]
        self.slot_count = sum(i.count for i in self.items)
        self.direct = self._direct_form()

    # ------------------------------------------------------------ building

    def _build(self, nodes: list[Node], binder: Binder, compiled: bool) -> None:
        order = topological(nodes, _writes)
        remote = {n for n in nodes if _is_remote(n)}
        bound: dict[Node, Bound] = {}
        for node in order:
            bound[node] = self._bind(node, binder, remote)
        groups = _groups(order, bound, compiled)
        wanted = _wanted_ports(groups, binder.known)
        by_node: dict[Node, Item] = {}
        for group in groups:
            item = self._make_item(group, binder.known, wanted)
            for b in group:
                by_node[b.node] = item
        self._connect(by_node, binder.known)

    def _bind(self, node: Node, binder: Binder, remote: set[Node]) -> Bound:
        if node in remote:
            sending = node.type.startswith("_Send")
            edges = self.sends if sending else self.recvs
            edge = Edge(node, sending, len(edges))
            edges.append(edge)
            return Bound(node, _SEND_KERNEL if sending else None, _sender(edge) if sending else None)
        if node.type in CONTROL_FLOW_TYPES or node.type == FEED:
            return Bound(node, None, None)
        return binder.bind(node)

    def _make_item(self, group: list[Bound], known: dict, wanted: dict) -> Item:
        nodes = [b.node for b in group]
        first = group[0].node
        kind = _kind_of(group[0])
        index = len(self.items)
        if kind == CALL:
            outputs = wanted.get(id(group), [])
            region = codegen.generate(group, known, outputs)
            item = Item(index, CALL, nodes, region.inputs, region.outputs)
            item.region, item.function = region, region.function
            if config.flags.print_source:
                print(f"# {self.task} item {index}\n{region.source}", file=sys.stderr)
        else:
            item = self._primitive(index, kind, group[0], known)
        if kind == SOURCE and first.type == FEED:
            self.feeds[first.attrs["index"]] = item
        self.items.append(item)
        return item

    def _primitive(self, index: int, kind: int, b: Bound, known: dict) -> Item:
        node = b.node
        outputs = [(node, i) for i in range(len(node.dtypes))]
        if kind == RECEIVE:
            item = Item(index, kind, [node], [], outputs)
            item.edge = next(e for e in self.recvs if e.node is node)
            return item
        item = Item(index, kind, [node], list(node.inputs), outputs)
        if kind == CALL_ASYNC:
            item.function = _async_call(b, known)
            item.inputs = [p for p in node.inputs if p not in known]
        elif kind != SOURCE:
            item.attrs = dict(node.attrs)
            item.attrs["known"] = {i: known[p] for i, p in enumerate(node.inputs) if p in known}
            item.inputs = [p for p in node.inputs if p not in known]
        item.count = len(item.inputs)
        return item

    def _connect(self, by_node: dict[Node, Item], known: dict) -> None:
        slot = 0
        ports = {p: (item, i) for item in self.items for i, p in enumerate(item.outputs)}
        for item in self.items:
            item.slot = slot
            for k, port in enumerate(item.inputs):
                source, index = ports[port]
                source.outs[index].append((item, slot + k))
            slot += item.count
        for item in self.items:
            sources = self._control_sources(item, by_node, known)
            item.controls = len(sources)
            for source in sources:
                source.control_outs.append(item)
            item.pending = (1 + 2 * item.controls if item.kind == MERGE
                            else item.count + item.controls)
        self._connect_results(by_node)

    def _control_sources(self, item: Item, by_node: dict[Node, Item], known: dict) -> list[Item]:
        inside = {n: True for n in item.nodes}
        found: dict[Item, bool] = {}
        for node in item.nodes:
            for control in node.controls:
                if control in inside:
                    continue
                source = by_node.get(control)
                if source is not None and source is not item:
                    found[source] = True
        data = {by_node[s] for s, i in item.inputs if s in by_node}
        return [s for s in found if item.kind == MERGE or s not in data or s.kind == SWITCH]

    def _connect_results(self, by_node: dict[Node, Item]) -> None:
        for node, item in by_node.items():
            if node.type == FETCH:
                item.results.append((item.outputs.index((node, 0)), node.attrs["index"]))
                self.fetch_count += 1
            elif node.type == "_FetchOp":
                self.fetch_count += 1

    # ------------------------------------------------------------ direct form

    def _direct_form(self) -> Any:
        """(function, feed order, result order) when one call is the whole step, else None."""
        calls = [i for i in self.items if i.kind != SOURCE]
        if len(calls) > 1 or any(i.kind != CALL for i in calls):
            return None
        if not calls:
            return (None, (), {})
        item = calls[0]
        if item.region is None or item.region.needs_step:
            return None
        feeds = {id(f): index for index, f in self.feeds.items()}
        order = []
        by_port = {p: feeds[id(i)] for i in self.items if i.kind == SOURCE for p in i.outputs}
        for port in item.inputs:
            order.append(by_port[port])
        return (item.function, tuple(order), {fetch: port for port, fetch in item.results})

    def item_of(self, index: int) -> Item:
        """The item with this index."""
        return self.items[index]


def _writes(node: Node) -> bool:
    """True for updates of variables: reads that are free to come first do."""
    return (node.op_def.is_stateful is False and any(a.is_ref for a in node.op_def.inputs)
            and any(a.is_ref for a in node.op_def.outputs) and node.type not in CONTROL_FLOW_TYPES)


def _is_remote(node: Node) -> bool:
    if node.type not in (SEND, RECV, "_SendControl", "_RecvControl"):
        return False
    attrs = node.attrs
    return task_of(attrs["send_device"].decode()) != task_of(attrs["recv_device"].decode())


_SEND_KERNEL = Kernel("_Send", "xp", lambda node: None, mode=STEP)


def _sender(edge: Edge) -> Any:
    """The function that a region calls to send: the step knows the lane."""
    index = edge.index
    if edge.is_control:
        return lambda step: step.send(index, None)
    return lambda step, value: step.send(index, value)


def _kind_of(b: Bound) -> int:
    node = b.node
    if node.type in _CONTROL_KINDS:
        return _CONTROL_KINDS[node.type]
    if node.type == FEED:
        return SOURCE
    if node.type in (RECV, "_RecvControl") and _is_remote(node):
        return RECEIVE
    if b.kernel is not None and b.kernel.mode == ASYNC:
        return CALL_ASYNC
    return CALL


def _groups(order: list[Node], bound: dict[Node, Bound], compiled: bool) -> list[list[Bound]]:
    """Regions in order of their first node; constants and variables belong to none."""
    groups: dict[Any, list[Bound]] = {}
    for node in order:
        b = bound[node]
        if b.is_constant:
            continue
        alone = not compiled or _kind_of(b) != CALL
        groups.setdefault(("alone", node) if alone else ("region", node.device, node.region),
                          []).append(b)
    return list(groups.values())


def _wanted_ports(groups: list[list[Bound]], known: dict) -> dict[int, list[Port]]:
    """id(group) -> the ports that other groups, or the client, read."""
    group_of = {b.node: g for g in groups for b in g}
    wanted: dict[int, dict[Port, bool]] = {id(g): {} for g in groups}
    for group in groups:
        for b in group:
            if b.node.type == FETCH:
                wanted[id(group)][(b.node, 0)] = True
            for port in b.node.inputs:
                source = group_of.get(port[0])
                if source is not None and source is not group and port not in known:
                    wanted[id(source)][port] = True
    return {k: list(v) for k, v in wanted.items()}


def _async_call(b: Bound, known: dict) -> Any:
    """``f(step, done, *values)`` with constants filled in and variables read."""
    node, function = b.node, b.function
    refs = codegen._input_refs(node)
    plan = [(known.get(p), p in known, p[0].dtypes[p[1]]._is_ref_dtype and not r)
            for p, r in zip(node.inputs, refs, strict=True)]

    def call(step: Any, done: Any, *values: Any) -> None:
        remaining = iter(values)
        args = []
        for value, fixed, read in plan:
            value = value if fixed else next(remaining)
            if read:
                if value.value is None:
                    raise codegen.uninitialized(node, value)
                value = value.value
            args.append(value)
        function(step, done, *args)

    return call


