"""Large reductions give what NumPy's give: the same integers and extremes, close sums of floats."""

from __future__ import annotations

import random

import numpy as np
import pytest
from thresholds import lower, set_threshold

from hpcflow.kernels.math import large_reductions


@pytest.mark.parametrize("block_bytes", [64, 4096, 1 << 19])
@pytest.mark.parametrize("seed", range(4))
def test_any_axes(monkeypatch, seed, block_bytes):
    lower(monkeypatch, "REDUCTION_LARGE_BYTES", "REDUCTION_LONG")
    set_threshold(monkeypatch, "REDUCTION_BLOCK_BYTES", block_bytes)
    print("seed", seed)
    rng = random.Random(seed)
    for number in range(60):
        rank = rng.randint(1, 4)
        dims = [rng.choice((1, 2, 7, 16, 33, 130, 700)[: 9 - 2 * rank]) for _ in range(rank)]
        dtype = np.dtype(rng.choice((np.float32, np.float64, np.int32, np.int64, np.uint8)))
        random_numbers = np.random.default_rng(number)
        x = (random_numbers.uniform(0.99, 1.01, dims) if dtype.kind == "f" else
             random_numbers.integers(0, 100, dims)).astype(dtype)
        first = rng.randrange(rank)
        axes = tuple(range(first, rng.randint(first, rank - 1) + 1))
        apart = tuple(rng.sample(range(rank), rng.randint(1, rank)))
        axis = rng.choice((None, first, -rank + first, axes, apart))
        ufunc, keep = rng.choice((np.add, np.multiply, np.maximum, np.minimum)), rng.random() < 0.5
        found = large_reductions.reduce(ufunc, x, axis, dtype, keep)
        wanted = ufunc.reduce(x, axis, dtype, None, keep)
        assert type(found) is type(wanted) and found.dtype == dtype
        assert found.shape == wanted.shape, (number, dims, axis)
        if dtype.kind != "f" or ufunc in (np.maximum, np.minimum):
            np.testing.assert_array_equal(found, wanted, f"{number} {dims} {axis} {ufunc}")
        else:
            tolerance = 1e-4 if dtype == np.float32 else 1e-10
            np.testing.assert_allclose(found, wanted, tolerance, 0, err_msg=f"{dims} {axis}")


def test_nan_of_an_extreme():
    x = np.zeros((4096, 16), np.float32)
    x[17, 3] = np.nan
    found = large_reductions.reduce(np.maximum, x, 1, None, False)
    assert np.isnan(found[17]) and not np.isnan(found[:17]).any()


def test_axes_apart():
    x = np.arange(64 * 8 * 128, dtype=np.int64).reshape(64, 8, 128)
    np.testing.assert_array_equal(large_reductions.reduce(np.add, x, (0, 2), None, False),
                                  x.sum((0, 2)))


@pytest.mark.parametrize("dims, axis, steps", [
    ((4, 1, 5, 1, 6), (1, 2, 3), ((4, 5, 6),)),
    ((1, 8, 1, 20, 3, 1), (0, 2, 3, 5), ((8, 20, 3),)),
    ((5, 2, 7, 3), (0, 2), ((10, 7, 3), (1, 5, 6))),
    ((3, 4), None, ((1, 12, 1),)),
    ((1, 9), 0, ((1, 1, 9),)),
])
def test_neighbours_are_reduced_together(dims, axis, steps):
    assert large_reductions._form(dims, axis, False)[0] == steps


@pytest.mark.parametrize("dims", [(5000, 8), (500, 16, 8), (40, 2000, 3), (8, 40000),
                                  (3, 9, 70000)])
def test_sums_are_as_exact_as_numpys(dims):
    x = np.random.default_rng(0).normal(size=dims).astype(np.float32) + 1
    axis = 0 if dims[0] == 8 else 1
    wanted = x.sum(axis, dtype=np.float64)
    found = large_reductions.reduce(np.add, x, axis, None, False)
    reference = np.abs(np.add.reduce(x, axis) - wanted).max()
    assert np.abs(found - wanted).max() <= 2 * reference + 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("dims", [(70000, 8), (5000, 16, 8), (4, 300000)])
def test_infinities_and_nans_of_sums(dims):
    x = np.ones(dims, np.float32)
    x[1, ..., 3], x[2, ..., 5] = np.inf, np.nan
    axis = 0 if len(dims) == 2 and dims[1] > 8 else 1
    np.testing.assert_array_equal(large_reductions.reduce(np.add, x, axis, None, False),
                                  x.sum(axis))


def test_the_same_bits_of_any_number_of_threads(monkeypatch):
    random_numbers = np.random.default_rng(0)
    cases = (((100000, 8), 1), ((3000, 40, 4), 1), ((8, 200000), 0), ((40, 9, 3000), (0, 2)))
    for dims, axis in cases:
        x = random_numbers.normal(size=dims).astype(np.float32)
        found = large_reductions.reduce(np.add, x, axis, None, False)
        with monkeypatch.context() as patch:
            patch.setattr(large_reductions, "block_of_copies", lambda _, row_bytes: 7 * row_bytes)
            again = large_reductions.reduce(np.add, x, axis, None, False)
        np.testing.assert_array_equal(found, again)
