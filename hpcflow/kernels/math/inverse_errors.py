"""Inverses of the error function and of the normal distribution, over arrays of doubles.

An approximation in elementary functions is refined by Halley's method on the function itself, in
the tails on the logarithm of its complement, which never underflows there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow.kernels.math.error_functions import erf, erfc

_STEPS = 4
_TAIL = 0.5


def erfinv(x: Any) -> Any:
    """y with ``erf(y) = x``; infinite at -1 and 1, NaN beyond."""
    size = np.abs(x)
    inside = np.where(size < 1, size, 0.0)
    y = np.where(inside < _TAIL, _central(inside), _tail(np.minimum(1 - inside, _TAIL)))
    y = np.where(size == 1, np.inf, np.where(size < 1, y, np.nan))
    return np.copysign(y, x)


def ndtri(p: Any) -> Any:
    """The number that a normal variable is below with probability p."""
    p = np.asarray(p, np.float64)
    tail = np.minimum(p, 1 - p)
    low = _TAIL / 4
    # Near the middle the distance from one half is exact.
    middle = math.sqrt(2) * erfinv(np.where(tail < low, 0.0, 2 * p - 1))
    far = math.sqrt(2) * _tail(np.clip(2 * tail, 0, _TAIL))
    y = np.where(tail < low, np.where(p < 0.5, -far, far), middle)
    y = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, y))
    return np.where((p >= 0) & (p <= 1), y, np.nan)


def _central(x: Any) -> Any:
    """For 0 <= x < 1/2."""
    y = x * math.sqrt(math.pi) / 2
    for _ in range(_STEPS):
        error = (erf(y) - x) * (math.sqrt(math.pi) / 2) * np.exp(y * y)
        y = y - error / (1 + y * error)
    return y


def _tail(q: Any) -> Any:
    """y with ``erfc(y) = q`` for 0 <= q <= 1/2."""
    safe = np.maximum(q, 5e-324)
    wanted = np.log(safe)
    y = np.sqrt(np.maximum(-wanted - 0.5 * np.log(np.maximum(-math.pi * wanted, 1.0)), 0.1))
    for _ in range(_STEPS + 2):
        value = np.maximum(erfc(y), 5e-324)
        slope = -2 / math.sqrt(math.pi) * np.exp(-y * y) / value
        y = y - (np.log(value) - wanted) / np.where(slope == 0, -1.0, slope)
    return np.where(q == 0, np.inf, y)
