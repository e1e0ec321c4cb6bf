"""Decoders, and the loop that runs them until all sequences have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import static_batch, zeros_of
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.ops.math.reductions import reduce_all
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variable_scope import VariableScope


class Decoder:
    """The interface of the decoders that :func:`dynamic_decode` runs.

    ``batch_size``, ``output_size`` (a nest of sizes of one row) and ``output_dtype`` describe the
    outputs; ``initialize()`` returns (finished, first inputs, first state); ``step(time, inputs,
    state)`` returns (outputs, state, next inputs, finished); ``finalize(outputs, state, lengths)``
    returns outputs and state, and may be missing. With ``tracks_own_finished`` a sequence may go on
    after it had ended.
    """

    tracks_own_finished = False

    def finalize(self, outputs: Any, final_state: Any,
                 sequence_lengths: TensorLike) -> tuple[Any, Any]:
        """Return the final outputs and state, made from the outputs of all steps."""
        raise NotImplementedError


class BasicDecoderOutput(NamedTuple):
    """The outputs of a step: `rnn_output` (scores) and `sample_id` (symbols)."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A recurrent cell that reads what a helper gives it.

    Args:
        cell: an RNN cell.
        helper: a :class:`~hpcflow.contrib.seq2seq.Helper`.
        initial_state: a state of the cell.
        output_layer: a layer for the outputs of the cell, such as ``layers.Dense``.
    """

    def __init__(self, cell: Any, helper: Any, initial_state: Nest,
                 output_layer: Any = None) -> None:
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._helper.batch_size

    @property
    def output_size(self) -> BasicDecoderOutput:
        """The sizes of the outputs of one sequence in one step."""
        size = self._cell.output_size
        if self._output_layer is not None:
            given = TensorShape([None, *TensorShape(size).as_list()]) if isinstance(
                size, TensorShape) else TensorShape([None, size])
            size = self._output_layer.compute_output_shape(given)[1:]
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """Types of the outputs."""
        kind = nest.flatten(self._initial_state)[0].dtype.base_dtype
        return BasicDecoderOutput(kind, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """Return the initial ``(finished, inputs, state)`` of the loop."""
        return *self._helper.initialize(), self._initial_state

    def step(self, time: TensorLike, inputs: TensorLike, state: Nest,
             name: str | None = None) -> tuple:
        """Run the cell once."""
        outputs, state = self._cell(inputs, state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        symbols = self._helper.sample(time=time, outputs=outputs, state=state)
        finished, following, state = self._helper.next_inputs(
            time=time, outputs=outputs, state=state, sample_ids=symbols)
        return BasicDecoderOutput(outputs, symbols), state, following, finished


def dynamic_decode(decoder: Any, output_time_major: bool = False, impute_finished: bool = False,
                   maximum_iterations: TensorLike | None = None, parallel_iterations: int = 32,
                   swap_memory: bool = False,
                   scope: str | VariableScope | None = None) -> tuple[Any, Any, Any]:
    """Run a decoder until all sequences have ended.

    Args:
        decoder: as :class:`Decoder`.
        output_time_major: let time be the first dimension of the outputs.
        impute_finished: outputs of sequences that have ended are zeros, and their states stay.
        maximum_iterations: steps at most, a scalar.
        parallel_iterations: how many steps may be under way at a time.
        swap_memory: whether values kept for gradients may move from the device to the host.
        scope: variable scope ("decoder").

    Returns: the outputs of all steps, the last state, and the lengths of the sequences, int32
    ``[batch]``.
    """
    with variable_scope(scope, "decoder"):
        limit = None if maximum_iterations is None else convert_to_tensor(
            maximum_iterations, dtypes.int32, "maximum_iterations")
        finished, inputs, state = decoder.initialize()
        finished = convert_to_tensor(finished)
        if limit is not None:
            finished = raw_ops.LogicalOr(finished, raw_ops.LessEqual(limit, np.int32(0)))
        loop = _Loop(decoder, limit, impute_finished)
        lengths = raw_ops.Cast(raw_ops.ZerosLike(finished), DstT="int32")
        _, arrays, state, _, _, lengths = while_loop(
            lambda time, arrays, state, inputs, ended, lengths: raw_ops.LogicalNot(
                reduce_all(ended)),
            loop.body, [convert_to_tensor(0, dtypes.int32), loop.arrays, state, inputs, finished,
                        lengths],
            parallel_iterations=parallel_iterations, swap_memory=swap_memory)
        outputs = nest.pack_as(decoder.output_size, [array.stack() for array in arrays])
        try:
            outputs, state = decoder.finalize(outputs, state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            outputs = nest.pack_as(outputs, [_batch_first(x) for x in nest.flatten(outputs)])
        return outputs, state, lengths


class _Loop:
    """The body of the loop, and the arrays for its outputs."""

    def __init__(self, decoder: Any, limit: TensorLike | None, impute: bool) -> None:
        self.decoder, self.limit, self.impute = decoder, limit, impute
        batch = decoder.batch_size
        sizes, kinds = nest.flatten(decoder.output_size), nest.flatten(decoder.output_dtype)
        self.zeros = [zeros_of(s, batch, k) for s, k in zip(sizes, kinds, strict=True)]
        self.arrays = [TensorArray(z.dtype, size=0, dynamic_size=True, element_shape=[
            static_batch(batch), *z.shape.as_list()[1:]]) for z in self.zeros]

    def body(self, time: TensorLike, arrays: Sequence[Any], state: Nest, inputs: TensorLike,
             ended: TensorLike, lengths: TensorLike) -> tuple:
        outputs, following, inputs, now = self.decoder.step(time, inputs, state)
        after = raw_ops.Add(time, np.int32(1))
        if not self.decoder.tracks_own_finished:
            now = raw_ops.LogicalOr(now, ended)
        if self.limit is not None:
            now = raw_ops.LogicalOr(now, raw_ops.GreaterEqual(after, self.limit))
        fresh = raw_ops.LogicalAnd(raw_ops.LogicalNot(ended), now)
        count = raw_ops.Fill(raw_ops.Shape(lengths), after)
        lengths = raw_ops.Select(fresh, count, lengths)
        values = nest.flatten(outputs)
        if self.impute:
            values = [raw_ops.Select(ended, z, v)
                      for z, v in zip(self.zeros, values, strict=True)]
            following = nest.pack_as(state, [
                _kept(ended, old, new) for old, new in zip(
                    nest.flatten(state), nest.flatten(following), strict=True)])
        arrays = [a.write(time, v) for a, v in zip(arrays, values, strict=True)]
        return after, arrays, following, inputs, now, lengths


def _kept(ended: TensorLike, old: Tensor, new: Tensor) -> Any:
    """Keep the old rows of a state where sequences have ended; take states without rows as new."""
    if isinstance(old, TensorArray) or new.shape.ndims == 0:
        return new
    rows = raw_ops.Select(ended, old, new)
    rows.set_shape(old.shape)
    return rows


def _batch_first(x: Any) -> Any:
    rank = x.shape.ndims
    return raw_ops.Transpose(x, np.array([1, 0, *range(2, rank)], np.int32))


def tile_batch(t: TensorLike, multiplier: int, name: str | None = None) -> Any:
    """Repeat every row of the tensors of a nest: ``[batch, ...]`` to ``[batch * multiplier, ...]``.
    """
    return nest.pack_as(t, [_tiled(convert_to_tensor(x), multiplier) for x in nest.flatten(t)])


def _tiled(x: Tensor, multiplier: int) -> Any:
    rank = x.shape.ndims
    if not rank:
        raise ValueError(f"t needs a known rank of at least 1, but has the shape {x.shape}")
    each = raw_ops.Tile(raw_ops.ExpandDims(x, np.int32(1)),
                        np.array([1, multiplier] + [1] * (rank - 1), np.int32))
    rest = raw_ops.Slice(raw_ops.Shape(x), np.array([1], np.int32), np.array([-1], np.int32))
    rows = raw_ops.Reshape(each, raw_ops.ConcatV2([np.array([-1], np.int32), rest], np.int32(0)))
    count = x.shape[0].value
    rows.set_shape([None if count is None else count * multiplier, *x.shape.as_list()[1:]])
    return rows
