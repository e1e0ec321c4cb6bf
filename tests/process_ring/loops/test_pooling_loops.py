"""Gradients of max poolings by compiled loops: against the NumPy form."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower, set_threshold, use_pool

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.host import threads
from hpcflow.kernels.onednn import pooling as library_pooling
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="Numba is not installed")


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, and used for small arrays from the second call on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)
    lower(monkeypatch, "POOLING_LARGE", "PARALLEL_LARGE_BYTES")
    # Without the library, what the loop is compared with is the form of NumPy.
    monkeypatch.setattr(library_pooling, "load", lambda: None)
    pool = threads.Pool(3)
    use_pool(monkeypatch, pool)
    yield
    pool.close()


def inputs(random, dims, pooled, dtype):
    """An input with ties and infinities, and a gradient."""
    x = random.randint(-3, 4, dims).astype(dtype)
    x[..., ::7], x[..., 1::9] = np.inf, -np.inf
    return x, random.standard_normal(pooled).astype(dtype)


def gradients(forward, backward, options, dtype, cases):
    """For each (dims, dims of the result): the gradient without the loop, and with it."""
    x, dy = (hf.placeholder(hf.as_dtype(dtype), None) for _ in range(2))
    dx = backward(orig_input=x, orig_output=forward(x, **options), grad=dy, **options)
    random, found = np.random.RandomState(0), []
    with hf.Session() as session:
        for dims, pooled in cases:
            feeds = dict(zip((x, dy), inputs(random, dims, pooled, dtype)))
            with pytest.MonkeyPatch.context() as patch:
                set_threshold(patch, "POOLING_LARGE", 1 << 40)
                expected = session.run(dx, feeds)
            session.run(dx, feeds)
            compiling.wait()
            found.append((expected, session.run(dx, feeds)))
    (program,) = compiling._programs.values()
    assert program.function is not None
    return found


def test_windows_of_images(graph, eager):
    options = {"ksize": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}
    cases = [((b, h, w, c), (b, h, -(-w // 2), c))
             for b, h, w, c in ((5, 8, 9, 16), (1, 7, 7, 83), (2, 1, 2, 3), (4, 6, 5, 1))]
    for expected, found in gradients(raw_ops.MaxPool, raw_ops.MaxPoolGrad, options, np.float32,
                                     cases):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_large_windows_of_volumes(graph, eager, monkeypatch):
    lower(monkeypatch, "POOLING_MOST_UNROLLED")
    options = {"ksize": [1, 2, 1, 3, 1], "strides": [1, 1, 2, 3, 1], "padding": "VALID"}
    cases = [((2, 4, 5, 7, c), (2, 3, 3, 2, c)) for c in (9, 3)]
    for expected, found in gradients(raw_ops.MaxPool3D, raw_ops.MaxPool3DGrad, options, np.float64,
                                     cases):
        np.testing.assert_allclose(found, expected, 1e-14, 1e-15)


def test_gradients_that_are_no_numbers_stay_in_their_place(graph, eager):
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    dy = np.array([np.inf, np.nan, 1.0, 2.0]).reshape(1, 2, 2, 1)
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    dx = raw_ops.MaxPoolGrad(orig_input=x, orig_output=x[:, 1::2, 1::2], grad=dy, **options)
    expected = np.zeros_like(x)
    expected[:, 1::2, 1::2] = dy
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(dx), expected)


def test_the_deterministic_mode_has_no_loop(graph, eager, monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", True)
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    x = hf.identity(hf.ones([1, 4, 4, 1]))
    dx = raw_ops.MaxPoolGrad(orig_input=x, orig_output=hf.ones([1, 2, 2, 1]),
                             grad=hf.ones([1, 2, 2, 1]), **options)
    with hf.Session() as session:
        session.run(dx)
    assert not compiling._programs
