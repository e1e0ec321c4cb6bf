"""executable: the form of one task's part of a step that the executor runs.

Items are what the executor schedules: generated functions (regions), asynchronous kernels, edges
to other tasks, and the primitives of control flow. Everything that does not change between steps
is computed here once; a step only counts down and calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.compiler.distribute.output_aliasing import places_of
from hpcflow.compiler.distribute.packs import ATTR as PACK
from hpcflow.compiler.emit import codegen
from hpcflow.compiler.emit.grouping import (
    fetched_ports,
    groups_of,
    is_remote,
    kind_of,
    recordable,
    wanted_ports,
)
from hpcflow.compiler.emit.items import (
    CALL,
    CALL_ASYNC,
    ENTER,
    EXIT,
    GATE,
    MERGE,
    NEXT,
    RECEIVE,
    SOURCE,
    SWITCH,
    Edge,
    Gate,
    Item,
    Layout,
    Part,
)
from hpcflow.compiler.emit.recordable import parts_of
from hpcflow.compiler.emit.straight import Order, order_of
from hpcflow.compiler.emit.superblocks import START, Piece, make_pieces
from hpcflow.compiler.ir.checks import check_items
from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.frames import FrameInfo, assign_frames
from hpcflow.compiler.ir.step_graph import (
    CONTROL_FLOW_TYPES,
    EQUAL_BITS,
    FEED,
    FETCH,
    LOOP_GATE,
    Node,
    Port,
    topological,
)
from hpcflow.compiler.ir.withdrawable import acts_on_queues
from hpcflow.compiler.regions.bind import Binder
from hpcflow.compiler.regions.host_values import fetched, predicates
from hpcflow.compiler.regions.lines import Bound
from hpcflow.compiler.regions.lower import input_refs
from hpcflow.compiler.regions.structure import Unstructured
from hpcflow.errors import InvalidArgumentError
from hpcflow.host.bits import keeping_bits
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import STEP, Kernel, is_early

if TYPE_CHECKING:
    from hpcflow.runtime.executor.executor import Step

MISSING = object()  # a fetched value that has not arrived

class Executable:
    """One task's part of a compiled step.

    Raises ``InvalidArgumentError`` for loops that are not well formed.
    """

    def __init__(self, nodes: list[Node], task: str, devices: dict[str, Any], context: Any,
                 compiled: bool, fetch_count: int = 0) -> None:
        self.task = task
        self._fetch_count = fetch_count  # of the whole step; operations run where they are
        self._equal_bits = any(EQUAL_BITS in n.attrs for n in nodes)
        if self._equal_bits and context is not None:
            context.ask_for_equal_bits()
        self.resources_version = context.resources.version if context is not None else 0

        # The values that are brought to the host when the step ends.
        only_fetched = fetched(nodes)
        later = {name for name, device in devices.items() if device.fetches_later}
        self.brings = any(n.inputs[0][0].device in later for n in only_fetched)

        def binder() -> Binder:
            return Binder(devices, context, places_of(nodes), predicates(nodes), only_fetched)

        try:
            self._build(nodes, binder(), compiled)
        except Unstructured:
            self._build(nodes, binder(), False)
        # What is to be told when a step begins: the collective operations that it will enter.
        self.collectives = getattr(context, "take_schedule", lambda: None)()
        received = [i for i in self.items if i.kind == RECEIVE and not i.edge.depth]  # type: ignore[union-attr]
        at_once = [i for i in received if not i.pending]
        self.short_receives = [i for i in at_once if i.edge.nbytes <= tuning.MESSAGE_SHORT_BYTES]  # type: ignore[union-attr]
        self.long_receives = [i for i in at_once if i.edge.nbytes > tuning.MESSAGE_SHORT_BYTES]  # type: ignore[union-attr]
        self.late_receives = [i for i in received if i.pending]
        # The edges whose memory is taken in every step, when the receive is posted.
        self.late_edges = frozenset([
            i.edge.index for i in self.late_receives if i.edge.nbytes and not i.edge.compressed])  # type: ignore[union-attr]
        self.direct = self._direct_form()
        self.opening: Piece | None = None  # what runs when a step starts; None: what is ready
        # What is ready at the start of a step, and of that what no piece runs: sorted.
        self.sources = sorted([i.index for i in self.root.sources])
        self.other_sources: list[int] = []
        self.order: Order | None = None  # in which all run, if that is known
        if compiled:
            self._make_pieces()
            self.order = order_of(self.items, self.root)
        self.tracer: Any = None  # makes what a traced step keeps its record in
        self.is_plain = compiled and self._is_plain()
        # Whether it takes elements from queues and the like, or adds some.
        self.acts_on_queues = any(acts_on_queues(n) for n in nodes)
        # Whether values go to other tasks, or come from there.
        self.has_edges = bool(self.sends or self.recvs or self.loop_sends or self.loop_recvs)

    # ------------------------------------------------------------ building

    def _build(self, nodes: list[Node], binder: Binder, compiled: bool) -> None:
        if compiled:
            self._build_items(nodes, binder, True)
            return
        absorbed = [node for node in nodes if node.absorbed]
        for node in absorbed:  # the executor runs everything
            node.absorbed = False
        try:
            self._build_items(nodes, binder, False)
        finally:  # the nodes may be built from again
            for node in absorbed:
                node.absorbed = True

    def _build_items(self, nodes: list[Node], binder: Binder, compiled: bool) -> None:
        self.sends: list[Edge] = []
        self.recvs: list[Edge] = []
        self.loop_sends: list[Edge] = []
        self.loop_recvs: list[Edge] = []
        self.spread: dict[int, Layout] = {}  # the loops that are spread over tasks, by number
        self.items: list[Item] = []
        self.feeds: dict[int, Item] = {}
        self.results: list[Any] = []  # what a step starts with: None for operations
        self._layouts: dict[FrameInfo, Layout] = {}
        order = topological(nodes)
        remote = {n for n in nodes if is_remote(n)}
        self._packs: dict[tuple[int, bool], Edge] = {}
        bound = {node: self._bind(node, binder, remote) for node in order}
        for edge in self._packs.values():
            edge.close()
        _pass_on_controls(order, bound)
        # What no step runs: the constants, with their values.
        self.constants = [(n, binder.known[n, 0]) for n in order
                          if n.type == "Const" and bound[n].is_constant]
        groups = groups_of(order, bound, compiled)
        if compiled and config.flags.cuda_graphs:
            groups = [part for group in groups for part in recordable(group, binder)]
        wanted = wanted_ports(groups, binder.known)
        calls = [g for g in groups if kind_of(g[0]) != SOURCE]
        if len(calls) == 1:  # the region's outputs are then the results of the step
            wanted[id(calls[0])] = fetched_ports(calls[0])
        by_node: dict[Node, Item] = {}
        for group in groups:
            item = self._make_item(group, binder, wanted)
            for b in group:
                by_node[b.node] = item
        self._lay_out(order, bound, by_node)
        self._connect(by_node)
        if config.flags.check_stages:
            check_items(self.items)

    def _bind(self, node: Node, binder: Binder, remote: set[Node]) -> Bound:
        if node in remote:
            sending = node.type.startswith("_Send")
            if node.attrs.get("depth"):
                edges = self.loop_sends if sending else self.loop_recvs
            else:
                edges = self.sends if sending else self.recvs
            edge, part = self._edge_of(node, sending, edges)
            if sending:
                return Bound(node, _SEND_KERNEL, _sender(edge, part))
            binder.follow(node)
            return Bound(node, None, None)
        if node.type in CONTROL_FLOW_TYPES or node.type in (FEED, LOOP_GATE):
            binder.follow(node)
            return Bound(node, None, None)
        return binder.bind(node)

    def _edge_of(self, node: Node, sending: bool, edges: list[Edge]) -> tuple[Edge, Part | None]:
        """The edge that a Send or Recv node is an end of, and which part of it, if it has parts."""
        pack = node.attrs.get(PACK)
        edge = None if pack is None else self._packs.get((pack, sending))
        if edge is None:
            edge = Edge(node, sending, len(edges))
            edges.append(edge)
        if pack is None:
            return edge, None
        self._packs[pack, sending] = edge
        return edge, edge.add(node, sending)

    def _make_item(self, group: list[Bound], binder: Binder, wanted: dict) -> Item:
        nodes = [b.node for b in group]
        kind = kind_of(group[0])
        index = len(self.items)
        if kind == CALL:
            region = codegen.generate(group, binder.known, wanted.get(id(group), []),
                                      binder.devices[nodes[0].device])
            item = Item(index, CALL, nodes, region.inputs, region.outputs)
            item.region, item.function = region, self._on_device(region, group, binder)
            if self._equal_bits:
                item.function = keeping_bits(item.function)
            if config.flags.print_source:
                print(f"# {self.task} item {index}\n{region.source}", file=sys.stderr)
        else:
            item = self._primitive(index, kind, group, binder)
        if kind == SOURCE:
            self.feeds[nodes[0].attrs["index"]] = item
        self.items.append(item)
        return item

    def _on_device(self, region: codegen.RegionFunction, group: list[Bound],
                   binder: Binder) -> Callable:
        """The function of a region, as the device runs it that all of its nodes are on."""
        device = binder.devices[group[0].node.device]
        if not device.has_own_memory:
            return region.function
        parts = parts_of(group, binder.known, region.inputs, device.to_device)
        if not parts.obstacle and (region.needs_step or region.has_loops):
            parts = parts._replace(obstacle="it has a loop, or needs the running step")
        return device.region(region.function, parts)

    def _primitive(self, index: int, kind: int, group: list[Bound], binder: Binder) -> Item:
        b = group[0]
        node, known = b.node, binder.known
        outputs: list[Port | None] = [(node, i) for i in range(len(node.dtypes))]
        if kind == RECEIVE:
            edges = self.loop_recvs if node.attrs.get("depth") else self.recvs
            edge = next(e for e in edges if e.node is node)
            nodes = [part.node for part in edge.parts] or [node]
            item = Item(index, kind, nodes, [], [(n, 0) for n in nodes] if edge.parts else outputs)
            item.edge = edge
            return item
        item = Item(index, kind, [node], [p for p in node.inputs if p not in known], outputs)
        item.fixed = {i: known[p] for i, p in enumerate(node.inputs) if p in known}
        if kind == CALL_ASYNC:
            item.function = _async_call(b, known)
        if kind in (SWITCH, GATE):
            item.function = binder.to_host(node, 1 if kind == SWITCH else 0)
        return item

    # ------------------------------------------------------------ frames

    def _lay_out(self, order: list[Node], bound: dict[Node, Bound],
                 by_node: dict[Node, Item]) -> None:
        root = FrameInfo("", None)
        frames: dict[Node, FrameInfo] = {}
        self.has_frames = any(i.kind in (ENTER, EXIT, NEXT) for i in self.items)
        if self.has_frames:
            frames = assign_frames(order, root, lambda node: bound[node].is_constant)
        self.root = self._layouts[root] = Layout(root, None)
        for item in self.items:
            # A region that holds whole loops is outside of them.
            info = min([frames.get(n, root) for n in item.nodes], key=lambda f: f.depth)
            self._layout(info).add(item)
            if info is not root:
                _check_no_fetch(item, info)
                _check_not_collective(item, info)
            if item.kind == ENTER:
                item.child = self._layout(info.child(item.nodes[0]))
                item.child.enters += 1
            elif item.kind == GATE:
                gate = item.layout.gate = Gate(item.nodes[0], info.parallel)
                self.spread[gate.loop] = item.layout

    def _layout(self, info: FrameInfo) -> Layout:
        found = self._layouts.get(info)
        if found is None:
            parent = self._layout(info.parent) if info.parent is not None else None
            found = self._layouts[info] = Layout(info, parent)
        return found

    # ------------------------------------------------------------ connections

    def _connect(self, by_node: dict[Node, Item]) -> None:
        ports = {p: (item, i) for item in self.items for i, p in enumerate(item.outputs)
                 if p is not None}
        for item in self.items:
            for k, port in enumerate(item.inputs):
                source, index = ports[port]
                if item.kind == MERGE:
                    source.merges.append((index, item.slot + k, item))
                else:
                    source.targets.append((index, item.slot + k, item.cell, item.index))
        for item in self.items:
            for source in _control_sources(item, by_node):
                item.controls += 1
                if item.kind == MERGE:
                    source.control_merges.append(item)
                else:
                    source.control_targets.append((item.cell, item.index))
            item.pending = item.count + item.controls
            if item.kind == MERGE:  # the low bit stands for "nothing has arrived"
                item.pending = 2 * item.controls + (not item.fixed)
            item.layout.close(item)
        self._connect_results(by_node)
        for item in self.items:
            item.has_more = bool(item.control_targets or item.merges or item.control_merges
                                 or item.results)

    def _connect_results(self, by_node: dict[Node, Item]) -> None:
        fetched: dict[int, Any] = {}
        for node, item in by_node.items():
            if node.type == FETCH:
                item.results.append((item.outputs.index((node, 0)), node.attrs["index"]))
                fetched[node.attrs["index"]] = MISSING
            elif node.type == "_FetchOp":
                fetched[node.attrs["index"]] = None
        count = max([self._fetch_count, *(i + 1 for i in fetched)])
        self.results = [fetched.get(i) for i in range(count)]

    def _make_pieces(self) -> None:
        pieces = make_pieces(self.items, self.root)
        self.opening = pieces.pop(START, None)
        self.other_sources = [i for i in self.sources if self.items[i].kind != CALL]
        for item in self.items:
            item.piece = pieces.get(item)

    def _is_plain(self) -> bool:
        """True if a step is regions and edges alone: once it is over, nothing acts on it."""
        return not (self.spread or self.has_frames or self.late_receives or self.collectives) and (
            all(i.kind in (SOURCE, RECEIVE) or (i.region is not None and not i.region.has_loops)
                for i in self.items))

    def drop_pieces(self) -> None:
        """Let the executor call the functions of the items one by one."""
        self.opening = self.order = None
        for item in self.items:
            item.piece = None

    # ------------------------------------------------------------ direct form

    def _direct_form(self) -> Any:
        """Return (function, feed order) when one call is the whole step, else None; no function if
        there is nothing to call. The function returns the fetched values in their order."""
        calls = [i for i in self.items if i.kind != SOURCE]
        if not calls:
            return None if self.feeds else (None, ())
        item = calls[0]
        if len(calls) > 1 or item.region is None or item.region.needs_step:
            return None
        by_port = {p: index for index, i in self.feeds.items() for p in i.outputs}
        return (item.function, tuple([by_port[port] for port in item.inputs]))


def _check_no_fetch(item: Item, info: FrameInfo) -> None:
    """Raise InvalidArgumentError for a fetch inside a loop: such a value is many values, or
    none."""
    for node in item.nodes:
        if node.type in (FETCH, "_FetchOp"):
            name = node.name.partition("/")[2]
            raise node_error(InvalidArgumentError, f"'{name}' cannot be fetched: it is inside the "
                             f"loop '{info.name}'; fetch what leaves it through Exit", node)


def _check_not_collective(item: Item, info: FrameInfo) -> None:
    """Raise InvalidArgumentError for a collective operation inside a loop: how often a loop runs is
    not known beforehand, nor that it is the same on all ranks."""
    node = item.nodes[0]
    if is_early(node.type):
        raise node_error(InvalidArgumentError, f"'{node.name}' is a collective operation inside "
                         f"the loop '{info.name}', which is not possible: run it outside", node)


def _control_sources(item: Item, by_node: dict[Node, Item]) -> list[Item]:
    """Return the items that `item` waits for without reading them (all at once, or by a data
    edge)."""
    inside = set(item.nodes)
    found: dict[Item, bool] = {}
    for node in item.nodes:
        for control in node.controls:
            source = by_node.get(control)
            if source is not None and source is not item and control not in inside:
                found[source] = True
    data = {by_node[s] for s, _ in item.inputs if s in by_node}
    # Of a Switch one output is dead: waiting for the node is not reading one of its outputs.
    return [s for s in found if item.kind == MERGE or s not in data or s.kind == SWITCH]


def _pass_on_controls(order: list[Node], bound: dict[Node, Bound]) -> None:
    """Let the readers of constants, which never run, wait for what the constants waited for."""
    for node in order:
        sources = [s for s, _ in node.inputs] + node.controls
        extra = [c for s in sources if bound[s].is_constant for c in s.controls]
        if extra:
            node.controls = list(dict.fromkeys([*node.controls, *extra]))


_SEND_KERNEL = Kernel("_Send", "xp", lambda node: None, mode=STEP)


def _sender(edge: Edge, part: Part | None) -> Any:
    """The function that a region calls to send: the step knows the lane."""
    index = edge.index
    if part is not None:
        return lambda step, value: step.lane.send_part(step, index, part, value)
    if edge.depth:
        if edge.is_control:
            return lambda step: step.send_in_loop(index, None)
        return lambda step, value: step.send_in_loop(index, value)
    if edge.is_control:
        return lambda step: step.lane.send(step, index, None)
    return lambda step, value: step.lane.send(step, index, value)


def _async_call(b: Bound, known: dict) -> Any:
    """``f(step, done, *values)`` with constants filled in, variables read and values moved; returns
    what the kernel does: an ``Effect``, or None."""
    node, function = b.node, b.function
    refs = input_refs(node)
    moves = b.moves or (None,) * len(refs)
    plan = []
    for port, takes_reference, move in zip(node.inputs, refs, moves, strict=True):
        value, fixed = known.get(port), port in known
        read = port[0].dtypes[port[1]]._is_ref_dtype and not takes_reference
        if fixed and move is not None and not read:
            value, move = move(value), None
        plan.append((value, fixed, read, move))
    first = tuple([value for value, fixed, _, _ in plan if fixed])
    if not any(read or move for _, _, read, move in plan) and (
            all(fixed for _, fixed, _, _ in plan[: len(first)])):
        assert function is not None
        return lambda step, done, *values: function(step, done, *first, *values)

    def call(step: Step, done: Callable[..., Any], *values: Any) -> Any:
        remaining = iter(values)
        arguments = []
        value: Any
        for value, fixed, read, move in plan:
            value = value if fixed else next(remaining)
            if read:
                value = value.read()
            arguments.append(value if move is None else move(value))
        return function(step, done, *arguments)  # type: ignore[misc]

    return call
