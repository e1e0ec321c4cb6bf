"""Counts: of each value, the confusion matrix of a classifier, histograms of equal bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_ordered
from hpcflow.dtypes import DTypeLike, as_dtype
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import known_number
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.ops.flow.checks import assert_less, assert_non_negative

__all__ = ["bincount", "confusion_matrix", "histogram_fixed_width", "histogram_fixed_width_bins"]


def _is_number(length: Any) -> bool:
    dims = getattr(length, "_dims", None) if isinstance(length, Tensor) else np.shape(length)
    return not dims


@also_ordered("weights", "minlength", "maxlength", "dtype", unless=_is_number)
def bincount(arr: TensorLike, minlength: Any = None, maxlength: Any = None,
             weights: Tensor | None = None, dtype: DTypeLike = dtypes.int32) -> Tensor:
    """Count how often each value occurs in the int32 tensor `arr` (or sum up its `weights`).

    The result has one entry per value from 0 to the maximum, at least `minlength` entries and at
    most `maxlength`: larger values are then left out. Its type is that of `weights`, or `dtype`.
    """
    if minlength._dims if isinstance(minlength, Tensor) else np.ndim(minlength):
        weights, minlength, maxlength = minlength, maxlength, weights  # the order of later 1.x
    with name_scope(None, "bincount", [arr, minlength, maxlength, weights]):
        arr = convert_to_tensor(arr, dtypes.int32, name="arr")
        flat = raw_ops.Reshape(arr, np.array([-1], np.int32))
        positive = raw_ops.All(raw_ops.GreaterEqual(flat, np.int32(0)), np.array([0], np.int32))
        with control_dependencies([raw_ops.Assert(positive, [
                "bincount: arr must not have negative values", flat])]):
            flat = raw_ops.Identity(flat)
        # The maximum of nothing is the lowest number.
        length = raw_ops.Add(raw_ops.Maximum(raw_ops.Max(flat, np.int32(0)), np.int32(-1)),
                             np.int32(1))
        if minlength is not None:
            length = raw_ops.Maximum(length, minlength)
        if maxlength is not None:
            length = raw_ops.Minimum(length, maxlength)
            inside = raw_ops.Less(flat, length)
            flat = raw_ops.Select(inside, flat, raw_ops.Sub(raw_ops.ZerosLike(flat), np.int32(1)))
        if weights is None:
            ones = raw_ops.Fill(raw_ops.Shape(flat), np.ones((), dtypes.as_dtype(dtype).np))
            return raw_ops.UnsortedSegmentSum(ones, flat, length)
        weights = raw_ops.Reshape(weights, np.array([-1], np.int32))
        return raw_ops.UnsortedSegmentSum(weights, flat, length)


def confusion_matrix(labels: Sequence[Any], predictions: Sequence[Any],
                     num_classes: TensorLike | None = None, dtype: DTypeLike = dtypes.int32,
                     name: str | None = None, weights: TensorLike | None = None) -> Tensor:
    """Count how often each class was predicted where each was right.

    Args:
        labels: right classes, a vector of integers, or one in a matrix of one column.
        predictions: predicted classes, as many.
        num_classes: number of classes; by default the largest of both plus one.
        dtype: of the result.
        name: name scope.
        weights: how much each prediction counts; one by default.

    Returns:
        A matrix ``[num_classes, num_classes]``: rows are labels, columns predictions.

    Raises ``ValueError`` for shapes that differ; when run ``InvalidArgumentError`` for a class out
    of range.
    """
    with name_scope(name, "confusion_matrix", [labels, predictions, num_classes, weights]):
        rows, columns = _classes(labels, "labels"), _classes(predictions, "predictions")
        if not rows.get_shape().is_compatible_with(columns.get_shape()):
            raise ValueError(f"Shapes of labels and predictions must be equal, {rows.get_shape()} "
                             f"and {columns.get_shape()} are incompatible")
        rows, columns = _non_negative(rows, "labels"), _non_negative(columns, "predictions")
        kind = as_dtype(dtype)
        if num_classes is None:
            largest = raw_ops.Maximum(_max(rows), _max(columns))
            count = raw_ops.Add(largest, convert_to_tensor(1, dtypes.int64))
        else:
            count = raw_ops.Cast(convert_to_tensor(num_classes), DstT=dtypes.int64)
            rows, columns = _below(rows, count, "labels"), _below(columns, count, "predictions")
        if weights is None:
            amounts = raw_ops.Cast(raw_ops.OnesLike(columns), DstT=kind)
        else:
            amounts = raw_ops.Cast(_flat_if_unknown(convert_to_tensor(weights)), DstT=kind)
            amounts.get_shape().assert_is_compatible_with(columns.get_shape())
        places = raw_ops.Pack([rows, columns], axis=1)
        return raw_ops.ScatterNd(indices=places, updates=amounts,
                                 shape=raw_ops.Pack([count, count], axis=0))


def _classes(values: Sequence[TensorLike], what: str) -> Tensor:
    tensor = convert_to_tensor(values, name=what)
    if not tensor.dtype.is_integer and not tensor.dtype.is_floating:
        raise TypeError(f"{what} must be numbers of classes, got {tensor.dtype.name}")
    tensor = _flat_if_unknown(tensor)
    rank = tensor.get_shape().ndims
    if rank == 2:
        tensor = raw_ops.Squeeze(tensor, squeeze_dims=[1])
    elif rank is not None and rank != 1:
        raise ValueError(f"{what} must be a vector, got shape {tensor.get_shape()}")
    return raw_ops.Cast(tensor, DstT=dtypes.int64)


def _flat_if_unknown(tensor: Tensor) -> Tensor:
    """A vector of the elements of what may be a vector or a column."""
    if tensor._dims is not None:
        return tensor
    return raw_ops.Reshape(tensor, np.array([-1], np.int32))


def _non_negative(classes: Tensor, what: str) -> Tensor:
    """`classes`, checked when run not to be negative."""
    check = assert_non_negative(classes, message=f"`{what}` contains negative values.  ")
    with control_dependencies([check]):
        return raw_ops.Identity(classes)


def _below(classes: Tensor, count: Tensor, what: str) -> Tensor:
    """`classes`, checked when run to be less than `count`."""
    with control_dependencies([assert_less(classes, count, message=f"`{what}` out of bound")]):
        return raw_ops.Identity(classes)


def _max(classes: Tensor) -> Tensor:
    return raw_ops.Max(classes, convert_to_tensor([0], dtypes.int32))


def histogram_fixed_width(values: Sequence[TensorLike], value_range: TensorLike,
                          nbins: TensorLike = 100, dtype: DTypeLike = dtypes.int32,
                          name: str | None = None) -> Tensor:
    """Count how many of `values` fall into each of `nbins` bins of one width.

    `value_range` is ``[low, high]``, of the dtype of `values`; what lies outside counts in the
    first or last bin. The result is a vector of `dtype`.
    """
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]):
        flat = convert_to_tensor(values, name="values")
        return raw_ops.HistogramFixedWidth(
            values=flat, value_range=convert_to_tensor(value_range, flat.dtype),
            nbins=convert_to_tensor(nbins, dtypes.int32), dtype=as_dtype(dtype))


def histogram_fixed_width_bins(values: Nest, value_range: Tensor, nbins: TensorLike = 100,
                               dtype: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Return which of the bins of :func:`histogram_fixed_width` each of `values` falls into.

    The result is int32, whatever `dtype`, in the shape of `values`.
    """
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert_to_tensor(values, name="values")
        kind = values.dtype if values.dtype.is_floating else dtypes.float64
        x: Any = raw_ops.Cast(values, DstT=kind)
        low: Any
        low, high = raw_ops.Unpack(
            raw_ops.Cast(convert_to_tensor(value_range, values.dtype), DstT=kind), num=2)
        count: Any = raw_ops.Cast(convert_to_tensor(nbins, dtypes.int32), DstT=kind)
        place = raw_ops.Floor(count * ((x - low) / (high - low)))
        last = raw_ops.Sub(count, np.ones((), kind.np))
        inside = raw_ops.Maximum(raw_ops.Minimum(place, last), np.zeros((), kind.np))
        return raw_ops.Cast(inside, DstT=dtypes.int32)


# ---------------------------------------------------------------- op types


def _histogram_shape(op: Operation) -> list[Dims]:
    count = known_number(op, 2)
    return [(None if count is None else int(count),)]


def _bincount_shape(op: Operation) -> list[Dims]:
    dims, size = op.input_dims(0), known_number(op, 1)
    count = None if size is None else int(size)
    if count is not None and count < 0:
        raise ValueError(f"size must be non-negative, got {count}")
    if op.type == "Bincount":
        return [(count,)]
    if dims is not None and not 1 <= len(dims) <= 2:
        raise ValueError(f"Shape must be at most rank 2 but is rank {len(dims)}")
    return [None if dims is None else (*dims[:-1], count) if len(dims) == 2 else (count,)]


register_op("HistogramFixedWidth", "values: T; value_range: T; nbins: int32", "out: dtype",
            f"T: {{int32, int64, float, double}}; dtype: {INDEX} = int32", shape=_histogram_shape)
register_op("DenseBincount", "input: Tidx; size: Tidx; weights: T", "output: T",
            f"Tidx: {INDEX}; T: {{int32, int64, float, double}}; binary_output: bool = false",
            shape=_bincount_shape)
register_op("Bincount", "arr: int32; size: int32; weights: T", "bins: T",
            "T: {int32, int64, float, double}", shape=_bincount_shape)
not_differentiable("HistogramFixedWidth", "DenseBincount", "Bincount")
