"""Means over all elements that the steps have given: errors, accuracy, means themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics.state import Sum, apply_weights, collect, finish
from hpcflow.nn.weighting import (
    as_float,
    cast_like,
    check_same_shape,
    safe_divide,
    squeeze_to_match,
)
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.variable_scope import variable_scope


def mean(values: Any, weights: Any = None, metrics_collections: Collections | None = None,
         updates_collections: Collections | None = None,
         name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the weighted mean of all elements of `values`, and its update operation.

    Args:
        values: any shape.
        weights: None, a scalar, or the rank of `values` with sizes equal or 1.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: (Σ weights values / Σ weights, update operation); 0 before the first update.
    """
    with variable_scope(name, "mean", [values, weights]):
        weighted, counted = apply_weights(as_float(values), weights)
        sums = [Sum("total", reduce_sum(weighted)), Sum("count", reduce_sum(counted))]
        return finish(lambda n, total, count: safe_divide(total, count, name=n), sums,
                      metrics_collections, updates_collections)


def mean_tensor(values: Tensor, weights: Any = None, metrics_collections: Collections | None = None,
                updates_collections: Collections | None = None,
                name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`mean`, for every element by itself: the value has the shape of `values`.

    The static shape of `values` must be known.
    """
    with variable_scope(name, "mean", [values, weights]):
        weighted, counted = apply_weights(as_float(values), weights)
        sums = [Sum("total_tensor", weighted), Sum("count_tensor", counted)]
        return finish(lambda n, total, count: safe_divide(total, count, name=n), sums,
                      metrics_collections, updates_collections)


def _pair(labels: TensorLike, predictions: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as floats of one type and one shape."""
    predictions = as_float(predictions)
    labels = cast_like(labels, predictions)
    labels, predictions = squeeze_to_match(labels, predictions)
    check_same_shape(labels, predictions)
    return labels, predictions


def accuracy(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
             metrics_collections: Collections | None = None,
             updates_collections: Collections | None = None,
             name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return how often `predictions` equal `labels`, and its update operation.

    Any types that can be compared; `weights` and the collections as in :func:`mean`.
    Raises ``ValueError`` for shapes that differ.
    """
    predictions = convert_to_tensor(predictions)
    labels = convert_to_tensor(labels)
    if labels.dtype.base_dtype is not predictions.dtype.base_dtype:
        predictions = cast_like(predictions, labels)
    labels, predictions = squeeze_to_match(labels, predictions)
    check_same_shape(labels, predictions)
    correct = raw_ops.Cast(raw_ops.Equal(predictions, labels), DstT=dtypes.float32)
    return mean(correct, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(labels: TensorLike, predictions: TensorLike,
                        weights: TensorLike | None = None,
                        metrics_collections: Collections | None = None,
                        updates_collections: Collections | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean of |predictions - labels|, and its update operation; see :func:`mean`."""
    labels, predictions = _pair(labels, predictions)
    errors = raw_ops.Abs(raw_ops.Sub(predictions, labels))
    return mean(errors, weights, metrics_collections, updates_collections,
                name or "mean_absolute_error")


def mean_squared_error(labels: TensorLike, predictions: TensorLike,
                       weights: TensorLike | None = None,
                       metrics_collections: Collections | None = None,
                       updates_collections: Collections | None = None,
                       name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean of (predictions - labels)², and its update operation; see :func:`mean`."""
    labels, predictions = _pair(labels, predictions)
    return mean(raw_ops.SquaredDifference(predictions, labels), weights, metrics_collections,
                updates_collections, name or "mean_squared_error")


def root_mean_squared_error(labels: TensorLike, predictions: TensorLike,
                            weights: TensorLike | None = None,
                            metrics_collections: Collections | None = None,
                            updates_collections: Collections | None = None,
                            name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the root of the mean squared error, and its update operation; see :func:`mean`."""
    value, update = mean_squared_error(labels, predictions, weights, None, None,
                                       name or "root_mean_squared_error")
    return _derived(raw_ops.Sqrt, value, update, metrics_collections, updates_collections)


def _derived(function: Callable, value: Tensor, update: Tensor,
             metrics_collections: Collections | None,
             updates_collections: Collections | None) -> tuple[Tensor, Tensor]:
    return collect(function(value), function(update), metrics_collections, updates_collections)


def mean_relative_error(labels: TensorLike, predictions: TensorLike, normalizer: TensorLike,
                        weights: TensorLike | None = None,
                        metrics_collections: Collections | None = None,
                        updates_collections: Collections | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean of |labels - predictions| / normalizer, and its update operation.

    Elements whose `normalizer` is 0 have the error 0; see :func:`mean` for the rest.
    """
    labels, predictions = _pair(labels, predictions)
    normalizer, predictions = squeeze_to_match(cast_like(normalizer, predictions), predictions)
    absent = raw_ops.Equal(normalizer, raw_ops.ZerosLike(normalizer))
    divisor = raw_ops.Select(absent, raw_ops.OnesLike(normalizer), normalizer)
    errors = raw_ops.RealDiv(raw_ops.Abs(raw_ops.Sub(labels, predictions)), divisor)
    errors = raw_ops.Select(absent, raw_ops.ZerosLike(errors), errors)
    return mean(errors, weights, metrics_collections, updates_collections,
                name or "mean_relative_error")


def mean_cosine_distance(labels: TensorLike, predictions: TensorLike, dim: int,
                         weights: TensorLike | None = None,
                         metrics_collections: Collections | None = None,
                         updates_collections: Collections | None = None,
                         name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean of 1 - Σ labels predictions, and its update operation.

    The sum is taken along `dim`, along which both are expected to have norm 1, and which keeps the
    size 1 for `weights`; see :func:`mean` for the rest.
    """
    labels, predictions = _pair(labels, predictions)
    cosine = reduce_sum(raw_ops.Mul(predictions, labels), [dim], keep_dims=True)
    value, update = mean(cosine, weights, None, None, name or "mean_cosine_distance")
    return _derived(lambda x: raw_ops.Sub(raw_ops.OnesLike(x), x), value, update,
                    metrics_collections, updates_collections)


def percentage_below(values: TensorLike, threshold: Any, weights: TensorLike | None = None,
                     metrics_collections: Collections | None = None,
                     updates_collections: Collections | None = None,
                     name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the fraction (0 to 1) of `values` below `threshold`, and its update operation.

    See :func:`mean` for the rest.
    """
    values = convert_to_tensor(values)
    below = raw_ops.Less(values, cast_like(threshold, values))
    return mean(raw_ops.Cast(below, DstT=dtypes.float32), weights, metrics_collections,
                updates_collections, name or "percentage_below_threshold")
