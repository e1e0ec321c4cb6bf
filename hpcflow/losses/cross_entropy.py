"""Losses between distributions: logarithmic loss and cross entropies."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses.collecting import Reduction, compute_weighted_loss
from hpcflow.nn import losses as pointwise
from hpcflow.nn.weighting import (
    as_float,
    cast_like,
    check_same_shape,
    squeeze_to_match,
    squeeze_weights,
)


def log_loss(labels: TensorLike, predictions: TensorLike, weights: TensorLike = 1.0,
             epsilon: float = 1e-7, scope: str | None = None,
             loss_collection: str | None = GraphKeys.LOSSES,
             reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean of -labels log(predictions) - (1 - labels) log(1 - predictions).

    `epsilon` is added inside the logarithms; weights as in :func:`compute_weighted_loss`.
    Raises ``ValueError`` for shapes that differ.
    """
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as scope:
        predictions = as_float(predictions)
        labels = cast_like(labels, predictions)
        check_same_shape(labels, predictions)
        small = convert_to_tensor(epsilon, predictions.dtype.base_dtype)
        one = convert_to_tensor(1, predictions.dtype.base_dtype)
        present = raw_ops.Mul(labels, raw_ops.Log(raw_ops.Add(predictions, small)))
        absent = raw_ops.Mul(raw_ops.Sub(one, labels),
                             raw_ops.Log(raw_ops.Add(raw_ops.Sub(one, predictions), small)))
        losses = raw_ops.Sub(raw_ops.Neg(present), absent)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(multi_class_labels: TensorLike, logits: TensorLike,
                          weights: TensorLike = 1.0, label_smoothing: float = 0,
                          scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean cross entropy of independent classes, from logits.

    Args:
        multi_class_labels: shape ``[batch, classes]``, in [0, 1].
        logits: the same shape.
        weights: as in :func:`compute_weighted_loss`.
        label_smoothing: moves labels towards 1/2: ``labels (1 - s) + s / 2``.
        scope: name scope.
        loss_collection: where the result is added.
        reduction: as in :func:`compute_weighted_loss`.
    """
    values = [logits, multi_class_labels, weights]
    with name_scope(scope, "sigmoid_cross_entropy_loss", values) as scope:
        logits = convert_to_tensor(logits)
        labels = cast_like(multi_class_labels, logits)
        check_same_shape(labels, logits, "logits")
        if label_smoothing > 0:
            labels = _smoothed(labels, label_smoothing, 0.5)
        losses = pointwise.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits,
                                                             name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def _smoothed(labels: Tensor, smoothing: float, level: Tensor | float) -> Tensor:
    """``labels (1 - smoothing) + smoothing level``."""
    kind = labels.dtype.base_dtype
    kept = raw_ops.Mul(labels, convert_to_tensor(1.0 - smoothing, kind))
    return raw_ops.Add(kept, raw_ops.Mul(convert_to_tensor(smoothing, kind),
                                         convert_to_tensor(level, kind)))


def softmax_cross_entropy(onehot_labels: TensorLike, logits: TensorLike, weights: TensorLike = 1.0,
                          label_smoothing: float = 0, scope: str | None = None,
                          loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean cross entropy of exclusive classes, from logits.

    Args:
        onehot_labels: shape ``[batch, classes]``: distributions.
        logits: the same shape.
        weights: a scalar or shape ``[batch]``.
        label_smoothing: moves labels towards 1/classes: ``labels (1 - s) + s / classes``.
        scope: name scope.
        loss_collection: where the result is added.
        reduction: as in :func:`compute_weighted_loss`.
    """
    values = [logits, onehot_labels, weights]
    with name_scope(scope, "softmax_cross_entropy_loss", values) as scope:
        logits = convert_to_tensor(logits)
        labels = cast_like(onehot_labels, logits)
        check_same_shape(labels, logits, "logits")
        if label_smoothing > 0:
            labels = _smoothed(labels, label_smoothing, _inverse_classes(labels))
        losses = pointwise.softmax_cross_entropy_with_logits(labels=labels, logits=logits,
                                                             name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def _inverse_classes(labels: Tensor) -> Any:
    """One over the size of the last dimension."""
    known = labels._dims[-1] if labels._dims else None
    if known is not None:
        return 1.0 / max(known, 1)
    count = raw_ops.StridedSlice(raw_ops.Shape(labels), [-1], [0], [1], shrink_axis_mask=1,
                                 end_mask=1)
    return raw_ops.Reciprocal(raw_ops.Cast(count, DstT=labels.dtype.base_dtype))


def sparse_softmax_cross_entropy(labels: TensorLike, logits: TensorLike, weights: TensorLike = 1.0,
                                 scope: str | None = None,
                                 loss_collection: str | None = GraphKeys.LOSSES,
                                 reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted mean cross entropy of exclusive classes, given by their numbers.

    Args:
        labels: int32 or int64, shape ``[batch]`` (or ``[batch, 1]``).
        logits: shape ``[batch, classes]``.
        weights: a scalar, shape ``[batch]`` or ``[batch, 1]``.
        scope: name scope.
        loss_collection: where the result is added.
        reduction: as in :func:`compute_weighted_loss`.
    """
    values = [logits, labels, weights]
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", values) as scope:
        labels, logits = squeeze_to_match(convert_to_tensor(labels), convert_to_tensor(logits), 1)
        losses = pointwise.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits,
                                                                    name="xentropy")
        return compute_weighted_loss(losses, squeeze_weights(weights, losses), scope,
                                     loss_collection, reduction)
