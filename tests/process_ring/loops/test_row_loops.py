"""Reductions of rows by compiled loops, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import lower

from hpcflow import config
from hpcflow.kernels.compiled import row_loops
from hpcflow.kernels.math import large_reductions
from hpcflow.loops import compiling


@pytest.fixture
def eager(monkeypatch, eager_over_threads):
    """Small parts over several threads; loops from the second call on; rows of 100 are long."""
    lower(monkeypatch, "REDUCTION_LARGE_BYTES")
    monkeypatch.setattr(row_loops.tuning, "ROW_LOOP_LONGEST", 100)


def numbers(dims, dtype):
    random = np.random.default_rng(sum(dims))
    if np.dtype(dtype).kind == "f":
        return random.uniform(0.9, 1.1, dims).astype(dtype)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, dims, dtype, endpoint=True)


UFUNCS = np.add, np.multiply, np.maximum, np.minimum


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64,
                                   np.uint64])
@pytest.mark.parametrize("dims", [(1, 1), (7, 2), (5, 33), (3, 100), (4, 250), (1, 1000)])
def test_results(eager, dims, dtype):
    if not compiling.enabled():
        pytest.skip("there is no compiler")
    for ufunc in UFUNCS:
        x = numbers(dims, dtype)
        expected = ufunc.reduce(x, 1, x.dtype)
        row_loops.reduce(ufunc, x, lambda rows, u=ufunc: u.reduce(rows, 1, rows.dtype))
        compiling.wait()
        found = row_loops.reduce(ufunc, x, lambda rows: None)
        assert found.dtype == x.dtype
        if x.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=32 * np.finfo(dtype).eps)
        else:
            np.testing.assert_array_equal(found, expected)


def test_what_is_no_number(eager):
    x = numbers((6, 70), np.float32)
    x[1, 3], x[2, 69], x[3, 5], x[4] = np.nan, np.inf, -np.inf, -0.0
    for _ in range(2):
        for ufunc in UFUNCS:
            np.testing.assert_allclose(large_reductions.reduce(ufunc, x, 1, None, False),
                                       ufunc.reduce(x, 1), rtol=1e-5)
        compiling.wait()


def test_axes(eager):
    x = numbers((3, 4, 5, 6), np.float64)
    for _ in range(2):
        for axis in (None, 3, -1, (2, 3), (0, 3), (1, 2, 3)):
            for keep in (False, True):
                np.testing.assert_allclose(
                    large_reductions.reduce(np.add, x, axis, None, keep),
                    np.add.reduce(x, axis, keepdims=keep), rtol=1e-14)
        compiling.wait()


def test_bits_are_numpys_in_the_deterministic_mode(eager, monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", True)
    x, own = numbers((5, 64), np.float32), object()
    for _ in range(2):
        assert row_loops.reduce(np.add, x, lambda rows: own) is own
        compiling.wait()
