"""Samplers of candidate classes, and the losses over sampled classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.nn.losses import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.random.random_ops import get_seed

__all__ = [
    "all_candidate_sampler",
    "compute_accidental_hits",
    "fixed_unigram_candidate_sampler",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "nce_loss",
    "sampled_softmax_loss",
    "uniform_candidate_sampler",
]


class Candidates(NamedTuple):
    """The result of a sampler: the classes, and expected counts of labels and of the classes."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def _sampled(op_type: str, true_classes: TensorLike, seed: int | None, name: str | None,
             **attrs: Any) -> Candidates:
    seed1, seed2 = get_seed(seed)
    return Candidates(*getattr(raw_ops, op_type)(
        true_classes=true_classes, seed=seed1 or 0, seed2=seed2 or 0, name=name, **attrs))


def uniform_candidate_sampler(true_classes: TensorLike, num_true: int, num_sampled: int,
                              unique: bool, range_max: int, seed: int | None = None,
                              name: str | None = None) -> Candidates:
    """Draw classes of ``[0, range_max)``, all alike.

    Args:
        true_classes: int64, shape ``[batch, num_true]``: the labels.
        num_true: number of labels of each example.
        num_sampled: number of classes drawn, for the whole batch.
        unique: whether they are all different.
        range_max: number of classes.
        seed: seed of the op.
        name: name of the operation.

    Returns: (classes int64 ``[num_sampled]``, expected counts of the labels ``[batch, num_true]``,
        expected counts of the classes ``[num_sampled]``).

    Raises (when run) ``InvalidArgumentError`` for more different classes than there are.
    """
    return _sampled("UniformCandidateSampler", true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max)


def log_uniform_candidate_sampler(true_classes: TensorLike, num_true: int, num_sampled: int,
                                  unique: bool, range_max: int, seed: int | None = None,
                                  name: str | None = None) -> Candidates:
    """Draw classes with P(k) = log((k + 2) / (k + 1)) / log(range_max + 1).

    That is near the distribution of words that are sorted by falling frequency. Arguments as of
    :func:`uniform_candidate_sampler`.
    """
    return _sampled("LogUniformCandidateSampler", true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max)


def learned_unigram_candidate_sampler(true_classes: TensorLike, num_true: int, num_sampled: int,
                                      unique: bool, range_max: int, seed: int | None = None,
                                      name: str | None = None) -> Candidates:
    """Draw classes by how often they were labels in the steps so far, plus one.

    Arguments as of :func:`uniform_candidate_sampler`.
    """
    return _sampled("LearnedUnigramCandidateSampler", true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max)


def fixed_unigram_candidate_sampler(true_classes: TensorLike, num_true: int, num_sampled: int,
                                    unique: bool, range_max: int, vocab_file: str = "",
                                    distortion: float = 1.0, num_reserved_ids: int = 0,
                                    num_shards: int = 1, shard: int = 0,
                                    unigrams: Sequence[float] = (), seed: int | None = None,
                                    name: str | None = None) -> Candidates:
    """Draw classes by given weights.

    Args as of :func:`uniform_candidate_sampler`, and
        vocab_file: a file with a line for each class, whose last value after a comma is its weight.
        distortion: the weights are raised to this power.
        num_reserved_ids: classes at the beginning that are never drawn and not in the file or list.
        num_shards: number of parts of the range.
        shard: which part: every `num_shards`-th class from this one on.
        unigrams: the weights, instead of a file.
    """
    return _sampled("FixedUnigramCandidateSampler", true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max,
                    vocab_file=vocab_file, distortion=distortion,
                    num_reserved_ids=num_reserved_ids, num_shards=num_shards, shard=shard,
                    unigrams=[float(u) for u in unigrams])


def all_candidate_sampler(true_classes: TensorLike, num_true: int, num_sampled: int, unique: bool,
                          seed: int | None = None, name: str | None = None) -> Candidates:
    """Return all classes of ``[0, num_sampled)``, for tests; all expected counts are 1."""
    return _sampled("AllCandidateSampler", true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique)


def compute_accidental_hits(true_classes: TensorLike, sampled_candidates: TensorLike, num_true: int,
                            seed: int | None = None,
                            name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return where sampled classes are labels: (rows, positions in the sample, weights).

    Each weight is the lowest float, to be added to the logit.
    """
    seed1, seed2 = get_seed(seed)
    return tuple(raw_ops.ComputeAccidentalHits(
        true_classes=true_classes, sampled_candidates=sampled_candidates, num_true=num_true,
        seed=seed1 or 0, seed2=seed2 or 0, name=name))


# ---------------------------------------------------------------- losses


def sampled_logits(weights: TensorLike, biases: TensorLike, labels: Any, inputs: TensorLike,
                   num_sampled: int, num_classes: int, num_true: int, sampled_values: Any,
                   remove_accidental_hits: bool, strategy: str,
                   seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Logits of labels and sampled classes, less the log of their expected counts; their labels."""
    labels = convert_to_tensor(labels)
    if labels.dtype.base_dtype is not dtypes.int64:
        labels = raw_ops.Cast(labels, DstT=dtypes.int64)
    inputs = convert_to_tensor(inputs)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True,
                                                       num_classes, seed)
    sampled, true_expected, sampled_expected = (raw_ops.StopGradient(s) for s in sampled_values)
    if sampled.dtype.base_dtype is not dtypes.int64:
        sampled = raw_ops.Cast(sampled, DstT=dtypes.int64)
    flat = raw_ops.Reshape(labels, np.array([-1], np.int32))
    ids = raw_ops.ConcatV2([flat, sampled], 0)
    rows = embedding_lookup(weights, ids, partition_strategy=strategy)
    shifts = embedding_lookup(biases, ids, partition_strategy=strategy)
    sizes = raw_ops.Pack([raw_ops.Size(flat), raw_ops.Size(sampled)])
    true_rows, sampled_rows = raw_ops.SplitV(rows, sizes, np.int32(0), num_split=2)
    true_shifts, sampled_shifts = raw_ops.SplitV(shifts, sizes, np.int32(0), num_split=2)
    kind = inputs.dtype.base_dtype
    own = _true_logits(inputs, true_rows, true_shifts, num_true)
    others = raw_ops.Add(raw_ops.MatMul(inputs, sampled_rows, transpose_b=True), sampled_shifts)
    if remove_accidental_hits:
        others = raw_ops.Add(others, _hits(labels, sampled, num_true, others))
    own = raw_ops.Sub(own, raw_ops.Log(raw_ops.Cast(true_expected, DstT=kind)))
    others = raw_ops.Sub(others, raw_ops.Log(raw_ops.Cast(sampled_expected, DstT=kind)))
    share = raw_ops.RealDiv(raw_ops.OnesLike(own), kind.np.type(num_true))
    return (raw_ops.ConcatV2([own, others], 1),
            raw_ops.ConcatV2([share, raw_ops.ZerosLike(others)], 1))


def _true_logits(inputs: Tensor, rows: Tensor, shifts: Tensor, num_true: int) -> Tensor:
    """The logit of each label, shape ``[batch, num_true]``."""
    size = inputs.shape.as_list()[-1]
    if size is None:
        raise ValueError(f"the size of the inputs must be known, got shape {inputs.shape}")
    rows = raw_ops.Reshape(rows, np.array([-1, num_true, size], np.int32))
    logits = reduce_sum(raw_ops.Mul(raw_ops.ExpandDims(inputs, np.int32(1)), rows), [2])
    return raw_ops.Add(logits, raw_ops.Reshape(shifts, np.array([-1, num_true], np.int32)))


def _hits(labels: Tensor, sampled: Tensor, num_true: int, logits: Tensor) -> Tensor:
    """The lowest float where a sampled class is a label of the row, else 0."""
    rows, columns, weights = compute_accidental_hits(labels, sampled, num_true)
    places = raw_ops.Pack([rows, raw_ops.Cast(columns, DstT=dtypes.int32)], axis=1)
    return raw_ops.ScatterNd(places, raw_ops.Cast(weights, DstT=logits.dtype.base_dtype),
                             raw_ops.Shape(logits))


def nce_loss(weights: TensorLike, biases: TensorLike, labels: TensorLike, inputs: TensorLike,
             num_sampled: int, num_classes: int, num_true: int = 1,
             sampled_values: TensorHandle | None = None, remove_accidental_hits: bool = False,
             partition_strategy: str = "mod", name: str = "nce_loss") -> Tensor:
    """Return the noise-contrastive estimation loss (Gutmann and Hyvärinen, AISTATS 2010).

    Args:
        weights: table ``[num_classes, size]``, a tensor or parts as of ``embedding_lookup``.
        biases: ``[num_classes]``, likewise.
        labels: classes, shape ``[batch, num_true]``.
        inputs: ``[batch, size]``.
        num_sampled: number of classes drawn for the batch.
        num_classes: number of classes.
        num_true: number of labels of each example.
        sampled_values: what a sampler returned; the log-uniform one, unique, if None.
        remove_accidental_hits: whether sampled classes that are labels are left out.
        partition_strategy: "mod" or "div", as of ``embedding_lookup``.
        name: name scope.

    Returns: one loss for each example.
    """
    with name_scope(name, "nce_loss", [inputs, labels]):
        logits, targets = sampled_logits(weights, biases, labels, inputs, num_sampled,
                                         num_classes, num_true, sampled_values,
                                         remove_accidental_hits, partition_strategy)
        losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        return reduce_sum(losses, [1])


def sampled_softmax_loss(weights: TensorLike, biases: TensorLike, labels: TensorLike,
                         inputs: TensorLike, num_sampled: int, num_classes: int, num_true: int = 1,
                         sampled_values: TensorHandle | None = None,
                         remove_accidental_hits: bool = True, partition_strategy: str = "mod",
                         name: str = "sampled_softmax_loss", seed: int | None = None) -> Tensor:
    """Return the softmax loss over the labels and a sample of the classes, for training.

    Section 3 of Jean et al., 2014 (arXiv:1412.2007). Arguments as of :func:`nce_loss`; `seed` is
    that of the sample.
    """
    with name_scope(name, "sampled_softmax_loss", [inputs, labels]):
        logits, targets = sampled_logits(weights, biases, labels, inputs, num_sampled,
                                         num_classes, num_true, sampled_values,
                                         remove_accidental_hits, partition_strategy, seed)
        return softmax_cross_entropy_with_logits(labels=targets, logits=logits)
