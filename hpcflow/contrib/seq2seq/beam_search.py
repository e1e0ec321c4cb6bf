"""Beam search: a decoder that keeps the best few sequences of every row of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.seq2seq.attention_wrapper import AttentionWrapperState
from hpcflow.contrib.seq2seq.decoding import Decoder
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.activations import log_softmax
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.nn.rnn_steps import batch_size_of, static_batch
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.arrays.masks import sequence_mask
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.math.reductions import reduce_max, reduce_mean, reduce_sum
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell


class BeamSearchDecoderState(NamedTuple):
    """Of a step: the cell's state, and scores, ends and lengths ``[batch, beams]``.

    `accumulated_attention_probs` ``[batch, beams, steps of the memory]`` are the sums of the
    weights of attention so far; () without a penalty for what they leave out.
    """

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """Of a step, each ``[batch, beams]``: scores, symbols, and the beams that they continue."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences ``[batch, steps, beams]``, the best first, and the outputs of the steps."""

    predicted_ids: Any
    beam_search_decoder_output: Any


def gather_tree(step_ids: TensorLike, parent_ids: TensorLike, max_sequence_lengths: TensorLike,
                end_token: TensorLike, name: str | None = None) -> Any:
    """Return the sequences ``[steps, batch, beams]`` that the steps of a beam search stand for.

    Args:
        step_ids, parent_ids: int32 ``[steps, batch, beams]``: the symbols of the steps, and the
            beams of the step before that they continue.
        max_sequence_lengths: int32 ``[batch]``: where the longest sequences end.
        end_token: what stands behind the end of a sequence, a scalar.
    """
    return raw_ops.GatherTree(step_ids, parent_ids, max_sequence_lengths, end_token, name=name)


class BeamSearchDecoder(Decoder):
    """Looks for the sequences of the highest probability, `beam_width` of them at a time.

    Args:
        cell: an RNN cell.
        embedding: a table ``[symbols, size]``, or a function of symbols.
        start_tokens: int32 ``[batch]``.
        end_token: the symbol that ends a sequence, a scalar.
        initial_state: a state of the cell for ``batch * beam_width`` rows: see ``tile_batch``.
        beam_width: how many sequences to keep.
        output_layer: a layer for the outputs of the cell, such as ``layers.Dense``.
        length_penalty_weight: scores are divided by ((5 + length) / 6) to this power; 0 for none.
        coverage_penalty_weight: how much a finished sequence is punished for elements of the
            memory that got little attention (arXiv:1609.08144): this times the sum of the
            logarithms of what each got, 1 at most, is added to the scores; 0 for none.
        reorder_tensor_arrays: put TensorArrays in the final state, such as the history of an
            attention, into the order of the sequences.

    Raises ``ValueError`` for `start_tokens` that are no vector or an `end_token` that is no scalar,
    ``TypeError`` for an `output_layer` that is no layer; ``ValueError`` for a coverage penalty of a
    cell without attention.
    """

    tracks_own_finished = True

    def __init__(self, cell: RNNCell, embedding: TensorLike, start_tokens: TensorLike,
                 end_token: TensorLike, initial_state: Nest, beam_width: int,
                 output_layer: Any = None, length_penalty_weight: Any = 0.0,
                 coverage_penalty_weight: Any = 0.0,
                 reorder_tensor_arrays: bool = True) -> None:
        if isinstance(coverage_penalty_weight, bool):  # the arguments before 1.12, by position
            coverage_penalty_weight, reorder_tensor_arrays = 0.0, coverage_penalty_weight
        if output_layer is not None and not hasattr(output_layer, "compute_output_shape"):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._output_layer = cell, output_layer
        self._embedding_fn = embedding if callable(embedding) else (
            lambda symbols: embedding_lookup(embedding, symbols))
        self._start = convert_to_tensor(start_tokens, dtypes.int32, "start_tokens")
        self._end_token = convert_to_tensor(end_token, dtypes.int32, "end_token")
        if self._start.shape.ndims != 1:
            raise ValueError(f"start_tokens must be a vector, but has shape {self._start.shape}")
        if self._end_token.shape.ndims != 0:
            raise ValueError(f"end_token must be a scalar, but has shape {self._end_token.shape}")
        self._beam_width, self._length_penalty_weight = beam_width, length_penalty_weight
        self._coverage_penalty_weight = coverage_penalty_weight
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._initial_cell_state = nest.pack_as(initial_state, [
            self._apart(x) for x in nest.flatten(initial_state)])

    @property
    def batch_size(self) -> Any:
        """The number of rows, each of which has `beam_width` sequences."""
        return batch_size_of(self._start)

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """Sizes of one row."""
        return BeamSearchDecoderOutput(*[TensorShape([self._beam_width])] * 3)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """Types of the outputs."""
        scores = nest.flatten(self._initial_cell_state)[0].dtype.base_dtype
        return BeamSearchDecoderOutput(scores, dtypes.int32, dtypes.int32)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """All sequences but the first of every row count as ended with the probability 0."""
        kind = self.output_dtype.scores
        rows = raw_ops.Fill(self._sizes(), np.int32(0))
        number = raw_ops.Add(rows, np.arange(self._beam_width, dtype=np.int32))
        first = raw_ops.Equal(number, rows)
        ended = raw_ops.LogicalNot(first)
        zeros = raw_ops.Cast(rows, DstT=kind)
        probabilities = raw_ops.Select(first, zeros, raw_ops.Fill(
            self._sizes(), np.array(-np.inf, kind.np)))
        lengths = raw_ops.Cast(rows, DstT="int64")
        for x in (ended, probabilities, lengths):
            x.set_shape([static_batch(self.batch_size), self._beam_width])
        start = raw_ops.Add(rows, raw_ops.ExpandDims(self._start, np.int32(1)))
        weights = () if _is_zero(self._coverage_penalty_weight) else attention_weights(
            self._initial_cell_state)
        return ended, self._embedding_fn(start), BeamSearchDecoderState(
            self._initial_cell_state, probabilities, ended, lengths, weights)

    def step(self, time: TensorLike, inputs: TensorLike, state: Any,
             name: str | None = None) -> tuple:
        """Run the cell for all sequences, and keep the best of what may follow."""
        rows = nest.pack_as(inputs, [self._together(x) for x in nest.flatten(inputs)])
        cell_state = nest.pack_as(state.cell_state, [
            self._together(x) for x in nest.flatten(state.cell_state)])
        outputs, following = self._cell(rows, cell_state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        following = nest.pack_as(state.cell_state, [
            self._apart(x) for x in nest.flatten(following)])
        output, new = self._best(self._apart(outputs), following, state)
        return output, new, self._embedding_fn(output.predicted_ids), new.finished

    def finalize(self, outputs: BeamSearchDecoderOutput, final_state: BeamSearchDecoderState,
                 sequence_lengths: Any) -> tuple[Any, Any]:
        """Follow the sequences back from their ends."""
        longest = raw_ops.Cast(reduce_max(final_state.lengths, 1), DstT="int32")
        symbols = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            leaves = [self._reordered(x, outputs.parent_ids, final_state.lengths)
                      if isinstance(x, TensorArray) else x
                      for x in nest.flatten(final_state.cell_state)]
            final_state = final_state._replace(
                cell_state=nest.pack_as(final_state.cell_state, leaves))
        return FinalBeamSearchDecoderOutput(symbols, outputs), final_state

    def _best(self, scores: TensorHandle, cell_state: Any, state: BeamSearchDecoderState) -> tuple:
        """The outputs of a step with the `scores` ``[batch, beams, symbols]``, and the state."""
        symbols = scores.shape[-1].value or raw_ops.Unpack(raw_ops.Shape(scores), num=3)[2]
        total = raw_ops.Add(raw_ops.ExpandDims(state.log_probs, np.int32(2)),
                            self._only_end_of(state.finished, log_softmax(scores), symbols))
        covered = self._covered(cell_state, state)
        penalized = self._penalized(total, state, symbols, covered)
        best, places = raw_ops.TopKV2(self._flat(penalized), np.int32(self._beam_width))
        best.set_shape([static_batch(self.batch_size), self._beam_width])
        places.set_shape(best.shape)
        chosen, beam = raw_ops.FloorMod(places, symbols), raw_ops.FloorDiv(places, symbols)
        had_ended = self._rows_of(state.finished, beam)
        ended = raw_ops.LogicalOr(had_ended, raw_ops.Equal(chosen, self._end_token))
        lengths = raw_ops.Add(self._rows_of(state.lengths, beam), raw_ops.Cast(
            raw_ops.LogicalNot(had_ended), DstT="int64"))
        kept = nest.pack_as(cell_state, [
            self._rows_of(x, beam) if self._has_rows(x) else x for x in nest.flatten(cell_state)])
        new = BeamSearchDecoderState(
            kept, self._rows_of(self._flat(total), places), ended, lengths,
            covered if isinstance(covered, tuple) else self._rows_of(covered, beam))
        return BeamSearchDecoderOutput(best, chosen, beam), new

    def _only_end_of(self, finished: TensorLike, scores: TensorHandle, symbols: Any) -> Any:
        """Scores with which a sequence that has ended can only go on with the end."""
        kind = scores.dtype.base_dtype
        end = one_hot(self._end_token, symbols, np.array(0, kind.np), np.finfo(kind.np).min,
                      dtype=kind)
        over = raw_ops.BroadcastTo(raw_ops.ExpandDims(finished, np.int32(2)), raw_ops.Shape(scores))
        return raw_ops.Select(over, raw_ops.Add(raw_ops.ZerosLike(scores), end), scores)

    def _covered(self, cell_state: Any, state: BeamSearchDecoderState) -> Any:
        """The sums of the weights of attention; those of finished sequences grow no longer."""
        if _is_zero(self._coverage_penalty_weight):
            return ()
        weights: Any = attention_weights(cell_state)
        goes_on = raw_ops.Cast(raw_ops.LogicalNot(state.finished), DstT=weights.dtype.base_dtype)
        return raw_ops.Add(state.accumulated_attention_probs,
                           raw_ops.Mul(weights, raw_ops.ExpandDims(goes_on, np.int32(2))))

    def _penalized(self, total: TensorHandle, state: BeamSearchDecoderState, symbols: Any,
                   covered: Any) -> Any:
        scores: Any = total
        if not _is_zero(self._length_penalty_weight):
            scores = self._by_length(total, state, symbols)
        if _is_zero(self._coverage_penalty_weight):
            return scores
        kind = total.dtype.base_dtype.np
        each = raw_ops.Log(raw_ops.Minimum(covered, np.ones((), kind)))
        punished: Any = raw_ops.Mul(reduce_sum(each, 2),
                                    _as_number(self._coverage_penalty_weight, kind))
        punished = raw_ops.Select(state.finished, punished, raw_ops.ZerosLike(punished))
        return raw_ops.Add(scores, raw_ops.ExpandDims(punished, np.int32(2)))

    def _by_length(self, total: TensorHandle, state: BeamSearchDecoderState, symbols: Any) -> Any:
        # In the step that ends it, and in those after that, a sequence grows no longer.
        grows = one_hot(self._end_token, symbols, np.int64(0), np.int64(1), dtype=dtypes.int64)
        goes_on = raw_ops.Cast(raw_ops.LogicalNot(state.finished), DstT="int64")
        lengths = raw_ops.Add(
            raw_ops.ExpandDims(state.lengths, np.int32(2)),
            raw_ops.Mul(raw_ops.ExpandDims(goes_on, np.int32(2)), grows))
        kind = total.dtype.base_dtype.np
        ratio = raw_ops.RealDiv(raw_ops.Add(raw_ops.Cast(lengths, DstT=total.dtype.base_dtype),
                                            np.array(5, kind)), np.array(6, kind))
        weight = _as_number(self._length_penalty_weight, kind)
        return raw_ops.RealDiv(total, raw_ops.Pow(ratio, weight))

    # ------------------------------------------------------------ rows and sequences

    def _sizes(self) -> Any:
        return raw_ops.Pack([convert_to_tensor(self.batch_size, dtypes.int32),
                             np.int32(self._beam_width)])

    def _has_rows(self, x: TensorHandle) -> bool:
        return not isinstance(x, TensorArray) and bool(x.shape.ndims)

    def _together(self, x: Tensor) -> Any:
        """``[batch, beams, ...]`` as ``[batch * beams, ...]``."""
        if not self._has_rows(x):
            return x
        rest = _behind(x, 2)
        rows = raw_ops.Reshape(x, raw_ops.ConcatV2([np.array([-1], np.int32), rest], np.int32(0)))
        batch = static_batch(self.batch_size)
        count = None if batch is None else batch * self._beam_width
        rows.set_shape([count, *x.shape.as_list()[2:]])
        return rows

    def _apart(self, x: TensorLike) -> Any:
        """``[batch * beams, ...]`` as ``[batch, beams, ...]``."""
        if isinstance(x, TensorArray):
            return x
        x = convert_to_tensor(x)
        if x.shape.ndims is None:
            raise ValueError(f"The state {x.name} of the cell must have a rank that is known")
        if not x.shape.ndims:
            return x
        parts = raw_ops.Reshape(x, raw_ops.ConcatV2([self._sizes(), _behind(x, 1)], np.int32(0)))
        parts.set_shape([static_batch(self.batch_size), self._beam_width, *x.shape.as_list()[1:]])
        return parts

    def _flat(self, x: TensorLike) -> Any:
        """``[batch, beams, symbols]`` as ``[batch, beams * symbols]``."""
        batch = convert_to_tensor(self.batch_size, dtypes.int32)
        return raw_ops.Reshape(x, raw_ops.Pack([batch, np.int32(-1)]))

    def _rows_of(self, x: TensorHandle, places: TensorLike) -> Any:
        """``x[row, places[row, i]]`` for all rows and i."""
        count = raw_ops.Range(np.int32(0), convert_to_tensor(self.batch_size, dtypes.int32),
                              np.int32(1))
        row = raw_ops.Add(raw_ops.ZerosLike(places), raw_ops.ExpandDims(count, np.int32(1)))
        found = raw_ops.GatherNd(x, raw_ops.Pack([row, places], axis=2))
        found.set_shape([static_batch(self.batch_size), self._beam_width, *x.shape.as_list()[2:]])
        return found

    def _reordered(self, array: TensorArray, parents: TensorLike,
                   lengths: TensorLike) -> TensorArray:
        """The elements ``[batch * beams, ...]`` of the steps, each where its sequence ends."""
        whole = array.stack()
        steps = raw_ops.Unpack(raw_ops.Shape(parents), num=3)[0]
        own = raw_ops.Add(raw_ops.ZerosLike(parents), np.arange(self._beam_width, dtype=np.int32))
        longest = raw_ops.Cast(reduce_max(lengths, 1), DstT="int32")
        # A step wrote its elements before it chose: they are where the parents were.
        way = gather_tree(parents, parents, longest, self._beam_width + 1)
        there = raw_ops.Transpose(sequence_mask(raw_ops.Cast(lengths, DstT="int32"), steps),
                                  np.array([2, 0, 1], np.int32))
        way = raw_ops.Select(there, way, own)
        count, batch, _ = raw_ops.Unpack(raw_ops.Shape(parents), num=3)
        numbers = raw_ops.Mul(raw_ops.Range(np.int32(0), raw_ops.Mul(count, batch), np.int32(1)),
                              np.int32(self._beam_width))
        places = raw_ops.Add(way, raw_ops.Reshape(numbers, raw_ops.Pack(
            [count, batch, np.int32(1)])))
        rest = _behind(whole, 2)
        minus = np.array([-1], np.int32)
        elements = raw_ops.Reshape(whole, raw_ops.ConcatV2([minus, rest], np.int32(0)))
        sorted_ = raw_ops.Reshape(
            raw_ops.GatherV2(elements, raw_ops.Reshape(places, minus), np.int32(0)),
            raw_ops.Shape(whole))
        sorted_.set_shape(whole.shape)
        return TensorArray(array.dtype, size=count, dynamic_size=False).unstack(sorted_)


def _is_zero(weight: Any) -> bool:
    return not isinstance(weight, Tensor) and float(weight) == 0


def _as_number(weight: Any, kind: Any) -> Any:
    return weight if isinstance(weight, Tensor) else np.array(weight, kind)


def attention_weights(state: Any) -> Any:
    """Return the weights of attention in the state of a cell, the mean of those of several.

    Raises ``ValueError`` if no cell has attention.
    """
    states = [state] if isinstance(state, AttentionWrapperState) else [
        s for s in (state if isinstance(state, tuple) else ())
        if isinstance(s, AttentionWrapperState)]
    found = [_mean(s.alignments) if isinstance(s.alignments, tuple) else s.alignments
             for s in states]
    if not found:
        raise ValueError("coverage_penalty_weight must be 0.0 if no cell is attentional.")
    return _mean(found)


def _mean(values: Any) -> Any:
    return values[0] if len(values) == 1 else reduce_mean(raw_ops.Pack(list(values)), 0)


def _behind(x: TensorLike, axis: int) -> Any:
    """The sizes of the dimensions from `axis` on."""
    return raw_ops.Slice(raw_ops.Shape(x), np.array([axis], np.int32), np.array([-1], np.int32))
