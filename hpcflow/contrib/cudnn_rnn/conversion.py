"""Between a network's vector of parameters and the variables of cells that compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hpcflow.contrib.cudnn_rnn import operations as o
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.joining import concat, split
from hpcflow.ops.arrays.layout import transpose


class CudnnParamsFormatConverter:
    """Converts the parameters of networks of one kind.

    Of the biases by the input and by the state, where only the sum counts, cells have that; back
    each gets half of it.

    Args:
        num_layers, num_units, input_size: the sizes of the network.
        num_proj, input_mode, direction: as of ``cudnn_rnn``.
    """

    _rnn_mode: ClassVar[str]

    def __init__(self, num_layers: int, num_units: int, input_size: int,
                 num_proj: int | None = None, input_mode: str = o.CUDNN_INPUT_LINEAR_MODE,
                 direction: str = o.CUDNN_RNN_UNIDIRECTION) -> None:
        self._num_layers, self._num_units, self._input_size = num_layers, num_units, input_size
        self._num_proj = num_proj
        self._sides = 2 if direction == o.CUDNN_RNN_BIDIRECTION else 1
        self._sizes = self._rnn_mode, num_layers, num_units, input_size
        self._said: dict[str, Any] = {"input_mode": input_mode, "direction": direction,
                                      "num_proj": num_proj}
        self._gates = o.PER_LAYER[self._rnn_mode] // 2

    def opaque_to_tf_canonical(self, opaque_param: TensorLike) -> tuple[list[Tensor], ...]:
        """Return the kernels and biases of cells, layer by layer, in each the direction forward
        first; and the projections if there are some."""
        weights, biases = o.cudnn_rnn_opaque_params_to_canonical(
            *self._sizes, opaque_param, **self._said)
        kernels, vectors, projections = [], [], []
        for matrices in self._of_sides(weights):
            kernels += self._kernels(matrices[: 2 * self._gates])
            projections += [transpose(p) for p in matrices[2 * self._gates :]]
        for one in self._of_sides(biases):
            vectors += self._sums(one)
        return (kernels, vectors, projections) if self._num_proj else (kernels, vectors)

    def tf_canonical_to_opaque(self, tf_canonicals: Sequence[TensorLike],
                               weights_proj: Sequence[TensorLike] | None = None) -> Tensor:
        """Return the vector of the kernels of cells, followed by their biases."""
        half = len(tf_canonicals) // 2
        matrices: list[Tensor] = []
        for i, kernels in enumerate(self._of_sides(list(tf_canonicals[:half]))):
            matrices += self._matrices(i // self._sides, kernels)
            matrices += [transpose(weights_proj[i])] if weights_proj is not None else []
        biases = [b for sums in self._of_sides(list(tf_canonicals[half:]))
                  for b in self._halves(sums)]
        return o.cudnn_rnn_canonical_to_opaque_params(*self._sizes, matrices, biases, **self._said)

    def _of_sides(self, parts: list) -> list[list]:
        """Those of each layer and direction."""
        each = len(parts) // (self._num_layers * self._sides)
        return [parts[i : i + each] for i in range(0, len(parts), each)]

    def _widths(self, layer: int) -> list[int]:
        """The sizes of the input and the state of a layer."""
        state = self._num_proj or self._num_units
        return [self._input_size if layer == 0 else self._sides * state, state]

    def _kernels(self, matrices: list) -> list[Tensor]:
        """The one kernel of a cell."""
        gates = zip(matrices[: self._gates], matrices[self._gates :], strict=True)
        return [_kernel(self._ordered([concat(pair, 1) for pair in gates]))]

    def _matrices(self, layer: int, kernels: list) -> list[Tensor]:
        gates = self._ordered(split(transpose(kernels[0]), self._gates, 0))
        pairs = [split(g, self._widths(layer), 1) for g in gates]
        return [p[0] for p in pairs] + [p[1] for p in pairs]

    def _sums(self, biases: list) -> list[Tensor]:
        pairs = zip(biases[: self._gates], biases[self._gates :], strict=True)
        return [concat(self._ordered([a + b for a, b in pairs]), 0)]

    def _halves(self, sums: list) -> list[Tensor]:
        return [_half(b) for b in self._ordered(split(sums[0], self._gates, 0))] * 2

    def _ordered(self, gates: list) -> list:
        """The gates in the order of the cell, from that of the network; and back."""
        return gates


def _half(bias: Any) -> Tensor:
    return bias * 0.5


def _kernel(gates: list) -> Tensor:
    return transpose(concat(gates, 0))


class CudnnParamsFormatConverterLSTM(CudnnParamsFormatConverter):
    """Converts the parameters of LSTMs, whose cells have the memory before the forget gate."""

    _rnn_mode = o.CUDNN_LSTM

    def _ordered(self, gates: list) -> list:
        return [gates[0], gates[2], gates[1], gates[3]]


class CudnnParamsFormatConverterGRU(CudnnParamsFormatConverter):
    """Converts the parameters of gated recurrent units: a kernel for both gates, and two for the
    candidate, by the input and by the state."""

    _rnn_mode = o.CUDNN_GRU

    def _kernels(self, matrices: list) -> list[Tensor]:
        by_input, by_state = matrices[:3], matrices[3:]
        gates = [concat(pair, 1) for pair in zip(by_input[:2], by_state[:2])]
        return [_kernel(gates), transpose(by_input[2]), transpose(by_state[2])]

    def _matrices(self, layer: int, kernels: list) -> list[Tensor]:
        gates, given, seen = map(transpose, kernels)
        pairs = [split(g, self._widths(layer), 1) for g in split(gates, 2, 0)]
        return [*[p[0] for p in pairs], given, *[p[1] for p in pairs], seen]

    def _sums(self, biases: list) -> list[Tensor]:
        by_input, by_state = biases[:3], biases[3:]
        return [concat([a + b for a, b in zip(by_input[:2], by_state[:2])], 0), by_input[2],
                by_state[2]]

    def _halves(self, sums: list) -> list[Tensor]:
        gates, given, seen = sums
        halves = [_half(b) for b in split(gates, 2, 0)]
        return [*halves, given, *halves, seen]


class CudnnParamsFormatConverterTanh(CudnnParamsFormatConverter):
    """Converts the parameters of simple cells with tanh."""

    _rnn_mode = o.CUDNN_RNN_TANH


class CudnnParamsFormatConverterRelu(CudnnParamsFormatConverter):
    """Converts the parameters of simple cells with relu."""

    _rnn_mode = o.CUDNN_RNN_RELU
