"""``hpcflow.contrib.losses``: losses with predictions before labels, and weights of their first
dimensions, as 1.x has them here. All are float32."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.losses import metric_learning
from hpcflow.contrib.losses.pairwise import mean_pairwise_squared_error
from hpcflow.contrib.losses.weighting import (
    add_loss,
    as_float,
    compatible,
    compute_weighted_loss,
)
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import get_losses, get_regularization_losses, get_total_loss
from hpcflow.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from hpcflow.ops.math.reductions import reduce_sum


@add_arg_scope
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0,
                        scope: str | None = None) -> Tensor:
    """Return the weighted mean of |predictions - labels|; see :func:`compute_weighted_loss`."""
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as name:
        predictions, labels = compatible(predictions, labels)
        return compute_weighted_loss(raw_ops.Abs(raw_ops.Sub(predictions, labels)), weights, name)


@add_arg_scope
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0,
                       scope: str | None = None) -> Tensor:
    """Return the weighted mean of (predictions - labels)²; see :func:`compute_weighted_loss`."""
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as name:
        predictions, labels = compatible(predictions, labels)
        return compute_weighted_loss(raw_ops.SquaredDifference(predictions, labels), weights, name)


@add_arg_scope
def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7,
             scope: str | None = None) -> Tensor:
    """Return the weighted mean of - labels log(predictions + epsilon)
    - (1 - labels) log(1 - predictions + epsilon); see :func:`compute_weighted_loss`."""
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as name:
        p: Any
        y: Any
        p, y = compatible(predictions, labels)
        losses = -y * raw_ops.Log(p + epsilon) - (1.0 - y) * raw_ops.Log(1.0 - p + epsilon)
        return compute_weighted_loss(losses, weights, name)


@add_arg_scope
def cosine_distance(predictions: TensorLike, labels: TensorLike | None = None,
                    dim: int | None = None, weights: TensorLike = 1.0, scope: str | None = None,
                    axis: int | None = None) -> Tensor:
    """Return the weighted mean of 1 - Σ predictions labels, the sum taken along `dim`, which may be
    called `axis`; see :func:`compute_weighted_loss`. Raises ``ValueError`` without it."""
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("You must specify 'axis'.")
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as name:
        products = raw_ops.Mul(*compatible(predictions, labels))
        losses: Any = 1.0 - reduce_sum(products, [along])  # type: ignore[operator]
        return compute_weighted_loss(losses, weights, name)


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
    """Return the weighted mean of the cross entropies of classes that do not exclude each other;
    see :func:`compute_weighted_loss`. Smoothed labels are nearer to 1/2."""
    with name_scope(scope, "sigmoid_cross_entropy_loss",
                    [logits, multi_class_labels, weights]) as name:
        logits = convert_to_tensor(logits)
        labels = as_float(multi_class_labels, logits.dtype.base_dtype)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name)


@add_arg_scope
def softmax_cross_entropy(logits: TensorLike, onehot_labels: Any, weights: TensorLike = 1.0,
                          label_smoothing: float = 0, scope: str | None = None) -> Tensor:
    """Return the weighted mean of the cross entropies of classes that exclude each other; see
    :func:`compute_weighted_loss`. Smoothed labels are nearer to 1 / classes."""
    with name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as name:
        logits = convert_to_tensor(logits)
        labels = as_float(onehot_labels, logits.dtype.base_dtype)
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        if label_smoothing > 0:
            classes: Any = raw_ops.Cast(raw_ops.Shape(labels)[1], DstT=labels.dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        losses = softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name)


@add_arg_scope
def sparse_softmax_cross_entropy(logits: TensorLike, labels: TensorLike, weights: TensorLike = 1.0,
                                 scope: str | None = None) -> Tensor:
    """As :func:`softmax_cross_entropy`, of class numbers ``[batch]`` or ``[batch, 1]``."""
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as name:
        labels = convert_to_tensor(labels)
        labels = raw_ops.Reshape(labels, raw_ops.Pack([raw_ops.Shape(labels)[0]]))
        losses = sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits,
                                                          name="xentropy")
        return compute_weighted_loss(losses, weights, name)
