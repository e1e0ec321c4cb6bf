"""Random numbers of ``keras.backend``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.dtypes import DTypeLike
from hpcflow.keras.settings import floatx
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


def random_normal(shape: TensorLike, mean: float = 0.0, stddev: float = 1.0,
                  dtype: DTypeLike | None = None, seed: int | None = None) -> Any:
    """Return normal numbers."""
    return hf.random_normal(shape, mean, stddev, dtype or floatx(), seed)


def random_uniform(shape: Sequence[int | None], minval: float = 0.0, maxval: float = 1.0,
                   dtype: DTypeLike | None = None, seed: int | None = None) -> Any:
    """Return uniform numbers."""
    return hf.random_uniform(shape, minval, maxval, dtype or floatx(), seed)


def random_uniform_variable(shape: ShapeLike, low: float, high: float,
                            dtype: DTypeLike | None = None, name: str | None = None,
                            seed: int | None = None) -> Any:
    """Return a variable that begins with uniform numbers."""
    return hf.Variable(hf.random_uniform(shape, low, high, dtype or floatx(), seed), name=name)


def random_normal_variable(shape: ShapeLike, mean: float, scale: float,
                           dtype: DTypeLike | None = None, name: str | None = None,
                           seed: int | None = None) -> Any:
    """Return a variable that begins with normal numbers."""
    return hf.Variable(hf.random_normal(shape, mean, scale, dtype or floatx(), seed), name=name)


def truncated_normal(shape: ShapeLike, mean: float = 0.0, stddev: float = 1.0,
                     dtype: DTypeLike | None = None, seed: int | None = None) -> Any:
    """Return normal numbers within two standard deviations."""
    return hf.truncated_normal(shape, mean, stddev, dtype or floatx(), seed)


def random_binomial(shape: ShapeLike, p: float = 0.0, dtype: DTypeLike | None = None,
                    seed: int | None = None) -> Any:
    """Return ones with probability `p`, and zeros."""
    dtype = dtype or floatx()
    return hf.cast(hf.random_uniform(shape, seed=seed) <= p, dtype)
