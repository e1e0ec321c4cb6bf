"""Measures per class, averaged over the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics.state import Sum, collect
from hpcflow.nn.weighting import cast_like, check_same_shape, safe_divide, squeeze_to_match
from hpcflow.ops.common.grouping import with_dependencies
from hpcflow.ops.flow.checks import assert_less, assert_non_negative
from hpcflow.ops.math.reductions import reduce_mean, reduce_sum
from hpcflow.ops.state.variable_scope import variable_scope

_ROW = np.array([-1], np.int32)


def _vectors(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None,
             kind: DType) -> tuple:
    """Labels and predictions as int64 vectors, and a weight for each of their elements."""
    labels, predictions = squeeze_to_match(_as_int64(labels), _as_int64(predictions))
    check_same_shape(labels, predictions)
    ones = raw_ops.OnesLike(raw_ops.Cast(labels, DstT=kind))
    if weights is not None:
        ones = raw_ops.Mul(ones, cast_like(weights, ones))
    return tuple(raw_ops.Reshape(x, _ROW) for x in (labels, predictions, ones))


def _as_int64(value: TensorLike) -> Tensor:
    x = convert_to_tensor(value)
    return x if x.dtype.base_dtype is dtypes.int64 else raw_ops.Cast(x, DstT=dtypes.int64)


def _per_cell(cells: Tensor, weights: Tensor, count: int) -> Tensor:
    """A vector of `count` sums of the weights, element i going to ``cells[i]``."""
    return raw_ops.UnsortedSegmentSum(weights, cells, np.int32(count))


def _in_range(classes: Tensor, count: int, what: str) -> Tensor:
    """Class numbers, checked at run time to be in ``[0, count)``."""
    checks = [assert_non_negative(classes, message=f"{what} must not be negative"),
              assert_less(classes, np.int64(count), message=f"{what} must be < {count}")]
    return with_dependencies(checks, classes)


def mean_iou(labels: Any, predictions: Any, num_classes: int, weights: TensorLike | None = None,
             metrics_collections: Collections | None = None,
             updates_collections: Collections | None = None,
             name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean intersection over union of the classes, and its update operation.

    A class's value is tp / (tp + fp + fn); classes that were neither predicted nor among the
    labels do not count.

    Args:
        labels: class numbers; others than ``0 <= label < num_classes`` are an
            ``InvalidArgumentError``.
        predictions: class numbers, the same shape.
        num_classes: number of classes.
        weights: None, or broadcasting to the labels.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: (mean, update operation); the latter is the confusion matrix (float64) so far, a row
    for each label.
    """
    with variable_scope(name, "mean_iou", [predictions, labels, weights]):
        matrix, updated = streaming_confusion_matrix(labels, predictions, num_classes, weights)
        return collect(_mean_iou_of(matrix), updated, metrics_collections, updates_collections)


def streaming_confusion_matrix(labels: TensorLike, predictions: TensorLike, num_classes: int,
                               weights: TensorLike | None = None) -> tuple[Tensor, Tensor]:
    """Return the confusion matrix so far (float64, a row for each label), and its update operation.

    Arguments as of :func:`mean_iou`.
    """
    rows, columns, ones = _vectors(labels, predictions, weights, dtypes.float64)
    rows = _in_range(rows, num_classes, "labels")
    columns = _in_range(columns, num_classes, "predictions")
    cells = raw_ops.Add(raw_ops.Mul(rows, np.int64(num_classes)), columns)
    step = raw_ops.Reshape(_per_cell(cells, ones, num_classes**2),
                           np.array([num_classes, num_classes], np.int32))
    matrix = Sum("total_confusion_matrix", step)
    return matrix.value, matrix.updated


def _mean_iou_of(matrix: Tensor) -> Tensor:
    """The mean over the classes that occur, in float32."""
    counts = raw_ops.Cast(matrix, DstT=dtypes.float32)
    both = raw_ops.MatrixDiagPart(counts)
    either = raw_ops.Sub(raw_ops.Add(reduce_sum(counts, [0]), reduce_sum(counts, [1])), both)
    occurring = raw_ops.Greater(either, raw_ops.ZerosLike(either))
    classes = reduce_sum(raw_ops.Cast(occurring, DstT=dtypes.float32))
    return safe_divide(reduce_sum(safe_divide(both, either)), classes, name="mean_iou")


def mean_per_class_accuracy(labels: Any, predictions: Tensor, num_classes: int,
                            weights: Tensor | None = None,
                            metrics_collections: Collections | None = None,
                            updates_collections: Collections | None = None,
                            name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean over the classes of their accuracies, and its update operation.

    A class's accuracy is the weighted share of its labels that were predicted, 0 if there are no
    labels. Arguments as of :func:`mean_iou`; the update operation is the vector of accuracies.
    """
    with variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        labels, predictions, ones = _vectors(labels, predictions, weights, dtypes.float32)
        labels = _in_range(labels, num_classes, "labels")
        right = raw_ops.Mul(ones, raw_ops.Cast(raw_ops.Equal(predictions, labels),
                                               DstT=dtypes.float32))
        total = Sum("total", _per_cell(labels, ones, num_classes))
        count = Sum("count", _per_cell(labels, right, num_classes))
        value = reduce_mean(safe_divide(count.value, total.value), name="mean_accuracy")
        update = safe_divide(count.updated, total.updated, name="update_op")
        return collect(value, update, metrics_collections, updates_collections)
