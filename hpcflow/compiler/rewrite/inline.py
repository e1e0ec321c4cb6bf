"""functions: calls of functions are replaced by the nodes of their bodies.

A body runs exactly when its call would have: what depends on nothing inside it waits for the call's
inputs where these may be dead or come round in a loop, and for what the call waits for. Nodes of a
body are named after the call, so that every call has state, frames and colocation of its own.

A gradient of a call (SymbolicGradient) contains the function's forward operations again. Where the
call itself is in the step, both are made of the same nodes: nothing is computed twice, and what
draws random numbers draws once.
"""

from __future__ import annotations

from typing import Any

from hpcflow import device_spec
from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    SWITCH_TYPES,
    Node,
    Port,
    StepGraph,
    new_node,
    topological,
)
from hpcflow.errors import InvalidArgumentError, NotFoundError
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.graph.opdef import has_op
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX, Operation, Tensor
from hpcflow.ops.flow.functions import (
    CALL_TYPES,
    FORWARD_ATTR,
    GRADIENT_TYPE,
    WITHOUT_ATTR,
    Body,
    GradientBody,
    body_for,
    callee,
    gradient_body_for,
)

_CALLS = frozenset((*CALL_TYPES, GRADIENT_TYPE))
# Handles are the same everywhere, and wait for nothing.
_HANDLES = frozenset(("VarHandleOp", "Variable", "VariableV2"))


def inline_functions(graph: StepGraph) -> None:
    """Replace every call in the step's graph.

    Raises ``InvalidArgumentError`` for a call of a function that does not exist or calls itself.
    """
    if any(_is_call(n) for n in graph.nodes):
        _Inliner().run(graph)


def _is_call(node: Node) -> bool:
    return node.type in _CALLS or not has_op(node.type)


class _Place:
    """Where nodes being added come from.

    Attributes:
        library: the graph's functions.
        prefix: what their names begin with.
        span: the share of the order that each may use up.
        calls: names of the functions whose bodies they are in, the outermost first.
    """

    __slots__ = ("library", "prefix", "span", "calls")

    def __init__(self, library: FunctionLibrary, prefix: str, span: float,
                 calls: tuple[str, ...] = ()) -> None:
        self.library = library
        self.prefix = prefix
        self.span = span
        self.calls = calls


class _Inliner:
    def __init__(self) -> None:
        self.result: list[Node] = []
        self.ports: dict[Port, Port] = {}  # outputs of calls
        self.done: dict[Node, Node] = {}  # call -> what to wait for instead
        self.conditional: set[Node] = set()  # nodes that do not run in every step, or often
        self.gradients: dict[str, Node] = {}  # name of a call -> its gradient in this step
        self.forward: dict[str, dict[Operation, Port]] = {}  # name of a call -> what it became
        self.sites: dict[Operation, Any] = {}  # where users made the operations of bodies

    def run(self, graph: StepGraph) -> None:
        """Expand the calls of the graph."""
        library = next(n.op.graph._library for n in graph.nodes if n.op is not None)
        self._add(graph.nodes, _Place(library, "", 1.0))
        for node in self.result:
            node.inputs = [self._port(p) for p in node.inputs]
            node.controls = list(dict.fromkeys(self._wait(c) for c in node.controls))
        graph.nodes = self.result
        if any(n.type in BACK_EDGE_TYPES for n in graph.nodes):
            graph.nodes = topological(graph.nodes)
        graph.sweep()

    def _port(self, port: Port) -> Port:
        while port in self.ports:
            port = self.ports[port]
        return port

    def _wait(self, node: Node) -> Node:
        while node in self.done:
            node = self.done[node]
        return node

    # ------------------------------------------------------------ one list of nodes

    def _add(self, nodes: list[Node], place: _Place) -> None:
        for node in nodes:
            if node.type == GRADIENT_TYPE and FORWARD_ATTR in node.attrs:
                self.gradients[place.prefix + node.attrs[FORWARD_ATTR].decode()] = node
        for node in nodes:
            if node.type in CONTROL_FLOW_TYPES or any(
                    s in self.conditional for s in (*(p[0] for p in node.inputs), *node.controls)):
                self.conditional.add(node)
            if _is_call(node):
                self._expand(node, place)
            else:
                self.result.append(node)

    def _expand(self, call: Node, place: _Place) -> None:
        if _name(call) in place.calls:
            calls = [*place.calls[place.calls.index(_name(call)):], _name(call)]
            raise node_error(InvalidArgumentError, f"The function calls itself "
                             f"({' -> '.join(calls)}); recursive functions are not supported", call)
        executor = call.attrs.get("executor_type", b"")
        if executor not in (b"", b"DEFAULT"):
            raise node_error(NotFoundError, "No executor factory is registered for "
                             f"{executor.decode()}", call)
        body = self._body(call, place.library)
        expansion = _Expansion(self, call, place)
        if call.type == GRADIENT_TYPE and isinstance(body, GradientBody):
            known = place.prefix + call.attrs.get(FORWARD_ATTR, b"").decode()
            if call not in self.conditional and known in self.forward:
                expansion.made.update(self.forward[known])
                expansion.prefix = known  # so that they share frames
            expansion.add(body.graph, body.inputs, body.gradients, [])
            return
        gradient = self.gradients.get(call.name)
        if gradient is not None and call not in self.conditional:
            both = self._body(gradient, place.library)
            if isinstance(both, GradientBody):
                inputs = both.inputs[: len(call.inputs)]
                expansion.add(both.graph, inputs, both.outputs, both.effects)
                self.forward[call.name] = expansion.made
                return
        expansion.add(body.graph, body.inputs, body.outputs, body.effects)

    def _body(self, call: Node, library: FunctionLibrary) -> Body | GradientBody:
        try:
            return self._found_body(call, library)
        except ValueError as e:
            raise node_error(InvalidArgumentError, str(e), call) from None

    def _found_body(self, call: Node, library: FunctionLibrary) -> Body | GradientBody:
        dtypes = [s.dtypes[i] for s, i in call.inputs]
        dims = [s.dims[i] for s, i in call.inputs]
        if call.type == GRADIENT_TYPE:
            return gradient_body_for(library, call.attrs["f"], dtypes, dims,
                                     tuple(call.attrs.get(WITHOUT_ATTR, ())))
        found = callee(library, call.type, call.attrs)
        if found is None:
            raise ValueError(f"there is no function called '{call.type}'")
        return body_for(library, *found, dtypes, dims)


def _name(call: Node) -> str:
    """Return the name of the function that is called."""
    if call.type == GRADIENT_TYPE:
        return f"the gradient of {call.attrs['f'].name}"
    return call.attrs["f"].name if call.type in CALL_TYPES else call.type


class _Expansion:
    """One call that is being replaced.

    Attributes:
        made: operation of the body -> the node made of it (its first output).
    """

    def __init__(self, inliner: _Inliner, call: Node, place: _Place) -> None:
        self.inliner = inliner
        self.call = call
        self.place = place
        self.made: dict[Operation, Port] = {}
        self.prefix = call.name
        self.anchored = bool(call.controls) or call in inliner.conditional
        self.entry: Node | None = None
        self.extra: list[Node] = []

    def add(self, graph: Any, inputs: list[Tensor], outputs: list[Tensor],
            effects: list[Operation]) -> None:
        """Add the nodes that `outputs` and `effects` need, and let readers of the call read them.
        """
        call, inliner = self.call, self.inliner
        ops = _needed([t.op for t in outputs] + effects, self.made)
        span = self.place.span / (len(ops) + 2)
        self._enter(inputs)
        nodes = {op: self._copy(op, call.order + span * (i + 1)) for i, op in enumerate(ops)
                 if op not in self.made}
        self.made.update({op: (node, 0) for op, node in nodes.items()})
        for op, node in nodes.items():
            node.inputs = [self._source(t) for t in op.inputs]
            node.controls = [self.made[c][0] for c in op.control_inputs]
            if self.entry is not None and not node.inputs and not node.controls and (
                    node.type not in _HANDLES):
                node.controls = [self.entry]
        place = _Place(graph._library, f"{self.prefix}/", span,
                       (*self.place.calls, _name(call)))
        inliner._add([*self.extra, *nodes.values()], place)
        self._leave(outputs, [self.made[e][0] for e in effects], span)

    def _enter(self, inputs: list[Tensor]) -> None:
        """Connect the function's arguments with the inputs of the call; if it is anchored, by nodes
        that wait for what the call waits for."""
        ports = list(self.call.inputs)
        for i, (source, index) in enumerate(ports):
            if self.anchored or source.dtypes[index]._is_ref_dtype:
                ports[i] = (self._identity((source, index), f"_arg_{i}", self.call.controls), 0)
        self.made.update({t.op: p for t, p in zip(inputs, ports, strict=False)})
        if self.anchored:
            waits = list(dict.fromkeys([*self.call.controls, *(p[0] for p in ports)]))
            self.entry = self._no_op("_entry", waits)

    def _leave(self, outputs: list[Tensor], effects: list[Node], span: float) -> None:
        """Let the readers of the call read the outputs, which come after the effects."""
        call, made = self.call, len(self.extra)
        waits = list(effects) if self.entry is None else [self.entry, *effects]
        for i, tensor in enumerate(outputs):
            port = self._source(tensor)
            node = port[0]
            if effects or node.type in SWITCH_TYPES or node.dtypes[port[1]]._is_ref_dtype or (
                    self.entry is not None and node.type in _HANDLES):
                port = (self._identity(port, f"_ret_{i}", effects, call.order + span), 0)
            self.inliner.ports[(call, i)] = port
            waits.append(port[0])
        self.inliner.done[call] = self._no_op("_done", list(dict.fromkeys(waits)))
        self.inliner._add(self.extra[made:], _Place(self.place.library, "", span))

    # ------------------------------------------------------------ nodes

    def _source(self, tensor: Tensor) -> Port:
        port = self.made[tensor.op]
        return (port[0], port[1] + tensor.value_index)

    def _copy(self, op: Operation, order: float) -> Node:
        node = Node(op.type, f"{self.prefix}/{op.name}", op.op_def, self._attrs(op), [], [],
                    self._device(op), [t.dtype for t in op.outputs], [t._dims for t in op.outputs],
                    order)
        sites = self.inliner.sites
        if op not in sites:
            sites[op] = op.creation_site
        node.site = sites[op] or self.call.creation_site
        return node

    def _device(self, op: Operation) -> str:
        if not op.device or not self.call.device:
            return op.device or self.call.device
        return device_spec.merge_names(self.call.device, op.device)

    def _attrs(self, op: Operation) -> dict[str, Any]:
        """Return the attributes of `op`, with the names of frames and of colocated operations made
        those of this call."""
        attrs = op._attrs
        frame, groups = attrs.get("frame_name"), attrs.get(COLOCATION_ATTR)
        prefix = self.prefix.encode() + b"/"
        if isinstance(frame, bytes):
            attrs = {**attrs, "frame_name": prefix + frame}
        if groups:
            named = [COLOCATION_PREFIX + prefix + g[len(COLOCATION_PREFIX):]
                     if g.startswith(COLOCATION_PREFIX) else g for g in groups]
            attrs = {**attrs, COLOCATION_ATTR: named}
        return attrs

    def _identity(self, port: Port, name: str, waits: list[Node],
                  order: float | None = None) -> Node:
        node, index = port
        made = new_node("Identity", f"{self.call.name}/{name}",
                        {"T": node.dtypes[index].base_dtype}, [port], list(waits), "",
                        [node.dims[index]], self.call.order if order is None else order)
        return self._made(made)

    def _no_op(self, name: str, waits: list[Node]) -> Node:
        return self._made(new_node("NoOp", f"{self.call.name}/{name}", {}, [], waits,
                                   self.call.device, [], self.call.order))

    def _made(self, node: Node) -> Node:
        node.site = self.call.creation_site
        self.extra.append(node)
        return node


def _needed(roots: list[Operation], known: dict[Operation, Any]) -> list[Operation]:
    """Return the operations that `roots` depend on, arguments and what is `known` excepted, in the
    order of the graph."""
    seen: set[Operation] = set()
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op in seen or op in known or op.type == "_Arg":
            continue
        seen.add(op)
        stack += [t.op for t in op.inputs]
        stack += op.control_inputs
    return sorted(seen, key=lambda o: o._id)
