"""Initializers that keep the scale of gradients about the same in all layers."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.ops.state.initializers import Initializer, VarianceScaling


def xavier_initializer(uniform: bool = True, seed: int | None = None,
                       dtype: DTypeLike = dtypes.float32) -> Initializer:
    """Return an initializer of variance ``2 / (inputs + outputs)`` (Glorot and Bengio, 2010).

    `uniform`: uniformly distributed, else normally. `seed`: of the random numbers.
    """
    return VarianceScaling(1.0, "fan_avg", "uniform" if uniform else "normal", seed, dtype)


xavier_initializer_conv2d = xavier_initializer

_MODES = {"FAN_IN": "fan_in", "FAN_OUT": "fan_out", "FAN_AVG": "fan_avg"}


def variance_scaling_initializer(factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False,
                                 seed: int | None = None,
                                 dtype: DTypeLike = dtypes.float32) -> Initializer:
    """Return an initializer of variance ``factor / n`` (He et al., 2015, with the defaults).

    n is the number of inputs (``"FAN_IN"``), of outputs (``"FAN_OUT"``) or their mean
    (``"FAN_AVG"``). Raises ``ValueError`` for another mode.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be FAN_IN, FAN_OUT or FAN_AVG, got {mode!r}")
    return VarianceScaling(factor, _MODES[mode], "uniform" if uniform else "normal", seed, dtype)
