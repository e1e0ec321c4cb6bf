"""Reductions over segments of rows: by sorted ids, by any ids, and of gathered rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor, register_tensor_conversion_function
from hpcflow.graph.graph import name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    known_number,
    merge_dim,
    merge_dims,
    show,
    with_rank,
    with_rank_at_least,
)
from hpcflow.ops.common.type_sets import ANY_FLOAT, INDEX, ORDERED, SUMMED

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "sparse_segment_mean",
    "sparse_segment_sqrt_n",
    "sparse_segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]

# ---------------------------------------------------------------- signatures


def _segment_shape(op: Operation) -> list[Dims]:
    """One row per segment: the last id counts them where it is known."""
    data = with_rank_at_least(op.input_dims(0), 1, "data")
    ids = with_rank(op.input_dims(1), 1, "segment_ids")
    if data is None:
        return [None]
    # As many ids as rows: this is left to the kernel, programs expect its error from the step.
    known = constant_value(op.inputs[1])
    rows = None
    if known is not None and data[0] in (None, ids[0]) and (known[-1:] >= 0).all():
        rows = int(known[-1]) + 1 if known.size else 0
    return [(rows, *data[1:])]


for _op_type, _types in (("SegmentSum", SUMMED), ("SegmentProd", SUMMED), ("SegmentMean", SUMMED),
                         ("SegmentMin", ORDERED), ("SegmentMax", ORDERED)):
    register_op(_op_type, "data: T; segment_ids: Tindices", "output: T",
                f"T: {_types}; Tindices: {INDEX}", shape=_segment_shape)


def _unsorted_shape(op: Operation) -> list[Dims]:
    data, ids = op.input_dims(0), op.input_dims(1)
    count = known_number(op, 2)
    if data is None or ids is None:
        return [None]
    if len(ids) > len(data):
        raise ValueError(f"data {show(data)} must start with the shape of segment_ids {show(ids)}")
    merge_dims(ids, data[: len(ids)])
    if count is not None and count < 0:
        raise ValueError(f"Cannot specify a negative value for num_segments: {int(count)}")
    return [(None if count is None else int(count), *data[len(ids) :])]


for _op_type, _types in (("UnsortedSegmentSum", SUMMED), ("UnsortedSegmentMax", ORDERED),
                         ("UnsortedSegmentMin", ORDERED), ("UnsortedSegmentProd", SUMMED)):
    register_op(_op_type, "data: T; segment_ids: Tindices; num_segments: Tnumsegments", "output: T",
                f"T: {_types}; Tindices: {INDEX}; Tnumsegments: {INDEX} = int32",
                shape=_unsorted_shape)


def _sparse_shape(op: Operation) -> list[Dims]:
    data = with_rank_at_least(op.input_dims(0), 1, "data")
    count = with_rank(op.input_dims(1), 1, "indices")[0]
    merge_dim(count, with_rank(op.input_dims(2), 1, "segment_ids")[0])
    return [None if data is None else (None, *data[1:])]


for _op_type, _types in (("SparseSegmentSum", ORDERED), ("SparseSegmentMean", ANY_FLOAT),
                         ("SparseSegmentSqrtN", ANY_FLOAT)):
    register_op(_op_type, "data: T; indices: Tidx; segment_ids: Tsegmentids", "output: T",
                f"T: {_types}; Tidx: {INDEX} = int32; Tsegmentids: {INDEX} = int32",
                shape=_sparse_shape)


def _sparse_grad_shape(op: Operation) -> list[Dims]:
    grad = with_rank_at_least(op.input_dims(0), 1, "grad")
    count = known_number(op, 3)
    return [None if grad is None else (None if count is None else int(count), *grad[1:])]


for _op_type in ("SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad"):
    register_op(_op_type, "grad: T; indices: Tidx; segment_ids: Tsegmentids; output_dim0: int32",
                "output: T", f"T: {ANY_FLOAT}; Tidx: {INDEX} = int32; Tsegmentids: {INDEX} = int32",
                shape=_sparse_grad_shape)


def _unique_grad_shape(op: Operation) -> list[Dims]:
    grad = with_rank_at_least(op.input_dims(0), 1, "grad")
    return [None if grad is None else (None, *grad[1:]), (None,)]


for _op_type in ("SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2", "SparseSegmentSumGradV2"):
    register_op(_op_type, "grad: T; indices: Tidx; segment_ids: Tsegmentids; "
                "dense_output_dim0: int32", "output: T; sorted_unique_indices: Tidx",
                f"T: {{bfloat16, half, float, double}}; Tidx: {INDEX} = int32; "
                f"Tsegmentids: {INDEX} = int32", shape=_unique_grad_shape)
    not_differentiable(_op_type)
register_op("UnsortedSegmentJoin", "inputs: string; segment_ids: Tindices; "
            "num_segments: Tnumsegments", "output: string",
            f"separator: string = ''; Tindices: {INDEX}; Tnumsegments: {INDEX} = int32",
            shape=_unsorted_shape)
not_differentiable("UnsortedSegmentJoin")

# ---------------------------------------------------------------- gradients


def _per_row(values: Sequence[TensorLike], like: Tensor) -> Any:
    """A vector, one number per row of `like`, in a shape that broadcasts along the rows."""
    if like._dims is not None:
        shape: Any = np.array([-1] + [1] * (len(like._dims) - 1), np.int32)
    else:
        rest = raw_ops.Fill(raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(like), np.int32(1)),
                                            np.array([1], np.int32)), np.int32(1))
        shape = raw_ops.ConcatV2([np.array([-1], np.int32), rest], 0)
    return raw_ops.Reshape(values, shape)


def _ones_per_row(like: Tensor, dtype: DType) -> Tensor:
    """A vector of ones as long as `like`."""
    one = np.ones((), dtype.base_dtype.np)
    length = raw_ops.Reshape(raw_ops.Size(like), np.array([1], np.int32))
    return raw_ops.Fill(length, one)


@RegisterGradient("SegmentSum")
def _segment_sum_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.Gather(grad, op.inputs[1]), None


@RegisterGradient("SegmentMean")
def _segment_mean_grad(op: Operation, grad: Tensor) -> tuple:
    ids, kind = op.inputs[1], grad.dtype.base_dtype
    number = dtypes.float32 if kind.is_complex else kind  # which has an order
    counts = raw_ops.SegmentSum(_ones_per_row(ids, number), ids)
    # A segment without rows is divided by one: nothing reads its gradient.
    counts = raw_ops.Maximum(counts, np.ones((), number.np))
    counts = counts if number is kind else raw_ops.Cast(counts, DstT=kind)
    return raw_ops.Gather(raw_ops.RealDiv(grad, _per_row(counts, grad)), ids), None


def _shared_among_chosen(data: Tensor, output: Tensor, ids: Tensor, grad: Tensor,
                         total: Any) -> Tensor:
    """The gradient of an extremum: the elements equal to it share it; ``total`` sums by ids."""
    kind = data.dtype.base_dtype
    chosen = raw_ops.Equal(data, raw_ops.Gather(output, ids))
    # A segment without rows is divided by one: nothing reads its gradient.
    count = raw_ops.Maximum(total(raw_ops.Cast(chosen, DstT=kind)), np.ones((), kind.np))
    share = raw_ops.Gather(raw_ops.RealDiv(grad, count), ids)
    return raw_ops.Select(chosen, share, raw_ops.ZerosLike(share))


def _segment_extremum_grad(op: Operation, grad: Tensor) -> tuple:
    data, ids = op.inputs
    return _shared_among_chosen(data, op.outputs[0], ids, grad,
                                lambda x: raw_ops.SegmentSum(x, ids)), None


RegisterGradient("SegmentMin")(_segment_extremum_grad)
RegisterGradient("SegmentMax")(_segment_extremum_grad)


@RegisterGradient("SegmentProd")
def _segment_prod_grad(op: Operation, grad: Tensor) -> tuple:
    """Gradient of SegmentProd: for each element the product of the others, without dividing by 0.

    It is the product of all elements that are not zero, divided by this one if it is not zero
    either; or zero if another element is.
    """
    data, ids = op.inputs
    others = _product_of_others(data, lambda x: raw_ops.Gather(raw_ops.SegmentSum(x, ids), ids),
                                lambda x: raw_ops.Gather(raw_ops.SegmentProd(x, ids), ids))
    return raw_ops.Mul(raw_ops.Gather(grad, ids), others), None


def _product_of_others(data: Tensor, sums: Any, products: Any) -> Tensor:
    """For each element the product of the others of its segment; ``sums(x)`` and ``products(x)``
    give each element that of its segment."""
    zero = raw_ops.Equal(data, np.zeros((), data.dtype.base_dtype.np))
    filled = raw_ops.Select(zero, raw_ops.OnesLike(data), data)
    is_zero = raw_ops.Cast(zero, DstT="int32")
    others = raw_ops.Sub(sums(is_zero), is_zero)
    product = raw_ops.RealDiv(products(filled), filled)
    return raw_ops.Select(raw_ops.Greater(others, np.int32(0)), raw_ops.ZerosLike(product),
                          product)


@RegisterGradient("UnsortedSegmentProd")
def _unsorted_segment_prod_grad(op: Operation, grad: Tensor) -> tuple:
    data, ids, rows = op.inputs
    others = _product_of_others(
        data, lambda x: _gather_or_zero(raw_ops.UnsortedSegmentSum(x, ids, rows), ids, data),
        lambda x: _gather_or_zero(raw_ops.UnsortedSegmentProd(x, ids, rows), ids, data))
    return raw_ops.Mul(_gather_or_zero(grad, ids, data), others), None, None


def _gather_or_zero(values: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    """Rows by id, zeros for negative ids, in the shape of `like`."""
    flat = raw_ops.Reshape(ids, np.array([-1], np.int32))
    zero = np.zeros((), ids.dtype.base_dtype.np)
    rows = raw_ops.Gather(values, raw_ops.Maximum(flat, zero))
    rows = raw_ops.Select(raw_ops.GreaterEqual(flat, zero), rows, raw_ops.ZerosLike(rows))
    if ids._dims is not None and len(ids._dims) == 1:
        return rows
    return raw_ops.Reshape(rows, raw_ops.Shape(like))


@RegisterGradient("UnsortedSegmentSum")
def _unsorted_segment_sum_grad(op: Operation, grad: Tensor) -> tuple:
    return _gather_or_zero(grad, op.inputs[1], op.inputs[0]), None, None


@RegisterGradient("UnsortedSegmentMin")
@RegisterGradient("UnsortedSegmentMax")
def _unsorted_segment_extremum_grad(op: Operation, grad: Tensor) -> tuple:
    """The elements equal to the extremum share the gradient."""
    data, ids, rows = op.inputs
    chosen = raw_ops.Equal(data, _gather_or_zero(op.outputs[0], ids, data))
    count = raw_ops.UnsortedSegmentSum(raw_ops.Cast(chosen, DstT=data.dtype.base_dtype), ids, rows)
    # Segments without elements divide by one: nothing reads them.
    count = raw_ops.Maximum(count, np.ones((), data.dtype.base_dtype.np))
    share = _gather_or_zero(raw_ops.RealDiv(grad, count), ids, data)
    return raw_ops.Select(chosen, share, raw_ops.ZerosLike(share)), None, None


def _rows_of(x: Tensor) -> Any:
    """The number of rows of `x`, as a constant where it is known."""
    if x._dims and x._dims[0] is not None:
        return np.int32(x._dims[0])
    return raw_ops.Gather(raw_ops.Shape(x), np.int32(0))


@RegisterGradient("SparseSegmentSum")
def _sparse_segment_sum_grad(op: Operation, grad: Tensor) -> tuple:
    data, indices, ids = op.inputs
    rows = raw_ops.Gather(grad, ids)
    return raw_ops.UnsortedSegmentSum(rows, indices, _rows_of(data)), None, None


@RegisterGradient("SparseSegmentMean")
def _sparse_segment_mean_grad(op: Operation, grad: Tensor) -> tuple:
    data, indices, ids = op.inputs
    return raw_ops.SparseSegmentMeanGrad(grad, indices, ids, _rows_of(data)), None, None


@RegisterGradient("SparseSegmentSqrtN")
def _sparse_segment_sqrt_n_grad(op: Operation, grad: Tensor) -> tuple:
    data, indices, ids = op.inputs
    return raw_ops.SparseSegmentSqrtNGrad(grad, indices, ids, _rows_of(data)), None, None


@RegisterGradient("SparseSegmentMeanGrad")
def _sparse_segment_mean_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """Gradient of SparseSegmentMeanGrad, which is linear: its transpose, the mean."""
    return raw_ops.SparseSegmentMean(grad, op.inputs[1], op.inputs[2]), None, None, None


@RegisterGradient("SparseSegmentSumGrad")
def _sparse_segment_sum_grad_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.SparseSegmentSum(grad, op.inputs[1], op.inputs[2]), None, None, None


@RegisterGradient("SparseSegmentSqrtNGrad")
def _sparse_segment_sqrt_n_grad_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.SparseSegmentSqrtN(grad, op.inputs[1], op.inputs[2]), None, None, None


# ---------------------------------------------------------------- IndexedSlices as a tensor


def _dense(value: IndexedSlices, dtype: DType | None = None, name: str | None = None,
           as_ref: bool = False) -> Any:
    """Convert IndexedSlices to a dense tensor: add the rows at their indices."""
    del as_ref
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with "
                         f"dtype {value.dtype.name}")
    if value.dense_shape is None:
        raise ValueError("Tensor conversion requested for IndexedSlices without dense_shape: "
                         f"{value}")
    rows = raw_ops.Gather(value.dense_shape, np.int32(0))
    known = constant_value(value.dense_shape)
    _warn_of_size(value, known)
    if known is not None:
        rows = np.int32(known[0])
    elif rows.dtype.base_dtype is not dtypes.int32:
        rows = raw_ops.Cast(rows, DstT="int32")
    return raw_ops.UnsortedSegmentSum(value.values, value.indices, rows, name=name)


register_tensor_conversion_function(IndexedSlices, _dense)
_MANY = 100_000_000  # elements


def _warn_of_size(value: IndexedSlices, shape: Any) -> None:
    count = None if shape is None else math.prod(shape.tolist())
    if count is None or count >= _MANY:
        told = "of unknown shape" if count is None else f"with {count} elements"
        warnings.warn(f"Converting sparse {value} to a dense Tensor {told}. This may consume a "
                      "large amount of memory.", stacklevel=5)

# ---------------------------------------------------------------- public functions


def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the sums of the rows of each segment.

    `segment_ids` is a vector, one id per row of `data`, sorted; the result has last id + 1 rows,
    zeros for ids that do not occur. Ids that are not sorted or negative are an
    ``InvalidArgumentError``.
    """
    return raw_ops.SegmentSum(data=data, segment_ids=segment_ids, name=name)


def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the means of the rows of each segment; ids as in :func:`segment_sum`."""
    return raw_ops.SegmentMean(data=data, segment_ids=segment_ids, name=name)


def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the products of the rows of each segment, ones for ids that do not occur."""
    return raw_ops.SegmentProd(data=data, segment_ids=segment_ids, name=name)


def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the minima of the rows of each segment; ids as in :func:`segment_sum`."""
    return raw_ops.SegmentMin(data=data, segment_ids=segment_ids, name=name)


def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the maxima of the rows of each segment; ids as in :func:`segment_sum`."""
    return raw_ops.SegmentMax(data=data, segment_ids=segment_ids, name=name)


def unsorted_segment_sum(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                         name: str | None = None) -> Tensor:
    """Return the sums of the elements of each of `num_segments` segments.

    `segment_ids`, in any order, has the shape that the shape of `data` starts with. Negative ids
    are left out; ids not below `num_segments` are an ``InvalidArgumentError``.
    """
    return raw_ops.UnsortedSegmentSum(data=data, segment_ids=segment_ids,
                                      num_segments=num_segments, name=name)


def unsorted_segment_max(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                         name: str | None = None) -> Tensor:
    """Return the maxima of the elements of each segment, the lowest value of the type for a
    segment without elements; ids as in :func:`unsorted_segment_sum`."""
    return raw_ops.UnsortedSegmentMax(data=data, segment_ids=segment_ids,
                                      num_segments=num_segments, name=name)


def unsorted_segment_min(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                         name: str | None = None) -> Tensor:
    """Return the minima of the elements of each segment, the highest value of the type for a
    segment without elements; ids as in :func:`unsorted_segment_sum`."""
    return raw_ops.UnsortedSegmentMin(data=data, segment_ids=segment_ids,
                                      num_segments=num_segments, name=name)


def unsorted_segment_prod(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                          name: str | None = None) -> Tensor:
    """Return the products of the elements of each segment, 1 for a segment without elements; ids
    as in :func:`unsorted_segment_sum`."""
    return raw_ops.UnsortedSegmentProd(data=data, segment_ids=segment_ids,
                                       num_segments=num_segments, name=name)


def unsorted_segment_mean(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                          name: str | None = None) -> Tensor:
    """Return the means of the elements of each segment, 0 for a segment without elements; ids as
    in :func:`unsorted_segment_sum`."""
    with name_scope(name, "UnsortedSegmentMean", [data, segment_ids, num_segments]) as scope:
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total = raw_ops.UnsortedSegmentSum(data, ids, num_segments)
        return _divided(total, _segment_sizes(data, ids, num_segments), scope)


def unsorted_segment_sqrt_n(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
                            name: str | None = None) -> Tensor:
    """Return the sums of the elements of each segment, divided by √(their number); ids as in
    :func:`unsorted_segment_sum`."""
    with name_scope(name, "UnsortedSegmentSqrtN", [data, segment_ids, num_segments]) as scope:
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total = raw_ops.UnsortedSegmentSum(data, ids, num_segments)
        return _divided(total, raw_ops.Sqrt(_segment_sizes(data, ids, num_segments)), scope)


def _divided(total: Tensor, divisor: Tensor, name: str) -> Tensor:
    if total.dtype.is_integer:  # a quotient of integers is a fraction
        wide = dtypes.float64 if total.dtype.size > 2 else dtypes.float32
        total, divisor = (raw_ops.Cast(x, DstT=wide) for x in (total, divisor))
    result = raw_ops.RealDiv(total, divisor, name=name)
    result.set_shape(total.get_shape())  # the divisor's is computed in the step
    return result


def _segment_sizes(data: Tensor, ids: Tensor, num_segments: TensorLike) -> Tensor:
    """Return the number of elements in each segment, at least 1, in a shape that divides sums."""
    dtype = data.dtype.base_dtype
    ones = raw_ops.Cast(raw_ops.OnesLike(ids), DstT=dtype)
    sizes = raw_ops.Maximum(raw_ops.UnsortedSegmentSum(ones, ids, num_segments),
                            np.ones((), dtype.np))
    inner = raw_ops.Sub(raw_ops.Rank(data), raw_ops.Rank(ids))
    ones_behind = raw_ops.Fill(raw_ops.ExpandDims(inner, np.int32(0)), np.int32(1))
    return raw_ops.Reshape(sizes, raw_ops.ConcatV2([raw_ops.Shape(sizes), ones_behind],
                                                   np.int32(0)))


def _sparse_segments(op_type: str, data: TensorLike, indices: TensorLike, segment_ids: TensorLike,
                     num_segments: TensorLike | None, name: str | None) -> Tensor:
    if num_segments is None:
        return getattr(raw_ops, op_type)(data=data, indices=indices, segment_ids=segment_ids,
                                         name=name)
    return getattr(raw_ops, f"{op_type}WithNumSegments")(
        data=data, indices=indices, segment_ids=segment_ids, num_segments=num_segments, name=name)


def sparse_segment_sum(data: TensorLike, indices: TensorLike, segment_ids: TensorLike,
                       name: str | None = None, num_segments: TensorLike | None = None) -> Tensor:
    """Return :func:`segment_sum` of the rows ``data[indices]``, one segment id per index.

    There are as many segments as the last id says, or `num_segments`.
    """
    return _sparse_segments("SparseSegmentSum", data, indices, segment_ids, num_segments, name)


def sparse_segment_mean(data: TensorLike, indices: TensorLike, segment_ids: TensorLike,
                        name: str | None = None, num_segments: TensorLike | None = None) -> Tensor:
    """Return the means of the rows ``data[indices]`` of each segment."""
    return _sparse_segments("SparseSegmentMean", data, indices, segment_ids, num_segments, name)


def sparse_segment_sqrt_n(data: TensorLike, indices: TensorLike, segment_ids: TensorLike,
                          name: str | None = None,
                          num_segments: TensorLike | None = None) -> Tensor:
    """Return the sums of the rows ``data[indices]`` of each segment, divided by √(their number)."""
    return _sparse_segments("SparseSegmentSqrtN", data, indices, segment_ids, num_segments, name)
