"""Functions of the standard normal and Laplace distributions, whose derivatives stay finite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor

__all__ = ["erfinv", "log_cdf_laplace", "log_ndtr", "ndtr", "ndtri"]

#: Below the first :func:`log_ndtr` is a series, above the second nearly 0.
LOGNDTR_FLOAT32_LOWER, LOGNDTR_FLOAT32_UPPER = np.float32(-10), np.float32(5)
LOGNDTR_FLOAT64_LOWER, LOGNDTR_FLOAT64_UPPER = np.float64(-20), np.float64(8)
_TERMS = 6


def _floats(x: TensorLike, name: str) -> Any:
    """The tensor of `x`; ``TypeError`` unless it is float32 or float64."""
    tensor = hf.convert_to_tensor(x, name="x")
    if tensor.dtype.base_dtype not in (hf.float32, hf.float64):
        raise TypeError(f"{name}: x must be of type float32 or float64, "
                        f"got {tensor.dtype.base_dtype.name}")
    return tensor


def xlogy(x: Any, y: Any) -> Tensor:
    """``x * log(y)``, 0 where `x` is 0 whatever `y` is; both are broadcast to one shape."""
    return hf.raw_ops.Xlogy(x=x + hf.zeros_like(y), y=y + hf.zeros_like(x))


def ndtr(x: TensorLike, name: str = "ndtr") -> Tensor:
    """The probability that a standard normal variable is at most `x`, float32 or float64."""
    with hf.name_scope(name, values=[x]):
        return 0.5 * hf.erfc(_floats(x, name) * -math.sqrt(0.5))


def log_ndtr(x: Any, name: str = "log_ndtr") -> Tensor:
    """The logarithm of :func:`ndtr`, exact also where that is nearly 0 or 1.

    Far below 0 it is the asymptotic series (Abramowitz and Stegun, 26.2.12); above 1 it is as
    much less than 0 as the probability is less than 1.
    """
    with hf.name_scope(name, values=[x]):
        x = _floats(x, name)
        far = float(LOGNDTR_FLOAT32_LOWER if x.dtype.base_dtype == hf.float32
                    else LOGNDTR_FLOAT64_LOWER)
        middle = hf.maximum(hf.minimum(x, 1.0), far)
        found = hf.where(x > far, hf.log(0.5 * hf.erfc(-middle * math.sqrt(0.5))),
                         _tail(hf.minimum(x, far)))
        above: Any = -0.5 * hf.erfc(hf.maximum(x, 1.0) * math.sqrt(0.5))
        return hf.where(x > 1, hf.log1p(above), found)


def _tail(x: Any) -> Any:
    """The series of :func:`log_ndtr` for `x` far below 0."""
    square: Any = hf.square(x)
    series: Any = hf.ones_like(x)
    term: Any = hf.ones_like(x)
    for k in range(1, _TERMS):
        term *= -(2 * k - 1) / square
        series += term
    return -0.5 * square - hf.log(-x) - 0.5 * math.log(2 * math.pi) + hf.log(series)


def ndtri(p: Any, name: str = "ndtri") -> Tensor:
    """The inverse of :func:`ndtr`: infinite at 0 and 1, where its derivative is taken as 0."""
    with hf.name_scope(name, values=[p]):
        p = _floats(p, name)
        ends = hf.logical_or(hf.equal(p, 0), hf.equal(p, 1))
        inside = hf.where(ends, hf.fill(hf.shape(p), hf.constant(0.5, p.dtype.base_dtype)), p)
        infinite: Any = hf.fill(hf.shape(p), hf.constant(np.inf, p.dtype.base_dtype))
        return hf.where(ends, hf.where(p > 0.5, infinite, -infinite), hf.raw_ops.Ndtri(inside))


def erfinv(x: TensorLike, name: str = "erfinv") -> Tensor:
    """The inverse of the error function, for `x` of float32 or float64 (else ``TypeError``)."""
    with hf.name_scope(name, values=[x]):
        quantile: Any = ndtri((_floats(x, name) + 1) / 2)
        return quantile / math.sqrt(2)


def log_cdf_laplace(x: Any, name: str = "log_cdf_laplace") -> Tensor:
    """The logarithm of the probability that a standard Laplace variable is at most `x`."""
    with hf.name_scope(name, values=[x]):
        x = _floats(x, name)
        below = hf.minimum(x, 0.0) - math.log(2)
        return hf.where(x < 0, below, hf.log1p(-0.5 * hf.exp(-hf.abs(x))))
