"""Functions of ``nn`` that were tried out first."""

from __future__ import annotations

from typing import Any

from hpcflow import nn
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.random.random_ops import random_uniform
from hpcflow.shapes import ShapeLike

__all__ = ["alpha_dropout",
           "deprecated_flipped_sigmoid_cross_entropy_with_logits",
           "deprecated_flipped_softmax_cross_entropy_with_logits",
           "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
           "sampled_sparse_softmax_loss", "scaled_softplus"]

_LOWEST = -1.7580993408473766  # what selu tends to


def alpha_dropout(x: Any, keep_prob: TensorLike, noise_shape: ShapeLike | None = None,
                  seed: int | None = None, name: str | None = None) -> Tensor:
    """Return `x` with elements put to the lowest value of ``selu``, and scaled so that mean and
    variance stay what they are (Klambauer et al., 2017).

    Args:
        x: a floating tensor.
        keep_prob: the probability that an element is kept.
        noise_shape: broadcast to the shape of `x`: which elements are dropped together.
        seed: of the random numbers.
        name: of the operations.

    Raises ``ValueError`` unless 0 < keep_prob <= 1, where it is known.
    """
    with name_scope(name, "alpha_dropout", [x]):
        x = convert_to_tensor(x, name="x")
        if isinstance(keep_prob, (int, float)) and not 0 < keep_prob <= 1:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], "
                             f"got {keep_prob}")
        kept: Any = convert_to_tensor(keep_prob, x.dtype.base_dtype, name="keep_prob")
        if constant_value(kept) == 1:
            return x
        shape = raw_ops.Shape(x) if noise_shape is None else noise_shape
        noise = random_uniform(shape, dtype=x.dtype.base_dtype, seed=seed)
        mask: Any = raw_ops.Floor(kept + noise)
        scale = raw_ops.Rsqrt(kept + _LOWEST**2 * kept * (1 - kept))
        result = scale * (x * mask + _LOWEST * (1 - mask)) - scale * _LOWEST * (1 - kept)
        result.set_shape(x.shape)
        return result


def sampled_sparse_softmax_loss(weights: Any, biases: TensorLike, labels: TensorLike,
                                inputs: TensorLike, num_sampled: int, num_classes: int,
                                sampled_values: Any = None, remove_accidental_hits: bool = True,
                                partition_strategy: str = "mod",
                                name: str = "sampled_sparse_softmax_loss") -> Tensor:
    """Return ``nn.sampled_softmax_loss`` for one label each: `labels` are ``[batch, 1]``."""
    return nn.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, 1,
                                   sampled_values, remove_accidental_hits, partition_strategy,
                                   name)


def scaled_softplus(x: TensorLike, alpha: TensorLike, clip: TensorLike | None = None,
                    name: str | None = None) -> Tensor:
    """Return alpha softplus(x / alpha), at most `clip`."""
    with name_scope(name, "scaled_softplus", [x, alpha]):
        x = convert_to_tensor(x, name="x")
        scale = convert_to_tensor(alpha, x.dtype.base_dtype, name="alpha")
        result = raw_ops.Mul(scale, raw_ops.Softplus(raw_ops.RealDiv(x, scale)))
        return result if clip is None else raw_ops.Minimum(
            result, convert_to_tensor(clip, x.dtype.base_dtype))


def deprecated_flipped_softmax_cross_entropy_with_logits(logits: TensorLike, labels: TensorLike,
                                                         dim: int = -1,
                                                         name: str | None = None) -> Tensor:
    """As ``nn.softmax_cross_entropy_with_logits``, in the order of arguments before 1.0."""
    return nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
        logits: TensorLike, labels: TensorLike, name: str | None = None) -> Tensor:
    """As ``nn.sparse_softmax_cross_entropy_with_logits``, in the order before 1.0."""
    return nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits: TensorLike, targets: TensorLike,
                                                         name: str | None = None) -> Tensor:
    """As ``nn.sigmoid_cross_entropy_with_logits``, in the order before 1.0."""
    return nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)
