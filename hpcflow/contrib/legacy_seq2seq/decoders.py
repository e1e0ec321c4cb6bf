"""Decoders without attention, and the networks made of them and an encoder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.contrib.legacy_seq2seq.feedback import (
    check_projection,
    embed_previous,
    next_input,
    with_feed_previous,
)
from hpcflow.contrib.rnn.static import static_rnn
from hpcflow.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper
from hpcflow.dtypes import DTypeLike, float32
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell
    from hpcflow.graph.likes import Nest, TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variable_scope import VariableScope


def rnn_decoder(decoder_inputs: Sequence[Any], initial_state: Nest, cell: Any,
                loop_function: Callable | None = None,
                scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """Run a cell over the decoder's inputs.

    Args:
        decoder_inputs: a tensor ``[batch, input_size]`` per step.
        initial_state: state of the cell.
        cell: an RNN cell.
        loop_function: ``f(previous output, step) -> input``; it gives the inputs of all steps but
            the first.
        scope: variable scope ("rnn_decoder").

    Returns: (outputs ``[batch, output_size]`` per step, final state).
    """
    with variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for step, given in enumerate(decoder_inputs):
            x = next_input(loop_function, previous, step, given)
            if step > 0:
                get_variable_scope().reuse_variables()
            output, state = cell(x, state)
            outputs.append(output)
            previous = output
    return outputs, state


def basic_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                      dtype: DTypeLike = float32,
                      scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """Encode inputs into the state of a cell, and decode from there with another cell like it.

    Inputs are tensors ``[batch, size]``, one a step. Returns (outputs, final state).
    """
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                     loop_function: Callable | None = None, dtype: DTypeLike = float32,
                     scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """The same with one cell, whose parameters encoder and decoder share."""
    with variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_decoder(decoder_inputs: Sequence[Any], initial_state: Nest, cell: RNNCell,
                          num_symbols: int, embedding_size: int,
                          output_projection: Sequence[Tensor] | None = None,
                          feed_previous: bool = False, update_embedding_for_previous: bool = True,
                          scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """Run a cell over embedded symbols.

    Args:
        decoder_inputs: integers ``[batch]`` per step.
        initial_state: state of the cell.
        cell: an RNN cell.
        num_symbols: how many symbols there are.
        embedding_size: length of their vectors.
        output_projection: None, or (W ``[output_size, num_symbols]``, B ``[num_symbols]``) that
            make scores of outputs; used for `feed_previous` only.
        feed_previous: every input but the first is the most likely symbol of the output before.
        update_embedding_for_previous: whether gradients reach the embedding by way of these.
        scope: variable scope ("embedding_rnn_decoder").

    Returns: (outputs, final state). Raises ``ValueError`` for a projection of other shapes.
    """
    with variable_scope(scope or "embedding_rnn_decoder") as entered:
        check_projection(output_projection, num_symbols, entered.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop = embed_previous(embedding, output_projection, update_embedding_for_previous) \
            if feed_previous else None
        embedded = [embedding_lookup(embedding, x) for x in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop)


def embedding_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any],
                          cell: RNNCell, num_encoder_symbols: int, num_decoder_symbols: int,
                          embedding_size: int, output_projection: Any = None,
                          feed_previous: TensorLike = False, dtype: DTypeLike | None = None,
                          scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """Encode and decode sequences of symbols (integers ``[batch]`` per step).

    Without `output_projection` the outputs are scores ``[batch, num_decoder_symbols]``.
    `feed_previous` may be a bool tensor, which is asked when a step runs.
    """
    with variable_scope(scope or "embedding_rnn_seq2seq") as entered:
        dtype = _dtype_in(entered, dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        updates = isinstance(feed_previous, bool)

        def decode(fed: bool) -> tuple[list, Any]:
            return embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
                output_projection=output_projection, feed_previous=fed,
                update_embedding_for_previous=updates)

        return with_feed_previous(feed_previous, decode, len(decoder_inputs))


def embedding_tied_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any],
                               cell: RNNCell, num_symbols: int, embedding_size: int,
                               num_decoder_symbols: int | None = None,
                               output_projection: Any = None, feed_previous: TensorLike = False,
                               dtype: DTypeLike | None = None,
                               scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """The same with one cell and one embedding of `num_symbols` for both sides.

    With `num_decoder_symbols` the outputs are scores of that many symbols.
    """
    with variable_scope(scope or "embedding_tied_rnn_seq2seq") as entered:
        dtype = _dtype_in(entered, dtype)
        check_projection(output_projection, num_symbols, dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size], dtype)
        sources = [embedding_lookup(embedding, x) for x in encoder_inputs]
        targets = [embedding_lookup(embedding, x) for x in decoder_inputs]
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)
        updates = isinstance(feed_previous, bool)

        def decode(fed: bool) -> tuple[list, Any]:
            loop = embed_previous(embedding, output_projection, updates) if fed else None
            return tied_rnn_seq2seq(sources, targets, cell, loop, dtype)

        return with_feed_previous(feed_previous, decode, len(decoder_inputs))


def one2many_rnn_seq2seq(encoder_inputs: Sequence[Any],
                         decoder_inputs_dict: Mapping[str, Sequence[Any]], enc_cell: RNNCell,
                         dec_cells_dict: Mapping[str, Any], num_encoder_symbols: int,
                         num_decoder_symbols_dict: Mapping[str, int], embedding_size: int,
                         feed_previous: Any = False, dtype: DTypeLike | None = None,
                         scope: str | VariableScope | None = None) -> tuple[dict, dict]:
    """One encoder and several decoders, by name.

    Returns: (name -> outputs ``[batch, symbols of the decoder]`` per step, name -> final state).
    """
    outputs: dict[str, list] = {}
    states: dict[str, Any] = {}
    with variable_scope(scope or "one2many_rnn_seq2seq") as entered:
        dtype = _dtype_in(entered, dtype)
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with variable_scope("one2many_decoder_" + str(name)):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decode(fed: bool) -> tuple[list, Any]:
                    return embedding_rnn_decoder(inputs, state, cell, symbols, embedding_size,
                                                 feed_previous=fed)

                outputs[name], states[name] = with_feed_previous(feed_previous, decode,
                                                                 len(inputs))
    return outputs, states


def _dtype_in(scope: VariableScope, dtype: DTypeLike | None) -> Any:
    """The dtype of a network: as given, or the scope's, which it becomes."""
    if dtype is not None:
        scope.set_dtype(dtype)
    return scope.dtype
