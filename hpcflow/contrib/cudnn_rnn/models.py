"""Networks as first versions had them: objects without variables, given the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hpcflow import dtypes
from hpcflow.contrib.cudnn_rnn import operations as o
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor


class _Model:
    """A network of one kind.

    Args:
        num_layers, num_units, input_size: the sizes.
        input_mode, direction, dropout, seed, num_proj: as of ``cudnn_rnn``.
        dtype: of the parameters.

    ``ValueError`` for an unknown direction.
    """

    rnn_mode: ClassVar[str]

    def __init__(self, num_layers: int, num_units: int, input_size: int,
                 input_mode: str = o.CUDNN_INPUT_LINEAR_MODE,
                 direction: str = o.CUDNN_RNN_UNIDIRECTION, dtype: DTypeLike = dtypes.float32,
                 dropout: float = 0.0, seed: int | None = 0, num_proj: int | None = None) -> None:
        o.check_direction(direction)
        self.num_layers, self.num_units, self.input_size = num_layers, num_units, input_size
        self.input_mode, self.direction, self.num_proj = input_mode, direction, num_proj
        self._dtype = dtype
        self._said: dict[str, Any] = {"input_mode": input_mode, "direction": direction,
                                      "dropout": dropout, "seed": seed, "num_proj": num_proj}
        self._sizes = self.rnn_mode, num_layers, num_units, input_size

    def params_size(self) -> Tensor:
        """Return the number of parameters."""
        return o.cudnn_rnn_opaque_params_size(*self._sizes, dtype=self._dtype, **self._said)

    def params_to_canonical(self, params: TensorLike) -> tuple[list[Tensor], list[Tensor]]:
        """Return the matrices and biases of a vector of parameters."""
        return o.cudnn_rnn_opaque_params_to_canonical(*self._sizes, params, **self._said)

    def canonical_to_params(self, weights: Sequence[TensorLike],
                            biases: Sequence[TensorLike]) -> Tensor:
        """Return the vector of matrices and biases."""
        return o.cudnn_rnn_canonical_to_opaque_params(*self._sizes, weights, biases, **self._said)


class CudnnLSTM(_Model):
    """A network of LSTMs."""

    rnn_mode = o.CUDNN_LSTM

    def __call__(self, input_data: TensorLike, input_h: TensorLike, input_c: TensorLike,
                 params: TensorLike, sequence_lengths: TensorLike | None = None,
                 time_major: bool = True, is_training: bool = True,
                 ) -> tuple[Tensor, Tensor, Tensor]:
        """Return output, state and memory; arguments as of ``cudnn_rnn``."""
        return o.cudnn_lstm(input_data, input_h, input_c, params, is_training, sequence_lengths,
                            time_major, **self._said)


class _WithoutMemory(_Model):
    """A network of cells that have a state only."""

    def __init__(self, num_layers: int, num_units: int, input_size: int,
                 input_mode: str = o.CUDNN_INPUT_LINEAR_MODE,
                 direction: str = o.CUDNN_RNN_UNIDIRECTION, dtype: DTypeLike = dtypes.float32,
                 dropout: float = 0.0, seed: int | None = 0) -> None:
        super().__init__(num_layers, num_units, input_size, input_mode, direction, dtype, dropout,
                         seed)

    def __call__(self, input_data: TensorLike, input_h: TensorLike, params: TensorLike,
                 sequence_lengths: TensorLike | None = None, time_major: bool = True,
                 is_training: bool = True) -> tuple[Tensor, Tensor]:
        """Return output and state; arguments as of ``cudnn_rnn``."""
        build = {o.CUDNN_GRU: o.cudnn_gru, o.CUDNN_RNN_TANH: o.cudnn_rnn_tanh,
                 o.CUDNN_RNN_RELU: o.cudnn_rnn_relu}[self.rnn_mode]
        said = {k: v for k, v in self._said.items() if k != "num_proj"}
        return build(input_data, input_h, params, is_training, sequence_lengths, time_major,
                     **said)


class CudnnGRU(_WithoutMemory):
    """A network of gated recurrent units."""

    rnn_mode = o.CUDNN_GRU


class CudnnRNNTanh(_WithoutMemory):
    """A network of simple cells with tanh."""

    rnn_mode = o.CUDNN_RNN_TANH


class CudnnRNNRelu(_WithoutMemory):
    """A network of simple cells with relu."""

    rnn_mode = o.CUDNN_RNN_RELU
