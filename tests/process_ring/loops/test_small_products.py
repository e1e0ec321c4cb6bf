"""Batches of small products by compiled loops, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs
from thresholds import lower

import hpcflow as hf
from hpcflow import config
from hpcflow.kernels.compiled import small_products
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
RNG = np.random.default_rng(0)
SIZES = [(16, 8, 1), (1, 8, 16), (16, 1, 8), (8, 8, 8), (4, 4, 4), (7, 5, 3), (1, 9, 1), (5, 1, 1),
         (3, 30, 2), (1, 1, 1)]


@pytest.fixture(autouse=True)
def loops_at_once(monkeypatch):
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")


def factors(m, k, n, flip_a, flip_b, dtype, batch=(9, 11)):
    a = RNG.standard_normal((*batch, k, m) if flip_a else (*batch, m, k)).astype(dtype)
    b = RNG.standard_normal((*batch, n, k) if flip_b else (*batch, k, n)).astype(dtype)
    return a, b


def product(a, b, flip_a, flip_b):
    wide = [x.astype(np.float64) for x in (a, b)]
    return np.matmul(*[x.swapaxes(-1, -2) if flip else x
                       for x, flip in zip(wide, (flip_a, flip_b))])


def missing():
    raise AssertionError("there is no loop")


@pairs(
    ("dtype", [np.float32, np.float64]),
    ("flip_b", [False, True]),
    ("flip_a", [False, True]),
    ("sizes", SIZES),
)
def test_products(sizes, flip_a, flip_b, dtype):
    a, b = factors(*sizes, flip_a, flip_b, dtype)
    small_products.multiply(a, b, flip_a, flip_b, lambda: None)
    compiling.wait()
    found = small_products.multiply(a, b, flip_a, flip_b, missing)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(found, product(a, b, flip_a, flip_b), tolerance, 10 * tolerance)


def test_factors_that_do_not_lie_in_order():
    a, b = factors(4, 5, 6, False, False, np.float32, batch=(200,))
    turned = np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1)
    small_products.multiply(a, b, False, False, lambda: None)
    compiling.wait()
    np.testing.assert_array_equal(small_products.multiply(turned, b[::-1], False, False, missing),
                                  small_products.multiply(a, b[::-1].copy(), False, False, missing))


@pytest.mark.parametrize(("a", "b"), [
    ((99, 40, 40), (99, 40, 40)), ((3, 4, 4), (3, 4, 4)), ((99, 4, 4), (1, 4, 4)),
    ((99, 4, 0), (99, 0, 4)), ((0, 4, 4), (0, 4, 4)), ((99, 4, 3), (99, 4, 4))])
def test_others_have_no_loop(a, b):
    for _ in range(2):
        found = small_products.multiply(np.ones(a, np.float32), np.ones(b, np.float32), False,
                                        False, lambda: 5)
        compiling.wait()
        assert found == 5


def test_the_deterministic_mode_keeps_to_blas(monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", True)
    a, b = factors(8, 4, 2, False, False, np.float32)
    for _ in range(2):
        assert small_products.multiply(a, b, False, False, lambda: 5) == 5
        compiling.wait()


@pytest.mark.parametrize("compiled", [False, True])
def test_steps(compiled, monkeypatch):
    """Large batches too, which the library would multiply otherwise."""
    monkeypatch.setattr(config.flags, "compile", compiled)
    a, b = factors(16, 8, 8, False, False, np.float32, batch=(5000,))
    with hf.Graph().as_default(), hf.Session() as session:
        x, y = hf.placeholder(hf.float32, a.shape), hf.placeholder(hf.float32, b.shape)
        z = hf.matmul(x, y)
        fetches = [z, *hf.gradients(z, [x, y], z)]
        for _ in range(2):
            found = session.run(fetches, {x: a, y: b})
            compiling.wait()
    expected = product(a, b, False, False)
    for value, wanted in zip(found, (expected, product(expected, b, False, True),
                                     product(a, expected, True, False)), strict=True):
        np.testing.assert_allclose(value, wanted, 1e-4, 1e-4)
