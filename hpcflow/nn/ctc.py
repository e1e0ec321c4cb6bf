"""Connectionist temporal classification: sequences of labels without known places in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, to_sparse

__all__ = ["ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_loss"]


def ctc_loss(labels: Any, inputs: Any, sequence_length: Any,
             preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
             time_major: bool = True,
             ignore_longer_outputs_than_inputs: bool = False) -> Tensor:
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

    Raises ``TypeError`` for labels that are not sparse; when run ``InvalidArgumentError`` for
    labels that are no classes, and for more labels than the time steps can hold.
    """
    sparse = to_sparse(labels, "Expected argument 'labels' of ctc_loss(): it")
    inputs = convert_to_tensor(inputs, dtypes.float32, name="inputs")
    if not time_major:
        inputs = raw_ops.Transpose(inputs, np.array([1, 0, 2], np.int32))
    return raw_ops.CTCLoss(inputs, sparse.indices, sparse.values, sequence_length,
                           preprocess_collapse_repeated=preprocess_collapse_repeated,
                           ctc_merge_repeated=ctc_merge_repeated,
                           ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)[0]


def ctc_greedy_decoder(inputs: Any, sequence_length: Any,
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


def ctc_beam_search_decoder(inputs: Any, sequence_length: Any, beam_width: int = 100,
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
