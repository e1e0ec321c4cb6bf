"""Numbers of distributions with parameters, by rejection: gamma, Poisson, normal between bounds.

Each element has 256 blocks of the sequence to itself, and draws from them until a proposal is
accepted. So its number follows from its place alone, on every device (`device_rejection` is the
same as CUDA C++). Gamma and Poisson numbers are TensorFlow's. Parameters are numbers, or arrays
with one for each element; all is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.random import gamma_loop
from hpcflow.kernels.random.numbers import unit
from hpcflow.kernels.random.philox import Start

#: Blocks of four words that an element has.
STRIDE = 256
#: Poisson numbers of smaller means are counted by products of uniform numbers.
SMALL_RATE = 10.0
_FLOAT64 = np.dtype(np.float64)
_SMALLEST = 1e-7  # in place of numbers too near to zero for a logarithm
_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(10)])

#: ``draw(start, places, *parameters)``: a number for each place, where its blocks begin.
Draw = Callable[..., np.ndarray]


class _Elements:
    """Elements that wait for their numbers, and draw uniform ones in [0, 1), each from its own
    blocks on."""

    def __init__(self, start: Start, places: np.ndarray) -> None:
        self._start, self._places = start, places
        self._held: np.ndarray = np.empty((0, 2))
        self._found: np.ndarray = np.empty(0)
        self._waiting: np.ndarray | None = None  # those of all that wait; None: all do
        self._has_one = np.zeros(places.size, bool)  # left of the block that was drawn last

    @property
    def count(self) -> int:
        """How many wait."""
        return self._places.size

    def pairs(self) -> np.ndarray:
        """The next block of every element, as two numbers."""
        found = self._block(self._places)
        self._places = self._places + np.uint64(1)
        return found

    def _block(self, places: np.ndarray) -> np.ndarray:
        return unit(self._start.blocks(places).reshape(-1), _FLOAT64).reshape(-1, 2)

    def next(self, wanted: np.ndarray) -> np.ndarray:
        """The next number of each element that is `wanted`: the second of a block comes first."""
        if not self._has_one.any():  # as at the beginning: without picking elements
            self._held = self._block(self._places)
            self._places, self._has_one = self._places + wanted, wanted
            return self._held[:, 1]
        fetching = np.flatnonzero(wanted & ~self._has_one)
        found = self._held[:, 0]
        if fetching.size:
            fresh, found = self._block(self._places[fetching]), found.copy()
            self._held[fetching], found[fetching] = fresh, fresh[:, 1]
            self._places[fetching] += np.uint64(1)
        self._has_one = self._has_one ^ wanted
        return found

    def settle(self, values: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Give those that are `taken` their values, and wait on with the others; return the
        positions of these among all that waited."""
        left = np.flatnonzero(~taken)
        if self._waiting is None:
            self._found, self._waiting = values, left
        else:  # what is not taken is written over
            self._found[self._waiting] = values
            self._waiting = self._waiting[left]
        self._places, self._has_one = self._places[left], self._has_one[left]
        if self._held.size:
            self._held = self._held[left]
        return left

    def numbers(self) -> np.ndarray:
        """The values of all."""
        return self._found


def _of(those: np.ndarray, *parameters: Any) -> list:
    """The parameters of `those` elements."""
    return [p[those] if np.ndim(p) else p for p in parameters]


def _either(chosen: Any, one: Draw, other: Draw, start: Start, places: np.ndarray,
            *parameters: Any) -> np.ndarray:
    """Where `chosen`, a truth value for all elements or each, what `one` draws, else `other`."""
    if not np.ndim(chosen):
        return (one if chosen else other)(start, places, *parameters)
    found = np.empty(places.size)
    for those, draw in ((chosen, one), (~chosen, other)):
        if those.any():
            found[those] = draw(start, places[those], *_of(those, *parameters))
    return found


# ---------------------------------------------------------------- gamma


def gamma(start: Start, places: np.ndarray, alpha: Any) -> np.ndarray:
    """Gamma numbers with the scale 1."""
    return _either(alpha == 1, _exponential, _gamma, start, places, alpha)


def _gamma(start: Start, places: np.ndarray, alpha: Any) -> np.ndarray:
    return gamma_loop.first(start, places, alpha, lambda those: _cubes(
        start, places[those], *_of(those, alpha)))


def _exponential(start: Start, places: np.ndarray, alpha: Any) -> np.ndarray:
    return -np.log1p(-_Elements(start, places).pairs()[:, 1])


def _cubes(start: Start, places: np.ndarray, alpha: Any) -> np.ndarray:
    """By Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: the cube of a
    normal number."""
    depth = alpha + np.where(alpha < 1, 2 / 3, -1 / 3)
    scale = 1 / 3 / np.sqrt(depth)
    elements, angle, is_second = _Elements(start, places), np.empty(0), False
    while elements.count:
        if not is_second:
            angle, radius = _polar(elements.pairs())
        x = (np.sin if is_second else np.cos)(angle) * radius
        v = 1 + scale * x
        alive = ~(v <= 0)
        v, u = v * v * v, elements.next(alive)
        taken, values = _gamma_accepts(x, u, v, depth, alive), depth * v
        _boost(values, taken, alpha, elements)
        left = elements.settle(values, taken)
        angle, radius = angle[left], radius[left]
        alpha, depth, scale = _of(left, alpha, depth, scale)
        is_second = not is_second
    return elements.numbers()


def _polar(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The angle and the radius of two normal numbers (Box and Muller)."""
    radius = np.sqrt(-2 * np.log(np.maximum(pairs[:, 0], _SMALLEST)))
    return 2 * math.pi * pairs[:, 1], radius


def _gamma_accepts(x: np.ndarray, u: np.ndarray, v: np.ndarray, depth: Any,
                   alive: np.ndarray) -> np.ndarray:
    square = x * x
    taken = alive & (u < 1 - 0.0331 * square * square)
    (near,) = np.nonzero(alive & ~taken)
    x, u, v, depth = _of(near, square, u, v, depth)
    taken[near] = np.log(u) < 0.5 * x + depth * (1 - v + np.log(v))
    return taken


def _boost(values: np.ndarray, taken: np.ndarray, alpha: Any, elements: _Elements) -> None:
    """Make of numbers for alpha + 1 those for an alpha less than one."""
    less = alpha < 1
    if np.any(less):
        values *= np.where(less, elements.next(taken & less) ** (1 / alpha), 1)


# ---------------------------------------------------------------- Poisson


def poisson(start: Start, places: np.ndarray, rate: Any) -> np.ndarray:
    """Poisson numbers with the mean `rate`; infinite if that is."""
    found = _either(rate < SMALL_RATE, _poisson_by_product, _poisson_by_inverse, start, places,
                    np.minimum(rate, np.finfo(np.float64).max))
    return np.where(np.isinf(rate), rate, found) if np.isinf(rate).any() else found


def _poisson_by_product(start: Start, places: np.ndarray, rate: Any) -> np.ndarray:
    """By Knuth: how many uniform numbers have a product above that of the mean."""
    elements, limit, product = _Elements(start, places), np.exp(-rate), np.ones(places.size)
    count = 0
    while elements.count:
        pairs = elements.pairs()
        first = product * pairs[:, 1]
        product = first * pairs[:, 0]
        left = elements.settle(count + (first > limit), product <= limit)
        product, count = product[left], count + 2
        (limit,) = _of(left, limit)
    return elements.numbers()


def _poisson_by_inverse(start: Start, places: np.ndarray, rate: Any) -> np.ndarray:
    """By Hörmann, "The transformed rejection method for generating Poisson random variables",
    1993."""
    elements, b = _Elements(start, places), 0.931 + 2.53 * np.sqrt(rate)
    while elements.count:
        pairs = elements.pairs()
        left = elements.settle(*_poisson_proposal(pairs[:, 1] - 0.5, pairs[:, 0], rate, b))
        rate, b = _of(left, rate, b)
    return elements.numbers()


def _poisson_proposal(u: np.ndarray, v: np.ndarray, rate: Any, b: Any,
                      ) -> tuple[np.ndarray, np.ndarray]:
    """Values, and which of them are accepted."""
    a = 0.02483 * b - 0.059
    edge = 0.5 - np.abs(u)
    k = np.floor((2 * a / edge + b) * u + rate + 0.43)
    taken = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    (near,) = np.nonzero(~taken & ~((k < 0) | ((edge < 0.013) & (v > edge))))
    e, v, some, rate, a, b = _of(near, edge, v, k, rate, a, b)
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    taken[near] = np.log(v * inverse / (a / (e * e) + b)) <= _log_probability(some, rate)
    return k, taken


def _log_probability(k: np.ndarray, rate: Any) -> np.ndarray:
    """The logarithm of the probability of `k`: by Stirling's series for log k! in the form that
    keeps its digits where k is large and near to the mean."""
    square, away = 1 / (k * k), k - rate
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / k
    large = away - k * np.log1p(away / rate) - (0.5 * np.log(k) + 0.9189385332046727) - series
    small = k * np.log(rate) - rate - _LOG_FACTORIALS[np.minimum(k, 9).astype(np.intp)]
    return np.where(k < len(_LOG_FACTORIALS), small, large)


# ---------------------------------------------------------------- normal, between bounds


def normal_between(start: Start, places: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Standard normal numbers in [low, high] (Robert, "Simulation of truncated normal variables",
    1995): of three proposals the one that is accepted most often."""
    mirrored = high < 0  # the lower tail is the upper one mirrored
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    beyond, width = low > 0, high - low
    # A narrow interval far out is covered better by a uniform proposal.
    tail = beyond & (width * _rate(low) > 1)
    narrow = beyond | (width < math.sqrt(2 * math.pi))
    found = _either(tail[()], _drawn_by(_by_exponential), _near_draw, start, places, low[()],
                    high[()], narrow[()])
    return np.where(mirrored, -found, found)


def _near_draw(start: Start, places: np.ndarray, low: Any, high: Any, narrow: Any) -> np.ndarray:
    return _either(narrow, _drawn_by(_by_uniform), _drawn_by(_by_normal), start, places, low, high)


def _drawn_by(propose: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Draw:
    """Draw by ``propose(pairs, low, high)``, which gives values and which of them are accepted."""

    def draw(start: Start, places: np.ndarray, low: Any, high: Any, *_: Any) -> np.ndarray:
        elements = _Elements(start, places)
        while elements.count:
            low, high = _of(elements.settle(*propose(elements.pairs(), low, high)), low, high)
        return elements.numbers()

    return draw


def _rate(low: Any) -> Any:
    """Of the best exponential proposal beyond `low`."""
    return low / 2 + np.hypot(low / 2, 1)


def _by_normal(pairs: np.ndarray, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    angle, radius = _polar(pairs)
    values = np.cos(angle) * radius
    return values, (values >= low) & (values <= high)


def _by_uniform(pairs: np.ndarray, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    mode, values = np.maximum(low, 0), low + (high - low) * pairs[:, 0]
    return values, pairs[:, 1] <= np.exp((mode - values) * (mode + values) / 2)


def _by_exponential(pairs: np.ndarray, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Exponential beyond `low`, cut where the interval ends."""
    rate = _rate(low)
    inside = -np.expm1(-rate * (high - low))
    values = low - np.log1p(-pairs[:, 0] * inside) / rate
    return values, pairs[:, 1] <= np.exp(-((values - rate) ** 2) / 2)
