"""Kernels with loops of their own: compiled, they give what the forms of NumPy give."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")

RNG = np.random.default_rng(5)


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, and used for small arrays from the second call on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)
    lower(monkeypatch, "ARRAY_LOOP_LARGE", "GATHER_LARGE_BYTES")


def check(build, *inputs):
    """`build` of fed tensors gives the same with its loop as without."""
    tensors = [hf.placeholder(x.dtype, x.shape) for x in inputs]
    feeds, made = dict(zip(tensors, inputs)), build(*tensors)
    with hf.Session() as session:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiling, "enabled", lambda: False)
            expected = session.run(made, feeds)
        session.run(made, feeds)
        compiling.wait()
        assert [p.function for p in compiling._programs.values()].count(None) == 0
        assert compiling._programs
        found = session.run(made, feeds)
    for a, b in zip(*[r if isinstance(r, (list, tuple)) else [r] for r in (expected, found)],
                    strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return found


def scores(*dims):
    x = RNG.integers(-20, 20, dims).astype(np.float32)
    x[0, 3], x[1, 4], x[2, 5], x[2, 90] = np.inf, np.nan, -np.inf, np.nan
    x[3], x[4, :60] = -np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex64])
def test_choices(graph, eager, dtype):
    t, e = (RNG.integers(0, 2 if dtype is np.bool_ else 99, (40, 60)).astype(dtype)
            for _ in range(2))
    condition = RNG.random((40, 60)) < 0.5
    check(lambda c, t, e: raw_ops.Select(condition=c, t=t, e=e), condition, t, e)
    check(lambda c, t, e: raw_ops.SelectV2(condition=c, t=t, e=e), condition, t, e)


@pytest.mark.parametrize("k", [2, 11])
def test_the_largest_of_rows(graph, eager, k):
    check(lambda x: list(hf.nn.top_k(x, k)), scores(9, 100))


def test_the_largest_integers(graph, eager):
    check(lambda x: list(hf.nn.top_k(x, 5)), RNG.integers(-9, 9, (3, 4, 50)))


def test_targets_among_the_largest(graph, eager):
    targets = np.array([0, 4, 5, -1, 7, 100, 2, 3, 99], np.int32)
    check(lambda x, t: hf.nn.in_top_k(x, t, 30), scores(9, 100), targets)
    check(lambda x, t: raw_ops.InTopKV2(predictions=x, targets=t, k=30), scores(9, 100), targets)


@pytest.mark.parametrize("x", [
    RNG.integers(-9, 9, 200), RNG.integers(-9000, 9000, 6000).astype(np.int32) << 16,
    RNG.integers(-9, 9, 200).astype(np.float32) * np.float32(0.0), RNG.random(3000),
], ids=["few", "many", "zeros", "floats"])
def test_distinct_elements(graph, eager, x):
    check(lambda v: list(raw_ops.UniqueWithCounts(x=v)), x)


def test_distinct_elements_that_are_no_numbers(graph, session):
    x = np.array([np.nan, 1.0, np.nan, 1.0])
    values, places = session.run(hf.unique(hf.constant(x)))
    np.testing.assert_array_equal(values, [np.nan, 1.0, np.nan])
    assert places.tolist() == [0, 1, 2, 1]


def test_counts(graph, eager):
    values = RNG.integers(0, 12, 500).astype(np.int32)
    for dtype in (np.int32, np.float32):
        none = hf.constant(np.zeros(0, dtype))
        check(lambda v, n=none: raw_ops.Bincount(arr=v, size=9, weights=n), values)
    fed = hf.placeholder(hf.int32, [None])
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="negative"):
        session.run(raw_ops.Bincount(arr=fed, size=9, weights=none), {fed: -values})


def test_histograms(graph, eager):
    values = 3 * RNG.standard_normal(500)
    values[:3] = np.inf, -np.inf, 2.0
    check(lambda v: hf.histogram_fixed_width(v, np.array([-2.0, 2.0]), 7), values)


def test_permutations(graph, eager):
    x = RNG.permutation(300).astype(np.int32)
    check(hf.invert_permutation, x)
    fed = hf.placeholder(hf.int32, [None])
    with hf.Session() as session:
        for wrong, message in ((-1, "-1 is not between 0 and 300"), (300, "300 is not between"),
                               (int(x[1]), "is duplicated")):
            y = x.copy()
            y[0] = wrong
            with pytest.raises(hf.errors.InvalidArgumentError, match=message):
                session.run(hf.invert_permutation(fed), {fed: y})


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_one_hot(graph, eager, dtype):
    on, off = np.array([1, 0]).astype(dtype)
    check(lambda n: hf.one_hot(n, 10, on, off), RNG.integers(-2, 12, (20, 30)).astype(np.int32))
