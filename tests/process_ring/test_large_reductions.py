"""Large reductions give what NumPy's give: the same integers and extremes, close sums of floats."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hpcflow.kernels import large_reductions


@pytest.mark.parametrize("block_bytes", [64, 4096, 1 << 19])
@pytest.mark.parametrize("seed", range(4))
def test_any_axes(monkeypatch, seed, block_bytes):
    monkeypatch.setattr(large_reductions, "_LARGE_BYTES", 1)
    monkeypatch.setattr(large_reductions, "_BLOCK_BYTES", block_bytes)
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
        axis = rng.choice((None, first, -rank + first, axes))
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
