"""The gamma function's relatives, vectorized over NumPy in double precision.

log Γ comes from Stirling's series for x >= 8; below, the recurrence leads to [1, 2], where
log Γ(x) / ((x - 1)(x - 2)) is a Chebyshev series (its coefficients are projections computed with
40 digits), so that the zeros at 1 and 2 are exact. Digamma and the zeta function come from
their asymptotic (Euler-Maclaurin) series, the incomplete functions from power series and continued
fractions. See Abramowitz and Stegun, chapters 6, 23 and 26.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.math.error_functions import chebyshev

_LOG_GAMMA = np.array([
    0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608,
    0.00014900748003692963, -2.1512399888556784e-05, 3.1979329860862186e-06,
    -4.851693012139927e-07, 7.47148782116316e-08, -1.1638296700170518e-08,
    1.829400437118668e-09, -2.8969180607129607e-10, 4.61570140620909e-11,
    -7.392810230497983e-12, 1.1894280008333085e-12, -1.9212068676522805e-13,
    3.113975526387164e-14, -5.0628432984486114e-15, 8.254150281631144e-16,
    -1.3490578987574844e-16, 2.209876116782623e-17, -3.6274129549239766e-18,
])  # fmt: skip

# Bernoulli numbers B_2, B_4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730)  # fmt: skip
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
_MAX_TERMS = 5000
_TINY = 1e-300
_EPSILON = np.finfo(np.float64).eps


def _polynomial(coefficients: list[float], t: Any) -> Any:
    """c_0 + c_1 t + c_2 t² + ..."""
    out: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        out = out * t + c
    return out


# ---------------------------------------------------------------- log gamma


def lgamma(x: Any) -> Any:
    """log |Γ(x)| of an array of doubles; infinite at 0, -1, -2, ..."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        positive = _log_gamma_positive(np.where(x < 0, 1 - x, x))
        if not (x < 0).any():
            return positive
        # Γ(x) Γ(1 - x) = π / sin(πx); the sine of the fraction alone is exact near the poles.
        sine = np.abs(np.sin(np.pi * (x - np.rint(x))))
        reflected = np.log(np.pi / sine) - positive
        reflected = np.where(np.isinf(x), np.inf, reflected)
        return np.where(x < 0, reflected, positive)


def _log_gamma_positive(x: Any) -> Any:
    large = x >= 8
    if large.all():
        return _stirling(x)
    return np.where(large, _stirling(np.where(large, x, 8.0)),
                    _log_gamma_small(np.where(large, 1.0, x)))


_STIRLING = [b / (2 * n * (2 * n - 1)) for n, b in enumerate(_BERNOULLI[:9], 1)]


def _stirling(x: Any) -> Any:
    series = _polynomial(_STIRLING, 1 / (x * x)) / x
    return (x - 0.5) * (np.log(x) - 1) + (_HALF_LOG_TWO_PI - 0.5) + series


def _log_gamma_small(x: Any) -> Any:
    """For 0 <= x < 8."""
    below = x < 1
    y = np.where(below, x + 1, x)
    product = np.ones_like(y)
    while True:
        above = y >= 2
        if not above.any():
            break
        y = np.where(above, y - 1, y)
        product = np.where(above, product * y, product)
    # For x < 1 the factors are x and x - 1: exact, where x + 1 was rounded.
    factors = np.where(below, x * (x - 1), (y - 1) * (y - 2))
    near = factors * chebyshev(_LOG_GAMMA, 2 * y - 3)
    return near + np.where(below, -np.log(x), np.log(product))


# ---------------------------------------------------------------- digamma, zeta, polygamma


DIGAMMA = [b / (2 * n) for n, b in enumerate(_BERNOULLI[:9], 1)]


def digamma(x: Any, xp: Any = np) -> Any:
    """The derivative of log Γ of an array of doubles of `xp`; NaN at the poles 0, -1, -2, ..."""
    with np.errstate(all="ignore"):
        positive = xp.where(x <= 0, 1 - x, x)
        # ψ(y) = ψ(y + 8) - Σ 1 / (y + k), with the terms of k and 7 - k together.
        y = xp.minimum(positive, 1e100)
        product = y * (y + 7)
        shift = (1 / product + 1 / (product + 6) + 1 / (product + 10) + 1 / (product + 12)) * (
            2 * y + 7)
        y = positive + 8
        inverse = 1 / (y * y)
        value = xp.log(y) - 0.5 / y - inverse * _polynomial(DIGAMMA, inverse) - shift
        # ψ(1 - x) - ψ(x) = π / tan(πx).
        fraction = x - xp.rint(x)  # as small as it can be: no digits are lost near 0
        reflected = value - np.pi / xp.tan(np.pi * fraction)
        reflected = xp.where(fraction == 0, np.nan, reflected)
        return xp.where(x <= 0, reflected, value)


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function Σ (q + n)^-x over n >= 0.

    Infinite for x = 1, and at q = 0, -1, ... for even x, where both sides agree. NaN for x < 1, at
    the other poles, and for q < 0 unless x is an integer.
    """
    x, q = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        poles = (q <= 0) & (q == np.floor(q))
        bad = (x < 1) | ((q <= 0) & ~poles & (x != np.floor(x))) | np.isnan(x) | np.isnan(q)
        bad |= (q < -_MAX_TERMS) | (poles & (x % 2 != 0) & (x != 1))
        safe = np.where(bad | poles, 1.0, q)
        order = np.where(bad | (x <= 1), 2.0, x)
        value = _euler_maclaurin(order, safe)
        value = np.where((x == 1) | poles, np.inf, value)
        return np.where(bad, np.nan, value)


def _euler_maclaurin(x: Any, q: Any) -> Any:
    """Terms up to q + n >= 10 and ten more one by one, the rest by the integral and its
    corrections."""
    total = np.zeros_like(q)
    while True:
        small = q < 10
        if not small.any():
            break
        total = np.where(small, total + np.power(q, -x), total)
        q = np.where(small, q + 1, q)
    for _ in range(10):
        total = total + np.power(q, -x)
        q = q + 1
    power = np.power(q, -x)
    total = total + power * q / (x - 1) + 0.5 * power
    # x (x+1) ... (x+2n-2) B_2n / (2n)! q^(-x-2n+1), each from the one before.
    factor = x * power / q
    for n, b in enumerate(_BERNOULLI, 1):
        if n > 1:
            factor = factor * ((x + 2 * n - 3) * (x + 2 * n - 2)
                               / (2 * n * (2 * n - 1))) / (q * q)
        else:
            factor = factor / 2
        total = total + b * factor
    return total


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma; NaN unless n is a non-negative integer."""
    n, x = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        order = np.where(n > 0, n, 1.0)
        sign = np.where(order % 2 == 0, -1.0, 1.0)
        value = sign * np.exp(lgamma(order + 1)) * zeta(order + 1, x)
        value = np.where(n == 0, digamma(x), value)
        return np.where((n >= 0) & (n == np.floor(n)), value, np.nan)


# ---------------------------------------------------------------- incomplete gamma


def igamma(a: Any, x: Any) -> Any:
    """The lower regularized incomplete gamma function; 0 at x = 0, NaN unless a > 0 and x > 0."""
    return _incomplete_gamma(a, x, lower=True)


def igammac(a: Any, x: Any) -> Any:
    """The upper regularized incomplete gamma function; NaN unless a > 0 and x >= 0."""
    return _incomplete_gamma(a, x, lower=False)


def _incomplete_gamma(a: Any, x: Any, lower: bool) -> Any:
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        bad = ~((a > 0) & (x >= 0))
        if lower:
            bad &= x != 0
        inside = ~bad & (x > 0) & np.isfinite(x)
        by_series = inside & (x < a + 1)
        by_fraction = inside & ~by_series
        # P(a, 0) = 0 and P(a, inf) = 1.
        out = np.where(x > 0, 1.0, 0.0) if lower else np.where(x > 0, 0.0, 1.0)
        p = _gamma_series(a[by_series], x[by_series])
        q = _gamma_fraction(a[by_fraction], x[by_fraction])
        out[by_series] = p if lower else 1 - p
        out[by_fraction] = 1 - q if lower else q
        return np.where(bad, np.nan, out)


def _gamma_series(a: Any, x: Any) -> Any:
    """P(a, x) = x^a exp(-x) / Γ(a + 1) Σ x^n / ((a + 1) ... (a + n))."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, _MAX_TERMS):
        term = term * (x / (a + n))
        total = total + term
        if not (term > total * (_EPSILON / 4)).any():
            break
    return total * np.exp(a * np.log(x) - x - lgamma(a + 1))


def _gamma_fraction(a: Any, x: Any) -> Any:
    """Q(a, x) by its continued fraction, evaluated by Lentz's method."""
    b = x + 1 - a
    c = np.full_like(x, 1 / _TINY)
    d = 1 / b
    h = d
    for n in range(1, _MAX_TERMS):
        numerator = -n * (n - a)
        b = b + 2
        d = 1 / _nonzero(numerator * d + b)
        c = _nonzero(b + numerator / c)
        step = d * c
        h = h * step
        if not (np.abs(step - 1) > _EPSILON).any():
            break
    return h * np.exp(a * np.log(x) - x - lgamma(a))


def _nonzero(x: Any) -> Any:
    return np.where(np.abs(x) < _TINY, _TINY, x)


# ---------------------------------------------------------------- incomplete beta


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function; NaN unless a, b > 0 and 0 <= x <= 1."""
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    with np.errstate(all="ignore"):
        bad = ~((a > 0) & (b > 0) & (x >= 0) & (x <= 1))
        out = np.where(bad, np.nan, x)  # 0 at 0, 1 at 1
        inside = ~bad & (x > 0) & (x < 1)
        a, b, x = a[inside], b[inside], x[inside]
        # The fraction converges fast below the mean; above, I_x(a, b) = 1 - I_(1-x)(b, a).
        swap = x > (a + 1) / (a + b + 2)
        first, second = np.where(swap, b, a), np.where(swap, a, b)
        point = np.where(swap, 1 - x, x)
        front = (first * np.log(point) + second * np.log1p(-point) + lgamma(first + second)
                 - lgamma(first) - lgamma(second))
        value = np.exp(front) * _beta_fraction(first, second, point) / first
        out[inside] = np.where(swap, 1 - value, value)
        return out


def _beta_fraction(a: Any, b: Any, x: Any) -> Any:
    c = np.ones_like(x)
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    h = d
    for n in range(1, _MAX_TERMS):
        even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        d = 1 / _nonzero(1 + even * d)
        c = _nonzero(1 + even / c)
        h = h * d * c
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        d = 1 / _nonzero(1 + odd * d)
        c = _nonzero(1 + odd / c)
        step = d * c
        h = h * step
        if not (np.abs(step - 1) > _EPSILON).any():
            break
    return h
