"""The first proposal for each gamma number in one pass, where loops are compiled.

It is that of `rejection.gamma`, whose last digits may differ; nearly all proposals are accepted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from hpcflow.kernels.random.philox import BLOCK_TEXT, Start
from hpcflow.loops import compiling

# Series of sin(2 pi w) for w in [-1/4, 1/4].
_SINE = [(-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(11)]
_UNIT = "np.float64((({0} & 1048575) << 32) | {1}) * 2.220446049250313e-16"
_LOOP = compiling.TextLoop(f"""
def loop(places, alphas, found, key, low, high):
    for i in apart(places.size):
        place = places[i]{BLOCK_TEXT}
        radius = np.sqrt(np.log(max({_UNIT.format("a", "b")}, 1e-7)) * -2.0)
        w = np.absolute({_UNIT.format("c", "d")} - 0.5) - 0.25
        q = w * w
        normal = w * ({" + q * (".join(map(repr, _SINE))}{")" * len(_SINE)} * radius
        place = places[i] + np.uint64(1){BLOCK_TEXT}
        alpha = alphas[i]
        depth = alpha + (0.6666666666666666 if alpha < 1.0 else -0.3333333333333333)
        v = normal * 0.3333333333333333 / np.sqrt(depth) + 1.0
        cube, square, u = v * v * v, normal * normal, {_UNIT.format("c", "d")}
        more = np.exp(np.log({_UNIT.format("a", "b")}) / alpha)
        value = depth * cube * (more if alpha < 1.0 else 1.0)
        value = -1.0 if v <= 0.0 else value
        by_logs = np.log(u) < square * 0.5 + depth * (np.log(cube) - cube + 1.0)
        found[i] = value if u < 1.0 - square * square * 0.0331 else value if by_logs else -1.0
""", (("uint64", 1, False), ("float64", 1, False), ("float64", 1, True)), 3)


Others = Callable[[np.ndarray], np.ndarray]


@functools.cache
def _loop() -> compiling.Compiled:
    return compiling.compiled(_LOOP)


def first(start: Start, places: np.ndarray, alpha: float | np.ndarray,
          others: Others) -> np.ndarray:
    """Gamma numbers for alphas other than one; those whose first proposal is not accepted, and all
    while there is no such loop, are ``others(positions)``."""
    loop = _loop() if compiling.approximates() else None
    if loop is None or loop.function is None:
        return compiling.timed(loop, lambda: others(np.arange(places.size)))
    return run(loop, start, places, alpha, others)


def run(loop: compiling.Compiled, start: Start, places: np.ndarray, alpha: float | np.ndarray,
        others: Others) -> np.ndarray:
    """The same, with the function of a loop."""
    assert loop.function is not None
    found = np.empty(places.size)
    loop.function(places, np.full(places.size, alpha), found, *start.numbers())
    left = np.flatnonzero(found < 0)
    found[left] = others(left)
    return found
