"""``hpcflow.contrib.crf``: linear-chain conditional random fields over sequences of tags.

A sequence of tags scores the sum of its unary scores ``inputs[t, tag]`` and of the scores
``transition_params[from, to]`` of neighbours. Sequences of a batch may have different lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.helpers import smart_cond
from hpcflow.nn.rnn import dynamic_rnn
from hpcflow.ops.arrays.indexing import gather_nd, one_hot
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.arrays.masks import sequence_mask
from hpcflow.ops.arrays.shape_ops import expand_dims, shape
from hpcflow.ops.flow.functional import scan
from hpcflow.ops.math.reductions import reduce_logsumexp, reduce_max, reduce_sum
from hpcflow.ops.state.variable_scope import get_variable

__all__ = [
    "CrfForwardRnnCell", "crf_binary_score", "crf_decode", "crf_log_likelihood", "crf_log_norm",
    "crf_multitag_sequence_score", "crf_sequence_score", "crf_unary_score", "viterbi_decode",
]  # fmt: skip


def crf_log_likelihood(inputs: Any, tag_indices: TensorLike, sequence_lengths: TensorLike,
                       transition_params: Any = None) -> tuple[Tensor, Any]:
    """Return the log of the probability of each sequence of tags, and the transitions.

    Args:
        inputs: unary scores, ``[batch, steps, tags]``.
        tag_indices: integers ``[batch, steps]``.
        sequence_lengths: integers ``[batch]``; what lies behind counts nothing.
        transition_params: ``[tags, tags]``; by default the variable ``transitions``.

    Returns:
        Floats ``[batch]``, and `transition_params`.
    """
    inputs = _tensor(inputs, "inputs")
    if transition_params is None:
        tags = inputs.shape[2].value
        transition_params = get_variable("transitions", [tags, tags], inputs.dtype.base_dtype)
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    norm = crf_log_norm(inputs, sequence_lengths, transition_params)
    return raw_ops.Sub(score, norm), transition_params


def crf_sequence_score(inputs: TensorLike, tag_indices: TensorLike, sequence_lengths: TensorLike,
                       transition_params: TensorLike) -> Tensor:
    """Return the scores ``[batch]`` of sequences of tags; arguments as for
    :func:`crf_log_likelihood`."""
    return raw_ops.Add(crf_unary_score(tag_indices, sequence_lengths, inputs),
                       crf_binary_score(tag_indices, sequence_lengths, transition_params))


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: TensorLike,
                                sequence_lengths: TensorLike,
                                transition_params: TensorLike) -> Tensor:
    """Return the logs ``[batch]`` of the sums of exp(score) over the sequences of allowed tags.

    `tag_bitmap` is true for the tags that are allowed at a step, ``[batch, steps, tags]``; other
    arguments are those of :func:`crf_log_likelihood`.
    """
    inputs = _tensor(inputs, "inputs")
    allowed = convert_to_tensor(tag_bitmap, dtypes.bool, name="tag_bitmap")
    never = raw_ops.Fill(shape(inputs), inputs.dtype.base_dtype.np.type(-np.inf))
    return crf_log_norm(raw_ops.Select(allowed, inputs, never), sequence_lengths,
                        transition_params)


def crf_unary_score(tag_indices: Any, sequence_lengths: TensorLike, inputs: Any) -> Tensor:
    """Return the sums ``[batch]`` of the unary scores of the tags."""
    inputs = _tensor(inputs, "inputs")
    there = one_hot(tag_indices, _size(inputs, 2), dtype=inputs.dtype.base_dtype)
    each = reduce_sum(raw_ops.Mul(inputs, there), 2)
    return reduce_sum(raw_ops.Mul(each, _mask(sequence_lengths, inputs)), 1)


def crf_binary_score(tag_indices: TensorLike, sequence_lengths: TensorLike,
                     transition_params: TensorLike) -> Tensor:
    """Return the sums ``[batch]`` of the scores of the transitions between the tags."""
    tags = _tensor(tag_indices, "tag_indices")
    transitions = convert_to_tensor(transition_params, name="transition_params")
    each = gather_nd(transitions, stack([tags[:, :-1], tags[:, 1:]], -1))
    return reduce_sum(raw_ops.Mul(each, _mask(_less_one(sequence_lengths), each)), 1)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """Return the logs ``[batch]`` of the sums over all sequences of tags of exp(score)."""
    inputs = _tensor(inputs, "inputs")
    first = inputs[:, 0, :]
    _, alphas = dynamic_rnn(CrfForwardRnnCell(transition_params), inputs[:, 1:, :],
                            _less_one(sequence_lengths), first, inputs.dtype.base_dtype)
    norm = reduce_logsumexp(alphas, 1)
    empty = raw_ops.LessEqual(convert_to_tensor(sequence_lengths),
                              raw_ops.ZerosLike(convert_to_tensor(sequence_lengths)))
    return raw_ops.Select(empty, raw_ops.ZerosLike(norm), norm)


class CrfForwardRnnCell(RNNCell):
    """One step of the sums over all sequences: the state is the log of those that end in a tag.

    ``cell(inputs, state)`` takes unary scores and state of shape ``[batch, tags]`` and returns the
    new state twice.
    """

    def __init__(self, transition_params: TensorLike) -> None:
        super().__init__()
        self._transitions = convert_to_tensor(transition_params, name="transition_params")

    @property
    def state_size(self) -> Any:
        """The number of tags."""
        return self._transitions.shape[0].value

    @property
    def output_size(self) -> Any:
        """The number of tags."""
        return self.state_size

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Tensor, Tensor]:
        """Add a step."""
        paths = raw_ops.Add(expand_dims(state, 2), expand_dims(self._transitions, 0))
        new = inputs + reduce_logsumexp(paths, 1)
        return new, new


# ---------------------------------------------------------------- the best sequences


def crf_decode(potentials: TensorLike, transition_params: TensorLike,
               sequence_length: TensorLike) -> tuple[Tensor, Tensor]:
    """Return the best sequences of tags and their scores.

    Args:
        potentials: unary scores, ``[batch, steps, tags]``.
        transition_params: ``[tags, tags]``.
        sequence_length: integers ``[batch]``.

    Returns:
        int32 ``[batch, steps]``, with 0 behind the end of a sequence, and floats ``[batch]``.
    """
    potentials = _tensor(potentials, "potentials")
    transitions = expand_dims(convert_to_tensor(transition_params), 0)
    lengths = raw_ops.Cast(convert_to_tensor(sequence_length), DstT="int32")
    unary: Any = raw_ops.Transpose(potentials, np.array([1, 0, 2], np.int32))
    steps, _, _ = raw_ops.Unpack(shape(unary), num=3)
    # Without a second step there is nothing to scan, whose elements would have no known shape.
    last, found = smart_cond(
        raw_ops.Equal(steps, np.int32(1)), lambda: (unary[0], expand_dims(_best_tags(unary[0]), 0)),
        lambda: _best_paths(unary, transitions, lengths))
    found = raw_ops.Transpose(found, np.array([1, 0], np.int32))
    return found * sequence_mask(lengths, steps, dtype=dtypes.int32), reduce_max(last, 1)


def _best_tags(scores: Tensor) -> Tensor:
    return raw_ops.ArgMax(scores, np.int32(1), output_type=dtypes.int32)


def _best_paths(unary: Any, transitions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The scores ``[batch, tags]`` of the best sequences that end in a tag, and the tags ``[steps,
    batch]`` of the best of them."""
    steps, batch, tags = raw_ops.Unpack(shape(unary), num=3)
    own = _tiled_range(batch, tags)

    def forward(before: tuple, elements: tuple) -> tuple:
        step, scores = elements
        paths = raw_ops.Add(expand_dims(before[0], 2), transitions)
        going = step < lengths
        new = raw_ops.Select(going, scores + reduce_max(paths, 1), before[0])
        return new, raw_ops.Select(going, _best_tags(paths), own)

    counts = raw_ops.Range(np.int32(1), steps, np.int32(1))
    ends, pointers = scan(forward, (counts, unary[1:]), initializer=(unary[0], own))
    last = ends[-1]
    final = _best_tags(last)
    rows = raw_ops.Range(np.int32(0), batch, np.int32(1))

    def backward(after: Tensor, pointer: Tensor) -> Tensor:
        return gather_nd(pointer, stack([rows, after], 1))

    turned = raw_ops.ReverseV2(pointers, np.array([0], np.int32))
    earlier = raw_ops.ReverseV2(scan(backward, turned, initializer=final), np.array([0], np.int32))
    return last, concat([earlier, expand_dims(final, 0)], 0)


def viterbi_decode(score: np.ndarray, transition_params: TensorLike) -> tuple[list[int], Any]:
    """Return the best sequence of tags and its score, by NumPy: outside of graphs.

    Args:
        score: array ``[steps, tags]`` of unary scores.
        transition_params: array ``[tags, tags]``.
    """
    best, pointers = np.asarray(score[0]), []
    for unary in score[1:]:
        paths = best[:, None] + transition_params
        pointers.append(paths.argmax(0))
        best = unary + paths.max(0)
    tags = [int(best.argmax())]
    for pointer in reversed(pointers):
        tags.append(int(pointer[tags[-1]]))
    return tags[::-1], best.max()


# ---------------------------------------------------------------- helpers


def _tensor(value: TensorLike, name: str) -> Any:
    return convert_to_tensor(value, name=name)


def _size(x: Tensor, axis: int) -> Any:
    sizes: Any = shape(x)
    return sizes[axis]


def _less_one(lengths: Any) -> Tensor:
    lengths = _tensor(lengths, "sequence_lengths")
    return raw_ops.Maximum(lengths - 1, raw_ops.ZerosLike(lengths))


def _mask(lengths: TensorLike, values: Tensor) -> Tensor:
    return sequence_mask(lengths, _size(values, 1), dtype=values.dtype.base_dtype)


def _tiled_range(batch: Tensor, tags: Tensor) -> Tensor:
    row = expand_dims(raw_ops.Range(np.int32(0), tags, np.int32(1)), 0)
    return raw_ops.Tile(row, stack([batch, 1]))

__getattr__ = named_otherwise(__name__)
