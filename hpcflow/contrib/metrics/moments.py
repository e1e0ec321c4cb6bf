"""Covariance and correlation of two streams of numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics.state import collect, local_variable
from hpcflow.nn.weighting import check_same_shape, safe_divide, squeeze_to_match
from hpcflow.ops.common.grouping import with_dependencies
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.state import assign, assign_add
from hpcflow.ops.state.variable_scope import variable_scope


class _Batch(NamedTuple):
    """Numbers of a step with their weights, and the sum of these."""

    x: Tensor
    y: Tensor
    weights: Tensor
    total: Tensor


def _batch(predictions: TensorLike, labels: TensorLike, weights: TensorLike | None) -> _Batch:
    labels, predictions = squeeze_to_match(_as_float(labels), _as_float(predictions))
    check_same_shape(labels, predictions)
    ones = raw_ops.OnesLike(labels)
    if weights is not None:
        ones = raw_ops.Mul(ones, _as_float(weights))
    return _Batch(predictions, labels, ones, reduce_sum(ones))


def _as_float(value: TensorLike) -> Tensor:
    return raw_ops.Cast(value, DstT=dtypes.float32)


def streaming_covariance(predictions: TensorLike, labels: TensorLike,
                         weights: TensorLike | None = None,
                         metrics_collections: Collections | None = None,
                         updates_collections: Collections | None = None,
                         name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the unbiased sample covariance of all numbers so far, and its update operation.

    It is updated step by step without the difference of large sums. With weights, whose
    sum then counts instead of the numbers, both means are weighted.

    Args:
        predictions: numbers of any shape.
        labels: numbers, the same shape.
        weights: None, or broadcasting to the labels.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: (covariance, update operation), float32 scalars; no numbers before there are two.
    """
    with variable_scope(name, "covariance", [predictions, labels, weights]):
        batch = _batch(predictions, labels, weights)
        return collect(*_covariance(batch), metrics_collections, updates_collections)


def _covariance(batch: _Batch) -> tuple[Tensor, Tensor]:
    names = ("count", "mean_prediction", "mean_label", "comoment")
    count, mean_x, mean_y, moment = [local_variable(name) for name in names]
    old = [raw_ops.Identity(variable) for variable in (count, mean_x, mean_y)]
    with name_scope("step"):
        total = raw_ops.Add(old[0], batch.total)
        here = [safe_divide(reduce_sum(raw_ops.Mul(part, batch.weights)), batch.total)
                for part in (batch.x, batch.y)]
        shifts = [safe_divide(raw_ops.Mul(raw_ops.Sub(mean, before), batch.total), total)
                  for mean, before in zip(here, old[1:], strict=True)]
        means = [raw_ops.Add(*pair) for pair in zip(old[1:], shifts, strict=True)]
        # Of this step about its own means, and of the step's means about the old ones.
        within = reduce_sum(raw_ops.Mul(batch.weights, raw_ops.Mul(
            raw_ops.Sub(batch.x, here[0]), raw_ops.Sub(batch.y, here[1]))))
        between = raw_ops.Mul(raw_ops.Mul(raw_ops.Sub(here[0], old[1]), shifts[1]), old[0])
    after = with_dependencies(
        [total, *means], assign_add(moment, raw_ops.Add(within, between)))
    with name_scope("keep"):
        kept = [raw_ops.Identity(assign(variable, with_dependencies([after], value)))
                for variable, value in zip((count, mean_x, mean_y), (total, *means), strict=True)]
    value = _unbiased(raw_ops.Identity(moment), raw_ops.Identity(count))
    return value, _unbiased(with_dependencies(kept, after), kept[0])


def _unbiased(moment: Tensor, count: Tensor) -> Tensor:
    less = raw_ops.Sub(count, np.float32(1))
    some = raw_ops.Greater(less, np.float32(0))
    return raw_ops.Select(some, raw_ops.RealDiv(moment, less), np.float32(np.nan))


def streaming_pearson_correlation(predictions: TensorLike, labels: TensorLike,
                                  weights: TensorLike | None = None,
                                  metrics_collections: Collections | None = None,
                                  updates_collections: Collections | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return Pearson's correlation coefficient of all numbers so far, and its update operation.

    Arguments and shapes as of :func:`streaming_covariance`. Where a variance is 0 the result is no
    number.
    """
    with variable_scope(name, "pearson_r", [predictions, labels, weights]):
        batch = _batch(predictions, labels, weights)
        found = []
        for part, pair in (("covariance", batch), ("variance_predictions", _Batch(
                batch.x, batch.x, *batch[2:])), ("variance_labels", _Batch(
                batch.y, batch.y, *batch[2:]))):
            with variable_scope(part):
                found.append(_covariance(pair))
        values, updates = zip(*found, strict=True)
        return collect(_coefficient(*values), _coefficient(*updates), metrics_collections,
                       updates_collections)


def _coefficient(covariance: Tensor, x: Tensor, y: Tensor) -> Tensor:
    scale = raw_ops.Mul(raw_ops.Sqrt(x), raw_ops.Sqrt(y))
    return raw_ops.RealDiv(covariance, scale)
