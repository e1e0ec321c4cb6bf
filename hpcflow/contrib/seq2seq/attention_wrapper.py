"""Cells that look at one memory or several with what they put out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.seq2seq.attention import AttentionMechanism, zeros
from hpcflow.dtypes import DTypeLike
from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.classes import Dense
from hpcflow.nn.rnn_steps import check_cell
from hpcflow.ops.flow.checks import assert_equal
from hpcflow.ops.flow.tensor_array import TensorArray


class AttentionWrapperState(NamedTuple):
    """The state of an :class:`AttentionWrapper`.

    `alignments`, `alignment_history` (() unless asked for) and `attention_state` are tuples where
    the wrapper has a list of mechanisms.
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **changes: Any) -> AttentionWrapperState:
        """The same with some fields changed."""
        return self._replace(**changes)


def compute_attention(attention_mechanism: Any, cell_output: Any, attention_state: Any,
                      attention_layer: Any) -> tuple[Any, Any, Any]:
    """Look at a memory: return the attention, the weights and the next state of the mechanism.

    The attention is the weighted mean of the memory, or what `attention_layer` makes of the cell's
    output and it.
    """
    weights, following = attention_mechanism(cell_output, state=attention_state)
    mean = raw_ops.Squeeze(raw_ops.BatchMatMul(
        raw_ops.ExpandDims(weights, np.int32(1)), attention_mechanism.values), squeeze_dims=[1])
    attention = mean if attention_layer is None else attention_layer(
        _side_by_side(cell_output, mean))
    return attention, weights, following


class AttentionWrapper(RNNCell):
    """A cell that reads its inputs together with what it looked at last.

    Args:
        cell: an RNN cell.
        attention_mechanism: one, such as :class:`LuongAttention`, or a list of them, whose
            attentions are joined.
        attention_layer_size: size of the attention, a layer of the cell's output and the weighted
            mean of the memory; by default it is that mean. A list for a list of mechanisms.
        alignment_history: keep the weights of all steps, in a TensorArray of the state.
        cell_input_fn: ``f(inputs, attention)``; both in one row by default.
        output_attention: the attention is the output, instead of that of the cell.
        initial_cell_state: the state that ``zero_state`` gives the cell.
        name: of the layer.
        attention_layer: a layer, or a list of them, in place of `attention_layer_size`.
        attention_fn: in place of :func:`compute_attention`.
        dtype: of the layer.

    Raises ``TypeError`` for mechanisms that are none, ``ValueError`` for lists of other lengths, or
    both sizes and layers of attentions.
    """

    def __init__(self, cell: RNNCell, attention_mechanism: Any, attention_layer_size: Any = None,
                 alignment_history: bool = False, cell_input_fn: Callable | None = None,
                 output_attention: bool = True, initial_cell_state: Any = None,
                 name: str | None = None, attention_layer: Any = None,
                 attention_fn: Callable | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        check_cell(cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = tuple(attention_mechanism) if self._is_multi else (
            attention_mechanism,)
        for mechanism in self._attention_mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError("attention_mechanism must be an AttentionMechanism or a list of "
                                f"them, saw {type(mechanism).__name__}")
        self._attention_layers = self._made_layers(attention_layer_size, attention_layer)
        sizes = [self._size_of(*pair) for pair in zip(
            self._attention_mechanisms, self._attention_layers, strict=True)]
        self._attention_layer_size = sum(sizes)
        self._cell, self._cell_input_fn = cell, cell_input_fn or _side_by_side
        self._output_attention, self._alignment_history = output_attention, alignment_history
        self._attention_fn = attention_fn or compute_attention
        self._initial_cell_state = initial_cell_state

    def _made_layers(self, sizes: Any, layers: Any) -> Sequence[Any]:
        if sizes is not None and layers is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        count = len(self._attention_mechanisms)
        given = layers if sizes is None else sizes
        if given is None:
            return [None] * count
        listed = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        if len(listed) != count:
            raise ValueError(f"There are {count} attention mechanisms, but {len(listed)} sizes or "
                             "layers of attentions")
        return listed if sizes is None else [
            Dense(size, use_bias=False, name="attention_layer", dtype=mechanism.dtype)
            for size, mechanism in zip(listed, self._attention_mechanisms, strict=True)]

    @staticmethod
    def _size_of(mechanism: Any, layer: Any) -> int:
        """The size of the attention of a mechanism."""
        size = mechanism.values.shape[-1].value
        if layer is None:
            return size
        if isinstance(layer, Dense):
            return layer.units
        return layer.compute_output_shape([None, size])[-1].value

    def _batch_size_checks(self, batch_size: TensorLike, error_message: str) -> list[Any]:
        """Return operations that fail unless all memories have as many rows as the batch.

        For the methods of classes derived from this one.
        """
        return [assert_equal(convert_to_tensor(batch_size, dtypes.int32),
                             convert_to_tensor(mechanism.batch_size, dtypes.int32),
                             message=error_message) for mechanism in self._attention_mechanisms]

    def _item_or_tuple(self, values: Sequence[Any]) -> Any:
        """The values of the mechanisms, or the one of the only mechanism."""
        found = tuple(values)
        return found if self._is_multi else found[0]

    @property
    def output_size(self) -> Any:
        """Size of the output."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """Sizes of the parts of the state."""
        mechanisms = self._attention_mechanisms
        sizes = [m.alignments_size for m in mechanisms]
        return AttentionWrapperState(
            self._cell.state_size, self._attention_layer_size, [], self._item_or_tuple(sizes),
            self._item_or_tuple([()] * len(mechanisms)),
            self._item_or_tuple([m.state_size for m in mechanisms]))

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> AttentionWrapperState:
        """The state before the first step."""
        cell = self._initial_cell_state
        if cell is None:
            cell = self._cell.zero_state(batch_size, dtype)
        mechanisms = self._attention_mechanisms
        histories: list[Any] = [TensorArray(dtype, size=0, dynamic_size=True)
                                if self._alignment_history else () for _ in mechanisms]
        return AttentionWrapperState(
            cell, zeros([batch_size, self._attention_layer_size], dtype),
            convert_to_tensor(0, dtypes.int32),
            self._item_or_tuple([m.initial_alignments(batch_size, dtype) for m in mechanisms]),
            self._item_or_tuple(histories),
            self._item_or_tuple([m.initial_state(batch_size, dtype) for m in mechanisms]))

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:  # type: ignore[override]
        """One step: the cell, then a look at the memories with its output."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError("Expected state to be instance of AttentionWrapperState. Received type "
                            f"{type(state)} instead.")
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention),
                                        state.cell_state)
        before, histories = state.attention_state, state.alignment_history
        if not self._is_multi:
            before, histories = (before,), (histories,)
        looks = [self._attention_fn(mechanism, output, own, layer) for mechanism, own, layer in zip(
            self._attention_mechanisms, before, self._attention_layers, strict=True)]
        attentions, weights, following = zip(*looks, strict=True)
        attention = attentions[0] if len(looks) == 1 else raw_ops.ConcatV2(
            list(attentions), np.int32(1))
        if self._alignment_history:
            histories = [h.write(state.time, w) for h, w in zip(histories, weights, strict=True)]
        new = AttentionWrapperState(
            cell_state, attention, raw_ops.Add(state.time, np.int32(1)),
            self._item_or_tuple(weights), self._item_or_tuple(histories),
            self._item_or_tuple(following))
        return attention if self._output_attention else output, new


def _side_by_side(a: Any, b: Any) -> Any:
    return raw_ops.ConcatV2([*nest.flatten(a), *nest.flatten(b)], np.int32(-1))
