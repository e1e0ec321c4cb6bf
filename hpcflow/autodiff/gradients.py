"""Symbolic derivatives: the graph walked backwards from ys to xs, one gradient function per op."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from hpcflow.autodiff.aggregation import AggregationMethod, aggregate
from hpcflow.autodiff.loops import Loops
from hpcflow.autodiff.zeros import dims_of_gradient, is_trainable, variable_type, zeros_like
from hpcflow.graph import nest
from hpcflow.graph.convert import constant_array, convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Gradient, TensorLike
from hpcflow.graph.opdef import get_gradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.traversal import reachable
from hpcflow.ops.flow.control_flow_context import SWITCH_TYPES
from hpcflow.ops.flow.stacks import PUSH_TYPES, stack_of
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.shapes import TensorShape

__all__ = ["AggregationMethod", "gradients", "hessians"]

_GRADIENT_OVERRIDE = "_gradient_op_type"


class UnconnectedGradients(Enum):
    """The gradient where there is no connection: None, or zeros."""

    NONE = "none"
    ZERO = "zero"


def _unconnected(value: UnconnectedGradients) -> UnconnectedGradients:
    try:
        return UnconnectedGradients(value)
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {value!r}") from None


def gradients(ys: TensorLike, xs: TensorLike, grad_ys: TensorLike | None = None,
              name: str = "gradients", colocate_gradients_with_ops: bool = False,
              gate_gradients: bool = False, aggregation_method: int | None = None,
              stop_gradients: Any = None,
              unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE) -> list:
    """Add the ops that compute ``d sum(ys) / d x`` for each x in `xs`.

    Args:
        ys: a tensor or a list of tensors to differentiate.
        xs: a tensor or variable, or a list of them.
        grad_ys: the gradient of each y (None, or a list with None entries: ones).
        name: the name scope of the new ops.
        colocate_gradients_with_ops: place each gradient op with the op it differentiates.
        gate_gradients: use no gradient of an op before all gradients of that op are computed.
        aggregation_method: how paths are summed, a constant of :class:`AggregationMethod`.
        stop_gradients: tensors that count as constants.
        unconnected_gradients: what stands for the gradient of an x that ys do not depend on, a
            member of :class:`UnconnectedGradients` or its value.

    Returns:
        One tensor or :class:`IndexedSlices` per x; None (or zeros) where ys do not depend on x.

    Raises:
        LookupError: an op on the way has no registered gradient.
        ValueError: the arguments do not fit each other.
        TypeError: a complex y without its gradient.
    """
    ys, xs = nest.as_list(ys), nest.as_list(xs)
    grad_ys = [None] * len(ys) if grad_ys is None else nest.as_list(grad_ys)
    if len(grad_ys) != len(ys):
        raise ValueError(f"Passed {len(grad_ys)} grad_ys for {len(ys)} ys")
    method = AggregationMethod.check(aggregation_method)
    unconnected = _unconnected(unconnected_gradients)
    given = [g for g in grad_ys if g is not None]
    with name_scope(name, "gradients", [*ys, *xs, *given]) as scope, _noted(scope):
        targets = [_as_target(y) for y in ys]
        sources = [_as_source(x) for x in xs]
        cut = [] if stop_gradients is None else nest.as_list(stop_gradients)
        options = WalkOptions(method, colocate_gradients_with_ops, gate_gradients)
        walk = Walk(targets, sources, {_as_source(t).op for t in cut}, options)
        walk.seed(targets, grad_ys)
        walk.run()
        found = [walk.result(x) for x in sources]
        if unconnected is UnconnectedGradients.NONE:
            return found
        return [_no_gradient(x) if g is None else g
                for g, x in zip(found, sources, strict=True)]


def _no_gradient(x: Tensor) -> Tensor:
    """Zeros of the shape of x; by a handle, of the shape of the variable."""
    return raw_ops.ZerosLike(x) if variable_type(x) is None else zeros_like(x)


@contextlib.contextmanager
def _noted(scope: str) -> Iterator[None]:
    """Let gradient functions know which call of :func:`gradients` they build for."""
    graph = get_default_graph()
    previous, graph._gradient_scope = graph._gradient_scope, scope.rstrip("/")
    try:
        yield
    finally:
        graph._gradient_scope = previous


def hessians(ys: Sequence[TensorLike], xs: Sequence[TensorLike], name: str = "hessians",
             colocate_gradients_with_ops: bool = False, gate_gradients: bool = False,
             aggregation_method: int | None = None) -> list:
    """The Hessian of ``sum(ys)`` with respect to each x in `xs`.

    The result for x has shape ``x.shape + x.shape`` (a matrix for a vector x). It is computed in a
    loop where the static shape of x is not known. Raises as :func:`gradients`.
    """
    xs = nest.as_list(xs)
    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients, "aggregation_method": aggregation_method}
    with name_scope(name, "hessians", [*nest.as_list(ys), *xs]):
        firsts = gradients(ys, xs, **options)
        return [None if g is None else _hessian(g, x, options)
                for g, x in zip(firsts, xs, strict=True)]


def hessian_vector_product(ys: Sequence[TensorLike], xs: Sequence[TensorLike],
                           v: Sequence[TensorLike]) -> list:
    """The products of the Hessian of ``sum(ys)`` by `xs` with `v`, one for each x.

    It takes two passes of differentiation, and no Hessian is ever made. `v` has a tensor for each
    x, of its shape; no gradient flows through it.

    Raises ``ValueError`` if `xs` and `v` differ in length; else as :func:`gradients`.
    """
    if len(v) != len(xs):
        raise ValueError(f"xs and v must have the same length, got {len(xs)} and {len(v)}")
    firsts = gradients(ys, xs)
    products = [raw_ops.Mul(g, raw_ops.StopGradient(
        convert_to_tensor(part, g.dtype.base_dtype)))
                for g, part in zip(firsts, v, strict=True) if g is not None]
    return gradients(products, xs)


def _hessian(gradient: Tensor, x: Tensor, options: dict[str, Any]) -> Tensor:
    dims = dims_of_gradient(_as_source(x))
    if dims is None or None in dims:
        return _late_hessian(gradient, _as_source(x), options)
    size = int(np.prod(dims, dtype=np.int64))
    parts = raw_ops.Unpack(raw_ops.Reshape(gradient, [size]), num=size, axis=0)
    rows = [gradients(part, x, **options)[0] for part in parts]
    zeros = np.zeros(dims, gradient.dtype.base_dtype.np)
    packed = raw_ops.Pack([zeros if r is None else convert_to_tensor(r) for r in rows], axis=0)
    return raw_ops.Reshape(packed, [*dims, *dims])


def _late_hessian(gradient: Tensor, x: Tensor, options: dict[str, Any]) -> Tensor:
    """The Hessian for an `x` of unknown shape, row by row in a loop."""
    parts: Any = raw_ops.Reshape(gradient, np.array([-1], np.int32))
    count, shape = raw_ops.Size(x), raw_ops.Shape(x)

    def add_row(i: Tensor, rows: TensorArray) -> tuple:
        row = gradients(parts[i], x, **options)[0]
        row = raw_ops.ZerosLike(x) if row is None else convert_to_tensor(row)
        return raw_ops.AddV2(i, np.int32(1)), rows.write(i, row)

    _, rows = while_loop(lambda i, _: raw_ops.Less(i, count), add_row, [
        np.int32(0), TensorArray(gradient.dtype.base_dtype, count)])
    return raw_ops.Reshape(rows.stack(), raw_ops.ConcatV2([shape, shape], np.int32(0)))


# ---------------------------------------------------------------- arguments


def _as_target(y: Tensor) -> Any:
    return y if isinstance(y, (Tensor, IndexedSlices)) else convert_to_tensor(y, name="y")


def _as_source(x: TensorLike) -> Tensor:
    """The tensor that stands for x: a variable's own handle, not a value read from it."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, IndexedSlices):
        return x.values
    return convert_to_tensor(x, name="x", as_ref=True)


def _initial_gradient(y: Tensor, grad_y: Tensor | None) -> Any:
    """`grad_y` checked, or ones where it is None."""
    if grad_y is None:
        return _ones_like(y)
    if isinstance(grad_y, IndexedSlices):
        got = grad_y.dtype
    else:
        grad_y = convert_to_tensor(grad_y, None if isinstance(grad_y, Tensor) else
                                   y.dtype.base_dtype, name="grad_ys")
        got = grad_y.dtype
    if got.base_dtype is not y.dtype.base_dtype:
        raise ValueError(f"gradients: the gradient of {y.name} must be of its type "
                         f"{y.dtype.base_dtype.name}, but is {got.name}")
    return grad_y


def _ones_like(y: Tensor) -> Tensor:
    if y.dtype.is_complex:
        raise TypeError(f"Gradients of complex tensors must set grad_ys (y.dtype = "
                        f"{y.dtype.base_dtype.name})")
    values = y.values if isinstance(y, IndexedSlices) else y
    one = np.ones((), values.dtype.base_dtype.np)
    if values._dims == ():
        return constant_array(one, name="grad_ys_0")
    return raw_ops.Fill(raw_ops.Shape(values), one, name="grad_ys_0")


# ---------------------------------------------------------------- the walk


class WalkOptions(NamedTuple):
    """The options that are the same in a walk and in the walks over the bodies of its loops."""

    method: int
    colocate: bool
    gate: bool


class Walk:
    """One backward pass: which ops lie between, the gradients of their outputs so far.

    Args:
        targets: what is differentiated.
        sources: what the gradients are wanted for.
        cut: operations whose inputs are not looked at.
    """

    def __init__(self, targets: list, sources: list[Tensor], cut: set[Operation],
                 options: WalkOptions) -> None:
        self.graph = get_default_graph()
        self._options = options
        self._targets = {t.op for t in targets}
        self._cut = cut
        from_ops = {s.op for s in sources}
        between = _ops_between(self._targets, from_ops, cut)
        self._pending = _pending_counts(between, cut)
        self._loops = Loops(self, between)
        # Below these nothing is wanted: their gradient functions do not run.
        self._last = {op for op in from_ops | cut
                      if op in cut or not any(t.op in self._pending for t in op.inputs)}
        # op -> per output the list of gradients that arrived
        self._grads: dict[Operation, list[list]] = {}

    def nested(self, targets: list, sources: list[Tensor], cut: set[Operation]) -> Walk:
        """A walk of its own, with the same options."""
        return Walk(targets, sources, cut, self._options)

    def covers(self, op: Operation) -> bool:
        """True if `op` is on a path from the sources to the targets."""
        return op in self._pending

    def seed(self, targets: list, grad_ys: list) -> None:
        """Start with the gradient of each target."""
        for y, grad_y in zip(targets, grad_ys, strict=True):
            if y.op not in self._pending:
                continue
            with self._place(y.op):
                grad = _initial_gradient(y, grad_y)
            self.add(y.values if isinstance(y, IndexedSlices) else y, grad)

    def run(self) -> None:
        """Walk every op between, each after all its consumers."""
        queue = collections.deque(op for op in sorted(self._targets, key=lambda o: o._id)
                                  if self._pending.get(op) == 0)
        while queue:
            for tensor in self._process(queue.popleft()):
                producer = tensor.op
                if producer in self._pending:
                    self._pending[producer] -= 1
                    if self._pending[producer] == 0:
                        queue.append(producer)

    def result(self, x: Tensor) -> Any:
        """The gradient of x, None if nothing arrived."""
        slots = self._grads.get(x.op)
        if slots is None or not slots[x.value_index]:
            return None
        return self._sum(x.op, slots[x.value_index])

    def add(self, tensor: Tensor, grad: Gradient) -> None:
        """Note `grad`, a gradient of `tensor` over one of its paths."""
        slots = self._grads.setdefault(tensor.op, [[] for _ in tensor.op.outputs])
        slots[tensor.value_index].append(grad)

    def _sum(self, op: Operation, slot: list) -> Any:
        """Replace the gradients in `slot` by their sum, and return it."""
        if len(slot) > 1:
            with self._place(_summed_beside(op, slot)):
                slot[:] = [aggregate(slot, op, self._options.method)]
        return slot[0]

    def _place(self, op: Operation) -> Any:
        return self.graph.colocate_with(op) if self._options.colocate else contextlib.nullcontext()

    def _process(self, op: Operation) -> Iterable[Tensor]:
        """Walk `op`; returns the tensors of which one reader less is still to be walked."""
        if op in self._cut:
            self._visit(op)
            return ()
        if self._loops.is_exit(op):  # the loop is walked as a whole
            return self._loops.leave(op)
        self._visit(op)
        return op.inputs

    def _visit(self, op: Operation) -> None:
        """Compute the gradients of the inputs of `op` from those of its outputs."""
        slots = self._grads.get(op)
        if slots is None or not any(slots):
            return
        grads = [self._sum(op, slot) if slot else None for slot in slots]
        if op in self._last:
            return
        function = _gradient_function(op)
        if function is None:
            return
        with self.graph.name_scope(f"{op.name}_grad"), self._place(op), (
                self.graph._original_op(op)):
            grads = [_or_zeros(op, i, g) for i, g in enumerate(grads)]
            in_grads = _checked(op, function(op, *grads))
            if self._options.gate:
                in_grads = _gated(in_grads)
        for tensor, grad in zip(op.inputs, in_grads, strict=True):
            if grad is not None and tensor.op in self._pending:
                self.add(tensor, grad)


def _or_zeros(op: Operation, index: int, grad: Tensor | IndexedSlices | None) -> Any:
    """Zeros for an output that no path reached; of a Switch one output is always dead, and lists
    have no gradient then."""
    dtype = op.outputs[index].dtype
    if grad is None and op.type not in SWITCH_TYPES and is_trainable(dtype) and (
            dtype.base_dtype.name != "variant"):
        return zeros_like(op.outputs[index])
    return grad


def _ops_between(targets: set[Operation], sources: set[Operation],
                 cut: set[Operation]) -> list[Operation]:
    """The ops on paths from `sources` to `targets`, both included, in graph order."""
    forward = reachable(sources, lambda op: (c for c in _readers(op) if c not in cut))
    wanted = [op for op in targets if op in forward]
    between = reachable(wanted, lambda op: () if op in cut else (
        t.op for t in op.inputs if t.op in forward))
    return sorted(between, key=lambda op: op._id)


def _readers(op: Operation) -> Iterator[Operation]:
    """Yield the operations that depend on `op` by more than integers, booleans or strings, which
    count as constants: also what is popped from the stack that it pushes onto."""
    for tensor in op.outputs:
        if is_trainable(tensor.dtype) or tensor.dtype.base_dtype.name == "resource":
            yield from tensor._consumers
    if op.type in PUSH_TYPES:
        yield stack_of(op)


def _pending_counts(between: list[Operation], cut: set[Operation]) -> dict[Operation, int]:
    pending = dict.fromkeys(between, 0)
    for op in between:
        for tensor in () if op in cut else op.inputs:
            if tensor.op in pending:
                pending[tensor.op] += 1
    return pending


# ---------------------------------------------------------------- gradient functions


def _gradient_function(op: Operation) -> Any:
    """The gradient function of `op`, None if it is declared not to be differentiable."""
    override = op.attr(_GRADIENT_OVERRIDE)
    key = override.decode() if override is not None else op.type
    if override is None and op.graph._is_function(op.type):
        key = "PartitionedCall"  # a call by the function's name
    try:
        return get_gradient(key)
    except LookupError:
        what = f"op type: {op.type}" + (f", gradient '{key}'" if override is not None else "")
        raise LookupError(
            f"No gradient defined for operation '{op.name}' ({what}); register one with "
            "RegisterGradient, or declare the type with NotDifferentiable") from None


def _checked(op: Operation, result: Tensor | IndexedSlices | Sequence[Any]) -> list:
    """The result of a gradient function as one entry per input, shapes taken from the inputs."""
    grads = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(grads) != len(op.inputs):
        raise ValueError(f"The gradient function of {op.type} returned {len(grads)} gradients for "
                         f"the {len(op.inputs)} inputs of op '{op.name}'")
    return [_checked_one(op, i, t, g) for i, (t, g) in enumerate(zip(op.inputs, grads,
                                                                     strict=True))]


def _checked_one(op: Operation, index: int, tensor: Tensor, grad: Any) -> Any:
    if grad is None or isinstance(grad, IndexedSlices):
        return grad
    if not isinstance(grad, Tensor):
        grad = convert_to_tensor(grad)
    dims = dims_of_gradient(tensor)
    if dims is not None and grad._dims != dims:
        try:
            grad.set_shape(TensorShape(dims))
        except ValueError:
            raise ValueError(f"The gradient function of {op.type} returned shape {grad.shape} for "
                             f"input {index} of op '{op.name}', which has shape "
                             f"{TensorShape(dims)}") from None
    return grad


def _gated(grads: list) -> list:
    """Return the same gradients, none of which exists before all do."""
    found = [g for g in grads if g is not None]
    if len(found) < 2:
        return grads
    graph = get_default_graph()
    with graph.name_scope("tuple"):
        with graph.control_dependencies(found):
            gate = raw_ops.NoOp(name="group_deps")
        with graph.control_dependencies([gate]):
            return [None if g is None else _identity(g) for g in grads]


def _summed_beside(op: Operation, grads: list) -> Operation:
    """Where gradients of an output of `op` are summed: beside it; but where all of them are made
    on one other device, there, so that only the sum travels."""
    makers = [(g.values if isinstance(g, IndexedSlices) else g).op for g in grads]
    places = {maker.device for maker in makers}
    return makers[0] if len(places) == 1 and places != {op.device} and "" not in places else op


def _identity(grad: Tensor) -> Any:
    """Return an Identity of a gradient, under the name that programs and tools look for."""
    name = "control_dependency"
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(raw_ops.Identity(grad.values, name=name),
                             raw_ops.Identity(grad.indices, name=f"{name}/indices"),
                             grad.dense_shape)
    return raw_ops.Identity(grad, name=name)
