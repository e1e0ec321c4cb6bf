"""Functions that build networks as one op, their parameters, and the models of first versions.

A network of L layers in D directions takes ``input [time, batch, size]``, the states
``[L D, batch, units]`` before the first step, and a vector with all parameters. It gives
``output [time, batch, D units]`` and the states at the end. With ``time_major=False`` the batch is
the first dimension of all these.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.random.random_ops import get_seed

CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION = "unidirectional", "bidirectional"
CUDNN_LSTM, CUDNN_GRU = "lstm", "gru"
CUDNN_RNN_RELU, CUDNN_RNN_TANH = "rnn_relu", "rnn_tanh"
CUDNN_LSTM_PARAMS_PER_LAYER, CUDNN_GRU_PARAMS_PER_LAYER = 8, 6
CUDNN_RNN_TANH_PARAMS_PER_LAYER = CUDNN_RNN_RELU_PARAMS_PER_LAYER = 2
CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_SKIP_MODE = "linear_input", "skip_input"
CUDNN_INPUT_AUTO_MODE = "auto_select"

#: Matrices of a layer in one direction, and as many biases.
PER_LAYER = {CUDNN_LSTM: CUDNN_LSTM_PARAMS_PER_LAYER, CUDNN_GRU: CUDNN_GRU_PARAMS_PER_LAYER,
             CUDNN_RNN_TANH: CUDNN_RNN_TANH_PARAMS_PER_LAYER,
             CUDNN_RNN_RELU: CUDNN_RNN_RELU_PARAMS_PER_LAYER}


def check_direction(direction: str) -> None:
    """``ValueError`` unless it is one of the directions."""
    _one_of("direction", direction, (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION))


def check_input_mode(input_mode: str) -> None:
    """``ValueError`` unless it is one of the modes of inputs."""
    _one_of("input_mode", input_mode, (CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_SKIP_MODE,
                                       CUDNN_INPUT_AUTO_MODE))


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"Invalid {name}: {value}, expected one of {', '.join(known)}")


def _described(rnn_mode: str, input_mode: str, direction: str, dropout: float,
               seed: int | None) -> dict[str, Any]:
    """The attributes that say what a network is. ``ValueError`` for unknown ones."""
    _one_of("rnn_mode", rnn_mode, tuple(PER_LAYER))
    check_direction(direction)
    check_input_mode(input_mode)
    seed1, seed2 = get_seed(seed)
    return {"rnn_mode": rnn_mode, "input_mode": input_mode, "direction": direction,
            "dropout": dropout, "seed": seed1 or 0, "seed2": seed2 or 0}


def cudnn_rnn(inputs: TensorLike, input_h: TensorLike, input_c: TensorLike, params: TensorLike,
              is_training: bool, rnn_mode: str, sequence_lengths: TensorLike | None = None,
              time_major: bool = True, input_mode: str = CUDNN_INPUT_LINEAR_MODE,
              direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0,
              seed: int | None = 0, num_proj: int | None = None,
              name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output of a network, its state and, of an LSTM, its memory at the end.

    Args:
        inputs, input_h, input_c, params: what it runs over; see the page of this module. Only an
            LSTM looks at `input_c`.
        is_training: whether gradients are needed and dropout takes place.
        rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu".
        sequence_lengths: int32 ``[batch]``; all rows have all steps if None. Behind the end of a
            row the output is 0.
        time_major: False if the batch comes first.
        input_mode: "linear_input"; "skip_input", where the gates of the first layer take the input
            without a matrix; "auto_select" does so if the input has the size of the units.
        direction: "unidirectional" or "bidirectional".
        dropout: the part of the outputs between two layers that is left out.
        seed: of dropout.
        num_proj: the size of the state of an LSTM that is projected.
        name: name of the op.

    Raises ``ValueError`` for unknown modes and directions.
    """
    attrs = _described(rnn_mode, input_mode, direction, dropout, seed)
    given = {"input": convert_to_tensor(inputs), "input_h": input_h, "input_c": input_c,
             "params": params, "is_training": is_training, "name": name, **attrs}
    if sequence_lengths is None and (not time_major or num_proj):
        shape = raw_ops.Shape(given["input"])
        steps, rows = (raw_ops.Gather(shape, np.int32(i)) for i in (
            (0, 1) if time_major else (1, 0)))
        sequence_lengths = raw_ops.Fill(raw_ops.Pack([rows]), steps)
    if sequence_lengths is not None:
        found = raw_ops.CudnnRNNV3(sequence_lengths=sequence_lengths, time_major=time_major,
                                   num_proj=num_proj or 0, **given)
    elif os.environ.get("TF_CUDNN_RNN_USE_V2", "0") == "1":
        found = raw_ops.CudnnRNNV2(**given)
    else:
        found = raw_ops.CudnnRNN(**given)
    return found.output, found.output_h, found.output_c


def cudnn_lstm(inputs: TensorLike, input_h: TensorLike, input_c: TensorLike, params: TensorLike,
               is_training: bool, sequence_lengths: TensorLike | None = None,
               time_major: bool = True, input_mode: str = CUDNN_INPUT_LINEAR_MODE,
               direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0,
               seed: int | None = 0, num_proj: int | None = None,
               name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return :func:`cudnn_rnn` of an LSTM: output, state and memory."""
    return cudnn_rnn(inputs, input_h, input_c, params, is_training, CUDNN_LSTM, sequence_lengths,
                     time_major, input_mode, direction, dropout, seed, num_proj, name)


def _without_memory(rnn_mode: str, inputs: TensorLike, input_h: TensorLike, *args: Any,
                    **keywords: Any) -> tuple[Tensor, Tensor]:
    state = convert_to_tensor(input_h)
    nothing = convert_to_tensor([], state.dtype.base_dtype)
    params, is_training, *more = args
    output, end, _ = cudnn_rnn(inputs, state, nothing, params, is_training, rnn_mode, *more,
                               **keywords)
    return output, end


def cudnn_gru(inputs: TensorLike, input_h: TensorLike, params: TensorLike, is_training: bool,
              sequence_lengths: TensorLike | None = None, time_major: bool = True,
              input_mode: str = CUDNN_INPUT_LINEAR_MODE, direction: str = CUDNN_RNN_UNIDIRECTION,
              dropout: float = 0.0, seed: int | None = 0,
              name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return :func:`cudnn_rnn` of gated recurrent units: output and state."""
    return _without_memory(CUDNN_GRU, inputs, input_h, params, is_training, sequence_lengths,
                           time_major, input_mode, direction, dropout, seed, name=name)


def cudnn_rnn_tanh(inputs: TensorLike, input_h: TensorLike, params: TensorLike, is_training: bool,
                   sequence_lengths: TensorLike | None = None, time_major: bool = True,
                   input_mode: str = CUDNN_INPUT_LINEAR_MODE,
                   direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0,
                   seed: int | None = 0, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return :func:`cudnn_rnn` of simple cells with tanh: output and state."""
    return _without_memory(CUDNN_RNN_TANH, inputs, input_h, params, is_training, sequence_lengths,
                           time_major, input_mode, direction, dropout, seed, name=name)


def cudnn_rnn_relu(inputs: TensorLike, input_h: TensorLike, params: TensorLike, is_training: bool,
                   sequence_lengths: TensorLike | None = None, time_major: bool = True,
                   input_mode: str = CUDNN_INPUT_LINEAR_MODE,
                   direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0,
                   seed: int | None = 0, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return :func:`cudnn_rnn` of simple cells with relu: output and state."""
    return _without_memory(CUDNN_RNN_RELU, inputs, input_h, params, is_training, sequence_lengths,
                           time_major, input_mode, direction, dropout, seed, name=name)


# ---------------------------------------------------------------- parameters


def cudnn_rnn_opaque_params_to_canonical(
        rnn_mode: str, num_layers: int, num_units: int, input_size: int, params: TensorLike,
        input_mode: str = CUDNN_INPUT_LINEAR_MODE, direction: str = CUDNN_RNN_UNIDIRECTION,
        dropout: float = 0.0, seed: int | None = 0, num_proj: int | None = None,
        name: str | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Return the matrices ``[units, size]`` and the biases ``[units]`` of a vector of parameters.

    For each layer, and in it each direction: a matrix by the input for each gate, one by the state
    for each gate, and the projection if there is one. The gates of an LSTM are input, forget,
    memory, output; those of a GRU reset, update, candidate.
    """
    given = {"num_layers": num_layers, "num_units": num_units, "input_size": input_size,
             "params": params, "name": name,
             **_described(rnn_mode, input_mode, direction, dropout, seed)}
    sides = num_layers * (2 if direction == CUDNN_RNN_BIDIRECTION else 1)
    count = PER_LAYER[rnn_mode] * sides
    if num_proj:
        found = raw_ops.CudnnRNNParamsToCanonicalV2(
            num_params_weights=count + sides, num_params_biases=count, num_proj=num_proj, **given)
    else:
        found = raw_ops.CudnnRNNParamsToCanonical(num_params=count, **given)
    return list(found.weights), list(found.biases)


def cudnn_rnn_canonical_to_opaque_params(
        rnn_mode: str, num_layers: int, num_units: int, input_size: int,
        weights: Sequence[TensorLike], biases: Sequence[TensorLike],
        input_mode: str = CUDNN_INPUT_LINEAR_MODE, direction: str = CUDNN_RNN_UNIDIRECTION,
        dropout: float = 0.0, seed: int | None = 0, num_proj: int | None = None,
        name: str | None = None) -> Tensor:
    """Return the vector of the parameters that :func:`cudnn_rnn_opaque_params_to_canonical`
    gives."""
    given = {"num_layers": num_layers, "num_units": num_units, "input_size": input_size,
             "weights": list(weights), "biases": list(biases), "name": name,
             **_described(rnn_mode, input_mode, direction, dropout, seed)}
    if num_proj:
        return raw_ops.CudnnRNNCanonicalToParamsV2(num_proj=num_proj, **given)
    return raw_ops.CudnnRNNCanonicalToParams(**given)


def cudnn_rnn_opaque_params_size(
        rnn_mode: str, num_layers: int, num_units: int, input_size: int,
        input_mode: str = CUDNN_INPUT_LINEAR_MODE, direction: str = CUDNN_RNN_UNIDIRECTION,
        dtype: DTypeLike = dtypes.float32, dropout: float = 0.0, seed: int | None = 0,
        num_proj: int | None = None, name: str | None = None) -> Tensor:
    """Return the number of elements of a vector of parameters, an int32 scalar."""
    size = raw_ops.CudnnRNNParamsSize(
        num_layers=num_layers, num_units=num_units, input_size=input_size,
        num_proj=num_proj or 0, T=dtypes.as_dtype(dtype), S=dtypes.int32, name=name,
        **_described(rnn_mode, input_mode, direction, dropout, seed))
    return raw_ops.Reshape(size, np.zeros(0, np.int32))
