"""What gradient functions ask about static shapes, so that known shapes cost no nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops


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


def reshape_like(value: Any, model: Tensor) -> Tensor:
    """`value` reshaped to the shape of `model`; itself if its shape is known to be that already."""
    dims = known_dims(model)
    if dims is not None and isinstance(value, Tensor) and value._dims == dims:
        return value
    return raw_ops.Reshape(tensor=value, shape=shape_of(model))


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; ``ValueError`` unless ``-rank <= axis < rank``."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} must be in [{-rank}, {rank}), but is {axis}")
    return axis + rank if axis < 0 else axis


def element_count(dims: Dims) -> int | None:
    """The number of elements of a shape, or None if it is not fully known."""
    if dims is None or None in dims:
        return None
    total = 1
    for dim in dims:
        total *= dim
    return total
