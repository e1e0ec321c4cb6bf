"""Places in sorted rows: searchsorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    merge_dims,
    unchanged,
    with_rank,
)
from hpcflow.ops.common.static_shape import shape_of
from hpcflow.ops.common.type_sets import INDEX

__all__ = ["searchsorted"]


def searchsorted(sorted_sequence: TensorLike, values: Nest, side: str = "left",
                 out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Return where each of `values` would be put into its sorted row.

    Args:
        sorted_sequence: ``[..., N]``, ascending along the last dimension.
        values: ``[..., M]``, with the same dimensions before the last.
        side: "left" for the place before equal elements, "right" for that after them.
        out_type: int32 or int64.
        name: name of the operation.

    Returns a tensor of the shape of `values`. Raises ``ValueError`` for another `side`.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be either 'right' or 'left', got {side!r}")
    find = raw_ops.LowerBound if side == "left" else raw_ops.UpperBound
    with name_scope(name, "searchsorted", [sorted_sequence, values]) as scope:
        rows = convert_to_tensor(sorted_sequence)
        values = convert_to_tensor(values, rows.dtype.base_dtype)
        places = find(_as_matrix(rows), _as_matrix(values), out_type=out_type)
        return raw_ops.Reshape(places, shape_of(values), name=scope)


def _as_matrix(rows: Tensor) -> Tensor:
    size = raw_ops.StridedSlice(raw_ops.Shape(rows), np.array([-1], np.int32),
                                np.zeros(1, np.int32), np.ones(1, np.int32), end_mask=1)
    return raw_ops.Reshape(rows, raw_ops.ConcatV2([np.array([-1], np.int32), size], np.int32(0)))

# ---------------------------------------------------------------- op types


def _bound_shape(op: Operation) -> list[Dims]:
    rows, values = with_rank(op.input_dims(0), 2), with_rank(op.input_dims(1), 2)
    return [(merge_dims(rows[:1], values[:1]) or ()) + values[1:]]


for _op_type in ("LowerBound", "UpperBound"):
    register_op(_op_type, "sorted_inputs: T; values: T", "output: out_type",
                f"T: type; out_type: {INDEX} = int32", shape=_bound_shape)
register_op("Bucketize", "input: T", "output: int32",
            "T: {int32, int64, float, double}; boundaries: list(float)", shape=unchanged)
not_differentiable("LowerBound", "UpperBound", "Bucketize")
