"""Joining and splitting tensors: Pack, Unpack, Concat, Split and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_n_to_tensor, convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_more
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dims,
    register_constant_shape,
    register_constant_value,
    show,
)
from hpcflow.ops.common.static_shape import (
    known_dims,
    known_elements,
    known_values,
    normalize_axis,
    rank_of,
)
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.shapes import Dimension

__all__ = ["concat", "parallel_stack", "split", "stack", "unstack"]

# ---------------------------------------------------------------- Pack, Unpack


def _pack_shape(op: Operation) -> list[Dims]:
    dims: Dims = None
    for tensor in op.inputs:
        dims = merge_dims(dims, tensor._dims)
    if dims is None:
        return [None]
    axis = normalize_axis(op._attrs["axis"], len(dims) + 1)
    return [dims[:axis] + (len(op.inputs),) + dims[axis:]]


def _unpack_shape(op: Operation) -> list[Dims]:
    num, dims = op._attrs["num"], op.input_dims(0)
    if dims is None:
        return [None] * num
    axis = normalize_axis(op._attrs["axis"], len(dims))
    if dims[axis] not in (None, num):
        raise ValueError(f"dimension {axis} of {show(dims)} must be num = {num}")
    return [dims[:axis] + dims[axis + 1 :]] * num


register_op("Pack", "values: N * T", "output: T", "N: int >= 1; T: type; axis: int = 0",
            shape=_pack_shape)
register_op("Unpack", "value: T", "output: num * T", "num: int; T: type; axis: int = 0",
            shape=_unpack_shape)


@register_constant_value("Pack")
def _pack_value(op: Operation) -> np.ndarray | None:
    values = known_values(op.inputs)
    return None if values is None else np.stack(values, op._attrs["axis"])


@register_constant_shape("Pack")
def _pack_dims(op: Operation) -> Dims:
    """Scalars packed to a shape: those that are known."""
    if op.outputs[0]._dims != (len(op.inputs),):
        return None
    values = known_elements(op.outputs[0]) or []
    return tuple(None if v is None or v < 0 else v for v in values)


@RegisterGradient("Pack")
def _pack_grad(op: Operation, grad: Tensor) -> list[Tensor]:
    return raw_ops.Unpack(grad, num=len(op.inputs), axis=op._attrs["axis"])


@RegisterGradient("Unpack")
def _unpack_grad(op: Operation, *grads: Tensor) -> Tensor:
    return raw_ops.Pack(list(grads), axis=op._attrs["axis"])


def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Tensor:
    """Return the tensors of the list `values`, all of one shape, joined along a new dimension.

    Args:
        values: tensors of rank R.
        axis: position of the new dimension in the result, in ``[-(R+1), R+1)``.
        name: name of the operation.

    Raises ``ValueError`` if shapes differ or `axis` is out of range.
    """
    tensors = isinstance(values, (list, tuple)) and all(isinstance(v, Tensor) for v in values)
    if axis == 0 and not tensors:  # plain numbers make one constant, anything else a Pack
        return convert_to_tensor(values, name=name)
    return raw_ops.Pack(values=values, axis=axis, name=name)


def unstack(value: TensorLike, num: int | None = None, axis: int = 0,
            name: str = "unstack") -> list[Tensor]:
    """Return the slices of `value` along dimension `axis`, as a list of tensors of rank R-1.

    `num` is the size of that dimension, needed where it is not known statically. Raises
    ``ValueError`` if it is neither given nor known, or if it is wrong.
    """
    if num is None:
        value = convert_to_tensor(value)
        dims = value._dims
        if dims is not None:
            num = dims[normalize_axis(axis, len(dims))]
        if num is None:
            raise ValueError(f"Cannot infer num from shape {value.shape}")
    return raw_ops.Unpack(value=value, num=num, axis=axis, name=name)


# ---------------------------------------------------------------- Concat, ConcatV2, ConcatOffset


def _concat_args(op: Operation) -> tuple[Tensor, list[Tensor]]:
    """The axis and the values of Concat or ConcatV2."""
    axis = "axis" if op.type == "ConcatV2" else "concat_dim"
    return op.input_arg(axis)[0], op.input_arg("values")


def _concat_shape(op: Operation) -> list[Dims]:
    return [joined_dims(*_concat_args(op))]


def joined_dims(axis_tensor: Tensor, values: list[Tensor]) -> Dims:
    """The shape of `values` joined along an axis, as far as they are known."""
    if axis_tensor._dims:
        raise ValueError(f"the axis must be a scalar, but has shape {show(axis_tensor._dims)}")
    rank = _common_rank(values)
    axis = constant_value(axis_tensor)
    if rank is None:
        return None
    if rank == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    if axis is None:
        return (None,) * rank
    return _joined_dims(values, rank, normalize_axis(axis.item(), rank))


def _common_rank(values: list[Tensor]) -> int | None:
    known = [t for t in values if t._dims is not None]
    for tensor in known[1:]:
        if len(tensor._dims or ()) != len(known[0]._dims or ()):
            raise ValueError(f"Shape must be rank {len(known[0]._dims or ())} but is rank "
                             f"{len(tensor._dims or ())}: the shapes are {show(known[0]._dims)} "
                             f"and {show(tensor._dims)}")
    return len(known[0]._dims or ()) if known else None


def _joined_dims(values: list[Tensor], rank: int, axis: int) -> Dims:
    """The merged shapes of `values` with the sum of their sizes at `axis`."""
    others: Dims = (None,) * rank
    total: int | None = 0
    for tensor in values:
        dims = tensor._dims or (None,) * rank
        others = merge_dims(others, dims[:axis] + (None,) + dims[axis + 1 :])
        size = dims[axis]
        total = None if total is None or size is None else total + size
    return (others or ())[:axis] + (total,) + (others or ())[axis + 1 :]


def _concat_offset_shape(op: Operation) -> list[Dims]:
    return [t._dims for t in op.inputs[1:]]


register_op("Concat", "concat_dim: int32; values: N * T", "output: T", "N: int >= 2; T: type",
            shape=_concat_shape)
register_op("ConcatV2", "values: N * T; axis: Tidx", "output: T",
            f"N: int >= 2; T: type; Tidx: {INDEX} = int32", shape=_concat_shape)
register_op("ConcatOffset", "concat_dim: int32; shape: N * int32", "offset: N * int32",
            "N: int >= 2", shape=_concat_offset_shape)
not_differentiable("ConcatOffset")


@register_constant_value("Concat")
@register_constant_value("ConcatV2")
def _concat_value(op: Operation) -> np.ndarray | None:
    axis, values = _concat_args(op)
    known = known_values([axis, *values])
    return None if known is None else np.concatenate(known[1:], int(known[0]))


@register_constant_shape("Concat")
@register_constant_shape("ConcatV2")
def _concat_dims(op: Operation) -> Dims:
    """Parts of a shape put together, as far as they are known."""
    dims: tuple = ()
    for tensor in _concat_args(op)[1]:
        part = constant_value_as_dims(tensor)
        if part is None:
            return None
        dims += part
    return dims


@RegisterGradient("Concat")
def _concat_grad(op: Operation, grad: Tensor) -> list:
    return [None, *_split_like(grad, *_concat_args(op))]


@RegisterGradient("ConcatV2")
def _concat_v2_grad(op: Operation, grad: Tensor) -> list:
    return [*_split_like(grad, *_concat_args(op)), None]


def _split_like(grad: Tensor, axis_tensor: Tensor, values: list[Tensor]) -> list[Tensor]:
    """`grad` split along the axis into parts of the shapes of `values`."""
    axis, rank = constant_value(axis_tensor), _common_rank(values)
    if axis is not None and rank is not None:
        position = normalize_axis(axis.item(), rank)
        sizes = [t._dims[position] if t._dims is not None else None for t in values]
        if None not in sizes:
            return raw_ops.SplitV(grad, np.array(sizes, np.int32), np.int32(position),
                                  num_split=len(sizes))
    shapes = raw_ops.ShapeN(values)
    axis_tensor = raw_ops.FloorMod(axis_tensor, rank_of(values[0]))
    offsets = raw_ops.ConcatOffset(axis_tensor, shapes)
    return [raw_ops.Slice(grad, begin, size) for begin, size in zip(offsets, shapes)]


def concat(values: Sequence[Any], axis: TensorLike, name: str = "concat") -> Tensor:
    """Return the tensors of the list `values` joined along dimension `axis`.

    Args:
        values: tensors of one rank R > 0 whose shapes are equal but for that dimension; a single
            tensor is returned as it is.
        axis: an integer (or scalar tensor) in ``[-R, R)``.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) if the shapes do not fit.
    """
    if isinstance(values, (int, np.integer)) and isinstance(axis, (list, tuple)):
        values, axis = axis, values  # the order of 0.x
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with name_scope(name, "concat", list(values)) as scope:
            axis = convert_to_tensor(axis, dtypes.int32, name="concat_dim")
            axis.get_shape().assert_is_compatible_with(())
            return raw_ops.Identity(values[0], name=scope)
    return raw_ops.ConcatV2(values=list(values), axis=axis, name=name)


def _parallel_concat_shape(op: Operation) -> list[Dims]:
    wanted = op._attrs["shape"]._dims
    for tensor in op.inputs:
        merge_dims(tensor._dims, wanted and (1,) + wanted[1:])
    return [wanted]


register_op("ParallelConcat", "values: N * T", "output: T", "N: int >= 1; T: type; shape: shape",
            shape=_parallel_concat_shape)


@RegisterGradient("ParallelConcat")
def _parallel_concat_grad(op: Operation, grad: Tensor) -> list[Tensor]:
    return raw_ops.Split(0, grad, num_split=len(op.inputs))


def parallel_stack(values: Sequence[TensorLike], name: str = "parallel_stack") -> Tensor:
    """Return the tensors of the list `values`, all of one known shape, stacked along axis 0.

    Raises ``ValueError`` if the shape is not fully known.
    """
    with name_scope(name, "parallel_stack", list(values)):
        tensors = convert_n_to_tensor(list(values))
        dims = known_dims(tensors[0])
        if dims is None:
            raise ValueError("parallel_stack needs a fully known shape, but has "
                             f"{show(tensors[0]._dims)}")
        rows = [raw_ops.ExpandDims(t, 0) for t in tensors]
        return raw_ops.ParallelConcat(rows, shape=(len(rows), *dims))


# ---------------------------------------------------------------- Split, SplitV


def _split_axis(axis_tensor: Tensor, dims: tuple) -> int | None:
    if axis_tensor._dims:
        raise ValueError(f"split_dim must be a scalar, but has shape {show(axis_tensor._dims)}")
    axis = constant_value(axis_tensor)
    return None if axis is None else normalize_axis(axis.item(), len(dims), "split_dim")


def _split_shape(op: Operation) -> list[Dims]:
    number, dims = op._attrs["num_split"], op.input_dims(1)
    if dims is None:
        return [None] * number
    axis = _split_axis(op.inputs[0], dims)
    if axis is None:
        return [(None,) * len(dims)] * number
    size = dims[axis]
    if size is not None and size % number:
        raise ValueError(f"Dimension size must be evenly divisible by {number} but is {size} "
                         f"(num_split should evenly divide it): "
                         f"dimension {axis} of {show(dims)} for num_split = {number}")
    part = None if size is None else size // number
    return [dims[:axis] + (part,) + dims[axis + 1 :]] * number


def _split_v_shape(op: Operation) -> list[Dims]:
    number, dims = op._attrs["num_split"], op.input_dims(0)
    merge_dims(op.input_dims(1), (number,))
    if dims is None:
        return [None] * number
    axis = _split_axis(op.inputs[2], dims)
    if axis is None:
        return [(None,) * len(dims)] * number
    sizes = _split_sizes(constant_value(op.inputs[1]), dims[axis], number)
    return [dims[:axis] + (size,) + dims[axis + 1 :] for size in sizes]


def _split_sizes(sizes: np.ndarray | None, total: int | None, number: int) -> list[int | None]:
    """The sizes of the parts, a -1 among them completed; ``ValueError`` if they do not fit."""
    if sizes is None:
        return [total] if number == 1 else [None] * number
    listed = sizes.tolist()
    rest = sum(s for s in listed if s >= 0)
    if min(listed) < -1 or listed.count(-1) > 1:
        place = next(i for i, s in enumerate(listed) if s < -1 or (s < 0 and -1 in listed[:i]))
        raise ValueError(f"Split size at index {place} must be >= 0 (one of them may be -1). "
                         f"Got: {listed[place]}")
    if total is not None and (rest > total if -1 in listed else rest != total):
        raise ValueError("Determined shape must either match input shape along the split "
                         f"dimension, which is {total}, or be less: size_splits is {listed}")
    missing = None if total is None else total - rest
    return [missing if s == -1 else s for s in listed]


register_op("Split", "split_dim: int32; value: T", "output: num_split * T",
            "num_split: int >= 1; T: type", shape=_split_shape)
register_op("SplitV", "value: T; size_splits: Tlen; split_dim: int32", "output: num_split * T",
            f"num_split: int >= 1; T: type; Tlen: {INDEX} = int64", shape=_split_v_shape)


def _join_like(grads: tuple, axis: Tensor) -> Tensor:
    return grads[0] if len(grads) == 1 else raw_ops.ConcatV2(list(grads), axis)


@RegisterGradient("Split")
def _split_grad(op: Operation, *grads: Tensor) -> list:
    return [None, _join_like(grads, op.inputs[0])]


@RegisterGradient("SplitV")
def _split_v_grad(op: Operation, *grads: Tensor) -> list:
    return [_join_like(grads, op.inputs[2]), None, None]


def split(value: TensorLike, num_or_size_splits: TensorLike, axis: TensorLike = 0,
          num: int | None = None, name: str = "split") -> list[Tensor]:
    """Return `value` split along dimension `axis`, as a list of tensors.

    Args:
        value: a tensor.
        num_or_size_splits: a Python integer: into that many equal parts; or a 1-D tensor or list
            with the size of each part, one of which may be -1.
        axis: an integer (or scalar tensor).
        num: the number of parts, needed where the length of `num_or_size_splits` is unknown.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) if the parts do not fit the dimension.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(axis, (int, np.integer)):
        value, axis = axis, value  # the order of 0.x
    if isinstance(num_or_size_splits, (int, np.integer, Dimension)):
        count_more(get_default_graph(), 1)  # the number, a tensor in the reference
        return raw_ops.Split(split_dim=axis, value=value, num_split=int(num_or_size_splits),
                             name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    if num is None:
        dims = sizes._dims
        num = dims[0] if dims else None
        if num is None:
            raise ValueError(f"Cannot infer num from shape {show(dims)} of the sizes")
    return raw_ops.SplitV(value=value, size_splits=sizes, split_dim=axis, num_split=num, name=name)
