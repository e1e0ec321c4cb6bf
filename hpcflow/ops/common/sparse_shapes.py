"""Helpers of shape functions and gradients of sparse ops: checks of the three parts, positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dim, with_rank


def sparse_parts(op: Operation, first: int = 0) -> tuple[int | None, int | None]:
    """Check the shapes of a sparse tensor's three inputs from position `first` on.

    Returns (number of elements, rank), None for what is unknown.
    """
    indices = with_rank(op.input_dims(first), 2, "indices")
    values = with_rank(op.input_dims(first + 1), 1, "values")
    shape = with_rank(op.input_dims(first + 2), 1, "shape")
    return merge_dim(indices[0], values[0]), merge_dim(indices[1], shape[0])


def new_sparse(rank: int | None) -> list[Dims]:
    """Return the shapes of the three parts of a sparse result, of which only the rank is known."""
    return [(None, rank), (None,), (rank,)]


def dense_dims(op: Operation, index: int) -> Dims:
    """The dense shape that input `index` holds, as far as it is known."""
    return constant_value_as_dims(op.inputs[index])


def column(places: TensorLike, index: int) -> Tensor:
    """Return one column of a matrix of indices."""
    return raw_ops.StridedSlice(places, [0, index], [0, index + 1], [1, 1], begin_mask=1,
                                end_mask=1, shrink_axis_mask=2)


def int64(value: TensorLike) -> Any:
    """`value` as int64: arrays and lists at once, tensors by a Cast if needed, also in a list."""
    if isinstance(value, Tensor):
        if value.dtype.base_dtype is dtypes.int64:
            return value
        return raw_ops.Cast(value, DstT=dtypes.int64)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return raw_ops.Pack([int64(part) for part in value])
    return np.asarray(value, np.int64)


def only_one(name: str, value: TensorLike, old_name: str, old_value: Any) -> Any:
    """Return an argument that is given under its name or its deprecated name.

    Raises ``ValueError`` if both are, or none.
    """
    if value is not None and old_value is not None:
        raise ValueError(f"Cannot specify both '{name}' and '{old_name}'")
    if value is None and old_value is None:
        raise ValueError(f"{name} is required: '{name}' must be specified")
    return old_value if value is None else value
