"""Losses over sampled classes that ``contrib.nn`` has besides those of ``nn``."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.nn.candidate_sampling import sampled_logits
from hpcflow.nn.embedding import embedding_lookup_and_transform


def sampled_sparse_softmax_loss(weights: Any, biases: Any, labels: TensorLike, inputs: TensorLike,
                                num_sampled: int, num_classes: int, sampled_values: Any = None,
                                remove_accidental_hits: bool = True,
                                partition_strategy: str = "mod",
                                name: str = "sampled_sparse_softmax_loss") -> Tensor:
    """Return ``nn.sampled_softmax_loss`` of one right class for each example.

    The arguments are those of ``nn.sampled_softmax_loss``.
    """
    with hf.name_scope(name, None, [inputs, labels]):
        logits, _ = sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, 1,
                                   sampled_values, remove_accidental_hits, partition_strategy)
        first = hf.zeros([hf.shape(logits)[0]], hf.int64)  # the right class is the first
        return hf.nn.sparse_softmax_cross_entropy_with_logits(labels=first, logits=logits)


def rank_sampled_softmax_loss(weights: Any, biases: Any, labels: TensorLike, inputs: Any,
                              num_sampled: int, num_resampled: int, num_classes: int,
                              num_true: int, sampled_values: Any,
                              resampling_temperature: TensorLike, remove_accidental_hits: bool,
                              partition_strategy: str, name: str | None = None) -> Tensor:
    """Return a sampled softmax loss over the candidates that are ranked highest.

    Of `num_sampled` classes the `num_resampled` ones are kept for which
    log Σ exp(logit / `resampling_temperature`), over the rows of `inputs`, is the largest. The
    other arguments are those of ``nn.sampled_softmax_loss``; `sampled_values` None stands for
    ``nn.learned_unigram_candidate_sampler``.

    Raises ``ValueError`` unless num_resampled < num_sampled <= num_classes, and for another
    strategy than ``"div"`` and ``"mod"``.
    """
    if num_sampled > num_classes:
        raise ValueError(f"num_sampled ({num_sampled}) cannot be greater than num_classes "
                         f"({num_classes})")
    if num_sampled <= num_resampled:
        raise ValueError(f"num_resampled ({num_resampled}) must be less than num_sampled "
                         f"({num_sampled})")
    if partition_strategy not in ("div", "mod"):
        raise ValueError(f"unsupported partition_strategy ({partition_strategy})")
    with hf.name_scope(name, "rank_sampled_softmax_loss", [labels, inputs]) as scope:
        values = sampled_values or hf.nn.learned_unigram_candidate_sampler(
            true_classes=labels, num_true=num_true, num_sampled=num_sampled, unique=True,
            range_max=num_classes)
        kept = _highest(weights, biases, inputs, values, num_resampled, resampling_temperature,
                        partition_strategy)
        return hf.nn.sampled_softmax_loss(
            weights=weights, biases=biases, labels=labels, inputs=inputs,
            num_sampled=num_resampled, num_classes=num_classes, num_true=num_true,
            sampled_values=kept, remove_accidental_hits=remove_accidental_hits,
            partition_strategy=partition_strategy, name=scope)


def _highest(weights: Any, biases: Any, inputs: Any, values: Any, count: int, temperature: Any,
             strategy: str) -> tuple[Tensor, Tensor, Tensor]:
    """Those of sampled values whose classes are ranked highest."""
    sampled, expected_of_true, expected = (hf.stop_gradient(v) for v in values)
    sampled = hf.cast(sampled, hf.int64)
    heated = inputs / temperature

    def summed(rows: Tensor) -> Tensor:
        return hf.reduce_logsumexp(hf.matmul(rows, heated, transpose_b=True), 1)

    rank = embedding_lookup_and_transform(weights, sampled, strategy, transform_fn=summed)
    bias = hf.reshape(hf.nn.embedding_lookup(biases, sampled, strategy), [-1])
    _, places = hf.nn.top_k(rank + bias / temperature, k=count, sorted=False)
    return hf.gather(sampled, places), expected_of_true, hf.gather(expected, places)
