"""Assert and Print, and checks of values, ranks and types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes, errors
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_default_graph, name_scope
from hpcflow.graph.legacy import is_tensor
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_more
from hpcflow.graph.shape_inference import constant_value, unchanged, with_rank
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.common.grouping import group

__all__ = [
    "Assert",
    "Print",
    "add_check_numerics_ops",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_type",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
]

# ---------------------------------------------------------------- op types


def _assert_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "condition")
    return []


register_op("Assert", "condition: bool; data: T", "", "T: list(type) >= 1; summarize: int = 3",
            stateful=True, shape=_assert_shape)
register_op("Print", "input: T; data: U", "output: T",
            'T: type; U: list(type) >= 0; message: string = ""; first_n: int = -1; '
            "summarize: int = 3", stateful=True, shape=unchanged)
not_differentiable("Assert")


@RegisterGradient("Print")
def _print_grad(op: Operation, grad: Tensor) -> list:
    return [grad] + [None] * (len(op.inputs) - 1)


def Assert(condition: TensorLike, data: Sequence[Any], summarize: int | None = None,
           name: str | None = None) -> Operation:
    """Return an operation that checks, when run, that `condition` (a boolean scalar) is true.

    Args:
        condition: what must be true.
        data: tensors to show if it is not.
        summarize: how many elements of each to show, 3 if None; below 0: all.
        name: name of the operation.

    Raises (when run) ``InvalidArgumentError`` with the data in its message.
    """
    with name_scope(name, "Assert", _graph_values(condition, *data)):
        if all([isinstance(shown, (str, bytes)) for shown in data]):
            count_more(get_default_graph(), len(data))  # 1.15 makes their constants twice
        return raw_ops.Assert(condition=condition, data=list(data), summarize=summarize)


def Print(input_: TensorLike, data: Sequence[Any], message: str | None = None,
          first_n: int | None = None, summarize: int | None = None,
          name: str | None = None) -> Tensor:
    """Return `input_` unchanged; when run, print `data` on the standard error stream.

    Args:
        input_: the tensor passed through.
        data: tensors to print.
        message: text printed first.
        first_n: print only the first times; always if None or below 0.
        summarize: how many elements of each to print, 3 if None; below 0: all.
        name: name of the operation.
    """
    return raw_ops.Print(input=input_, data=list(data), message=message, first_n=first_n,
                         summarize=summarize, name=name)


def add_check_numerics_ops() -> Operation:
    """Return an operation that checks every floating point tensor of the graph so far.

    They are checked in the order in which they were made, so that the error names the first op
    whose output is not finite. Raises (when run) ``InvalidArgumentError``; ``ValueError`` where
    ops are in a conditional or a loop, since those run not once in a step.
    """
    checks: list[Tensor] = []
    for op in get_default_graph().get_operations():
        if op._get_control_flow_context() is not None:
            raise ValueError(
                "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                "operations such as `tf.cond()` or `tf.while_loop()`.: it checks what runs once in "
                f"a step, but {op.name!r} is in one of them")
        for output in op.outputs:
            if output.dtype.base_dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
                with control_dependencies(checks[-1:]):
                    checks.append(raw_ops.CheckNumerics(output, message=output.name))
    return group(*checks[-1:])


# ---------------------------------------------------------------- comparisons


def _assert_all(op_type: str, symbol: str, default_name: str, x: Any, y: Any, data: Any,
                summarize: int | None, message: str | None, name: str | None) -> Operation:
    """Assert that the comparison `op_type` holds for every pair of elements of `x` and `y`."""
    with name_scope(name, default_name, _graph_values(x, y)):
        x, y = _pair(x, y)
        data = _to_show(data, message, lambda: [
            f"Condition x {symbol} y did not hold element-wise: x = ", x.name, x, "y = ", y.name,
            y])
        holds = getattr(raw_ops, op_type)(x, y)
        _refuse_known(op_type, x, y, data)
        return Assert(_all(holds), data, summarize)


def _to_show(data: Sequence[Any] | None, message: str | None, usual: Callable[[], list]) -> list:
    """What a check that fails shows after the message: `data`, or else what ``usual()`` makes."""
    if data is None:
        return [message or "", *usual()]
    return list(data) if message is None else [message, *data]


_COMPARISONS = {"Equal": np.equal, "NotEqual": np.not_equal, "Less": np.less,
                "LessEqual": np.less_equal, "Greater": np.greater,
                "GreaterEqual": np.greater_equal}


def _refuse_known(op_type: str, x: Tensor, y: Tensor, data: Sequence[Any]) -> None:
    """Raise at once where both values follow from the graph and the comparison does not hold."""
    first, second = constant_value(x), constant_value(y)
    if first is None or second is None or np.all(_COMPARISONS[op_type](first, second)):
        return
    raise errors.InvalidArgumentError(None, None, "\n".join(_shown(d) for d in data))


def _shown(value: Any) -> str:
    known = constant_value(value) if isinstance(value, Tensor) else None
    return str(value if known is None else known)


def _pair(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors; a Python number takes the type of a tensor beside it."""
    if not is_tensor(x) and is_tensor(y):
        y = convert_to_tensor(y, name="y")
        return convert_to_tensor(x, y.dtype.base_dtype, "x"), y
    x = convert_to_tensor(x, name="x")
    if is_tensor(y):
        return x, convert_to_tensor(y, name="y")
    return x, convert_to_tensor(y, x.dtype.base_dtype, "y")


def _all(condition: Tensor) -> Tensor:
    """A scalar: whether every element is true."""
    ndims = condition.shape.ndims
    if ndims == 0:
        return condition
    axes = (raw_ops.Range(0, raw_ops.Rank(condition), 1) if ndims is None
            else np.arange(ndims, dtype=np.int32))
    return raw_ops.All(condition, axes)


def assert_equal(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                 summarize: int | None = None, message: str | None = None,
                 name: str | None = None) -> Operation:
    """Return an operation that asserts ``x == y`` for all elements, with broadcasting.

    Args:
        x: a numeric tensor.
        y: a tensor of the same type.
        data: tensors to show on failure; x and y if None.
        summarize: how many elements of each to show.
        message: text before the default message.
        name: name of the operation.

    Raises ``InvalidArgumentError`` when run, or at once where both values follow from the graph.
    """
    if x is y:
        return raw_ops.NoOp(name=name or "assert_equal")
    return _assert_all("Equal", "==", "assert_equal", x, y, data, summarize, message, name)


def assert_none_equal(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                      summarize: int | None = None, message: str | None = None,
                      name: str | None = None) -> Operation:
    """Return an operation that asserts ``x != y`` for all elements; see :func:`assert_equal`."""
    return _assert_all("NotEqual", "!=", "assert_none_equal", x, y, data, summarize, message, name)


def assert_less(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                summarize: int | None = None, message: str | None = None,
                name: str | None = None) -> Operation:
    """Return an operation that asserts ``x < y`` for all elements; see :func:`assert_equal`."""
    return _assert_all("Less", "<", "assert_less", x, y, data, summarize, message, name)


def assert_less_equal(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                      summarize: int | None = None, message: str | None = None,
                      name: str | None = None) -> Operation:
    """Return an operation that asserts ``x <= y`` for all elements; see :func:`assert_equal`."""
    return _assert_all("LessEqual", "<=", "assert_less_equal", x, y, data, summarize, message,
                       name)


def assert_greater(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                   summarize: int | None = None, message: str | None = None,
                   name: str | None = None) -> Operation:
    """Return an operation that asserts ``x > y`` for all elements; see :func:`assert_equal`."""
    return _assert_all("Greater", ">", "assert_greater", x, y, data, summarize, message, name)


def assert_greater_equal(x: TensorLike, y: TensorLike, data: TensorLike | None = None,
                         summarize: int | None = None, message: str | None = None,
                         name: str | None = None) -> Operation:
    """Return an operation that asserts ``x >= y`` for all elements; see :func:`assert_equal`."""
    return _assert_all("GreaterEqual", ">=", "assert_greater_equal", x, y, data, summarize,
                       message, name)


def assert_near(x: Tensor, y: Tensor, rtol: Tensor | None = None, atol: Tensor | None = None,
                data: Sequence[Any] | None = None, summarize: int | None = None,
                message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that asserts ``|x - y| <= atol + rtol |y|`` for all elements.

    Both tolerances are ten times the dtype's epsilon by default; see :func:`assert_equal`.
    """
    import ml_dtypes  # only here, as it takes a while to load

    with name_scope(name, "assert_near", _graph_values(x, y, rtol, atol)):
        x, y = _pair(x, y)
        kind = x.dtype.real_dtype.base_dtype
        default = 10 * float(ml_dtypes.finfo(kind.np).eps)
        rtol, atol = (convert_to_tensor(default if t is None else t, kind) for t in (rtol, atol))
        size, distance = (raw_ops.ComplexAbs(t, Tout=kind) if x.dtype.is_complex else
                          raw_ops.Abs(t) for t in (y, raw_ops.Sub(x, y)))
        data = _to_show(data, message, lambda: [
            "x and y not equal to tolerance rtol = ", rtol, "atol = ", atol, x.name, x, "y = ",
            y.name, y])
        allowed = raw_ops.Add(atol, raw_ops.Mul(rtol, size))
        return Assert(_all(raw_ops.LessEqual(distance, allowed)), data, summarize)


def _assert_sign(op_type: str, symbol: str, default_name: str, x: Any, data: Any,
                 summarize: int | None, message: str | None, name: str | None) -> Operation:
    with name_scope(name, default_name, _graph_values(x)):
        x = convert_to_tensor(x, name="x")
        data = _to_show(data, message, lambda: [
            f"Condition x {symbol} 0 did not hold element-wise: x = ", x.name, x])
        zero = convert_to_tensor(np.zeros((), x.dtype.base_dtype.np))
        _refuse_known(op_type, x, zero, data)
        return Assert(_all(getattr(raw_ops, op_type)(x, zero)), data, summarize)


def assert_negative(x: TensorLike, data: TensorLike | None = None, summarize: int | None = None,
                    message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that asserts ``x < 0`` for all elements; see :func:`assert_equal`."""
    return _assert_sign("Less", "<", "assert_negative", x, data, summarize, message, name)


def assert_positive(x: TensorLike, data: TensorLike | None = None, summarize: int | None = None,
                    message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that asserts ``x > 0`` for all elements; see :func:`assert_equal`."""
    return _assert_sign("Greater", ">", "assert_positive", x, data, summarize, message, name)


def assert_non_negative(x: TensorLike, data: TensorLike | None = None, summarize: int | None = None,
                        message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that asserts ``x >= 0`` for all elements; see :func:`assert_equal`."""
    return _assert_sign("GreaterEqual", ">=", "assert_non_negative", x, data, summarize, message,
                        name)


def assert_non_positive(x: TensorLike, data: TensorLike | None = None, summarize: int | None = None,
                        message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that asserts ``x <= 0`` for all elements; see :func:`assert_equal`."""
    return _assert_sign("LessEqual", "<=", "assert_non_positive", x, data, summarize, message,
                        name)


# ---------------------------------------------------------------- ranks


def _assert_rank(fits: Callable[[int, int], bool], op_type: str, phrase: str, default_name: str,
                 x: Any, rank: Any, data: Any, summarize: int | None, message: str | None,
                 name: str | None) -> Operation:
    with name_scope(name, default_name, _graph_values(x, rank)):
        x = convert_to_tensor(x, name="x")
        rank = _rank_tensor(rank)
        wanted, known = constant_value(rank), x.shape.ndims
        if wanted is not None and known is not None:
            if not fits(known, int(wanted)):
                raise ValueError(f"{message or ''}.  Tensor {x.name} must have rank {phrase}"
                                 f"{int(wanted)}.  Received rank {known}, shape {x.shape}")
            return raw_ops.NoOp(name="static_checks_determined_all_ok")
        data = _to_show(data, message, lambda: [
            f"Tensor {x.name} must have rank {phrase}", rank, "Received shape: ", raw_ops.Shape(x)])
        with control_dependencies(_scalar_checks([rank])):
            fits_then = getattr(raw_ops, op_type)(raw_ops.Rank(x), rank)
        return Assert(fits_then, data, summarize)


def _rank_tensor(rank: Any) -> Tensor:
    """A rank as a tensor: an int32 scalar. ``TypeError`` and ``ValueError`` for other ones."""
    if not is_tensor(rank) and np.asarray(rank).dtype.kind in "iu":
        narrow = np.asarray(rank).astype(np.int32)
        rank = narrow if np.array_equal(narrow, rank) else rank
    tensor = convert_to_tensor(rank, name="rank")
    assert_type(tensor, dtypes.int32)
    if tensor.shape.ndims not in (0, None):
        raise ValueError(f"Rank must be a scalar, but has shape {tensor.shape}")
    return tensor


def _scalar_checks(ranks: Iterable[Tensor]) -> list[Operation]:
    """Operations that check that ranks of unknown shape are scalars."""
    return [assert_rank(rank, 0, data=["Rank must be a scalar. Received rank: ", rank])
            for rank in ranks if rank.shape.ndims is None]


def assert_rank(x: TensorHandle, rank: TensorLike, data: TensorLike | None = None,
                summarize: int | None = None, message: str | None = None,
                name: str | None = None) -> Operation:
    """Return an operation that asserts that `x` has `rank` dimensions.

    Other arguments as of :func:`assert_equal`. Raises ``ValueError`` at once where the ranks are
    known to differ, else (when run) ``InvalidArgumentError``.
    """
    return _assert_rank(lambda a, b: a == b, "Equal", "", "assert_rank", x, rank, data, summarize,
                        message, name)


def assert_rank_at_least(x: TensorHandle, rank: TensorLike, data: TensorLike | None = None,
                         summarize: int | None = None, message: str | None = None,
                         name: str | None = None) -> Operation:
    """As :func:`assert_rank`, for at least `rank` dimensions."""
    return _assert_rank(lambda a, b: a >= b, "GreaterEqual", "at least ", "assert_rank_at_least",
                        x, rank, data, summarize, message, name)


def assert_rank_in(x: Tensor, ranks: Iterable[Any], data: Sequence[Any] | None = None,
                   summarize: int | None = None, message: str | None = None,
                   name: str | None = None) -> Operation:
    """As :func:`assert_rank`, for any of several numbers of dimensions."""
    ranks = list(ranks)
    with name_scope(name, "assert_rank_in", _graph_values(x, *ranks)):
        x = convert_to_tensor(x, name="x")
        wanted = [_rank_tensor(r) for r in ranks]
        known = [constant_value(rank) for rank in wanted]
        if x.shape.ndims is not None and all(rank is not None for rank in known):
            numbers = tuple(int(rank) for rank in known if rank is not None)
            if x.shape.ndims not in numbers:
                raise ValueError(f"{message or ''}.  Tensor {x.name} must have rank in {numbers}.  "
                                 f"Received rank {x.shape.ndims}, shape {x.shape}")
            return raw_ops.NoOp(name="static_checks_determined_all_ok")
        data = _to_show(data, message, lambda: [
            f"Tensor {x.name} must have rank in", *wanted, "Received shape: ", raw_ops.Shape(x)])
        with control_dependencies(_scalar_checks(wanted)):
            fits = raw_ops.Any(raw_ops.Equal(raw_ops.Rank(x), raw_ops.Pack(wanted)), [0])
        return Assert(fits, data, summarize)


def assert_scalar(tensor: TensorLike, name: str | None = None,
                  message: str | None = None) -> Tensor:
    """Return `tensor`, checked to be a scalar; ``ValueError`` if its static shape is another."""
    with name_scope(name, "assert_scalar", _graph_values(tensor)):
        tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.shape.ndims != 0:
            raise ValueError(f"{message or ''}Expected scalar shape for {tensor.name}, saw shape: "
                             f"{tensor.shape}.")
        return tensor


# ---------------------------------------------------------------- types


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> Operation:
    """Check that `x` is of an integer type, and return an operation that does nothing.

    Raises ``TypeError`` if it is not.
    """
    with name_scope(name, "assert_integer", _graph_values(x)):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.base_dtype.is_integer:
            raise TypeError(f'{message or ""}  Expected "{x.name}" to be integer type.  Found: '
                            f"{x.dtype.base_dtype.name}")
        return raw_ops.NoOp(name="statically_determined_was_integer")


def assert_type(tensor: TensorLike, tf_type: Any, message: str | None = None,
                name: str | None = None) -> Operation:
    """Check that `tensor` is of type `tf_type`, and return an operation that does nothing.

    Raises ``TypeError`` if it is not.
    """
    with name_scope(name, "assert_type", _graph_values(tensor)):
        if isinstance(tensor, SparseTensor):
            tensor = tensor.values
        tensor = convert_to_tensor(tensor, name="tensor")
        wanted = dtypes.as_dtype(tf_type)
        if tensor.dtype.base_dtype is not wanted.base_dtype:
            raise TypeError(f"{message or ''}  {tensor.name} must be of type {wanted}; got "
                            f"{tensor.dtype.base_dtype}")
        return raw_ops.NoOp(name="statically_determined_correct_type")


def assert_same_float_dtype(tensors: Iterable[Any] | None = None,
                            dtype: DTypeLike | None = None) -> DType:
    """Return the one floating point type of all `tensors` (and `dtype`), float32 if there is none.

    Raises ``ValueError`` if they differ or it is no floating point type.
    """
    found = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    for tensor in tensors or ():
        if tensor is None:
            continue
        own = tensor.dtype.base_dtype
        if found is not None and own is not found:
            raise ValueError(f"Expected {getattr(tensor, 'name', tensor)} to be of type "
                             f"{found.name}, but it is {own.name}.")
        found = own
    found = found or dtypes.float32
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found.name}.")
    return found


def assert_proper_iterable(values: Sequence[TensorLike]) -> None:
    """Raise ``TypeError`` for a tensor, an array, a string, or what cannot be iterated over."""
    if is_tensor(values) or isinstance(values, (np.ndarray, bytes, str)) or hasattr(
            values, "dense_shape"):
        raise TypeError(f"Expected argument 'values' to be a 'proper' iterable.  Found: "
                        f"{type(values)}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"Expected argument 'values' to be iterable.  Found: {type(values)}")


def is_numeric_tensor(tensor: TensorLike) -> bool:
    """Return whether `tensor` is a Tensor of numbers."""
    if not isinstance(tensor, Tensor):
        return False
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_quantized


# ---------------------------------------------------------------- order


def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return a boolean scalar: whether the elements of `x`, in row-major order, never fall."""
    return _is_monotonic("LessEqual", "is_non_decreasing", x, name)


def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return a boolean scalar: whether the elements of `x`, in row-major order, always rise."""
    return _is_monotonic("Less", "is_strictly_increasing", x, name)


def _is_monotonic(op_type: str, default_name: str, x: TensorLike, name: str | None) -> Tensor:
    with name_scope(name, default_name, _graph_values(x)):
        x = convert_to_tensor(x, name="x")
        if not is_numeric_tensor(x):
            raise TypeError(f"Expected x to be numeric, instead found: {x!r}")
        flat = raw_ops.Reshape(x, [-1])
        # With fewer than two elements both parts are empty, and all of nothing is true.
        before = raw_ops.StridedSlice(flat, [0], [-1], [1])
        after = raw_ops.StridedSlice(flat, [1], [0], [1], end_mask=1)
        return _all(getattr(raw_ops, op_type)(before, after))


def _graph_values(*values: Any) -> list:
    return [v for v in values if hasattr(v, "graph")]
