"""``python.keras.layers.recurrent_v2``: recurrent layers with the defaults of 2.x."""

from __future__ import annotations

from typing import Any

from hpcflow.keras.layers import recurrent


class GRU(recurrent.GRU):
    """A :class:`~hpcflow.keras.layers.GRU` whose gates are sigmoid, with `reset_after`."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, *, reset_after: bool = True, **keywords: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias,
                         reset_after=reset_after, **keywords)


class LSTM(recurrent.LSTM):
    """A :class:`~hpcflow.keras.layers.LSTM` whose gates are sigmoid."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, **keywords: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias, **keywords)
