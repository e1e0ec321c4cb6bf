"""Derivatives of the incomplete gamma function by its first argument, over arrays of doubles.

They are those of the power series and of the continued fraction, term by term.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.math.gamma_functions import digamma, lgamma

MAX_TERMS = 5000
_EPSILON = np.finfo(np.float64).eps
LARGE = 1e150


def igamma_by_a(a: Any, x: Any) -> Any:
    """The derivative of P(a, x) by a; 0 at x = 0, NaN unless a > 0 and x >= 0."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        bad = ~((a > 0) & (x >= 0))
        inside = ~bad & (x > 0) & np.isfinite(x)
        by_series = inside & (x < a + 1)
        by_fraction = inside & ~by_series
        out = np.zeros(a.shape)
        out[by_series] = _series(a[by_series], x[by_series])
        out[by_fraction] = _fraction(a[by_fraction], x[by_fraction])
        return np.where(bad, np.nan, out)


def sample_by_alpha(alpha: Any, sample: Any) -> Any:
    """The derivative of a gamma variable by its shape, at the same place of the distribution."""
    alpha, x = np.asarray(alpha, np.float64), np.asarray(sample, np.float64)
    with np.errstate(all="ignore"):
        density = np.exp((alpha - 1) * np.log(x) - x - lgamma(alpha))
        return np.where(x == 0, 0.0, -igamma_by_a(alpha, x) / density)


def _series(a: Any, x: Any) -> Any:
    """Of ``x^a exp(-x) / Γ(a + 1) Σ x^n / ((a + 1) ... (a + n))``."""
    term, total = np.ones_like(x), np.ones_like(x)
    slope, sum_of_slopes = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, MAX_TERMS):
        ratio = x / (a + n)
        slope = slope * ratio - term * ratio / (a + n)
        term = term * ratio
        total = total + term
        sum_of_slopes = sum_of_slopes + slope
        small = np.abs(slope) <= np.abs(sum_of_slopes) * (_EPSILON / 4)
        if small.all() and (term <= total * (_EPSILON / 4)).all():
            break
    factor = np.exp(a * np.log(x) - x - lgamma(a + 1))
    return factor * (total * (np.log(x) - digamma(a + 1)) + sum_of_slopes)


def _fraction(a: Any, x: Any) -> Any:
    """Of 1 - Q(a, x), by Lentz's method: Q's fraction is a product of factors ``c d``, and the
    derivative of its logarithm a sum, in which nothing cancels."""
    b = x + 1 - a
    c, d = np.full_like(x, LARGE), 1 / b
    d_c, d_d = np.zeros_like(x), d * d
    value, slope = d, d  # of the logarithm
    for n in range(1, MAX_TERMS):
        above, b = -n * (n - a), b + 2
        d_d, d = _derived_reciprocal(above * d + b, n * d + above * d_d - 1)
        d_c, c = n / c - above * d_c / (c * c) - 1, b + above / c
        step, change = c * d, d_c / c + d_d / d
        value, slope = value * step, slope + change
        if (np.abs(step - 1) <= _EPSILON).all() and (
                np.abs(change) <= np.abs(slope) * _EPSILON).all():
            break
    factor = np.exp(a * np.log(x) - x - lgamma(a))
    return -factor * value * (np.log(x) - digamma(a) + slope)


def _derived_reciprocal(value: Any, slope: Any) -> tuple[Any, Any]:
    """The derivative of ``1 / value``, and that."""
    inverse = 1 / value
    return -slope * inverse * inverse, inverse
