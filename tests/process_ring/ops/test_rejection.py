"""Gamma, Poisson and bounded normal numbers: their distributions by Kolmogorov and Smirnov's
distance, the reference's numbers, extreme parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.kernels.random import gamma_loop, rejection
from hpcflow.kernels.random.philox import Start
from hpcflow.loops import compiling

N = 20000
SEEDS = {"seed": 87, "seed2": 3}


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def run(fetches):
    with hf.Session() as session:
        return session.run(fetches)


def gamma(alpha: float, dtype: str = "float64") -> np.ndarray:
    return run(hf.raw_ops.RandomGamma([N], hf.constant(alpha, dtype), **SEEDS))


def poisson(rate: float, dtype: str = "float64") -> np.ndarray:
    return run(hf.raw_ops.RandomPoissonV2([N], np.float64(rate), dtype=dtype, **SEEDS))


def upper(z: np.ndarray) -> np.ndarray:
    """The normal distribution's mass beyond `z`."""
    return np.array([math.erfc(v / math.sqrt(2)) / 2 for v in np.ravel(z)])


def assert_distributed(values: np.ndarray, below: Callable[[np.ndarray], np.ndarray]) -> None:
    """The distance to a cumulative distribution is one that 999 of 1000 samples have."""
    points, counts = np.unique(values, return_counts=True)
    distance = np.abs(np.cumsum(counts) / values.size - below(points)).max()
    assert distance * math.sqrt(values.size) < 1.95


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.999, 1.0, 1.5, 30.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma(alpha, dtype):
    values = gamma(alpha, dtype).astype(np.float64)
    if dtype == "float32" and alpha < 0.1:
        values = values[values > 1e-30]  # above the numbers that the type lacks
        lost = run(hf.igamma(np.float64(alpha), np.float64(1e-30)))
        assert_distributed(values, lambda x: (run(hf.igamma(np.float64(alpha), x)) - lost) / (
            1 - lost))
    else:
        assert_distributed(values, lambda x: run(hf.igamma(np.float64(alpha), x)))


def test_gamma_of_extreme_parameters():
    for alpha in (1e8, 1e15):
        assert_distributed((gamma(alpha) - alpha) / math.sqrt(alpha), lambda z: 1 - upper(z))
    few = gamma(0.001)
    assert (few >= 0).all() and abs((few < 1e-100).mean() - 0.1 ** 0.1) < 0.015
    assert not gamma(0.0).any() and np.isinf(gamma(math.inf)).all()


@pytest.mark.parametrize("rate", [0.0, 0.01, 3.0, 9.99, 10.0, 11.0, 60.0])
def test_poisson(rate):
    values = poisson(rate)
    assert (values == np.floor(values)).all()
    if rate:
        assert_distributed(values, lambda k: run(hf.igammac(k + 1, np.full_like(k, rate))))
    else:
        assert not values.any()


@pytest.mark.parametrize("rate", [1e6, 1e12, 1e20])
def test_poisson_of_large_means(rate):
    values = poisson(rate)
    continuity = 0.5 if rate < 1e9 else 0.0
    assert_distributed((values + continuity - rate) / math.sqrt(rate), lambda z: 1 - upper(z))


def test_poisson_at_the_end_of_a_type():
    assert (poisson(1e12, "int32") == np.iinfo(np.int32).max).all()
    assert np.isinf(poisson(math.inf)).all() and np.isinf(poisson(1e6, "float16")).all()
    assert abs(poisson(1e15, "int64") / 1e15 - 1).max() < 1e-6


@pytest.mark.parametrize("low, high", [
    (-1.0, 1.0), (-5.0, 5.0), (-0.1, 0.2), (0.0, math.inf), (-math.inf, math.inf),
    (-math.inf, 0.5), (3.0, math.inf), (10.0, 10.1), (37.0, math.inf), (0.3, 0.9),
    (-math.inf, -6.0), (-4.5, -4.0), (1e-9, 30.0)])
def test_normal_between_bounds(low, high):
    means = np.array([1.0, -2.0, 0.0, 5.0])
    values = run(hf.raw_ops.ParameterizedTruncatedNormal(
        [4, N // 4], means, np.float64(2.0), 2 * low + means, 2 * high + means, **SEEDS))
    z = np.ravel((values - means[:, None]) / 2)
    mass = (lambda x: upper(low) - upper(x)) if low > 0 else lambda x: upper(-x) - upper(-low)
    assert_distributed(z, lambda x: mass(x) / mass(high))


def test_bounds_of_extreme_size():
    for low, high in ((1e9, math.inf), (-math.inf, -1e200), (0.0, 1e-300), (5.0, 5.0000001)):
        values = run(hf.raw_ops.ParameterizedTruncatedNormal(
            [1, 100], np.float64(0), np.float64(1), np.float64(low), np.float64(high), **SEEDS))
        assert (values >= low).all() and (values <= high).all()
    narrow = run(hf.raw_ops.ParameterizedTruncatedNormal(
        [1, 1000], *(hf.constant(v, hf.float16) for v in (0.0, 1.0, -0.7, 0.3)), **SEEDS))
    assert narrow.min() >= np.float16(-0.7) and narrow.max() <= np.float16(0.3)


def test_numbers_of_the_reference():
    """For the seeds 87 and 3; each parameter has a part of the sequence."""
    for dtype in ("float32", "float64"):
        np.testing.assert_allclose(gamma(7.0, dtype)[:5], [
            4.27531227, 6.18267408, 5.38529739, 8.47193742, 7.66638028], 1e-6)
        np.testing.assert_allclose(gamma(1.0, dtype)[:3], [0.43962835, 1.30330588, 0.35787659],
                                   1e-6)
    np.testing.assert_allclose(gamma(0.3)[:3], [2.33971588e-02, 1.68734286e-03, 1.16758358e-09],
                               1e-6)
    assert poisson(4.0, "int32")[:5].tolist() == [2, 3, 3, 5, 2]
    assert poisson(30.0, "float32")[:5].tolist() == [28, 34, 27, 24, 35]
    alphas = np.array([0.3, 1, 7], np.float64)
    grid = run(hf.raw_ops.RandomGamma([N // 4, 2], alphas, **SEEDS))
    np.testing.assert_array_equal(grid[..., 0].ravel(), gamma(0.3)[: N // 2])


def test_the_compiled_loop_draws_the_same():
    """What it proposes first, and what NumPy draws in place of what is not accepted."""
    if not compiling.enabled():
        pytest.skip("no compiler is installed")
    start, places = Start(5, 7 << 64), np.arange(N, dtype=np.uint64) * np.uint64(256)
    loop = compiling.compiled(gamma_loop._LOOP)
    loop.spent(1e9)
    compiling.wait()
    assert loop.function is not None
    with np.errstate(all="ignore"):
        for alpha in (0.001, 0.4, 2.5, 1e7, np.geomspace(1e-4, 1e9, N)):
            mine = gamma_loop.run(loop, start, places, alpha, lambda those: rejection._cubes(
                start, places[those], *rejection._of(those, alpha)))
            np.testing.assert_allclose(mine, rejection._cubes(start, places, alpha), 1e-10)


@pytest.mark.parametrize("build", [
    lambda ops, nan: ops.RandomGamma([1], [-1.0], **SEEDS),
    lambda ops, nan: ops.RandomPoisson([1], [nan], **SEEDS),
    lambda ops, nan: ops.ParameterizedTruncatedNormal([1, 2], nan, 1.0, 0.0, 1.0),
    lambda ops, nan: ops.ParameterizedTruncatedNormal([1, 2], 0.0, math.inf, 0.0, 1.0),
    lambda ops, nan: ops.ParameterizedTruncatedNormal([1, 2], 0.0, 1.0, nan, 1.0),
])
def test_parameters_without_numbers(build):
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"negative|must be positive"):
        run(build(hf.raw_ops, math.nan))
