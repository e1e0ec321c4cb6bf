"""The gradient of batch normalization by compiled loops, beside its formula."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower, use_pool

import hpcflow as tf
from hpcflow import config
from hpcflow.host import threads
from hpcflow.kernels.compiled import batch_norm_loops
from hpcflow.loops import compiling


@pytest.fixture
def eager(monkeypatch):
    """Small parts over several threads; loops from the second call on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)
    lower(monkeypatch, "PARALLEL_LARGE_BYTES")
    pool = threads.Pool(3)
    use_pool(monkeypatch, pool)
    yield
    pool.close()


def arguments(dims, dtype):
    """dy, x, scale, mean and inverse."""
    random = np.random.default_rng(sum(dims))
    dy, x = (random.standard_normal(dims).astype(dtype) for _ in range(2))
    x += 3
    axes = tuple(range(x.ndim - 1))
    mean, inverse = x.mean(axes), 1 / np.sqrt(x.var(axes) + dtype(0.1))
    return dy, x, random.standard_normal(dims[-1]).astype(dtype), mean, inverse


def gradient(dy, x, scale, mean, inverse):
    """In double precision."""
    dy, x, scale, mean, inverse = (a.astype(float) for a in (dy, x, scale, mean, inverse))
    axes, count = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
    unit = (x - mean) * inverse
    by_offset, by_scale = dy.sum(axes), (dy * unit).sum(axes)
    dx = scale * inverse * (dy - by_offset / count - unit * by_scale / count)
    return dx, by_scale, by_offset


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results(eager, dtype):
    if not compiling.enabled():
        pytest.skip("Numba is not installed")
    limit = 2e-5 if dtype is np.float32 else 1e-12
    for dims in ((2, 5, 7, 24), (3, 1, 1, 1), (4, 9, 5, 3), (1, 1, 1, 40), (2, 3, 31, 32)):
        given = arguments(dims, dtype)
        batch_norm_loops.gradient(*given, tuple)
        compiling.wait()
        found = batch_norm_loops.gradient(*given, tuple)
        for a, b in zip(found, gradient(*given), strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit)


def test_the_gradient_that_comes_in_may_become_the_result(eager):
    """Unless it may not be written to."""
    if not compiling.enabled():
        pytest.skip("Numba is not installed")
    dy, *others = arguments((3, 6, 5, 24), np.float32)
    batch_norm_loops.gradient(dy, *others, tuple)
    compiling.wait()
    expected, *_ = batch_norm_loops.gradient(dy, *others, tuple)
    assert expected is not dy
    fixed = dy.copy()
    fixed.setflags(write=False)
    again, *_ = batch_norm_loops.gradient(fixed, *others, tuple, own=True)
    found, *_ = batch_norm_loops.gradient(dy, *others, tuple, own=True)
    assert found is dy and again is not fixed
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(again, expected)


def test_in_steps(eager):
    """A gradient that is fetched, or is a variable's value, keeps its value."""
    if not compiling.enabled():
        pytest.skip("Numba is not installed")
    dy, x, scale, mean, inverse = arguments((3, 6, 5, 24), np.float32)
    expected, *_ = gradient(dy, x, scale, mean, inverse)
    with tf.Graph().as_default(), tf.Session() as session:
        kept = tf.Variable(dy)
        made = kept * 1.5
        results = [tf.raw_ops.FusedBatchNormGrad(
            y_backprop=given, x=x, scale=scale, reserve_space_1=mean,
            reserve_space_2=1 / np.square(inverse) - np.float32(0.001), epsilon=0.001)[0]
            for given in (kept, made)]
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            for fetches, factors in (([results[0], kept], (1, None)), ([results[1]], (1.5,)),
                                     ([results[1], made], (1.5, None))):
                found = session.run(fetches)
                np.testing.assert_allclose(found[0], factors[0] * expected, rtol=1e-4, atol=1e-4)
                if len(found) > 1:
                    value = dy * (1.5 if fetches[1] is made else 1)
                    np.testing.assert_array_equal(found[1], value.astype(np.float32))
            compiling.wait()


def test_what_has_no_loop(eager, monkeypatch):
    """Images that do not lie in order, vectors of another type, and the deterministic mode."""
    dy, x, *vectors = arguments((2, 6, 3, 8), np.float32)
    own = (object(),)
    for _ in range(2):
        assert batch_norm_loops.gradient(dy[:, ::2], x[:, ::2], *vectors, lambda: own) is own
        wide = [v.astype(np.float64) for v in vectors]
        assert batch_norm_loops.gradient(dy, x, *wide, lambda: own) is own
        compiling.wait()
    monkeypatch.setattr(config.flags, "deterministic", True)
    for _ in range(2):
        assert batch_norm_loops.gradient(dy, x, *vectors, lambda: own) is own
        compiling.wait()
    assert not any(c.function for c in compiling._programs.values())
