"""simplify: nodes that hand an input on unchanged are passed by.

Only what keeps every bit is done: x + 0 is left alone for floats (-0 + 0 is 0), x - 0 and x * 1
are not. An Identity stays where it means more than its value: on another device, on a variable,
or as the pivot of a branch that something waits for. A reshape stays where its shape keeps it
inside a loop or a branch that its tensor comes into from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.ir.conditions import Conditions
from hpcflow.compiler.ir.step_graph import (
    CONTROL_FLOW_TYPES,
    FEED,
    FRAME_TYPES,
    SWITCH_TYPES,
    Node,
    Port,
    StepGraph,
)
from hpcflow.graph.opdef import get_op_def
from hpcflow.host.tuning import compiler as tuning

_SAME = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot",
                   "PlaceholderWithDefault"})
_OWN_INVERSE = frozenset({"Neg", "LogicalNot", "Invert"})
_IDEMPOTENT = frozenset({"Abs", "Relu", "Relu6", "Sign", "Floor", "Ceil", "Rint", "Round"})
_REDUCTIONS = frozenset({"Sum", "Prod", "Max", "Min", "Mean", "All", "Any"})
_RESHAPES = frozenset({"Reshape", "ExpandDims", "Squeeze"})


def simplify(graph: StepGraph) -> None:
    """Pass by what does nothing, and shorten chains of reshapes and transpositions."""
    _Simplifier(graph).run()


class _Simplifier:
    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.same: dict[Port, Port] = {}  # output of a node passed by -> the value itself
        self.rewrote = False
        self.conditions = Conditions(graph)
        self.awaited = {c for n in graph.nodes for c in n.controls}

    def run(self) -> None:
        for node in self.graph.nodes:
            if self.same:
                node.inputs = [self.same.get(p, p) for p in node.inputs]
                node.controls = self._controls(node)
            self._rewrite(node)
            source = self._passes_on(node)
            if source is not None and self._may_go(node, source):
                self.same[(node, 0)] = source
        if self.same:
            self._redirect_back_edges()
            gone = {n for n, _ in self.same}
            self.graph.nodes = [n for n in self.graph.nodes if n not in gone]
        if self.same or self.rewrote:
            self.graph.sweep()

    def _redirect_back_edges(self) -> None:
        """Let back edges read the source instead of a node that is passed by: a Merge comes before
        its inputs."""
        for node in self.graph.nodes:
            node.inputs = [self.same.get(p, p) for p in node.inputs]

    def _controls(self, node: Node) -> list[Node]:
        """Return the control inputs, with the source instead of a node that is passed by."""
        found: dict[Node, None] = {}
        for control in node.controls:
            source = self.same.get((control, 0), (control, 0))[0]
            if source is control or not (source.is_const or source.type == FEED):
                found[source] = None
        return list(found)

    def _may_go(self, node: Node, source: Port) -> bool:
        producer, index = source
        if node.controls or producer.dtypes[index] is not node.dtypes[0]:
            return False  # references, and the conversions that reading them means, stay
        if node.device and node.device != producer.device and not producer.is_const:
            return False
        return node not in self.awaited or producer.type not in SWITCH_TYPES | FRAME_TYPES

    def _rewrite(self, node: Node) -> None:
        """Change `node` itself into something simpler of the same value."""
        if node.type == "Pow" and _is_all(node.inputs[1], 2) and _keeps_shape(node, 0):
            _become(node, "Square", node.inputs[:1])
            self.rewrote = True
        elif node.type == "Reshape":
            inner = node.inputs[0][0]
            if inner.type in _RESHAPES and not inner.controls and (
                    inner.inputs[0][0].type not in CONTROL_FLOW_TYPES) and (
                    self._needs_no_shape(inner)):
                node.inputs[0] = inner.inputs[0]
                self.rewrote = True

    def _passes_on(self, node: Node) -> Port | None:
        """The input that output 0 of `node` is surely equal to, or None."""
        return self._reshaped(node) if node.type in _RESHAPES else _equal_input(node)

    def _reshaped(self, node: Node) -> Port | None:
        """Return the value that a chain of reshapes begins with, if the last gives its shape back;
        else None."""
        dims = node.dims[0]
        if dims is None or None in dims:
            return None
        while self._needs_no_shape(node):
            source, index = node.inputs[0]
            if source.dims[index] == dims:
                return source, index
            if source.type not in _RESHAPES or source.controls:
                return None
            node = source
        return None

    def _needs_no_shape(self, node: Node) -> bool:
        """True if a reshape may do without the shape, which is known."""
        return all(self.conditions.may_drop(p, node.inputs[0]) for p in node.inputs[1:])


def _equal_input(node: Node) -> Port | None:
    """The input that output 0 of `node` is surely equal to, or None."""
    if node.type in _SAME or (node.type == "AddN" and len(node.inputs) == 1):
        return node.inputs[0]
    rule = _RULES.get(node.type)
    if rule is not None:
        return rule(node)
    inner, port = node.inputs[0] if node.inputs else (node, 0)
    if node.type in _OWN_INVERSE and inner.type == node.type and not inner.controls:
        return inner.inputs[0]
    if node.type in _IDEMPOTENT and inner.type == node.type:
        return inner, port
    return None


# ---------------------------------------------------------------- rules


def _value(port: Port) -> np.ndarray | None:
    """The value of a small constant."""
    node = port[0]
    if not node.is_const:
        return None
    value = np.asarray(node.attrs["value"])
    return value if value.size <= tuning.SIMPLIFY_MOST_ELEMENTS else None


def _is_all(port: Port, number: float) -> bool:
    """True if `port` is a constant whose elements are all `number`, the sign of a 0 included."""
    value = _value(port)
    if value is None or not value.size or value.dtype.kind not in "iufc":
        return False
    same = bool((value == number).all())
    if same and number == 0 and value.dtype.kind == "f":
        return not np.signbit(value).any()
    return same and (number != 0 or value.dtype.kind != "c")


def _is_negative_zero(port: Port) -> bool:
    value = _value(port)
    return (value is not None and value.size > 0 and value.dtype.kind == "f"
            and bool((value == 0).all()) and bool(np.signbit(value).all()))


def _keeps_shape(node: Node, index: int) -> bool:
    """True if a binary `node` surely has the shape of input `index`."""
    other, port = node.inputs[1 - index]
    if other.dims[port] == ():
        return True
    source, port = node.inputs[index]
    dims = source.dims[port]
    return dims is not None and None not in dims and dims == node.dims[0]


def _neutral(node: Node, index: int, holds: Callable[[Port], bool]) -> Port | None:
    """Input `index` of a binary node if ``holds`` of the other."""
    if holds(node.inputs[1 - index]) and _keeps_shape(node, index):
        return node.inputs[index]
    return None


def _one(port: Port) -> bool:
    return _is_all(port, 1)


def _zero(port: Port) -> bool:
    return _is_all(port, 0)


def _nothing_to_add(port: Port) -> bool:
    source, index = port
    if source.dtypes[index].is_integer:
        return _is_all(port, 0)
    return _is_negative_zero(port)


def _product(node: Node) -> Port | None:
    return _neutral(node, 0, _one) or _neutral(node, 1, _one)


def _sum(node: Node) -> Port | None:
    return _neutral(node, 0, _nothing_to_add) or _neutral(node, 1, _nothing_to_add)


def _quotient(node: Node) -> Port | None:
    return _neutral(node, 0, _one)


def _difference(node: Node) -> Port | None:
    return _neutral(node, 0, _zero)


def _transpose(node: Node) -> Port | None:
    order = _value(node.inputs[1])
    if order is None:
        return None
    inner = node.inputs[0][0]
    if inner.type == "Transpose" and not inner.controls:
        before = _value(inner.inputs[1])
        if before is not None and before.shape == order.shape and _has_rank(
                inner.inputs[0], order.size) and (before[order] == np.arange(order.size)).all():
            return inner.inputs[0]
    return node.inputs[0] if _has_rank(node.inputs[0], order.size) and (
        order == np.arange(order.size)).all() else None


def _has_rank(port: Port, rank: int) -> bool:
    """True for a value that is known to have `rank` dimensions: of another rank than the other
    inputs say, it is an error that the kernel reports."""
    source, index = port
    dims = source.dims[index]
    return dims is not None and len(dims) == rank


def _cast(node: Node) -> Port | None:
    return node.inputs[0] if node.attrs["SrcT"] is node.attrs["DstT"] else None


def _tile(node: Node) -> Port | None:
    return _if_one_for_each(node, 1)


def _pad(node: Node) -> Port | None:
    return _if_one_for_each(node, 0)


def _if_one_for_each(node: Node, number: int) -> Port | None:
    """The first input if the second one has this number, or a row of it, for each dimension."""
    each = _value(node.inputs[1])
    if each is None or not each.ndim or not _has_rank(node.inputs[0], each.shape[0]):
        return None
    return node.inputs[0] if _is_all(node.inputs[1], number) else None


def _slice(node: Node) -> Port | None:
    begin, size = _value(node.inputs[1]), _value(node.inputs[2])
    source, index = node.inputs[0]
    dims = source.dims[index]
    if begin is None or size is None or begin.any() or dims is None or not (
            len(begin) == len(size) == len(dims)):
        return None
    whole = all(s in (-1, d) for s, d in zip(size.tolist(), dims, strict=True))
    return node.inputs[0] if whole else None


def _reduction(node: Node) -> Port | None:
    axes = _value(node.inputs[1])
    return node.inputs[0] if axes is not None and not axes.size else None


_RULES: dict[str, Callable[[Node], Port | None]] = {
    "Mul": _product, "Add": _sum, "AddV2": _sum, "Sub": _difference, "Div": _quotient,
    "RealDiv": _quotient, "Pow": _quotient, "Transpose": _transpose, "Cast": _cast, "Tile": _tile,
    "Pad": _pad, "Slice": _slice,
    **dict.fromkeys(_REDUCTIONS, _reduction),
}  # fmt: skip


def _become(node: Node, type: str, inputs: list[Port]) -> None:
    """Turn `node` into another op of the same attributes and result."""
    node.type, node.op_def, node.inputs = type, get_op_def(type), inputs
    names: Any = {a.name for a in node.op_def.attrs}
    node.attrs = {k: v for k, v in node.attrs.items() if k in names or k.startswith("_")}
