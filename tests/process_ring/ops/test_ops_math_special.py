"""Special functions against their definitions, identities and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from op_forms import evaluate, failing

import hpcflow as hf

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(17)
EULER = 0.5772156649015329


def check(build, expected, *inputs, rtol=1e-13, atol=0.0):
    """In double precision as exact as asked, in the shorter types to their own precision."""
    for dtype, limit in ((np.float64, rtol), (np.float32, max(rtol, 1e-6))):
        arrays = [np.asarray(v, dtype) for v in inputs]
        want = expected(*(a.astype(np.float64) for a in arrays))
        got = evaluate(build, *arrays)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=limit, atol=max(atol, limit * 1e-3))


def each(function):
    return np.vectorize(function, otypes=[np.float64])


def test_erf():
    x = np.concatenate([np.linspace(-7, 7, 301), [0.0, -0.0, 1e-300, 40, -40]])
    check(hf.erf, each(math.erf), x, rtol=1e-15)
    check(hf.erfc, each(math.erfc), np.linspace(-7, 26, 301), rtol=1e-13)
    check(hf.erf, each(math.erf), 0.3)
    special = evaluate(hf.erf, np.array([np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(special, [1, -1, np.nan])
    np.testing.assert_array_equal(evaluate(hf.erfc, np.array([np.inf, -np.inf, np.nan])),
                                  [0, 2, np.nan])


def test_lgamma():
    x = np.concatenate([np.linspace(0.01, 30, 500), RNG.uniform(0.9, 2.1, 200), [1e5, 1e20]])
    # The library's own function is exact at its zeros 1 and 2, where Python's is not.
    check(hf.lgamma, each(math.lgamma), x, rtol=2e-13, atol=3e-15)
    check(hf.lgamma, each(math.lgamma), -RNG.uniform(0.05, 0.95, 50) - RNG.integers(0, 9, 50),
          rtol=1e-12)
    special = evaluate(hf.lgamma, np.array([0, -1, -2, np.inf, -np.inf, 1, 2, np.nan]))
    np.testing.assert_array_equal(special, [np.inf] * 5 + [0, 0, np.nan])


def test_digamma():
    x = np.linspace(0.05, 20, 200)
    steps = evaluate(hf.digamma, x + 1) - evaluate(hf.digamma, x)
    np.testing.assert_allclose(steps, 1 / x, rtol=1e-11)
    known = evaluate(hf.digamma, np.array([1.0, 0.5, 2.0, 0.0, -1.0, np.inf]))
    np.testing.assert_allclose(known, [-EULER, -EULER - 2 * math.log(2), 1 - EULER, np.nan, np.nan,
                                       np.inf], rtol=1e-14)
    y = -RNG.uniform(0.1, 0.9, 20)
    reflected = evaluate(hf.digamma, 1 - y) - evaluate(hf.digamma, y)
    np.testing.assert_allclose(reflected, np.pi / np.tan(np.pi * y), rtol=1e-11)


def test_polygamma():
    known = evaluate(hf.polygamma, np.array([1.0, 2, 3, 0]), np.ones(4))
    zeta3 = 1.2020569031595942
    np.testing.assert_allclose(known, [np.pi**2 / 6, -2 * zeta3, np.pi**4 / 15, -EULER], rtol=1e-13)
    for bad in (1.5, -1.0):
        assert np.isnan(evaluate(hf.polygamma, np.float64(bad), np.float64(2)))


def test_zeta():
    known = evaluate(hf.zeta, np.array([2.0, 4, 3, 30]), np.ones(4))
    np.testing.assert_allclose(known, [np.pi**2 / 6, np.pi**4 / 90, 1.2020569031595942,
                                       1.0000000009313274], rtol=1e-14)
    x, q = RNG.uniform(1.5, 20, 50), RNG.uniform(0.1, 30, 50)
    steps = evaluate(hf.zeta, x, q) - evaluate(hf.zeta, x, q + 1)
    np.testing.assert_allclose(steps, q**-x, rtol=1e-9, atol=1e-14)
    special = evaluate(hf.zeta, np.array([1.0, 0.5, 2, 2.5, 2, 3]),
                       np.array([1.0, 1, 0, -1.5, -1, -1]))
    np.testing.assert_array_equal(special, [np.inf, np.nan, np.inf, np.nan, np.inf, np.nan])
    np.testing.assert_allclose(evaluate(hf.zeta, np.float64(3), np.float64(-1.5)),
                               (-1.5) ** -3 + (-0.5) ** -3 + evaluate(
                                   hf.zeta, np.float64(3), np.float64(0.5)), rtol=1e-13)


def test_incomplete_gamma():
    x = np.concatenate([np.linspace(0.01, 30, 60), [200.0]])
    ones = np.ones_like(x)
    np.testing.assert_allclose(evaluate(hf.igamma, ones, x), 1 - np.exp(-x), rtol=1e-13)
    np.testing.assert_allclose(evaluate(hf.igammac, ones, x), np.exp(-x), rtol=1e-12)
    np.testing.assert_allclose(evaluate(hf.igamma, ones / 2, x), each(math.erf)(np.sqrt(x)),
                               rtol=1e-13)
    a = RNG.uniform(0.1, 100, 60)
    x = a * RNG.uniform(0.1, 3, 60)
    p, q = evaluate(hf.igamma, a, x), evaluate(hf.igammac, a, x)
    np.testing.assert_allclose(p + q, np.ones(60), rtol=1e-13)
    drop = np.exp(a * np.log(x) - x - each(math.lgamma)(a + 1))
    np.testing.assert_allclose(p - evaluate(hf.igamma, a + 1, x), drop, rtol=1e-8, atol=1e-13)
    special = (np.array([-1.0, 0, 1, 1, 1]), np.array([1.0, 1, -1, 0, np.inf]))
    np.testing.assert_array_equal(evaluate(hf.igamma, *special), [np.nan] * 3 + [0, 1])
    np.testing.assert_array_equal(evaluate(hf.igammac, *special), [np.nan] * 3 + [1, 0])


def test_incomplete_beta():
    x = RNG.uniform(0, 1, 50)
    one = np.ones(50)
    np.testing.assert_allclose(evaluate(hf.betainc, one, one, x), x, rtol=1e-13)
    np.testing.assert_allclose(evaluate(hf.betainc, one, 3 * one, x), 1 - (1 - x) ** 3, rtol=1e-12)
    np.testing.assert_allclose(evaluate(hf.betainc, one / 2, one / 2, x),
                               2 / np.pi * np.arcsin(np.sqrt(x)), rtol=1e-12)
    a, b = RNG.uniform(0.1, 50, 50), RNG.uniform(0.1, 50, 50)
    total = evaluate(hf.betainc, a, b, x) + evaluate(hf.betainc, b, a, 1 - x)
    np.testing.assert_allclose(total, one, rtol=1e-12)
    special = evaluate(hf.betainc, np.array([-1.0, 1, 1, 1, 1]), np.array([1.0, 1, 1, 1, 0]),
                       np.array([0.5, 0, 1, 2, 0.5]))
    np.testing.assert_array_equal(special, [np.nan, 0, 1, np.nan, np.nan])


def test_lbeta():
    x = RNG.uniform(0.2, 5, (2, 3))
    lgamma = each(math.lgamma)
    np.testing.assert_allclose(evaluate(hf.lbeta, x), lgamma(x).sum(1) - lgamma(x.sum(1)))
    np.testing.assert_array_equal(evaluate(hf.lbeta, np.zeros((2, 0))), [-np.inf] * 2)


def test_broadcasting():
    a, x = RNG.uniform(1, 3, (2, 1)), RNG.uniform(1, 3, 3)
    got = evaluate(hf.igamma, a, x)
    assert got.shape == (2, 3)
    np.testing.assert_allclose(got[1, 2], evaluate(hf.igamma, a[1, 0], x[2]))
    failing(hf.igamma, np.ones((2, 2)), np.ones(3))
    assert evaluate(hf.erf, np.zeros((0, 2), np.float32)).shape == (0, 2)


def test_halves():
    x = np.array([0.5, 1.5], np.float16)
    for build, function in ((hf.erf, math.erf), (hf.lgamma, math.lgamma)):
        got = evaluate(build, x)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, each(function)(x), rtol=2e-3)
