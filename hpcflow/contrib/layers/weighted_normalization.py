"""Batch normalization with weights of the examples, or with moving means free of their start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import BoolLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import if_training
from hpcflow.layers.normalization import dtype_of_statistics, of_population
from hpcflow.nn import normalization
from hpcflow.optimizers.moving_averages import assign_moving_average

__all__ = ["Moving", "weighted_batch_norm"]


class Moving(NamedTuple):
    """The moving mean and variance of one normalization, and how they follow the batches."""

    mean: Any
    variance: Any
    decay: float
    zero_debias: bool

    def updates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """The operations that take the statistics of a batch in, as tensors."""
        return [convert_to_tensor(assign_moving_average(kept, new, self.decay, debias))
                for kept, new, debias in ((self.mean, mean, self.zero_debias),
                                          (self.variance, variance, False))]

    def values(self) -> list[Tensor]:
        """Both as they are."""
        return [raw_ops.Identity(convert_to_tensor(v)) for v in (self.mean, self.variance)]


def weighted_batch_norm(inputs: Tensor, axis: int, moving: Moving, beta: Any, gamma: Any,
                        epsilon: float, is_training: BoolLike, weights: TensorLike | None,
                        fused: bool | None) -> tuple[Tensor, list[Tensor]]:
    """Return the normalized `inputs`, and the updates of the moving statistics.

    Args:
        inputs: of known rank; the statistics are of the entries along `axis`.
        moving: the moving statistics, used where it is not training.
        beta, gamma: offset and scale along `axis`, or None.
        weights: how much each example of the batch counts, or None.
        fused: unless False the moving variance of images and vectors is that of the population.
    """
    kind, wide = inputs.dtype.base_dtype, dtype_of_statistics(inputs)
    if kind is not wide:
        inputs = raw_ops.Cast(inputs, DstT=wide)
    rank = len(inputs.shape)
    reduced = [i for i in range(rank) if i != axis % rank]
    shape = [-1 if i == axis % rank else 1 for i in range(rank)]

    def of_batch() -> list[Tensor]:
        mean, variance = _moments(inputs, reduced, weights)
        kept = variance
        if weights is None and fused is not False and rank in (2, 4):
            kept = of_population(variance, inputs, mean)
        return [mean, variance, kept]

    mean, variance, kept = if_training(
        is_training, of_batch, lambda: [*moving.values(), moving.values()[1]])
    # Where it is not known now whether it is training, both branches have as many results.
    otherwise: Callable = list if isinstance(is_training, (bool, int)) else moving.values
    updates = if_training(is_training, lambda: moving.updates(mean, kept), otherwise)
    fitted: list[Any] = [None if v is None else raw_ops.Reshape(convert_to_tensor(v), shape)
              for v in (mean, variance, beta, gamma)]
    outputs = normalization.batch_normalization(inputs, fitted[0], fitted[1], fitted[2], fitted[3],
                                                epsilon)
    outputs.set_shape(inputs.shape)
    return outputs if kind is wide else raw_ops.Cast(outputs, DstT=kind), updates


def _moments(inputs: Tensor, reduced: Sequence[int],
             weights: TensorLike | None) -> tuple[Tensor, Tensor]:
    """Mean and variance of a batch, each example counted as often as its weight says."""
    if weights is None:
        return normalization.moments(inputs, list(reduced))
    each = convert_to_tensor(weights, inputs.dtype.base_dtype)
    inputs.shape[0:1].assert_is_compatible_with(each.shape)
    each = raw_ops.Reshape(each, [-1] + [1] * (len(inputs.shape) - 1))
    return normalization.weighted_moments(inputs, list(reduced), each)
