"""Sums and means of table rows for sparse sets of ids: embedding_lookup_sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import SparseTensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import embedding_lookup

__all__ = ["embedding_lookup_sparse"]

_SPARSE_SEGMENT = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean",
                   "sqrtn": "SparseSegmentSqrtN"}


def embedding_lookup_sparse(params: Any, sp_ids: SparseTensorLike,
                            sp_weights: SparseTensorLike | None, partition_strategy: str = "mod",
                            name: str | None = None, combiner: str | None = None,
                            max_norm: float | None = None) -> Tensor:
    """Return for each row of ids the combination of their rows of a table.

    Args:
        params: the table or its parts, as of ``embedding_lookup``.
        sp_ids: sparse int32 or int64 ids, shape ``[rows, ids]``; no row before the last is empty.
        sp_weights: sparse floats with the same indices, or None for ones.
        partition_strategy: "mod" or "div".
        name: name scope.
        combiner: "sum": Σ w x; "mean" (the default): Σ w x / Σ w; "sqrtn": Σ w x / √(Σ w²).
        max_norm: rows of the table longer than this are shortened to it.

    Rows of half precision are combined in, and returned as, float32.

    Raises: ``ValueError`` for another combiner or, with weights, a table of unknown rank;
        ``TypeError`` for ids that are not sparse.
    """
    combiner = combiner or "mean"
    if combiner not in _SPARSE_SEGMENT:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}")
    for what, value in (("sp_ids", sp_ids), ("sp_weights", sp_weights)):
        if value is not None and not (hasattr(value, "indices") and hasattr(value, "values")):
            raise TypeError(f"{what} must be a SparseTensor, got {value!r}")
    if sp_ids is None:
        raise TypeError("sp_ids must be a SparseTensor, got None")
    with name_scope(name, "embedding_lookup_sparse", [sp_ids.values]) as scope:
        rows = _row_numbers(sp_ids.indices)
        ids, places = raw_ops.Unique(convert_to_tensor(sp_ids.values))
        table = embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        if table.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16):
            table = raw_ops.Cast(table, DstT=dtypes.float32)  # sums of halves lose digits
        if sp_weights is None:
            return getattr(raw_ops, _SPARSE_SEGMENT[combiner])(table, places, rows, name=scope)
        weights = convert_to_tensor(sp_weights.values)
        return _weighted(table, places, rows, weights, combiner, scope)


def _row_numbers(indices: Tensor) -> Tensor:
    """The first column of the indices, int32."""
    first = raw_ops.StridedSlice(convert_to_tensor(indices, dtypes.int64), [0, 0], [0, 1], [1, 1],
                                 begin_mask=1, end_mask=1, shrink_axis_mask=2)
    return raw_ops.Cast(first, DstT=dtypes.int32)


def _weighted(table: Tensor, places: Tensor, rows: Tensor, weights: Tensor, combiner: str,
              name: str) -> Tensor:
    """The combination with weights; weights and sums get the rank of the table's rows."""
    values = raw_ops.Gather(table, places)
    if weights.dtype.base_dtype is not values.dtype.base_dtype:
        weights = raw_ops.Cast(weights, DstT=values.dtype.base_dtype)
    if values._dims is None:
        raise ValueError("embedding_lookup_sparse: the rank of the table must be known where there "
                         "are weights")
    weights = raw_ops.Reshape(weights, np.array([-1] + [1] * (len(values._dims) - 1), np.int32))
    total = raw_ops.SegmentSum(raw_ops.Mul(values, weights), rows)
    if combiner == "sum":
        return raw_ops.Identity(total, name=name)
    # Rows without entries are zeros, whatever the combination.
    if combiner == "mean":
        return raw_ops.DivNoNan(total, raw_ops.SegmentSum(weights, rows), name=name)
    squares = raw_ops.SegmentSum(raw_ops.Square(weights), rows)
    return raw_ops.DivNoNan(total, raw_ops.Sqrt(squares), name=name)
