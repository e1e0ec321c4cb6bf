"""Shapes as values, and changes of shape alone: Shape, Rank, Size, Reshape, Squeeze, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import constant, convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    constant_value,
    constant_value_as_dims,
    merge_dims,
    register_constant_shape,
    register_constant_value,
    scalar,
    show,
    with_rank,
)
from hpcflow.ops.common.static_shape import element_count, known_dims, normalize_axis, reshape_like
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.shapes import TensorShape, as_shape

__all__ = [
    "bitcast",
    "broadcast_dynamic_shape",
    "broadcast_static_shape",
    "expand_dims",
    "invert_permutation",
    "rank",
    "reshape",
    "shape",
    "shape_n",
    "size",
    "squeeze",
]

# ---------------------------------------------------------------- Shape, ShapeN, Rank, Size


def _shape_shape(op: Operation) -> list[Dims]:
    return [(None if t._dims is None else len(t._dims),) for t in op.inputs]


register_op("Shape", "input: T", "output: out_type", f"T: type; out_type: {INDEX} = int32",
            shape=_shape_shape)
register_op("ShapeN", "input: N * T", "output: N * out_type",
            f"N: int >= 1; T: type; out_type: {INDEX} = int32", shape=_shape_shape)
register_op("Rank", "input: T", "output: int32", "T: type", shape=scalar)
register_op("Size", "input: T", "output: out_type", f"T: type; out_type: {INDEX} = int32",
            shape=scalar)
not_differentiable("Shape", "ShapeN", "Rank", "Size")


@register_constant_value("Shape")
def _shape_value(op: Operation) -> np.ndarray | None:
    dims = known_dims(op.inputs[0])
    return None if dims is None else np.array(dims, dtype=op._attrs["out_type"].np)


@register_constant_shape("Shape")
def _shape_dims(op: Operation) -> Dims:
    return op.input_dims(0)


@register_constant_value("Rank")
def _rank_value(op: Operation) -> np.ndarray | None:
    dims = op.input_dims(0)
    return None if dims is None else np.array(len(dims), dtype=np.int32)


@register_constant_value("Size")
def _size_value(op: Operation) -> np.ndarray | None:
    count = element_count(op.input_dims(0))
    return None if count is None else np.array(count, dtype=op._attrs["out_type"].np)


def shape(input: TensorLike, name: str | None = None, out_type: DTypeLike = dtypes.int32) -> Tensor:
    """Return the shape of `input` as a 1-D tensor of `out_type` (int32 or int64)."""
    sparse = _sparse_shape(input)
    if sparse is not None:
        return raw_ops.Cast(sparse, DstT=out_type, name=name)
    input = convert_to_tensor(input)
    dims = known_dims(input)
    if dims is not None:
        return constant(dims, out_type, shape=[len(dims)], name=name or "Shape")
    return raw_ops.Shape(input, out_type=out_type, name=name)


def shape_n(input: TensorLike, out_type: DTypeLike = dtypes.int32,
            name: str | None = None) -> list[Tensor]:
    """Return the shapes of a list of tensors of one type."""
    return raw_ops.ShapeN(input=input, out_type=out_type, name=name)


def size(input: TensorLike, name: str | None = None, out_type: DTypeLike = dtypes.int32) -> Tensor:
    """Return the number of elements of `input` as a scalar of `out_type` (int32 or int64)."""
    sparse = _sparse_shape(input)
    if sparse is not None:
        return raw_ops.Prod(raw_ops.Cast(sparse, DstT=out_type), 0, name=name)
    input = convert_to_tensor(input)
    count = element_count(input._dims)
    if count is not None:
        return constant(count, out_type, name=name or "Size")
    return raw_ops.Size(input, out_type=out_type, name=name)


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the number of dimensions of `input` as an int32 scalar."""
    sparse = _sparse_shape(input)
    if sparse is not None:
        return raw_ops.Size(sparse, name=name)
    input = convert_to_tensor(input)
    if input._dims is not None:
        return constant(len(input._dims), dtypes.int32, name=name or "Rank")
    return raw_ops.Rank(input, name=name)


def _sparse_shape(value: TensorLike) -> Any:
    """The dense shape of a SparseTensor or its value; None for anything else."""
    if isinstance(value, (Tensor, IndexedSlices)) or not hasattr(value, "indices"):
        return None
    return getattr(value, "dense_shape", None)


# ---------------------------------------------------------------- Reshape


def _reshape_shape(op: Operation) -> list[Dims]:
    return [reshaped_dims(op)]


def reshaped_dims(op: Operation) -> Dims:
    """The shape that input 1 of `op` asks for input 0."""
    with_rank(op.input_dims(1), 1, "shape")
    value = constant_value(op.inputs[1])
    if value is not None:
        _check_requested(value)
    target = constant_value_as_dims(op.inputs[1])
    total = element_count(op.input_dims(0))
    if target is None or total is None:
        return target
    return _complete(target, total, op.input_dims(0))


def _check_requested(value: np.ndarray) -> None:
    if (value < -1).any() or (value == -1).sum() > 1:
        raise ValueError("shape may hold one -1 and otherwise no negative number, but is "
                         f"{value.tolist()}")


def _complete(target: tuple, total: int, dims: Dims) -> Dims:
    """Fill in the only unknown dimension of `target`, which must hold `total` elements."""
    known = element_count(tuple(d for d in target if d is not None)) or 0
    unknown = target.count(None)
    fits = total == known if not unknown else (known == 0 or total % known == 0)
    if not fits:
        if unknown:
            raise ValueError(f"Dimension size must be evenly divisible by {known} but is {total}: "
                             f"cannot reshape {show(dims)} to {show(target)}")
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {show(target)} "
                         f"({known} elements)")
    if unknown != 1 or known == 0:
        return target
    return tuple(total // known if d is None else d for d in target)


register_op("Reshape", "tensor: T; shape: Tshape", "output: T",
            f"T: type; Tshape: {INDEX} = int32", shape=_reshape_shape)


@register_constant_value("Reshape")
def _reshape_value(op: Operation) -> np.ndarray | None:
    dims = known_dims(op.outputs[0])
    value = constant_value(op.inputs[0]) if dims is not None else None
    return None if value is None else value.reshape(dims)


def reshape(tensor: TensorLike, shape: TensorLike, name: str | None = None) -> Tensor:
    """Return the elements of `tensor`, in the same order, in another shape.

    Args:
        tensor: any tensor.
        shape: 1-D integers; one of them may be -1: it is computed from the others.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) if the numbers of elements differ.
    """
    return raw_ops.Reshape(tensor=tensor, shape=shape, name=name)


# ---------------------------------------------------------------- ExpandDims, Squeeze


def _expand_dims_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    if dims is None:
        return [None]
    axis = constant_value(op.inputs[1])
    if axis is None:
        return [(None,) * (len(dims) + 1)]
    if axis.size != 1:
        raise ValueError("dim must be a tensor with a single value, but has shape "
                         f"{show(axis.shape)}")
    position, most = axis.item(), len(dims)
    if not -most - 1 <= position <= most:
        raise ValueError(f"dim {position} not in the interval [{-most - 1}, {most}].")
    position %= most + 1
    return [dims[:position] + (1,) + dims[position:]]


def _squeeze_shape(op: Operation) -> list[Dims]:
    dims, axes = op.input_dims(0), op._attrs["squeeze_dims"]
    if dims is None:
        return [None]
    if not axes:
        return [None if None in dims else tuple(d for d in dims if d != 1)]
    dropped = {normalize_axis(a, len(dims), "squeeze_dims") for a in axes}
    for axis in dropped:
        if dims[axis] not in (1, None):
            raise ValueError(f"Can not squeeze dim[{axis}], expected a dimension of 1, got "
                             f"{dims[axis]}: {show(dims)}")
    return [tuple(d for i, d in enumerate(dims) if i not in dropped)]


register_op("ExpandDims", "input: T; dim: Tdim", "output: T", f"T: type; Tdim: {INDEX} = int32",
            shape=_expand_dims_shape)
register_op("Squeeze", "input: T", "output: T", "T: type; squeeze_dims: list(int) = []",
            shape=_squeeze_shape)
register_constant_value("ExpandDims")(_reshape_value)
register_constant_value("Squeeze")(_reshape_value)


@RegisterGradient("Reshape")
def _reshape_grad(op: Operation, grad: Tensor) -> list:
    return [reshape_like(grad, op.inputs[0]), None]


@RegisterGradient("ExpandDims")
def _expand_dims_grad(op: Operation, grad: Tensor) -> list:
    return [reshape_like(grad, op.inputs[0]), None]


@RegisterGradient("Squeeze")
def _squeeze_grad(op: Operation, grad: Tensor) -> Tensor:
    return reshape_like(grad, op.inputs[0])


def expand_dims(input: TensorLike, axis: AxisLike | None = None, name: str | None = None,
                dim: AxisLike | None = None) -> Tensor:
    """Return `input` with a dimension of size 1 inserted before dimension `axis`.

    A negative `axis` counts from the end: -1 appends. `dim` is the old name of `axis`.
    """
    return raw_ops.ExpandDims(input=input, dim=_one_of("axis", axis, "dim", dim), name=name)


def squeeze(input: TensorLike, axis: AxisLike | None = None, name: str | None = None,
            squeeze_dims: Any = None) -> Tensor:
    """Return `input` without its dimensions of size 1, or without those listed in `axis`.

    `squeeze_dims` is the old name of `axis`. Raises ``ValueError`` (``InvalidArgumentError`` when
    run) if a listed dimension has another size.
    """
    if squeeze_dims is not None:
        axis = _one_of("axis", axis, "squeeze_dims", squeeze_dims)
    axes = [] if axis is None else np.reshape(axis, -1).tolist()
    return raw_ops.Squeeze(input=input, squeeze_dims=axes, name=name)


def _one_of(name: str, value: TensorLike | None, old_name: str, old_value: Any) -> Any:
    """The value given under the new or the old name of an argument."""
    if old_value is None:
        if value is None:
            raise ValueError(f"Must specify an {name} argument")
        return value
    if value is not None:
        raise ValueError(f"Cannot specify both '{name}' and '{old_name}'")
    return old_value


# ---------------------------------------------------------------- Bitcast


def _bitcast_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    old, new = op._attrs["T"].size, op._attrs["type"].size
    if dims is None or old == new:
        return [dims]
    if old > new:
        return [dims + (old // new,)]
    if not dims or dims[-1] not in (None, new // old):
        types = op._attrs["T"], op._attrs["type"]
        raise ValueError(f"Cannot bitcast from {types[0].as_datatype_enum} to "
                         f"{types[1].as_datatype_enum} ({types[0].name} to {types[1].name}). "
                         f"Cannot bitcast due to shape: the last dimension of {show(dims)} must "
                         f"be {new // old}")
    return [dims[:-1]]


_BITS = ("{bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, "
         "uint64, complex64, complex128, qint8, quint8, qint16, quint16, qint32}")  # fmt: skip
register_op("Bitcast", "input: T", "output: type", f"T: {_BITS}; type: {_BITS}",
            shape=_bitcast_shape)
not_differentiable("Bitcast")


def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """Return the bytes of `input` read as elements of another `type`, without any conversion.

    A smaller type adds a last dimension, a larger one consumes it. Raises ``ValueError`` if the
    last dimension does not make up one element.
    """
    return raw_ops.Bitcast(input=input, type=type, name=name)


# ---------------------------------------------------------------- shapes of broadcasts


def _broadcast_args_shape(op: Operation) -> list[Dims]:
    a, b = (with_rank(op.input_dims(i), 1, f"s{i}")[0] for i in (0, 1))
    return [(None if a is None or b is None else max(a, b),)]


def _two_vectors(op: Operation) -> list[Dims]:
    for i in (0, 1):
        with_rank(op.input_dims(i), 1, f"s{i}")
    return [(None,), (None,)]


register_op("BroadcastArgs", "s0: T; s1: T", "r0: T", f"T: {INDEX} = int32",
            shape=_broadcast_args_shape)
register_op("BroadcastGradientArgs", "s0: T; s1: T", "r0: T; r1: T", f"T: {INDEX} = int32",
            shape=_two_vectors)
register_op("InvertPermutation", "x: T", "y: T", f"T: {INDEX} = int32",
            shape=lambda op: [with_rank(op.input_dims(0), 1, "x")])
not_differentiable("BroadcastArgs", "BroadcastGradientArgs", "InvertPermutation")


@register_constant_shape("BroadcastArgs")
def _broadcast_args_dims(op: Operation) -> Dims:
    return broadcast_dims(*(constant_value_as_dims(t) for t in op.inputs))


@register_constant_value("BroadcastArgs")
def _broadcast_args_value(op: Operation) -> np.ndarray | None:
    dims = _broadcast_args_dims(op)
    return None if dims is None or None in dims else np.array(dims, op._attrs["T"].np)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Return the static shape of an element-wise result of the two static shapes.

    Raises ``ValueError`` if they cannot be broadcast together.
    """
    x, y = as_shape(shape_x), as_shape(shape_y)
    try:
        return TensorShape(broadcast_dims(x._dims, y._dims))
    except ValueError as error:
        raise ValueError(f"Incompatible shapes for broadcasting: {x} and {y}") from error


def broadcast_dynamic_shape(shape_x: TensorLike, shape_y: TensorLike) -> Tensor:
    """Return the shape (1-D) of an element-wise result of tensors of two shapes (1-D integers)."""
    shape_x = convert_to_tensor(shape_x, name="shape_x")
    return raw_ops.BroadcastArgs(s0=shape_x, s1=shape_y)


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Return ``y`` with ``y[x[i]] = i`` for a permutation `x` of ``0 .. n-1``.

    Raises ``InvalidArgumentError`` when run if `x` is none.
    """
    return raw_ops.InvertPermutation(x=x, name=name)

register_op("EnsureShape", "input: T", "output: T", "shape: shape; T: type",
            shape=lambda op: [merge_dims(op.input_dims(0), op._attrs["shape"]._dims)])


@RegisterGradient("EnsureShape")
def _ensure_shape_grad(op: Operation, grad: Tensor) -> Tensor:
    return grad


def ensure_shape(x: TensorLike, shape: TensorLike, name: str | None = None) -> Tensor:
    """Return `x`, known to have `shape`; where it has not, the step fails.

    Raises ``ValueError`` if the static shape cannot be it, ``InvalidArgumentError`` in the step.
    """
    return raw_ops.EnsureShape(input=x, shape=as_shape(shape), name=name)
