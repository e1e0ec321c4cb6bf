"""Softmax and cross entropies of rows: compiled loops give the bits of the NumPy forms."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import jit, threads, ufunc_loops
from hpcflow.kernels import score_loops

KINDS = (score_loops.SOFTMAX, score_loops.LOG_SOFTMAX, score_loops.DENSE, score_loops.SPARSE)


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, for the second call, and used for small matrices."""
    monkeypatch.setattr(jit, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(jit, "_programs", {})
    monkeypatch.setattr(score_loops, "_LARGE", 1)
    pool = threads.Pool(3)
    monkeypatch.setattr(threads, "_pool", pool)
    yield
    pool.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [np.exp, np.log])
def test_the_loop_behind_a_ufunc(function, dtype):
    found = ufunc_loops.unary_loop(function, np.dtype(dtype))
    if found is None:
        pytest.skip("this interpreter's NumPy shows no loops")
    x = np.random.RandomState(0).uniform(0.01, 80, 1003).astype(dtype)
    y = np.empty_like(x)
    control = np.array([x.ctypes.data, y.ctypes.data, x.size, x.itemsize, x.itemsize], np.uint64)
    address = control.ctypes.data
    found(address, address + 16, address + 24, 0)
    np.testing.assert_array_equal(y, function(x))


def test_ufuncs_that_have_no_such_loop():
    assert ufunc_loops.unary_loop(np.add, np.dtype(np.float32)) is None
    assert ufunc_loops.unary_loop(np.exp, np.dtype(np.int32)) is None


@pytest.mark.parametrize("count", [128, 129, 1000, 4099])
def test_the_order_of_sums(count):
    lengths, joins = score_loops._order(count)
    assert lengths.sum() == count
    assert len(lengths) - joins.sum() == 1
    assert lengths.max() <= 128 and (lengths[:-1] % 8 == 0).all()


def scores(random, rows, columns, dtype):
    x = (30 * random.standard_normal((rows, columns))).astype(dtype)
    x[1], x[2, 5], x[3, 7], x[4, 9] = -np.inf, np.inf, -np.inf, np.nan
    x[5, 11], x[6], x[7] = -np.nan, 0.0, -1000.0
    return x


@pytest.mark.parametrize(("kind", "dtype"), [
    *((kind, np.float32) for kind in KINDS), (score_loops.LOG_SOFTMAX, np.float64)])
def test_the_same_bits(graph, eager, monkeypatch, kind, dtype):
    random = np.random.RandomState(0)
    x, labels = (hf.placeholder(hf.as_dtype(dtype), [None, None]) for _ in range(2))
    classes = hf.placeholder(hf.int64, [None])
    made = {
        score_loops.SOFTMAX: lambda: [hf.nn.softmax(x)],
        score_loops.LOG_SOFTMAX: lambda: [hf.nn.log_softmax(x)],
        score_loops.DENSE: lambda: list(hf.raw_ops.SoftmaxCrossEntropyWithLogits(
            features=x, labels=labels)),
        score_loops.SPARSE: lambda: list(hf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=x, labels=classes)),
    }[kind]()
    with hf.Session() as session:
        for columns in (128, 1000, 1301):
            feeds = {x: scores(random, 40, columns, dtype),
                     labels: random.standard_normal((40, columns)).astype(dtype),
                     classes: random.randint(0, columns, 40)}
            monkeypatch.setattr(score_loops, "_LARGE", 1 << 40)
            expected = session.run(made, feeds)
            monkeypatch.setattr(score_loops, "_LARGE", 1)
            for _ in range(2):
                found = session.run(made, feeds)
                jit.wait()
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(a, b)
    if jit.enabled() and ufunc_loops.unary_loop(np.exp, np.dtype(dtype)) is not None:
        (program,) = jit._programs.values()
        assert program.function is not None
