"""Losses that measure how far predictions are from labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses.collecting import Reduction, add_loss, compute_weighted_loss
from hpcflow.nn.weighting import (
    as_float,
    broadcast_weights,
    cast_like,
    check_same_shape,
    checked_weights,
    safe_divide,
)
from hpcflow.ops.math.reductions import reduce_sum


def _pair(labels: TensorLike, predictions: TensorLike,
          what: str = "predictions") -> tuple[Tensor, Tensor]:
    """Both as floats of one type and one shape."""
    predictions = as_float(predictions)
    labels = cast_like(labels, predictions)
    check_same_shape(labels, predictions, what)
    return labels, predictions


def absolute_difference(labels: TensorLike, predictions: TensorLike, weights: TensorLike = 1.0,
                        scope: str | None = None,
                        loss_collection: str | None = GraphKeys.LOSSES,
                        reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of |predictions - labels|; see :func:`compute_weighted_loss`.

    Raises ``ValueError`` for shapes that differ.
    """
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = raw_ops.Abs(raw_ops.Sub(predictions, labels))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_squared_error(labels: TensorLike, predictions: TensorLike, weights: TensorLike = 1.0,
                       scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                       reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of (predictions - labels)²; see :func:`compute_weighted_loss`.

    Raises ``ValueError`` for shapes that differ.
    """
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = raw_ops.SquaredDifference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(labels: TensorLike, predictions: TensorLike, weights: TensorLike = 1.0,
               delta: float = 1.0, scope: str | None = None,
               loss_collection: str | None = GraphKeys.LOSSES,
               reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of a loss that is quadratic up to `delta` and linear beyond (Huber,
    Annals of Statistics, 1964); see :func:`compute_weighted_loss`.

    Raises ``ValueError`` for shapes that differ.
    """
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as scope:
        labels, predictions = _pair(labels, predictions)
        error = raw_ops.Abs(raw_ops.Sub(predictions, labels))
        quadratic = raw_ops.Minimum(error, delta)
        linear = raw_ops.Sub(error, quadratic)
        losses = 0.5 * raw_ops.Square(quadratic) + delta * linear
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@also_called(axis="dim")
def cosine_distance(labels: TensorLike, predictions: TensorLike, dim: int | None = None,
                    weights: TensorLike = 1.0, scope: str | None = None,
                    loss_collection: str | None = GraphKeys.LOSSES,
                    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of 1 - Σ labels predictions, the sum taken along `dim`.

    Both are expected to have norm 1 along `dim`, which the losses keep with size 1.
    Raises ``ValueError`` for shapes that differ.
    """
    if dim is None:
        raise ValueError("cosine_distance: `dim` must be given")
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as scope:
        labels, predictions = _pair(labels, predictions)
        cosine = reduce_sum(raw_ops.Mul(predictions, labels), [dim], keep_dims=True)
        losses = raw_ops.Sub(raw_ops.OnesLike(cosine), cosine)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(labels: TensorLike, logits: TensorLike | None = None, weights: TensorLike = 1.0,
               scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
               reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of max(0, 1 - y logits), y = ±1 for labels 1 and 0.

    Raises ``ValueError`` for shapes that differ.
    """
    if logits is None:
        raise ValueError("hinge_loss: `logits` must be given")
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as scope:
        labels, logits = _pair(labels, logits, "logits")
        ones = raw_ops.OnesLike(labels)
        signs = raw_ops.Sub(raw_ops.Add(labels, labels), ones)
        losses = raw_ops.Relu(raw_ops.Sub(ones, raw_ops.Mul(signs, logits)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(labels: TensorLike, predictions: TensorLike,
                                weights: TensorLike = 1.0, scope: str | None = None,
                                loss_collection: str | None = GraphKeys.LOSSES) -> Tensor:
    """Return the mean squared error of the differences between all pairs of elements.

    With d = predictions - labels and n elements in a batch entry, an entry's loss is
    2 (Σ d² / (n - 1) - (Σ d)² / (n (n - 1))), times its weight; the result is the sum over the
    batch. (Of [a, b, c] and [x, y, z]: ((a-b)-(x-y))² + ((a-c)-(x-z))² + ((b-c)-(y-z))², over 3.)

    Args:
        labels: shape ``[batch, ...]``.
        predictions: the same shape.
        weights: a scalar, shape ``[batch]`` or ``[batch, 1, ...]``.
        scope: name scope.
        loss_collection: where the result is added.
    """
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        labels, predictions = _pair(labels, predictions)
        differences = raw_ops.Sub(predictions, labels)
        weights = _entry_weights(weights, differences)
        axes = _entry_axes(differences)
        present = raw_ops.NotEqual(weights, raw_ops.ZerosLike(weights))
        count = reduce_sum(broadcast_weights(raw_ops.Cast(present, DstT=weights.dtype.base_dtype),
                                             differences), axes, keep_dims=True)
        fewer = raw_ops.Sub(count, raw_ops.OnesLike(count))
        squares = reduce_sum(raw_ops.Square(differences), axes, keep_dims=True)
        total = reduce_sum(differences, axes, keep_dims=True)
        variance = raw_ops.Sub(safe_divide(squares, fewer),
                               safe_divide(raw_ops.Square(total), raw_ops.Mul(count, fewer)))
        two = convert_to_tensor(2, variance.dtype.base_dtype)
        losses = raw_ops.Mul(raw_ops.Mul(two, variance), weights)
        loss = reduce_sum(losses, name="value")
        add_loss(loss, loss_collection)
        return loss


def _entry_weights(weights: TensorLike, values: Tensor) -> Tensor:
    """Weights of batch entries, with sizes 1 in all other dimensions."""
    weights = convert_to_tensor(weights)
    if weights._dims is not None and len(weights._dims) == 1 and values._dims is not None:
        for _ in values._dims[1:]:
            weights = raw_ops.ExpandDims(weights, -1)
    return checked_weights(weights, values)


def _entry_axes(values: Tensor) -> Any:
    """All axes but the first."""
    if values._dims is not None:
        return np.arange(1, len(values._dims), dtype=np.int32)
    return raw_ops.Range(np.int32(1), raw_ops.Rank(values), np.int32(1))
