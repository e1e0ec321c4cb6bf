"""Sources of values: Const, the placeholders, Fill, ZerosLike, OnesLike, Range and LinSpace."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import constant, convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    register_constant_value,
    show,
    unchanged,
    with_rank,
)
from hpcflow.host.tuning import programs as tuning
from hpcflow.ops.common.static_shape import known_values
from hpcflow.shapes import ShapeLike, TensorShape

__all__ = [
    "constant",
    "fill",
    "lin_space",
    "linspace",
    "ones",
    "ones_like",
    "placeholder",
    "placeholder_with_default",
    "range",
    "zeros",
    "zeros_like",
]


# ---------------------------------------------------------------- Const


def _const_shape(op: Operation) -> list[Dims]:
    return [op._attrs["value"].shape]


register_op("Const", outputs="output: dtype", attrs="value: tensor; dtype: type",
            shape=_const_shape)
not_differentiable("Const")

# ---------------------------------------------------------------- placeholders


def _placeholder_shape(op: Operation) -> list[Dims]:
    """In the format's older versions ``[]`` stands for an unknown shape as well as for a scalar."""
    return [op._attrs["shape"]._dims or None]


def _declared_shape(op: Operation) -> list[Dims]:
    return [op._attrs["shape"]._dims]


def _default_shape(op: Operation) -> list[Dims]:
    """Return the declared shape, which a fed value has to fit, and so has the default."""
    declared = op._attrs["shape"]
    declared.assert_is_compatible_with(TensorShape(op.input_dims(0)))
    return [declared._dims]


register_op("Placeholder", outputs="output: dtype", attrs="dtype: type; shape: shape = []",
            shape=_placeholder_shape)
register_op("PlaceholderV2", outputs="output: dtype", attrs="dtype: type; shape: shape",
            shape=_declared_shape, deprecated="Placeholder says the same")
register_op("PlaceholderWithDefault", "input: dtype", "output: dtype",
            "dtype: type; shape: shape", shape=_default_shape)
not_differentiable("Placeholder", "PlaceholderV2")


@RegisterGradient("PlaceholderWithDefault")
def _placeholder_with_default_grad(op: Operation, grad: Tensor) -> Any:
    return grad


def placeholder(dtype: DTypeLike, shape: ShapeLike | None = None,
                name: str | None = None) -> Tensor:
    """Return a tensor that must be fed: ``session.run(..., feed_dict={it: value})``.

    Args:
        dtype: element type of the values to feed.
        shape: static shape, any part of it unknown; None: a value of any shape may be fed.
        name: name of the operation.

    Raises (when run without a feed): ``InvalidArgumentError``.
    """
    static = TensorShape(shape)
    tensor = raw_ops.Placeholder(dtype=dtypes.as_dtype(dtype).base_dtype, shape=static, name=name)
    tensor.set_shape(static)
    return tensor


def placeholder_with_default(input: TensorLike, shape: ShapeLike | None,
                             name: str | None = None) -> Tensor:
    """Return a tensor that has the value of `input` unless it is fed.

    Args:
        input: the default value.
        shape: static shape of what may be fed, more general than the default's.
        name: name of the operation.
    """
    return raw_ops.PlaceholderWithDefault(input=input, shape=TensorShape(shape), name=name)


# ---------------------------------------------------------------- Fill, ZerosLike, OnesLike


def _fill_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "dims")
    value_dims = op.input_dims(1)
    if value_dims:
        raise ValueError(f"value must be a scalar, but has shape {show(value_dims)}")
    known = constant_value(op.inputs[0])
    if known is not None and (known < 0).any():
        raise ValueError(f"Fill dimensions must be >= 0, but are {known.tolist()}")
    return [constant_value_as_dims(op.inputs[0])]


register_op("Fill", "dims: index_type; value: T", "output: T",
            "T: type; index_type: {int32, int64} = int32", shape=_fill_shape)
register_op("ZerosLike", "x: T", "y: T", "T: type", shape=unchanged)
register_op("OnesLike", "x: T", "y: T", "T: type", shape=unchanged)
not_differentiable("ZerosLike", "OnesLike")


@register_constant_value("Fill")
def _fill_value(op: Operation) -> np.ndarray | None:
    values = known_values(op.inputs)
    if values is None:
        return None
    dims, value = values
    return np.broadcast_to(value, tuple(dims.tolist()))


@RegisterGradient("Fill")
def _fill_grad(op: Operation, grad: Tensor) -> list:
    axes = raw_ops.Range(0, raw_ops.Rank(grad), 1)
    return [None, raw_ops.Sum(grad, axes)]


def fill(dims: TensorLike, value: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of shape `dims` (1-D integers) whose every element is the scalar `value`."""
    return raw_ops.Fill(dims=dims, value=value, name=name)


def zeros(shape: Any, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return a tensor of `shape` (integers, or an integer tensor) filled with zeros.

    Strings are filled with the empty string, booleans with False.
    """
    dtype = dtypes.as_dtype(dtype).base_dtype
    zero = b"" if dtype is dtypes.string else np.zeros((), dtype.np)
    return _filled(shape, zero, dtype, name, "zeros")


def ones(shape: Any, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return a tensor of `shape` (integers, or an integer tensor) filled with ones.

    Raises ``TypeError`` for strings.
    """
    dtype = dtypes.as_dtype(dtype).base_dtype
    if dtype is dtypes.string:
        raise TypeError("ones: there is no string that means one")
    return _filled(shape, np.ones((), dtype.np), dtype, name, "ones")


def _filled(shape: TensorLike, value: TensorLike, dtype: dtypes.DType, name: str | None,
            default: str) -> Tensor:
    with name_scope(name, default, [shape]) as scope:
        static = _static_shape(shape)
        if static is not None and (static.num_elements() or 0) < tuning.CONSTANT_SMALL:
            return constant(value, dtype, static, name=scope)
        dims = convert_to_tensor(static if static is not None else shape, name="shape")
        if dims._dims is None or len(dims._dims) != 1:  # one size, or nobody knows
            dims = raw_ops.Reshape(dims, [-1])
        return raw_ops.Fill(dims=dims, value=constant(value, dtype), name=scope)


def _static_shape(shape: TensorLike) -> TensorShape | None:
    """The shape that a non-tensor argument says in full, else None."""
    if isinstance(shape, Tensor):
        return None
    try:
        static = TensorShape(shape)
    except (TypeError, ValueError):
        return None
    return static if static.is_fully_defined() else None


def zeros_like(tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None,
               optimize: bool = True) -> Tensor:
    """Return zeros of the shape of `tensor`, and of its type unless `dtype` is given.

    With `optimize` a statically known shape makes a constant.
    """
    with name_scope(name, "zeros_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        wanted = dtypes.as_dtype(dtype or tensor.dtype).base_dtype
        if (optimize and tensor.shape.is_fully_defined()
                and tensor.dtype.base_dtype is not dtypes.variant):
            return zeros(tensor.shape, wanted, name=scope)
        if wanted is tensor.dtype.base_dtype:
            return raw_ops.ZerosLike(tensor, name=scope)
        result = zeros(raw_ops.Shape(tensor), wanted, name=scope)
        result.set_shape(tensor.shape)
        return result


def ones_like(tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None,
              optimize: bool = True) -> Tensor:
    """Return ones of the shape of `tensor`, and of its type unless `dtype` is given.

    With `optimize` a statically known shape makes a constant.
    """
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        wanted = dtypes.as_dtype(dtype or tensor.dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined():
            return ones(tensor.shape, wanted, name=scope)
        result = ones(raw_ops.Shape(tensor), wanted, name=scope)
        result.set_shape(tensor.shape)
        return result


# ---------------------------------------------------------------- Range, LinSpace


def _scalar_inputs(op: Operation) -> None:
    for arg, tensor in zip(op.op_def.inputs, op.inputs):
        if tensor._dims:
            raise ValueError(f"{arg.name} must be a scalar, but has shape {show(tensor._dims)}")


def range_length(start: Any, limit: Any, delta: Any) -> int:
    """The number of elements of a range; ``ValueError`` where there is no such range."""
    if delta == 0:
        raise ValueError("Requires delta != 0: 0")
    if not (limit - start if delta > 0 else start - limit) >= 0:  # one of them may be NaN
        relation, sign = ("<=", ">") if delta > 0 else (">=", "<")
        raise ValueError(f"Requires start {relation} limit when delta {sign} 0: "
                         f"{start}/{limit}")
    is_exact = isinstance(start, int)
    length = -((start - limit) // delta) if is_exact else np.ceil(abs((limit - start) / delta))
    if not length < 2 ** 63:
        raise ValueError(f"Requires ((limit - start) / delta) <= {2 ** 63 - 1}: "
                         f"({limit} - {start}) / {delta}")
    return int(length)


def _range_shape(op: Operation) -> list[Dims]:
    _scalar_inputs(op)
    values = known_values(op.inputs)
    return [(None if values is None else range_length(*(v.item() for v in values)),)]


register_op("Range", "start: Tidx; limit: Tidx; delta: Tidx", "output: Tidx",
            "Tidx: {bfloat16, half, float, double, int32, int64} = int32", shape=_range_shape)
not_differentiable("Range")


@register_constant_value("Range")
def _range_value(op: Operation) -> np.ndarray | None:
    values = known_values(op.inputs)
    if values is None:
        return None
    start, limit, delta = values
    length = range_length(start.item(), limit.item(), delta.item())
    if length > tuning.CONSTANT_MOST_KNOWN:
        return None
    return start + delta * np.arange(length, dtype=start.dtype)


def _lin_space_shape(op: Operation) -> list[Dims]:
    _scalar_inputs(op)
    num = constant_value(op.inputs[2])
    if num is not None and num.item() <= 0:
        raise ValueError(f"Requires num > 0: {num.item()}")
    return [(None if num is None else num.item(),)]


register_op("LinSpace", "start: T; stop: T; num: Tidx", "output: T",
            "T: {float, double}; Tidx: {int32, int64} = int32", shape=_lin_space_shape)
not_differentiable("LinSpace")

_RANGE_TYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


def range(start: TensorLike, limit: TensorLike | None = None, delta: TensorLike = 1,
          dtype: DTypeLike | None = None, name: str = "range") -> Tensor:
    """Return the 1-D tensor ``start, start + delta, ...`` up to but not including `limit`.

    ``range(limit)`` starts at 0. Without `dtype` the result has the widest type of the three
    in the order int32, int64, float32, float64.
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "range", [start, limit, delta]) as scope:
        ends = (("start", start), ("limit", limit), ("delta", delta))
        parts = [convert_to_tensor(v, dtype if not isinstance(v, Tensor) else None, n)
                 for n, v in ends]
        wanted = dtypes.as_dtype(dtype) if dtype is not None else max(
            (t.dtype.base_dtype for t in parts), key=_range_rank)
        parts = [t if t.dtype.base_dtype is wanted else raw_ops.Cast(t, DstT=wanted) for t in parts]
        return raw_ops.Range(*parts, name=scope)


def _range_rank(dtype: dtypes.DType) -> int:
    if dtype not in _RANGE_TYPES:
        raise TypeError(f"range takes {', '.join(t.name for t in _RANGE_TYPES)}; got {dtype.name}")
    return _RANGE_TYPES.index(dtype)


def linspace(start: TensorLike, stop: TensorLike, num: TensorLike,
             name: str | None = None) -> Tensor:
    """Return `num` evenly spaced values from `start` to `stop`, both included.

    Raises ``InvalidArgumentError`` (``ValueError`` where it is known) unless ``num > 0``.
    """
    return raw_ops.LinSpace(start=start, stop=stop, num=num, name=name)


lin_space = linspace
