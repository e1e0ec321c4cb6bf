"""Attention: scores of the elements of a memory, such as the outputs of an encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.classes import Dense
from hpcflow.nn.activations import softmax
from hpcflow.nn.rnn_steps import as_lengths
from hpcflow.ops.arrays.masks import sequence_mask
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.initializers import Constant, Zeros
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


class AttentionMechanism:
    """What says, for a query, how much attention each element of a memory gets."""

    @property
    def alignments_size(self) -> Any:
        """The number of elements."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """The size of the state."""
        raise NotImplementedError


class BaseAttentionMechanism(AttentionMechanism):
    """The base of mechanisms over a memory ``[batch, steps, size]``.

    One of one's own defines ``__call__(query, state)``, which returns weights and the next state.

    Args:
        query_layer: makes keys of queries; None for queries as they are.
        memory: ``[batch, steps, size]``.
        probability_fn: ``f(scores, state)`` returns the weights.
        memory_sequence_length: integers ``[batch]``; what lies behind gets no attention.
        memory_layer: makes keys of the memory; None for the memory as it is.
        check_inner_dims_defined: accepted.
        score_mask_value: the score of what lies behind; minus infinity by default.
        custom_key_value_fn: ``f(keys, values)`` returns others in their place.
        name: accepted.
    """

    def __init__(self, query_layer: Any, memory: TensorLike, probability_fn: Callable,
                 memory_sequence_length: TensorLike | None = None, memory_layer: Any = None,
                 check_inner_dims_defined: bool = True, score_mask_value: float | None = None,
                 custom_key_value_fn: Callable | None = None, name: str | None = None) -> None:
        memory = convert_to_tensor(memory, name="memory")
        lengths, low = as_lengths(memory_sequence_length), score_mask_value
        self._low: Any = -np.inf if low is None else low
        self._mask: Any = None
        if lengths is not None:
            self._mask = sequence_mask(lengths, raw_ops.Unpack(raw_ops.Shape(memory), num=3)[1])
            there = raw_ops.Cast(self._mask, DstT=memory.dtype.base_dtype)
            memory = raw_ops.Mul(memory, raw_ops.ExpandDims(there, np.int32(2)))
        self._values: Any = memory
        self._keys: Any = memory if memory_layer is None else memory_layer(memory)
        if custom_key_value_fn is not None:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self._memory_layer, self._query_layer = memory_layer, query_layer
        self._probability_fn = lambda scores, state: probability_fn(self._masked(scores), state)

    def _masked(self, scores: Any) -> Any:
        if self._mask is None:
            return scores
        low = raw_ops.Fill(raw_ops.Shape(scores), np.array(self._low, scores.dtype.base_dtype.np))
        return raw_ops.Select(self._mask, scores, low)

    @property
    def memory_layer(self) -> Any:
        """What makes keys of the memory."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """What makes keys of queries."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """The memory, zeros behind its ends."""
        return self._values

    @property
    def keys(self) -> Any:
        """What queries are compared with."""
        return self._keys

    @property
    def dtype(self) -> Any:
        """The type of the keys."""
        return self._keys.dtype.base_dtype

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        known = self._keys.shape[0].value
        return known if known is not None else raw_ops.Unpack(raw_ops.Shape(self._keys), num=3)[0]

    _batch_size = batch_size

    @property
    def alignments_size(self) -> Any:
        """The number of elements."""
        known = self._keys.shape[1].value
        return known if known is not None else raw_ops.Unpack(raw_ops.Shape(self._keys), num=3)[1]

    _alignments_size = alignments_size

    @property
    def state_size(self) -> Any:
        """The number of elements: the state is the weights of the last step."""
        return self.alignments_size

    def initial_alignments(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """No attention yet: zeros ``[batch, steps]``."""
        return zeros([batch_size, self.alignments_size], dtype)

    def initial_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """The state before the first step."""
        return self.initial_alignments(batch_size, dtype)

    def __call__(self, query: Any, state: Any = None,
                 previous_alignments: Any = None) -> tuple[Any, Any]:
        """Return the weights ``[batch, steps]`` of the elements, and the next state: the same.

        The last weights are `state`, `previous_alignments` in programs before 1.5.
        """
        last = previous_alignments if state is None else state
        weights = self._probability_fn(self._scores(query), last)
        return weights, weights

    def _scores(self, query: Any) -> Any:
        """The scores ``[batch, steps]`` of the elements."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it scores a query")


def luong_scores(query: Any, keys: Any, scale: Any) -> Any:
    """Return the products of a query with the keys, multiplied by `scale` unless it is None.

    Raises ``ValueError`` for other sizes.
    """
    units = keys.shape[-1].value
    if query.shape[-1].value != units:
        raise ValueError(f"The query has the size {query.shape[-1].value}, the keys have "
                         f"{units}: they must be the same")
    product = raw_ops.BatchMatMul(raw_ops.ExpandDims(query, np.int32(1)), keys, adj_y=True)
    scores = raw_ops.Squeeze(product, squeeze_dims=[1])
    return scores if scale is None else raw_ops.Mul(scores, scale)


def bahdanau_scores(query: Any, keys: Any, normalize: bool, dtype: Any = None) -> Any:
    """Return the sums of tanh(key + query) by the variable ``attention_v`` of the current scope.

    With `normalize` it has the length ``attention_g``, and ``attention_b`` is added inside.
    The variables have the type of the keys if `dtype` is None.
    """
    units, dtype = keys.shape[-1].value, dtype or keys.dtype.base_dtype
    v = convert_to_tensor(get_variable("attention_v", [units], dtype))
    together = raw_ops.Add(keys, raw_ops.ExpandDims(query, np.int32(1)))
    if normalize:
        length = get_variable("attention_g", [], dtype,
                              initializer=Constant((1.0 / units) ** 0.5))
        bias = get_variable("attention_b", [units], dtype, initializer=Zeros())
        together = raw_ops.Add(together, convert_to_tensor(bias))
        norm = raw_ops.Rsqrt(reduce_sum(raw_ops.Square(v)))
        v = raw_ops.Mul(raw_ops.Mul(convert_to_tensor(length), v), norm)
    return reduce_sum(raw_ops.Mul(v, raw_ops.Tanh(together)), 2)


def of_scores(probability_fn: Callable | None) -> Callable:
    """Return a function of scores, softmax by default, as one of scores and state."""
    chosen = softmax if probability_fn is None else probability_fn
    return lambda scores, state: chosen(scores)


class LuongMechanism(BaseAttentionMechanism):
    """Scores that are products of queries with keys, made of the memory by a layer."""

    _scope = "luong_attention"

    def __init__(self, num_units: int, memory: TensorLike, lengths: TensorLike | None,
                 scale: bool, probability_fn: Callable, low: float | None,
                 dtype: DTypeLike | None, name: str, **options: Any) -> None:
        self._scale, self._name, self._num_units = scale, name, num_units
        self._dtype = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        super().__init__(None, memory, probability_fn, lengths,
                         Dense(num_units, use_bias=False, name="memory_layer", dtype=self._dtype),
                         score_mask_value=low, **options)

    def _scores(self, query: Any) -> Any:
        with variable_scope(None, self._scope, [query]):
            factor = convert_to_tensor(get_variable(
                "attention_g", [], self._dtype, initializer=Constant(1.0))) if (
                    self._scale) else None
            return self._more(luong_scores(query, self._keys, factor))

    def _more(self, scores: Any) -> Any:
        """What is made of the scores, in the same scope."""
        return scores


class BahdanauMechanism(BaseAttentionMechanism):
    """Scores that are sums of tanh(key + query), both made by layers."""

    _scope = "bahdanau_attention"

    def __init__(self, num_units: int, memory: TensorLike, lengths: TensorLike | None,
                 normalize: bool, probability_fn: Callable, low: float | None,
                 dtype: DTypeLike | None, name: str, **options: Any) -> None:
        self._normalize, self._name, self._num_units = normalize, name, num_units
        self._dtype = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        layers = [Dense(num_units, use_bias=False, name=which, dtype=self._dtype)
                  for which in ("query_layer", "memory_layer")]
        super().__init__(layers[0], memory, probability_fn, lengths, layers[1],
                         score_mask_value=low, **options)

    def _scores(self, query: Any) -> Any:
        with variable_scope(None, self._scope, [query]):
            moved = query if self._query_layer is None else self._query_layer(query)
            return self._more(bahdanau_scores(moved, self._keys, self._normalize, self._dtype))

    def _more(self, scores: Any) -> Any:
        """What is made of the scores, in the same scope."""
        return scores


class LuongAttention(LuongMechanism):
    """Scores that are products of the query with the keys, made of the memory by a layer.

    Args:
        num_units: size of the keys, and of the queries.
        memory: ``[batch, steps, size]``.
        memory_sequence_length: integers ``[batch]``; what lies behind gets no attention.
        scale: multiply the scores by the variable ``attention_g``.
        probability_fn: makes weights of scores; softmax by default.
        score_mask_value: the score of what lies behind; minus infinity by default.
        dtype: of the variables; float32 by default.
        custom_key_value_fn: ``f(keys, values)`` returns others in their place.
        name: of the scope.
    """

    def __init__(self, num_units: int, memory: TensorLike,
                 memory_sequence_length: TensorLike | None = None, scale: bool = False,
                 probability_fn: Callable | None = None, score_mask_value: float | None = None,
                 dtype: DTypeLike | None = None, custom_key_value_fn: Callable | None = None,
                 name: str = "LuongAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, scale,
                         of_scores(probability_fn), score_mask_value, dtype, name,
                         custom_key_value_fn=custom_key_value_fn)


class BahdanauAttention(BahdanauMechanism):
    """Scores that are sums of tanh(key + query) by the weights ``attention_v``.

    Arguments as of :class:`LuongAttention`; with `normalize` the weights have the length
    ``attention_g``, and ``attention_b`` is added inside.
    """

    def __init__(self, num_units: int, memory: TensorLike,
                 memory_sequence_length: TensorLike | None = None, normalize: bool = False,
                 probability_fn: Callable | None = None, score_mask_value: float | None = None,
                 dtype: DTypeLike | None = None, custom_key_value_fn: Callable | None = None,
                 name: str = "BahdanauAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, normalize,
                         of_scores(probability_fn), score_mask_value, dtype, name,
                         custom_key_value_fn=custom_key_value_fn)


def zeros(sizes: list, dtype: DTypeLike) -> Any:
    """Return zeros of some sizes, numbers or scalar tensors."""
    kind = dtypes.as_dtype(dtype).base_dtype
    known = [s if isinstance(s, int) else None for s in sizes]
    found = raw_ops.Fill(raw_ops.Pack([convert_to_tensor(s, dtypes.int32) for s in sizes]),
                         np.zeros((), kind.np))
    found.set_shape(known)
    return found
