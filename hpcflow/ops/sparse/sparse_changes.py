"""Sparse tensors with other elements, places or shapes, by functions over several ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import SparseTensorLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.sparse_tensor import SparseTensor, to_sparse
from hpcflow.ops.common.sparse_shapes import column, int64
from hpcflow.ops.flow.checks import assert_equal, assert_less_equal
from hpcflow.ops.sparse.sparse_layout import sparse_reorder, sparse_tensor_to_dense

__all__ = [
    "sparse_fill_empty_rows",
    "sparse_mask",
    "sparse_merge",
    "sparse_reset_shape",
    "sparse_retain",
    "sparse_slice",
    "sparse_to_indicator",
    "sparse_transpose",
]

_ROW, _ALL = np.array([-1], np.int32), np.array([-1, 1], np.int32)


def sparse_retain(sp_input: SparseTensorLike, to_retain: TensorLike) -> SparseTensor:
    """Return the elements for which the booleans `to_retain`, one per element, are true.

    Raises ``TypeError`` unless `sp_input` is sparse, ``ValueError`` for another number of booleans.
    """
    sparse = to_sparse(sp_input)
    to_retain = convert_to_tensor(to_retain, dtypes.bool)
    to_retain.get_shape().with_rank(1)[0].merge_with(sparse.values.get_shape().with_rank(1)[0])
    chosen = raw_ops.Reshape(raw_ops.Where(to_retain), _ROW)
    return SparseTensor(raw_ops.Gather(sparse.indices, chosen),
                        raw_ops.Gather(sparse.values, chosen),
                        raw_ops.Identity(sparse.dense_shape))


def sparse_reset_shape(sp_input: SparseTensorLike,
                       new_shape: TensorLike | None = None) -> SparseTensor:
    """Return the same elements in another dense shape of the same rank.

    Args:
        sp_input: a sparse tensor.
        new_shape: at least as large in every dimension (``InvalidArgumentError`` otherwise);
            None: the smallest that holds all elements.

    Raises ``TypeError`` unless `sp_input` is sparse, ``ValueError`` for a known other rank,
    or sizes that are known to be smaller.
    """
    sparse = to_sparse(sp_input)
    indices, values = raw_ops.Identity(sparse.indices), raw_ops.Identity(sparse.values)
    old = raw_ops.Identity(sparse.dense_shape)
    if new_shape is None:
        top = raw_ops.Max(indices, np.array([0], np.int32))
        # Without elements the largest place is the least number there is.
        shape = raw_ops.Maximum(raw_ops.Add(top, np.int64(1)), np.int64(0))
        return SparseTensor(indices, values, shape)
    wanted = convert_to_tensor(int64(new_shape), name="new_shape")
    known = wanted.get_shape().with_rank(1)[0]
    known.assert_is_compatible_with(old.get_shape().with_rank(1)[0])
    least, most = constant_value(sparse.dense_shape), constant_value(wanted)
    if least is not None and most is not None and (most < least).any():
        raise ValueError("new_shape should have dimension sizes >= sp_input.dense_shape, got "
                         f"{most.tolist()} and {least.tolist()}")
    with control_dependencies([assert_equal(raw_ops.Shape(old), raw_ops.Shape(wanted))]):
        old = raw_ops.Identity(old)
    with control_dependencies([assert_less_equal(old, wanted)]):
        return SparseTensor(indices, values, raw_ops.Identity(wanted))


def sparse_slice(sp_input: SparseTensorLike, start: TensorLike, size: TensorLike,
                 name: str | None = None) -> SparseTensor:
    """Return the part of a sparse tensor that begins at `start` and has at most `size`.

    `start` and `size` have a number for each dimension; the part ends where the tensor ends.
    Raises ``TypeError`` unless `sp_input` is sparse, and ``ValueError`` for other numbers of
    numbers.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseSlice", [sparse]):
        start = convert_to_tensor(int64(start), name="start")
        size = convert_to_tensor(int64(size), name="size")
        for given in (start, size):
            given.get_shape().assert_is_compatible_with(sparse.dense_shape.get_shape())
        # No end lies beyond the largest number.
        room = raw_ops.Sub(np.int64(2**63 - 1), raw_ops.Maximum(start, np.int64(0)))
        end = raw_ops.Minimum(raw_ops.Add(start, raw_ops.Minimum(size, room)), sparse.dense_shape)
        inside = raw_ops.All(
            raw_ops.LogicalAnd(raw_ops.GreaterEqual(sparse.indices, start),
                               raw_ops.Less(sparse.indices, end)), np.array([1], np.int32))
        kept = sparse_retain(sparse, inside)
        shape = raw_ops.Maximum(raw_ops.Sub(end, start), np.int64(0))
        return SparseTensor(raw_ops.Sub(kept.indices, start), kept.values, shape)


def sparse_fill_empty_rows(sp_input: SparseTensorLike, default_value: TensorLike,
                           name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Return (`sp_input` with an element in every row, which rows had none).

    Args:
        sp_input: a sparse tensor, of rank 2 as a rule.
        default_value: a scalar, the element at the start of rows that have none.
        name: name scope.

    The result is in row-major order; the second value holds a boolean per row.
    Raises ``TypeError`` unless `sp_input` is sparse.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [sparse]):
        kind = sparse.dtype.base_dtype
        default = convert_to_tensor(default_value, kind)
        rows = raw_ops.Cast(column(raw_ops.ExpandDims(sparse.dense_shape, 0), 0),
                            DstT=dtypes.int32)
        rows = raw_ops.Reshape(rows, np.zeros(0, np.int32))
        every = raw_ops.Cast(raw_ops.Range(np.int32(0), rows, np.int32(1)), DstT=dtypes.int64)
        empty, _ = raw_ops.ListDiff(every, column(sparse.indices, 0))
        indicator = raw_ops.SparseToDense(empty, raw_ops.ExpandDims(
            raw_ops.Size(every, out_type=dtypes.int64), 0), True, False)
        rest = raw_ops.Sub(raw_ops.Size(sparse.dense_shape), np.int32(1))
        zeros = raw_ops.Fill(raw_ops.Pack([raw_ops.Size(empty), rest], axis=0), np.int64(0))
        places = raw_ops.ConcatV2([raw_ops.Reshape(empty, _ALL), zeros], 1)
        added = raw_ops.Fill(raw_ops.Shape(empty), default)
        filled = SparseTensor(raw_ops.ConcatV2([sparse.indices, places], 0),
                              raw_ops.ConcatV2([sparse.values, added], 0), sparse.dense_shape)
        return sparse_reorder(filled), indicator


def sparse_transpose(sp_input: SparseTensorLike, perm: TensorLike | None = None,
                     name: str | None = None) -> SparseTensor:
    """Return the transposed tensor: dimension i is dimension ``perm[i]`` of `sp_input`.

    Without `perm` the dimensions are reversed. The result is in row-major order.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseTranspose", [sparse]):
        perm = _reversed_dimensions(sparse) if perm is None else convert_to_tensor(perm)
        swap = np.array([1, 0], np.int32)
        columns = raw_ops.Gather(raw_ops.Transpose(sparse.indices, swap), perm)
        order, shape = constant_value(perm), constant_value(sparse.dense_shape)
        shape = raw_ops.Gather(sparse.dense_shape, perm) if order is None or shape is None else (
            shape[order])
        moved = SparseTensor(raw_ops.Transpose(columns, swap), sparse.values, shape)
        return sparse_reorder(moved)


def _reversed_dimensions(sparse: SparseTensor) -> Tensor:
    rank = sparse.dense_shape._dims[0] if sparse.dense_shape._dims else None
    if rank is not None:
        return convert_to_tensor(np.arange(rank, dtype=np.int32)[::-1])
    size = raw_ops.Size(sparse.dense_shape)
    return raw_ops.Sub(raw_ops.Sub(size, np.int32(1)),
                       raw_ops.Range(np.int32(0), size, np.int32(1)))


def sparse_merge(sp_ids: Any, sp_values: SparseTensor, vocab_size: Any, name: str | None = None,
                 already_sorted: bool = False) -> SparseTensor:
    """Return the tensor whose last dimension is told by ids: ``result[..., id] = value``.

    Args:
        sp_ids: ids, int32 or int64, or a list of such tensors for several last dimensions.
        sp_values: values at the same places.
        vocab_size: the size of the last dimension (a list, of each).
        name: name scope.
        already_sorted: the result needs no reordering.

    Raises ``TypeError`` for what is not sparse, ``ValueError`` for lists of different lengths.
    """
    several = isinstance(sp_ids, (list, tuple)) and not hasattr(sp_ids, "_fields")
    ids = [to_sparse(s) for s in (sp_ids if several else [sp_ids])]
    sizes = list(vocab_size) if several else [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError(f"sp_ids and vocab_size must have equal lengths: {len(ids)} and "
                         f"{len(sizes)}")
    values = to_sparse(sp_values)
    with name_scope(name, "SparseMerge", [*ids, values]):
        kept = raw_ops.StridedSlice(ids[0].indices, [0, 0], [0, -1], [1, 1], begin_mask=3,
                                    end_mask=1)
        places = [kept, *[raw_ops.Reshape(int64(i.values), _ALL) for i in ids]]
        outer = raw_ops.StridedSlice(ids[0].dense_shape, [0], [-1], [1], begin_mask=1)
        shape = [outer, *[_row(int64(n)) for n in sizes]]
        merged = SparseTensor(raw_ops.ConcatV2(places, 1), values.values,
                              raw_ops.ConcatV2(shape, 0))
        return merged if already_sorted else sparse_reorder(merged)


def _row(number: np.ndarray) -> Any:
    return raw_ops.Reshape(number, _ROW) if isinstance(number, Tensor) else np.reshape(number, 1)


def sparse_to_indicator(sp_input: SparseTensorLike, vocab_size: Any,
                        name: str | None = None) -> Tensor:
    """Return booleans ``[..., vocab_size]``: whether the id occurs in its row of `sp_input`.

    Raises ``TypeError`` unless `sp_input` is sparse, ``InvalidArgumentError`` when run for ids
    outside of ``[0, vocab_size)``.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [sparse]) as scope:
        ones = raw_ops.Fill(raw_ops.Shape(sparse.values), True)
        present = SparseTensor(sparse.indices, ones, sparse.dense_shape)
        merged = sparse_merge(sparse, present, vocab_size)
        return sparse_tensor_to_dense(merged, False, validate_indices=False, name=scope)


def sparse_mask(a: IndexedSlices, mask_indices: TensorLike,
                name: str | None = None) -> IndexedSlices:
    """Return the rows of IndexedSlices `a` whose numbers are not in `mask_indices`."""
    with name_scope(name, "sparse_mask", [a, mask_indices]):
        indices = a.indices
        kept, places = raw_ops.ListDiff(indices, convert_to_tensor(
            mask_indices, indices.dtype.base_dtype))
        return IndexedSlices(raw_ops.Gather(a.values, places), kept, a.dense_shape)
