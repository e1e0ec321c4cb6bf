"""The cross entropy of sequences that are one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.losses import sparse_softmax_cross_entropy_with_logits
from hpcflow.ops.math.reductions import reduce_sum

_TINY = 1e-12  # keeps weights that are all 0 from a division by 0


def sequence_loss(logits: TensorLike, targets: TensorLike, weights: TensorLike,
                  average_across_timesteps: bool = True, average_across_batch: bool = True,
                  softmax_loss_function: Callable | None = None, name: str | None = None, *,
                  sum_over_timesteps: bool = False, sum_over_batch: bool = False) -> Tensor:
    """The weighted cross entropy of a batch of sequences.

    Args:
        logits: scores ``[batch, steps, symbols]``.
        targets: integers ``[batch, steps]``.
        weights: floats ``[batch, steps]``.
        average_across_timesteps: divide the sum over the steps by that of the weights.
        average_across_batch: the same over the batch.
        softmax_loss_function: ``f(labels=..., logits=...)`` instead of the cross entropy.
        name: of the operations' scope.
        sum_over_timesteps: divide the sum over the steps by the number of weights that are not 0.
        sum_over_batch: the same over the batch.

    Returns: a scalar; ``[batch]`` or ``[steps]`` where only one average is taken, the losses
    ``[batch, steps]`` where none is.

    Raises ``ValueError`` for other ranks, or for an average and a sum over the same dimension, or
    over both.
    """
    if (average_across_timesteps or average_across_batch) and (
            sum_over_timesteps or sum_over_batch):
        raise ValueError("sequence_loss takes averages or sums: set average_across_timesteps and "
                         "average_across_batch to False for sum_over_timesteps, sum_over_batch")
    logits, targets = convert_to_tensor(logits), convert_to_tensor(targets)
    weights = convert_to_tensor(weights, logits.dtype.base_dtype)
    for x, rank, what in ((logits, 3, "Logits"), (targets, 2, "Targets"), (weights, 2, "Weights")):
        if x.shape.ndims not in (None, rank):
            raise ValueError(f"{what} must be a tensor of rank {rank}, but have the shape "
                             f"{x.shape}")
    with name_scope(name, "sequence_loss", [logits, targets, weights]):
        function = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
        classes = raw_ops.Unpack(raw_ops.Shape(logits), num=3)[2]
        flat = raw_ops.Reshape(logits, raw_ops.Pack([np.int32(-1), classes]))
        losses = function(labels=raw_ops.Reshape(targets, np.array([-1], np.int32)), logits=flat)
        losses = raw_ops.Mul(raw_ops.Reshape(losses, raw_ops.Shape(weights)), weights)
        if sum_over_timesteps or sum_over_batch:
            counted: Any = raw_ops.NotEqual(weights, raw_ops.ZerosLike(weights))
            weights = raw_ops.Cast(counted, DstT=weights.dtype.base_dtype)
        over_steps = average_across_timesteps or sum_over_timesteps
        if over_steps and (average_across_batch or sum_over_batch):
            return _average(losses, weights, None)
        if over_steps:
            return _average(losses, weights, 1)
        return _average(losses, weights, 0) if (
            average_across_batch or sum_over_batch) else losses


def _average(losses: Any, weights: Any, axis: int | None) -> Tensor:
    total: Any = reduce_sum(weights, axis)
    return raw_ops.RealDiv(reduce_sum(losses, axis), total + _TINY)
