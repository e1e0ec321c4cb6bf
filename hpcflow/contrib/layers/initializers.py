"""Initializers that keep the scale of gradients about the same in all layers."""

from __future__ import annotations

import math
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.random.random_ops import random_uniform, truncated_normal
from hpcflow.ops.state.initializers import Initializer
from hpcflow.shapes import as_shape

_TRUNCATED = 1.3  # about what truncation at two standard deviations takes of the variance


class ScaledVariance(Initializer):
    """Initial values of variance `factor` over the number of inputs, of outputs or their mean."""

    def __init__(self, factor: float, mode: str, uniform: bool, seed: int | None,
                 dtype: Any) -> None:
        self.factor, self.mode, self.uniform, self.seed = factor, mode, uniform, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None,
                 partition_info: object = None) -> Tensor:
        """Return a tensor of `shape`. ``TypeError`` for a type that is not floating."""
        wanted = self.dtype if dtype is None else _floating(dtype)
        dims: list = as_shape(shape).as_list()
        columns = dims[-1] if dims else 1
        rows = dims[-2] if len(dims) > 1 else columns
        area = math.prod(dims[:-2])
        size = {"FAN_IN": rows * area, "FAN_OUT": columns * area,
                "FAN_AVG": (rows + columns) * area / 2}[self.mode]
        if self.uniform:
            limit = math.sqrt(3.0 * self.factor / size)
            return random_uniform(shape, -limit, limit, wanted, self.seed)
        deviation = math.sqrt(_TRUNCATED * self.factor / size)
        return truncated_normal(shape, 0.0, deviation, wanted, self.seed)


def _floating(dtype: Any) -> Any:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    return dtype


def xavier_initializer(uniform: bool = True, seed: int | None = None,
                       dtype: DTypeLike = dtypes.float32) -> Initializer:
    """Return an initializer of variance ``2 / (inputs + outputs)`` (Glorot and Bengio, 2010).

    `uniform`: uniformly distributed, else normally. `seed`: of the random numbers. Raises
    ``TypeError`` for a type that is not floating.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False,
                                 seed: int | None = None,
                                 dtype: DTypeLike = dtypes.float32) -> Initializer:
    """Return an initializer of variance ``factor / n`` (He et al., 2015, with the defaults).

    n is the number of inputs (``"FAN_IN"``), of outputs (``"FAN_OUT"``) or their mean
    (``"FAN_AVG"``). Raises ``TypeError`` for another mode, and a type that is not floating.
    """
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    return ScaledVariance(factor, mode, uniform, seed, dtype)
