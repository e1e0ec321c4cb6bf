"""Rows combined by their numbers: in rounds, and by a compiled loop in parts."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import jit, threads
from hpcflow.kernels import indices, segments

NUMBA = pytest.mark.skipif(not jit.enabled(), reason="Numba is not installed")


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, for the second call; three threads share the rows."""
    monkeypatch.setattr(jit, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(jit, "_programs", {})
    monkeypatch.setattr(indices, "_LARGE", 1)
    pool = threads.Pool(3)
    monkeypatch.setattr(threads, "_pool", pool)
    yield
    pool.close()


@NUMBA
@pytest.mark.parametrize(("name", "dtype", "row_dtype", "width"), [
    ("add", np.float32, np.int32, 33), ("subtract", np.float64, np.int64, 3),
    ("maximum", np.float32, np.int64, 16), ("multiply", np.int32, np.int32, 9),
])
def test_the_loop_gives_the_same_bits(eager, name, dtype, row_dtype, width):
    random = np.random.RandomState(0)
    ufunc = getattr(np, name)
    target = (100 * random.standard_normal((50, width))).astype(dtype)
    updates = (100 * random.standard_normal((400, width))).astype(dtype)
    if name == "maximum":
        target[3], updates[7] = np.nan, np.nan
    rows = (random.randint(0, 25, 400) * 2).astype(row_dtype)
    expected = target.copy()
    with np.errstate(all="ignore"):
        ufunc.at(expected, rows, updates)
        for _ in range(3):
            found = target.copy()
            indices.combine_rows(ufunc, found, rows, updates)
            np.testing.assert_array_equal(found, expected)
            jit.wait()
    (program,) = jit._programs.values()
    assert program.function is not None


def test_what_does_not_lie_in_order_is_left_to_numpy(eager):
    target, updates = np.zeros((5, 8)), np.ones((8, 6)).T
    for _ in range(2):
        indices.combine_rows(np.add, target, np.array([1, 1, 2, 1, 4, 4]), updates)
    assert target[:, 0].tolist() == [0, 6, 2, 0, 4]
    assert not jit._programs


@NUMBA
def test_a_session_scatters_by_the_loop(graph, eager):
    table = hf.Variable(np.zeros((10, 4), np.float32))
    rows, values = hf.placeholder(hf.int32, [None]), hf.placeholder(hf.float32, [None, 4])
    add = hf.scatter_add(table, rows, values)
    with hf.Session() as session:
        session.run(table.initializer)
        for _ in range(3):
            session.run(add.op, {rows: [1, 3, 1], values: np.ones((3, 4))})
            jit.wait()
        with pytest.raises(hf.errors.InvalidArgumentError, match="not in"):
            session.run(add.op, {rows: [1, 10], values: np.ones((2, 4))})
        assert session.run(table)[:, 0].tolist() == [0, 6, 0, 3, 0, 0, 0, 0, 0, 0]


@NUMBA
@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 6), (np.complex64, 3), (np.int8, 16)])
def test_rows_are_copied_by_the_loop(eager, dtype, width):
    params = np.random.RandomState(0).randint(-9, 9, (20, width)).astype(dtype)
    rows = np.array([3, 19, 0, 3, 7], np.int32)
    for _ in range(2):
        np.testing.assert_array_equal(indices.take_rows(params, rows), params[rows])
        jit.wait()
    (program,) = jit._programs.values()
    assert program.function is not None


def test_rows_that_are_no_whole_words_are_left_to_numpy(eager):
    params = np.arange(15, dtype=np.int8).reshape(5, 3)
    np.testing.assert_array_equal(indices.take_rows(params, np.array([4, 1, 4])), params[[4, 1, 4]])
    assert not jit._programs


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_large_sorted_segments_are_added_up(eager, monkeypatch, dtype):
    """With and without the loop, which float16 has none of: gaps are zeros, ids are checked."""
    monkeypatch.setattr(segments, "_LARGE", 1)
    data = np.arange(24).reshape(4, 2, 3).astype(dtype)
    expected = np.stack([data[0] + data[1], 0 * data[0], data[2], data[3]])
    for _ in range(2):
        for row_dtype in (np.int32, np.int64):
            found = segments._segment_sums(data, np.array([0, 0, 2, 3], row_dtype))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)
        jit.wait()
    with pytest.raises(hf.errors.InvalidArgumentError, match="not increasing"):
        segments._segment_sums(data, np.array([0, 2, 1, 3]))
