"""Initializers under the names and with the defaults that layers of models have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.keras import lookup
from hpcflow.ops.state import initializers as _own
from hpcflow.ops.state.initializers import (
    Constant,
    Identity,
    Initializer,
    Ones,
    Orthogonal,
    VarianceScaling,
    Zeros,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)


class RandomNormal(_own.RandomNormal):
    """Normal numbers, of standard deviation 0.05."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None,
                 dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(_own.RandomUniform):
    """Uniform numbers between -0.05 and 0.05."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None,
                 dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(minval, maxval, seed, dtype)


class TruncatedNormal(_own.TruncatedNormal):
    """Normal numbers within two standard deviations of 0.05."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None,
                 dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(mean, stddev, seed, dtype)


class GlorotNormal(VarianceScaling):
    """Truncated normal numbers of variance ``2 / (inputs + outputs)``."""

    def __init__(self, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class GlorotUniform(VarianceScaling):
    """Uniform numbers in ``+-sqrt(6 / (inputs + outputs))``."""

    def __init__(self, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


glorot_normal, glorot_uniform = GlorotNormal, GlorotUniform
zeros, ones, constant, identity, orthogonal = Zeros, Ones, Constant, Identity, Orthogonal
normal = random_normal = RandomNormal
uniform = random_uniform = RandomUniform
truncated_normal = TruncatedNormal


def _make(function: Callable[..., Any]) -> type:
    """A class for an initializer that a function makes, so that a name alone stands for one."""

    class Made(Initializer):
        def __new__(cls, **config: Any) -> Any:
            return function(**config)

    return Made


_NAMED: dict[str, Any] = {
    "zeros": Zeros, "Zeros": Zeros, "zero": Zeros, "ones": Ones, "Ones": Ones, "one": Ones,
    "constant": Constant, "Constant": Constant, "identity": Identity, "Identity": Identity,
    "orthogonal": Orthogonal, "Orthogonal": Orthogonal, "normal": RandomNormal,
    "random_normal": RandomNormal, "RandomNormal": RandomNormal, "uniform": RandomUniform,
    "random_uniform": RandomUniform, "RandomUniform": RandomUniform,
    "truncated_normal": TruncatedNormal, "TruncatedNormal": TruncatedNormal,
    "VarianceScaling": VarianceScaling, "variance_scaling": VarianceScaling,
    **{f.__name__: _make(f) for f in (he_normal, he_uniform, lecun_normal, lecun_uniform)},
    "glorot_normal": GlorotNormal, "GlorotNormal": GlorotNormal,
    "glorot_uniform": GlorotUniform, "GlorotUniform": GlorotUniform,
}  # fmt: skip


def get(identifier: Any) -> Any:
    """Return the initializer of a name, a configuration or itself; None stays None."""
    return lookup.instance(_NAMED, identifier, "initializer")


serialize = lookup.serialized
deserialize = get
