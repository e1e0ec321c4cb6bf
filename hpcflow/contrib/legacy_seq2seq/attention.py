"""Decoders that look at all of an encoder's outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.contrib.legacy_seq2seq.decoders import _dtype_in
from hpcflow.contrib.legacy_seq2seq.feedback import (
    check_projection,
    embed_previous,
    next_input,
    with_feed_previous,
)
from hpcflow.contrib.rnn.cell import affine
from hpcflow.contrib.rnn.static import static_rnn
from hpcflow.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.shape_ops import reshape, shape
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell
    from hpcflow.ops.state.variable_scope import VariableScope


def attention_decoder(decoder_inputs: Sequence[Any], initial_state: TensorLike,
                      attention_states: TensorLike, cell: RNNCell, output_size: int | None = None,
                      num_heads: int = 1, loop_function: Callable | None = None,
                      dtype: DTypeLike | None = None, scope: str | VariableScope | None = None,
                      initial_state_attention: bool = False) -> tuple[list, Any]:
    """Run a cell that sees, at every step, weighted means of `attention_states`.

    Args:
        decoder_inputs: a tensor ``[batch, input_size]`` per step.
        initial_state: state of the cell.
        attention_states: ``[batch, length, size]``, where the last size must be known.
        cell: an RNN cell.
        output_size: of the outputs; the cell's by default.
        num_heads: how many means are taken.
        loop_function: ``f(previous output, step) -> input`` for all steps but the first.
        dtype: of the initial state; the scope's by default.
        scope: variable scope ("attention_decoder").
        initial_state_attention: look at the states before the first step too.

    Returns: (outputs ``[batch, output_size]`` per step, final state).

    Raises ``ValueError`` without inputs or heads, or for unknown sizes.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    states = convert_to_tensor(attention_states)
    if states._dims is None or len(states._dims) != 3 or states._dims[2] is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {states.shape}")
    with variable_scope(scope or "attention_decoder", dtype=dtype) as entered:
        heads = _Heads(states, num_heads, entered.dtype)
        means = heads.nothing(_size(decoder_inputs[0], 0))
        if initial_state_attention:
            means = heads.look(initial_state)
        state, outputs, previous = initial_state, [], None
        for step, given in enumerate(decoder_inputs):
            if step > 0:
                get_variable_scope().reuse_variables()
            x = convert_to_tensor(next_input(loop_function, previous, step, given))
            if x._dims is None or len(x._dims) != 2 or x._dims[1] is None:
                raise ValueError(f"Could not infer input size from input: {x.name}")
            output, state = cell(affine([x, *means], x._dims[1]), state)
            if step == 0 and initial_state_attention:
                with variable_scope(get_variable_scope(), reuse=True):
                    means = heads.look(state)
            else:
                means = heads.look(state)
            with variable_scope("AttnOutputProjection"):
                previous = affine([output, *means], output_size or cell.output_size)
            outputs.append(previous)
    return outputs, state


class _Heads:
    """The parameters of attention, and the means that they take of the states."""

    def __init__(self, states: Tensor, count: int, dtype: Any) -> None:
        dims: Any = states._dims
        self.size = dims[2]
        self.length = _size(states, 1)
        self.dtype = dtype
        self.hidden = reshape(states, [-1, self.length, 1, self.size])
        self.features, self.weights = [], []
        for head in range(count):
            taps = get_variable(f"AttnW_{head}", [1, 1, self.size, self.size], dtype)
            self.features.append(raw_ops.Conv2D(
                input=self.hidden, filter=convert_to_tensor(taps), strides=[1, 1, 1, 1],
                padding="SAME"))
            self.weights.append(get_variable(f"AttnV_{head}", [self.size], dtype))

    def nothing(self, batch: Any) -> list[Tensor]:
        """Means of zeros, before anything was looked at."""
        zeros = []
        for _ in self.weights:
            zero = raw_ops.Fill(raw_ops.Pack([batch, self.size]), convert_to_tensor(0, self.dtype))
            zero.set_shape([None, self.size])
            zeros.append(zero)
        return zeros

    def look(self, query: TensorLike) -> list[Tensor]:
        """One mean ``[batch, size]`` per head, weighted by how well states go with `query`."""
        parts = nest.flatten(query)
        for part in parts:
            if part._dims is not None and len(part._dims) != 2:
                raise ValueError(f"the parts of a state must be matrices, got {part.shape}")
        joined = parts[0] if len(parts) == 1 else concat(parts, 1)
        means = []
        for head, (features, weights) in enumerate(zip(self.features, self.weights,
                                                       strict=True)):
            with variable_scope(f"Attention_{head}"):
                y = reshape(affine([joined], self.size), [-1, 1, 1, self.size])
                fits = raw_ops.Tanh(raw_ops.Add(features, y))
                scores = reduce_sum(raw_ops.Mul(convert_to_tensor(weights), fits), [2, 3])
                shares = reshape(raw_ops.Softmax(scores), [-1, self.length, 1, 1])
                mean = reduce_sum(raw_ops.Mul(shares, self.hidden), [1, 2])
                means.append(reshape(mean, [-1, self.size]))
        return means


def _size(value: TensorLike, axis: int) -> Any:
    """The size of a dimension: a number where it is known, else a scalar tensor."""
    tensor = convert_to_tensor(value)
    known = None if tensor._dims is None else tensor._dims[axis]
    return raw_ops.Unpack(shape(tensor), num=len(tensor.shape))[axis] if known is None else known


def embedding_attention_decoder(decoder_inputs: Sequence[Any], initial_state: Any,
                                attention_states: Any, cell: RNNCell, num_symbols: int,
                                embedding_size: int, num_heads: int = 1,
                                output_size: int | None = None, output_projection: Any = None,
                                feed_previous: bool = False,
                                update_embedding_for_previous: bool = True,
                                dtype: DTypeLike | None = None,
                                scope: str | VariableScope | None = None,
                                initial_state_attention: bool = False) -> tuple[list, Any]:
    """``attention_decoder`` over embedded symbols (integers ``[batch]`` per step).

    See ``embedding_rnn_decoder`` for the embedding, the projection and `feed_previous`.
    """
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as entered:
        check_projection(output_projection, num_symbols, entered.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop = embed_previous(embedding, output_projection, update_embedding_for_previous) \
            if feed_previous else None
        embedded = [embedding_lookup(embedding, x) for x in decoder_inputs]
        return attention_decoder(
            embedded, initial_state, attention_states, cell,
            output_size=cell.output_size if output_size is None else output_size,
            num_heads=num_heads, loop_function=loop,
            initial_state_attention=initial_state_attention)


def embedding_attention_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any],
                                cell: RNNCell, num_encoder_symbols: int, num_decoder_symbols: int,
                                embedding_size: int, num_heads: int = 1,
                                output_projection: Any = None, feed_previous: TensorLike = False,
                                dtype: DTypeLike | None = None,
                                scope: str | VariableScope | None = None,
                                initial_state_attention: bool = False) -> tuple[list, Any]:
    """Encode symbols, and decode with attention to the encoder's outputs.

    As ``embedding_rnn_seq2seq`` otherwise.
    """
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as entered:
        dtype = _dtype_in(entered, dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoded, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        states = concat([reshape(e, [-1, 1, cell.output_size]) for e in encoded], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols
        updates = isinstance(feed_previous, bool)

        def decode(fed: bool) -> tuple[list, Any]:
            return embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size,
                num_heads=num_heads, output_size=output_size,
                output_projection=output_projection, feed_previous=fed,
                update_embedding_for_previous=updates,
                initial_state_attention=initial_state_attention)

        return with_feed_previous(feed_previous, decode, len(decoder_inputs))
