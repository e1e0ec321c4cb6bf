"""Recurrent layers with the weights of cuDNN: two biases, sigmoid gates. They run anywhere."""

from __future__ import annotations

from typing import Any

from hpcflow.keras.layers.recurrent import _Recurrent
from hpcflow.keras.layers.recurrent_cells import GRUCell, LSTMCell

# Arguments of cells that are fixed here.
_FIXED = ("activation", "recurrent_activation", "use_bias", "dropout", "recurrent_dropout",
          "reset_after", "implementation")


def _options(cell: Any) -> dict[str, Any]:
    return {name: value for name, value in cell._options.items() if name not in _FIXED}


class _CuDNNGRUCell(GRUCell):
    """A :class:`GRUCell` that resets behind the product, with its biases in one row."""

    def __init__(self, units: int, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 **keywords: Any) -> None:
        super().__init__(units, "tanh", "sigmoid", True, True,
                         kernel_initializer=kernel_initializer,
                         recurrent_initializer=recurrent_initializer,
                         bias_initializer=bias_initializer, **keywords)
        self._options = _options(self)

    def _bias_shape(self) -> list[int]:
        return [6 * self.units]


class _CuDNNLSTMCell(LSTMCell):
    """A :class:`LSTMCell` with biases of the inputs, and behind them those of the state."""

    def __init__(self, units: int, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 unit_forget_bias: bool = True, **keywords: Any) -> None:
        super().__init__(units, "tanh", "sigmoid", True, unit_forget_bias,
                         kernel_initializer=kernel_initializer,
                         recurrent_initializer=recurrent_initializer,
                         bias_initializer=bias_initializer, **keywords)
        self._options = _options(self)

    def _bias_shape(self) -> list[int]:
        return [8 * self.units]

    def _bias(self) -> Any:
        bias: Any = self.bias
        return bias[:4 * self.units] + bias[4 * self.units:]


class _OfCuDNN(_Recurrent):
    """A recurrent layer that is never unrolled."""

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.pop("unroll")
        return config


class CuDNNGRU(_OfCuDNN):
    """``GRU`` with ``reset_after`` and sigmoid gates, and a bias of shape ``[6 units]``: those of
    the inputs, and behind them those of the state.
    """

    cell_class = _CuDNNGRUCell


class CuDNNLSTM(_OfCuDNN):
    """``LSTM`` with sigmoid gates, and a bias of shape ``[8 units]``: those of the inputs, and
    behind them those of the state.
    """

    cell_class = _CuDNNLSTMCell
