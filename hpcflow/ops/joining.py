"""Joining and splitting tensors: Pack, Unpack, Concat, Split and their relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    merge_dims,
    register_constant_shape,
    register_constant_value,
    show,
)
from hpcflow.ops.static_shape import normalize_axis

__all__ = ["stack", "unstack"]

_INDEX = "{int32, int64}"

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
    values = []
    for tensor in op.inputs:
        value = constant_value(tensor)
        if value is None:
            return None
        values.append(value)
    return np.stack(values, op._attrs["axis"])


@register_constant_shape("Pack")
def _pack_dims(op: Operation) -> Dims:
    """Scalars packed to a shape: those that are known."""
    dims = []
    for tensor in op.inputs:
        if tensor._dims != ():
            return None
        value = constant_value(tensor)
        dims.append(None if value is None or value < 0 else int(value))
    return tuple(dims)


@RegisterGradient("Pack")
def _pack_grad(op: Operation, grad: Tensor) -> list[Tensor]:
    return raw_ops.Unpack(grad, num=len(op.inputs), axis=op._attrs["axis"])


@RegisterGradient("Unpack")
def _unpack_grad(op: Operation, *grads: Tensor) -> Tensor:
    return raw_ops.Pack(list(grads), axis=op._attrs["axis"])


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Return the tensors of the list `values`, all of one shape, joined along a new dimension.

    Args:
        values: tensors of rank R.
        axis: position of the new dimension in the result, in ``[-(R+1), R+1)``.
        name: name of the operation.

    Raises ``ValueError`` if shapes differ or `axis` is out of range.
    """
    if axis == 0:  # plain numbers make one constant, anything else a Pack
        return convert_to_tensor(values, name=name)
    return raw_ops.Pack(values=values, axis=axis, name=name)


def unstack(value: Any, num: int | None = None, axis: int = 0,
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
            raise ValueError(f"Cannot infer num from shape {show(dims)}")
    return raw_ops.Unpack(value=value, num=num, axis=axis, name=name)
