"""Connectionist temporal classification: sequences of labels without known places in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, to_sparse
from hpcflow.ops.arrays.masks import sequence_mask
from hpcflow.ops.flow.functional import map_fn

__all__ = ["collapse_repeated", "ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_loss",
           "ctc_loss_v2", "ctc_unique_labels"]


def ctc_loss(labels: SparseTensor, inputs: TensorLike | None = None,
             sequence_length: TensorLike | None = None, preprocess_collapse_repeated: bool = False,
             ctc_merge_repeated: bool = True, time_major: bool = True,
             ignore_longer_outputs_than_inputs: bool = False,
             logits: TensorLike | None = None) -> Tensor:
    """Return for each example -log of the probability of its labels, float32, shape ``[batch]``.

    Args:
        labels: sparse int32, shape ``[batch, labels]``: numbers below ``classes - 1``; the last
            class is the blank.
        inputs: float32 logits ``[time, batch, classes]`` (``[batch, time, classes]`` unless
            `time_major`).
        sequence_length: int32, how many time steps each example has.
        preprocess_collapse_repeated: labels that repeat the one before are left out first.
        ctc_merge_repeated: equal classes one after the other stand for one label.
        time_major: the order of the dimensions of `inputs`.
        ignore_longer_outputs_than_inputs: examples with more labels than time steps have no loss
            and no gradient, instead of being an error.
        logits: another name of `inputs`.

    Raises ``TypeError`` for labels that are not sparse, ``ValueError`` where logits or lengths are
    missing or given twice; when run ``InvalidArgumentError`` for
    labels that are no classes, and for more labels than the time steps can hold.
    """
    if inputs is not None and logits is not None:
        raise ValueError("Cannot specify both 'inputs' and 'logits'")
    inputs = logits if inputs is None else inputs
    if inputs is None or sequence_length is None:
        raise ValueError("ctc_loss: the logits and sequence_length must be given")
    sparse = to_sparse(labels, "Expected argument 'labels' of ctc_loss(): it")
    inputs = convert_to_tensor(inputs, dtypes.float32, name="inputs")
    if not time_major:
        inputs = raw_ops.Transpose(inputs, np.array([1, 0, 2], np.int32))
    return raw_ops.CTCLoss(inputs, sparse.indices, sparse.values, sequence_length,
                           preprocess_collapse_repeated=preprocess_collapse_repeated,
                           ctc_merge_repeated=ctc_merge_repeated,
                           ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)[0]


def ctc_loss_v2(labels: TensorLike, logits: Any, label_length: Any, logit_length: TensorLike,
                logits_time_major: bool = True, unique: object = None,
                blank_index: int | None = None, name: str | None = None) -> Tensor:
    """Return for each example -log of the probability of its labels, float32, shape ``[batch]``.

    Args:
        labels: int32 ``[batch, labels]``, or a sparse tensor of that shape.
        logits: float32 ``[time, batch, classes]`` (``[batch, time, classes]`` unless
            `logits_time_major`).
        label_length: int32 ``[batch]``, how many labels each example has, maybe none; not used for
            sparse labels, of which every example has some.
        logit_length: int32 ``[batch]``, how many time steps.
        logits_time_major: the order of the dimensions of `logits`.
        unique: accepted; the labels are not summed up by it.
        blank_index: the class that is the blank, negative ones counted from the last; 0 by default,
            but to be said for sparse labels.
        name: name of the scope.

    Raises ``ValueError`` for sparse labels without `blank_index`, and if the number of classes is
    unknown; when run ``InvalidArgumentError`` for labels that are no classes, or are blanks.
    """
    if isinstance(labels, SparseTensor) and blank_index is None:
        raise ValueError("blank_index must be given when using SparseTensor labels.")
    with name_scope(name, "ctc_loss", [logits]):
        logits = convert_to_tensor(logits, dtypes.float32, name="logits")
        if not logits_time_major:
            logits = raw_ops.Transpose(logits, np.array([1, 0, 2], np.int32))
        blank = _blank(logits, blank_index or 0)
        if isinstance(labels, SparseTensor):
            indices, values = labels.indices, labels.values
        else:
            indices, values = _within(labels, label_length)
        # The op's blank is class 0: the classes below it move up by one.
        values = raw_ops.Cast(values, DstT="int32")
        below = raw_ops.Cast(raw_ops.Less(values, np.int32(blank)), DstT="int32")
        is_blank = raw_ops.Cast(raw_ops.Equal(values, np.int32(blank)), DstT="int32")
        values = raw_ops.Sub(raw_ops.Add(values, below),
                             raw_ops.Mul(is_blank, np.int32(blank + 1)))
        parts = [logits[:, :, blank:blank + 1], logits[:, :, :blank], logits[:, :, blank + 1:]]
        ordered = raw_ops.ConcatV2(parts, np.int32(2)) if blank else logits
        return raw_ops.CTCLossV2(ordered, indices, values, logit_length)[0]


def _blank(logits: Tensor, index: int) -> int:
    """The class that is the blank, counted from the first."""
    classes = None if logits._dims is None else logits._dims[2]
    if index >= 0:
        return index
    if classes is None:
        raise ValueError("ctc_loss: a negative blank_index needs a known number of classes")
    return index + classes


def _within(labels: TensorLike, lengths: TensorLike) -> tuple[Tensor, Tensor]:
    """The places of the labels of each example, and the labels there."""
    labels = convert_to_tensor(labels, name="labels")
    places = raw_ops.Where(sequence_mask(lengths, raw_ops.Shape(labels)[1]))
    return places, raw_ops.GatherNd(labels, places)


def dense_labels_to_sparse(dense: TensorLike, length: TensorLike) -> SparseTensor:
    """Return the labels of each row, ``[batch, labels]``, of which row i has ``length[i]``.

    The sparse tensor has the type of `dense` and is as wide as the longest row.
    """
    with name_scope(None, "dense_labels_to_sparse", [dense, length]):
        dense = convert_to_tensor(dense, name="dense")
        length = convert_to_tensor(length, name="length")
        places, values = _within(dense, length)
        rows = raw_ops.Cast(raw_ops.Shape(dense)[0], DstT="int64")
        longest = raw_ops.Cast(raw_ops.Max(length, np.array([0], np.int32)), DstT="int64")
        return SparseTensor(places, values, raw_ops.Pack([rows, longest]))


def ctc_unique_labels(labels: Tensor, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (the different labels of each row, filled up with zeros; the number of each label
    among these), int64 and int32 of the shape of `labels`, ``[batch, labels]``."""
    with name_scope(name, "ctc_unique_labels", [labels]):
        labels = raw_ops.Cast(labels, DstT="int64")

        def of_row(row: Tensor) -> tuple[Tensor, Tensor]:
            values, numbers = raw_ops.Unique(row)
            lacking = raw_ops.Sub(raw_ops.Size(row), raw_ops.Size(values))
            filled = raw_ops.Pad(values, raw_ops.Reshape(raw_ops.Pack([np.int32(0), lacking]),
                                                         np.array([1, 2], np.int32)))
            filled.set_shape(row.shape)
            return filled, numbers

        values, numbers = map_fn(of_row, labels, dtype=(labels.dtype, dtypes.int32))
        return values, numbers


def collapse_repeated(labels: Any, seq_length: TensorLike,
                      name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return rows of labels without those that repeat the one before, and their new lengths.

    Args:
        labels: ``[batch, labels]``.
        seq_length: int32 ``[batch]``, how many labels each row has.
        name: name of the scope.

    The rows are as long as the longest that is left, filled up with zeros.
    """
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = convert_to_tensor(labels, name="labels")
        lengths = convert_to_tensor(seq_length, name="seq_length")
        first = raw_ops.OnesLike(raw_ops.Cast(labels[:, :1], DstT="bool"))
        changes = raw_ops.ConcatV2([first, raw_ops.NotEqual(labels[:, 1:], labels[:, :-1])],
                                   np.int32(1))
        kept = raw_ops.LogicalAnd(changes, sequence_mask(lengths, raw_ops.Shape(labels)[1]))
        counted = raw_ops.Cast(kept, DstT="int32")
        new = raw_ops.Sum(counted, np.array([1], np.int32))
        longest = raw_ops.Max(raw_ops.ConcatV2([new, np.zeros(1, np.int32)], np.int32(0)),
                              np.int32(0))
        places = raw_ops.Cast(raw_ops.Where(sequence_mask(new, longest)), DstT="int32")
        shape = raw_ops.Pack([raw_ops.Shape(labels)[0], longest])
        values = raw_ops.GatherNd(labels, raw_ops.Where(kept))
        return (raw_ops.ScatterNd(places, values, shape),
                raw_ops.Cast(new, DstT=lengths.dtype.base_dtype))


def ctc_greedy_decoder(inputs: TensorLike, sequence_length: TensorLike,
                       merge_repeated: bool = True) -> tuple[list[SparseTensor], Tensor]:
    """Return ([labels], scores) of the best class at every time step, blanks left out.

    Args:
        inputs: float32 logits ``[time, batch, classes]``; the last class is the blank.
        sequence_length: int32, how many time steps each example has.
        merge_repeated: equal classes one after the other give one label.

    The labels are a sparse int64 tensor ``[batch, longest]``; the scores, ``[batch, 1]``, are the
    negated sums of the largest logits.
    """
    indices, values, shape, scores = raw_ops.CTCGreedyDecoder(inputs, sequence_length,
                                                              merge_repeated=merge_repeated)
    return [SparseTensor(indices, values, shape)], scores


def ctc_beam_search_decoder(inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100,
                            top_paths: int = 1, merge_repeated: bool = True
                            ) -> tuple[list[SparseTensor], Tensor]:
    """Return (labels of the `top_paths` likeliest sequences found, their log probabilities).

    Args:
        inputs: float32 logits ``[time, batch, classes]``; the last class is the blank.
        sequence_length: int32, how many time steps each example has.
        beam_width: how many prefixes are followed.
        top_paths: how many sequences to return, at most `beam_width`.
        merge_repeated: of equal labels one after the other in the result only one is kept.

    The labels are a list of sparse int64 tensors ``[batch, longest]``; the log probabilities have
    shape ``[batch, top_paths]``.
    """
    indices, values, shapes, scores = raw_ops.CTCBeamSearchDecoder(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths,
        merge_repeated=merge_repeated)
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)], scores
