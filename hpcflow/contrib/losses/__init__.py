"""``hpcflow.contrib.losses``: the losses with predictions before labels, as 1.x has them here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import losses as _losses
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.losses import metric_learning
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import (
    get_losses,
    get_regularization_losses,
    get_total_loss,
)

add_loss = add_arg_scope(_losses.add_loss)


def _fitted(weights: Any, values: Any) -> Any:
    """Weights of the first dimensions of `values`, with a dimension of 1 for each that is missing.
    """
    if isinstance(weights, (int, float)):
        return weights
    weights, values = convert_to_tensor(weights), convert_to_tensor(values)
    if not weights._dims or values._dims is None:
        return weights
    while len(weights._dims) < len(values._dims):
        weights = raw_ops.ExpandDims(weights, -1)
    return weights


@add_arg_scope
def compute_weighted_loss(losses: Sequence[TensorLike], weights: TensorLike = 1.0,
                          scope: str | None = None) -> Tensor:
    """As ``losses.compute_weighted_loss``; weights may be those of the first dimensions only."""
    return _losses.compute_weighted_loss(losses, _fitted(weights, losses), scope)


@add_arg_scope
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0,
                        scope: str | None = None) -> Tensor:
    """As ``losses.absolute_difference``."""
    return _losses.absolute_difference(labels, predictions, _fitted(weights, predictions), scope)


@add_arg_scope
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0,
                       scope: str | None = None) -> Tensor:
    """As ``losses.mean_squared_error``."""
    return _losses.mean_squared_error(labels, predictions, _fitted(weights, predictions), scope)


@add_arg_scope
def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0,
                                scope: str | None = None) -> Tensor:
    """As ``losses.mean_pairwise_squared_error``."""
    return _losses.mean_pairwise_squared_error(labels, predictions, _fitted(weights, predictions),
                                               scope)


@add_arg_scope
def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7,
             scope: str | None = None) -> Tensor:
    """As ``losses.log_loss``."""
    return _losses.log_loss(labels, predictions, _fitted(weights, predictions), epsilon, scope)


@add_arg_scope
def cosine_distance(predictions: TensorLike, labels: TensorLike | None = None,
                    dim: int | None = None, weights: TensorLike = 1.0,
                    scope: str | None = None) -> Tensor:
    """As ``losses.cosine_distance``; `dim` is required."""
    if dim is None:
        raise ValueError("`dim` cannot be None.")
    return _losses.cosine_distance(labels, predictions, dim, _fitted(weights, predictions), scope)


@add_arg_scope
def hinge_loss(logits: TensorHandle, labels: TensorHandle | None = None,
               scope: str | None = None) -> Tensor:
    """Return max(0, 1 - label logits) of each element, labels being 0 or 1; it is not collected.
    """
    with name_scope(scope, "hinge_loss", [logits, labels]):
        logits = convert_to_tensor(logits)
        labels = raw_ops.Cast(convert_to_tensor(labels), DstT=logits.dtype.base_dtype)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        ones = raw_ops.OnesLike(labels)
        signs = raw_ops.Sub(raw_ops.Add(labels, labels), ones)
        return raw_ops.Relu(raw_ops.Sub(ones, raw_ops.Mul(signs, logits)))


@add_arg_scope
def sigmoid_cross_entropy(logits: TensorLike, multi_class_labels: Any, weights: TensorLike = 1.0,
                          label_smoothing: float = 0, scope: str | None = None) -> Tensor:
    """As ``losses.sigmoid_cross_entropy``."""
    return _losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing,
                                         scope)


@add_arg_scope
def softmax_cross_entropy(logits: TensorLike, onehot_labels: Any, weights: TensorLike = 1.0,
                          label_smoothing: float = 0, scope: str | None = None) -> Tensor:
    """As ``losses.softmax_cross_entropy``."""
    return _losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


@add_arg_scope
def sparse_softmax_cross_entropy(logits: TensorLike, labels: TensorLike, weights: TensorLike = 1.0,
                                 scope: str | None = None) -> Tensor:
    """As ``losses.sparse_softmax_cross_entropy``."""
    return _losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)
