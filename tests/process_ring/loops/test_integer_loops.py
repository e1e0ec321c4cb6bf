"""Quotients, remainders and shifts of whole numbers by compiled loops: the same as NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.loops import compiling

DTYPES = np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32


@pytest.fixture
def eager(monkeypatch):
    """Loops from the second run on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS", "ARRAY_LOOP_LARGE")
    forget_loops(monkeypatch)


def operands(dtype):
    """Numbers of all sizes, each divided by several, and those at the limits."""
    random, info = np.random.default_rng(5), np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 7], dtype)
    sizes = random.integers(1, 8 * np.dtype(dtype).itemsize, 600)
    x = (random.integers(info.min, info.max, 600, np.int64, True) >> sizes).astype(dtype)
    x = np.concatenate([x, np.repeat(ends, len(ends)), np.array([info.min], dtype)])
    y = np.concatenate([random.permutation(x[:600]), np.tile(ends, len(ends)),
                        np.array([-1], np.int64).astype(dtype)])
    return x, np.where(y == 0, 3, y).astype(dtype)


def exact(x, y, is_floor):
    """Quotients and remainders of numbers without limits, as many bits of them as there are."""
    x, y = x.astype(object), y.astype(object)
    quotient = x // y
    if not is_floor:
        quotient = quotient + (((x < 0) != (y < 0)) & (quotient * y != x)).astype(int)
    return [a.astype(np.int64) for a in (quotient, x - quotient * y)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_results(eager, graph, dtype):
    x, y = operands(dtype)
    a, b = hf.placeholder(dtype, [None]), hf.placeholder(dtype, None)
    floors = [raw_ops.FloorDiv(x=a, y=b), raw_ops.FloorMod(x=a, y=b)]
    truncated = [raw_ops.TruncateDiv(x=a, y=b)]
    if dtype == np.int32:  # the only one of these that the op takes
        truncated.append(raw_ops.TruncateMod(x=a, y=b))
    with hf.Session() as session:
        for divisors in (y, y[3], y[5:6]):
            for ops, is_floor in ((floors, True), (truncated, False)):
                expected = [e.astype(dtype) for e in exact(x, np.broadcast_to(
                    divisors, x.shape), is_floor)][:len(ops)]
                for _ in range(2):
                    np.testing.assert_array_equal(
                        session.run(ops, {a: x, b: divisors}), expected)
                    compiling.wait()


def test_shapes_and_zeros(eager, graph):
    a, b = hf.placeholder(hf.int32, None), hf.placeholder(hf.int32, None)
    rest = a % b
    table = np.arange(-12, 12, dtype=np.int32).reshape(4, 6)
    with hf.Session() as session:
        for x, y in ((table, np.int32(5)), (table.T, np.int32(-5)), (table, table[:1] + 20),
                     (np.int32(7), table + 30), (np.zeros((0, 3), np.int32), np.int32(2)),
                     (table[0], np.array([[4]], np.int32)), (table, np.full((4, 6), 7, np.int32))):
            for _ in range(2):
                np.testing.assert_array_equal(session.run(rest, {a: x, b: y}), x % y)
                compiling.wait()
            with pytest.raises(hf.errors.InvalidArgumentError, match="division by zero"):
                session.run(rest, {a: table, b: y * 0})


@pytest.mark.parametrize("dtype", [*DTYPES, np.int64, np.uint64])
def test_shifts(eager, graph, dtype):
    """By less than none and by more than the width, too."""
    info, random = np.iinfo(dtype), np.random.default_rng(6)
    x = random.integers(info.min, info.max, 600, dtype, endpoint=True)
    y = random.integers(max(info.min, -3), info.bits + 9, x.size).astype(dtype)
    a, b = hf.placeholder(dtype, [None]), hf.placeholder(dtype, None)
    ops = [hf.bitwise.left_shift(a, b), hf.bitwise.right_shift(a, b)]
    with hf.Session() as session:
        for by in (y, y[3], y[5:6]):
            whole = np.clip(by, 0, info.bits - 1).astype(dtype)
            for _ in range(2):
                found = session.run(ops, {a: x, b: by})
                np.testing.assert_array_equal(found, [np.left_shift(x, whole),
                                                      np.right_shift(x, whole)])
                compiling.wait()
