"""Dense tensors as sparse ones, and the lengths of sparse rows."""

from __future__ import annotations

import numbers
from typing import Any

import hpcflow as hf
from hpcflow.contrib.layers.sequences import sparse_without
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import SparseTensor


def dense_to_sparse_tensor(dense_tensor: TensorLike, ignore_value: Any = None) -> SparseTensor:
    """Return the elements other than `ignore_value`: 0, False or "" if that is None."""
    with hf.name_scope(None, "DenseToSparseTensor", [dense_tensor]):
        dense_tensor = hf.convert_to_tensor(dense_tensor)
        return sparse_without(dense_tensor, _ignored(dense_tensor, ignore_value))


def _ignored(tensor: Tensor, value: Any) -> Any:
    if value is not None:
        return value
    kind = tensor.dtype.base_dtype
    return "" if kind == hf.string else kind.as_numpy_dtype()


def indicators_to_sparse_ids(indicators: TensorLike, ignore_value: Any = None,
                             dtype: DTypeLike = hf.int64) -> SparseTensor:
    """Return for each row the places of its elements other than `ignore_value`.

    Args:
        indicators: ``[..., classes]``.
        ignore_value: as of :func:`dense_to_sparse_tensor`.
        dtype: an integer type, of the result.

    Returns: a sparse tensor ``[..., the most that a row has]`` of numbers of classes.

    Raises ``ValueError`` for another type.
    """
    if not hf.as_dtype(dtype).is_integer:
        raise ValueError(f"Invalid dtype {dtype} not integer.")
    with hf.name_scope(None, "indicators_to_sparse_ids", [indicators, ignore_value]):
        indicators = hf.convert_to_tensor(indicators, name="indicators")
        missing = hf.constant(_ignored(indicators, ignore_value), indicators.dtype)
        there = hf.cast(hf.not_equal(indicators, missing), hf.int64)
        places: Any = sparse_without(there * hf.cumsum(there, axis=-1), 0)  # from 1 on, by row
        indices = hf.concat([places.indices[:, :-1],
                             hf.reshape(places.values - 1, [-1, 1])], 1)
        most = hf.reshape(hf.reduce_max(hf.reduce_sum(there, -1)), [1])
        return SparseTensor(indices, hf.cast(places.indices[:, -1], dtype),
                            hf.concat([places.dense_shape[:-1], most], 0))


def sparse_row_envelope(sparse_input: SparseTensor, row_axis: int = 0, col_axis: int = 1,
                        name: str | None = None) -> Tensor:
    """Return for each row the highest column that it has an element in, plus 1; 0 for none.

    Raises ``ValueError`` for axes that are equal, or no integers.
    """
    if not (isinstance(row_axis, numbers.Integral) and isinstance(col_axis, numbers.Integral)):
        raise ValueError("`row_axis` and `col_axis` must be integers.")
    if row_axis == col_axis:
        raise ValueError("Row and column can not be the same axis.")
    with hf.name_scope(name, "sparse_row_envelope", [sparse_input]):
        indices: Any = sparse_input.indices
        rows = hf.cast(sparse_input.dense_shape[row_axis], hf.int32)  # type: ignore[index]
        ends = hf.unsorted_segment_max(indices[:, col_axis] + 1, indices[:, row_axis], rows)
        return hf.maximum(ends, hf.zeros_like(ends))
