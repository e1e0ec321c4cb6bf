"""Losses of sequences, and networks for several lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.nn.losses import sparse_softmax_cross_entropy_with_logits
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.shape_ops import reshape, shape
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope

_TINY = 1e-12  # keeps weights that are all 0 from a division by 0


def sequence_loss_by_example(logits: Sequence[Any], targets: Sequence[Any],
                             weights: Sequence[Any], average_across_timesteps: bool = True,
                             softmax_loss_function: Callable | None = None,
                             name: str | None = None) -> Tensor:
    """The weighted cross entropy of each example of a batch.

    Args:
        logits: scores ``[batch, symbols]`` per step.
        targets: integers ``[batch]`` per step.
        weights: floats ``[batch]`` per step.
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: ``f(labels, logits) -> [batch]`` instead of the full softmax.
        name: of the operations ("sequence_loss_by_example").

    Returns: float ``[batch]``. Raises ``ValueError`` for lists of different lengths.
    """
    if not len(targets) == len(logits) == len(weights):
        raise ValueError("Lengths of logits, weights, and targets must be the same "
                         f"{len(logits)}, {len(weights)}, {len(targets)}.")
    with name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for scores, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                target = reshape(target, [-1])
                loss = sparse_softmax_cross_entropy_with_logits(labels=target, logits=scores)
            else:
                loss = softmax_loss_function(target, scores)
            losses.append(loss * weight)
        total: Any = add_n(losses)
        if average_across_timesteps:
            size: Any = add_n([convert_to_tensor(w) for w in weights])
            total = total / (size + _TINY)
    return total


def sequence_loss(logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any],
                  average_across_timesteps: bool = True, average_across_batch: bool = True,
                  softmax_loss_function: Callable | None = None,
                  name: str | None = None) -> Tensor:
    """The sum of ``sequence_loss_by_example`` over the batch, or its mean; a scalar."""
    with name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost: Any = reduce_sum(sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps=average_across_timesteps,
            softmax_loss_function=softmax_loss_function))
        if average_across_batch:
            dims: Any = shape(targets[0])
            cost = cost / cast(dims[0], cost.dtype)
    return cost


def model_with_buckets(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any],
                       targets: Sequence[Any], weights: Sequence[Any],
                       buckets: Sequence[tuple[int, int]], seq2seq: Callable,
                       softmax_loss_function: Callable | None = None,
                       per_example_loss: bool = False,
                       name: str | None = None) -> tuple[list, list]:
    """One network per bucket (lengths of input and output), all with the same variables.

    ``seq2seq(encoder_inputs, decoder_inputs)`` gives (outputs, states). Returns (outputs, losses),
    an element for every bucket: a list of outputs, and a scalar or with `per_example_loss` a loss
    ``[batch]``. Raises ``ValueError`` if there are fewer inputs, targets or weights than the last
    bucket is long.
    """
    for given, needed, what in ((encoder_inputs, buckets[-1][0], "encoder_inputs"),
                                (targets, buckets[-1][1], "targets"),
                                (weights, buckets[-1][1], "weights")):
        if len(given) < needed:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last "
                             f"bucket ({needed}).")
    outputs, losses = [], []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    everything = [*encoder_inputs, *decoder_inputs, *targets, *weights]
    with name_scope(name, "model_with_buckets", everything):
        for number, (source, target) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number > 0 else None):
                made, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
                outputs.append(made)
                losses.append(loss(made, targets[:target], weights[:target],
                                   softmax_loss_function=softmax_loss_function))
    return outputs, losses
