"""Queries of shape and gradient functions about statically known shapes and values.

What is known while the graph is built costs no nodes in a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value


def known_dims(tensor: Tensor) -> tuple[int, ...] | None:
    """The dims of `tensor` if all are known statically, else None."""
    dims = tensor._dims
    return None if dims is None or None in dims else dims


def shape_of(tensor: Tensor, out_type: dtypes.DType = dtypes.int32) -> Any:
    """The shape of `tensor`: an array where it is known statically, else a Shape op's output."""
    dims = known_dims(tensor)
    if dims is not None:
        return np.array(dims, dtype=out_type.np)
    return raw_ops.Shape(input=tensor, out_type=out_type)


def rank_of(tensor: Tensor) -> Any:
    """The rank of `tensor`: an int32 number where it is known statically, else a Rank op's output.
    """
    if tensor._dims is not None:
        return np.int32(len(tensor._dims))
    return raw_ops.Rank(input=tensor)


def reshape_like(value: TensorLike, model: Tensor) -> Tensor:
    """`value` reshaped to the shape of `model`; itself if its shape is known to be that already."""
    dims = known_dims(model)
    if dims is not None and isinstance(value, Tensor) and value._dims == dims:
        return value
    return raw_ops.Reshape(tensor=value, shape=shape_of(model))


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; ``ValueError`` unless ``-rank <= axis < rank``."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} = {axis} not in [{-rank}, {rank}): it is out of range")
    return axis + rank if axis < 0 else axis


def element_count(dims: Dims) -> int | None:
    """The number of elements of a shape, or None if it is not fully known."""
    if dims is None or None in dims:
        return None
    total = 1
    for dim in dims:
        total *= dim
    return total


def known_values(tensors: Iterable[Tensor]) -> list[np.ndarray] | None:
    """The values of all `tensors` if they follow from the graph alone, else None."""
    values = []
    for tensor in tensors:
        value = constant_value(tensor)
        if value is None:
            return None
        values.append(value)
    return values


def known_elements(tensor: Tensor) -> list | None:
    """The elements of a 1-D integer tensor, None for each unknown one; None: not even how many."""
    value = constant_value(tensor)
    if value is not None:
        return value.reshape(-1).tolist()
    if tensor.op.type == "Pack" and tensor._dims == (len(tensor.op.inputs),):
        items = [constant_value(t) for t in tensor.op.inputs]
        return [None if v is None else v.item() for v in items]
    length = tensor._dims[0] if tensor._dims else None
    return None if length is None else [None] * length
