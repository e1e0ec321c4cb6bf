"""Attention: cells that look at a memory, such as the outputs of an encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.classes import Dense
from hpcflow.nn.activations import softmax
from hpcflow.nn.rnn_steps import as_lengths
from hpcflow.ops.arrays.indexing import sequence_mask
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.initializers import Constant, Zeros
from hpcflow.ops.state.variable_scope import get_variable, variable_scope

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


class _Mechanism:
    """Scores of the elements of a memory ``[batch, steps, size]`` for a query."""

    def __init__(self, memory: TensorLike, lengths: TensorLike | None, memory_layer: Dense,
                 query_layer: Dense | None, probability_fn: Callable | None,
                 low: float | None) -> None:
        memory = convert_to_tensor(memory, name="memory")
        self._lengths, self._low = as_lengths(lengths), -np.inf if low is None else low
        self._mask: Any = None
        if self._lengths is not None:
            self._mask = sequence_mask(self._lengths, raw_ops.Unpack(
                raw_ops.Shape(memory), num=3)[1])
            there = raw_ops.Cast(self._mask, DstT=memory.dtype.base_dtype)
            memory = raw_ops.Mul(memory, raw_ops.ExpandDims(there, np.int32(2)))
        self.values: Any = memory
        self.keys: Any = memory_layer(memory)
        self.memory_layer, self.query_layer = memory_layer, query_layer
        self._probability_fn = probability_fn or softmax

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        known = self.values.shape[0].value
        return known if known is not None else raw_ops.Unpack(raw_ops.Shape(self.values), num=3)[0]

    @property
    def alignments_size(self) -> Any:
        """The number of elements."""
        known = self.values.shape[1].value
        return known if known is not None else raw_ops.Unpack(raw_ops.Shape(self.values), num=3)[1]

    state_size = alignments_size

    def initial_alignments(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """No attention yet: zeros ``[batch, steps]``."""
        return _zeros([batch_size, self.alignments_size], dtype)

    initial_state = initial_alignments

    def __call__(self, query: Any, state: TensorLike | None = None) -> tuple[Any, Any]:
        """Return the weights ``[batch, steps]`` of the elements, and the next state: the same."""
        scores = self._scores(query)
        if self._mask is not None:
            low = raw_ops.Fill(raw_ops.Shape(scores), np.array(
                self._low, scores.dtype.base_dtype.np))
            scores = raw_ops.Select(self._mask, scores, low)
        weights = self._probability_fn(scores)
        return weights, weights

    def _scores(self, query: TensorLike) -> Any:
        raise NotImplementedError


class LuongAttention(_Mechanism):
    """Scores that are products of the query with the keys, made of the memory by a layer.

    Args:
        num_units: size of the keys, and of the queries.
        memory: ``[batch, steps, size]``.
        memory_sequence_length: integers ``[batch]``; what lies behind gets no attention.
        scale: multiply the scores by the variable ``attention_g``.
        probability_fn: makes weights of scores; softmax by default.
        score_mask_value: the score of what lies behind; minus infinity by default.
        dtype: of the variables; float32 by default.
        name: of the scope.
    """

    def __init__(self, num_units: int, memory: TensorLike, memory_sequence_length: Any = None,
                 scale: bool = False, probability_fn: Callable | None = None,
                 score_mask_value: float | None = None, dtype: DTypeLike | None = None,
                 name: str = "LuongAttention") -> None:
        super().__init__(memory, memory_sequence_length,
                         Dense(num_units, use_bias=False, name="memory_layer"), None,
                         probability_fn, score_mask_value)
        self._scale, self._name = scale, name
        self._dtype = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)

    def _scores(self, query: Any) -> Any:
        units = self.keys.shape[-1].value
        if query.shape[-1].value != units:
            raise ValueError(f"The query has the size {query.shape[-1].value}, the keys have "
                             f"{units}: they must be the same")
        with variable_scope(None, "luong_attention", [query]):
            product = raw_ops.BatchMatMul(raw_ops.ExpandDims(query, np.int32(1)), self.keys,
                                          adj_y=True)
            scores = raw_ops.Squeeze(product, squeeze_dims=[1])
            if self._scale:
                scores = raw_ops.Mul(scores, convert_to_tensor(get_variable(
                    "attention_g", [], self._dtype, initializer=Constant(1.0))))
        return scores


class BahdanauAttention(_Mechanism):
    """Scores that are sums of tanh(key + query) by the weights ``attention_v``.

    Arguments as of :class:`LuongAttention`; with `normalize` the weights have the length
    ``attention_g``, and ``attention_b`` is added inside.
    """

    def __init__(self, num_units: int, memory: TensorLike, memory_sequence_length: Any = None,
                 normalize: bool = False, probability_fn: Callable | None = None,
                 score_mask_value: float | None = None, dtype: DTypeLike | None = None,
                 name: str = "BahdanauAttention") -> None:
        super().__init__(memory, memory_sequence_length,
                         Dense(num_units, use_bias=False, name="memory_layer"),
                         Dense(num_units, use_bias=False, name="query_layer"),
                         probability_fn, score_mask_value)
        self._units, self._normalize, self._name = num_units, normalize, name
        self._dtype = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)

    def _scores(self, query: TensorLike) -> Any:
        with variable_scope(None, "bahdanau_attention", [query]):
            assert self.query_layer is not None
            moved = raw_ops.ExpandDims(self.query_layer(query), np.int32(1))
            v = convert_to_tensor(get_variable("attention_v", [self._units], self._dtype))
            together = raw_ops.Add(self.keys, moved)
            if self._normalize:
                length = get_variable("attention_g", [], self._dtype,
                                      initializer=Constant((1.0 / self._units) ** 0.5))
                bias = get_variable("attention_b", [self._units], self._dtype,
                                    initializer=Zeros())
                together = raw_ops.Add(together, convert_to_tensor(bias))
                norm = raw_ops.Rsqrt(reduce_sum(raw_ops.Square(v)))
                v = raw_ops.Mul(raw_ops.Mul(convert_to_tensor(length), v), norm)
            return reduce_sum(raw_ops.Mul(v, raw_ops.Tanh(together)), 2)


class AttentionWrapperState(NamedTuple):
    """The state of an :class:`AttentionWrapper`; `alignment_history` is () unless asked for."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **changes: Any) -> AttentionWrapperState:
        """The same with some fields changed."""
        return self._replace(**changes)


class AttentionWrapper(RNNCell):
    """A cell that reads its inputs together with what it looked at last.

    Args:
        cell: an RNN cell.
        attention_mechanism: one, such as :class:`LuongAttention`.
        attention_layer_size: size of the attention, a layer of the cell's output and the weighted
            mean of the memory; by default it is that mean.
        alignment_history: keep the weights of all steps, in a TensorArray of the state.
        cell_input_fn: ``f(inputs, attention)``; both in one row by default.
        output_attention: the attention is the output, instead of that of the cell.
        initial_cell_state: the state that ``zero_state`` gives the cell.
        name: of the layer.
    """

    def __init__(self, cell: RNNCell, attention_mechanism: Any, attention_layer_size: Any = None,
                 alignment_history: bool = False, cell_input_fn: Callable | None = None,
                 output_attention: bool = True, initial_cell_state: Any = None,
                 name: str | None = None) -> None:
        super().__init__(name=name)
        if isinstance(attention_mechanism, (list, tuple)):
            raise TypeError("AttentionWrapper takes one attention mechanism")
        self._cell, self._mechanism = cell, attention_mechanism
        self._size = attention_layer_size or attention_mechanism.values.shape[-1].value
        self._layer = None if attention_layer_size is None else Dense(
            attention_layer_size, use_bias=False, name="attention_layer")
        self._history, self._input = alignment_history, cell_input_fn or _side_by_side
        self._gives_attention, self._initial = output_attention, initial_cell_state

    @property
    def output_size(self) -> Any:
        """Size of the output."""
        return self._size if self._gives_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """Sizes of the parts of the state."""
        steps = self._mechanism.alignments_size
        return AttentionWrapperState(self._cell.state_size, self._size, [], steps, (), steps)

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> AttentionWrapperState:
        """The state before the first step."""
        cell = self._initial
        if cell is None:
            cell = self._cell.zero_state(batch_size, dtype)
        history: Any = TensorArray(dtype, size=0, dynamic_size=True) if self._history else ()
        weights = self._mechanism.initial_alignments(batch_size, dtype)
        return AttentionWrapperState(
            cell, _zeros([batch_size, self._size], dtype), convert_to_tensor(0, dtypes.int32),
            weights, history, self._mechanism.initial_state(batch_size, dtype))

    def __call__(self, inputs: Any, state: Nest, scope: Any = None) -> tuple[Any, Any]:
        """One step: the cell, then a look at the memory with its output."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError("Expected state to be instance of AttentionWrapperState. Received type "
                            f"{type(state)} instead.")
        with variable_scope(scope, "attention_wrapper"):
            output, cell_state = self._cell(self._input(inputs, state.attention), state.cell_state)
            weights, following = self._mechanism(output, state.attention_state)
            mean = raw_ops.Squeeze(raw_ops.BatchMatMul(
                raw_ops.ExpandDims(weights, np.int32(1)), self._mechanism.values),
                squeeze_dims=[1])
            attention = mean if self._layer is None else self._layer(_side_by_side(output, mean))
            history = state.alignment_history
            if self._history:
                history = history.write(state.time, weights)
            new = AttentionWrapperState(cell_state, attention, raw_ops.Add(state.time, np.int32(1)),
                                        weights, history, following)
            return attention if self._gives_attention else output, new


def _side_by_side(a: TensorLike, b: Tensor) -> Any:
    return raw_ops.ConcatV2([a, b], np.int32(-1))


def _zeros(sizes: list, dtype: DTypeLike) -> Any:
    kind = dtypes.as_dtype(dtype).base_dtype
    known = [s if isinstance(s, int) else None for s in sizes]
    zeros = raw_ops.Fill(raw_ops.Pack([convert_to_tensor(s, dtypes.int32) for s in sizes]),
                         np.zeros((), kind.np))
    zeros.set_shape(known)
    return zeros
