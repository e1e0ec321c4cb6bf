"""Max pooling and its gradient by compiled loops, beside their definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hpcflow import config
from hpcflow.base.geometry.windows import spans
from hpcflow.kernels.compiled import pooling_loops
from hpcflow.loops import compiling


def definition(x, dy, over):
    """The maxima; and the gradient, of each maximum at the first element that is as large."""
    batch, *_, channels = x.shape
    y, dx = np.empty(dy.shape, x.dtype), np.zeros(x.shape)
    for n, r, c, k in np.ndindex(batch, over[0].out, over[1].out, channels):
        starts = [o * s.stride - s.before for o, s in zip((r, c), over)]
        places = list(itertools.product(*[
            range(max(a, 0), min(a + s.window, s.size)) for a, s in zip(starts, over)]))
        values = [x[n, i, j, k] for i, j in places]
        first = int(np.argmax(values))
        y[n, r, c, k] = values[first]
        dx[(n, *places[first], k)] += dy[n, r, c, k]
    return y, dx


def images(dims, over):
    """Some images, with many equal numbers, and gradients of what they are pooled to."""
    random = np.random.default_rng(sum(dims))
    x = random.integers(-3, 3, dims).astype(np.float32)
    dy = random.standard_normal((dims[0], over[0].out, over[1].out, dims[-1]))
    return x, dy.astype(np.float32)


@pytest.mark.parametrize("padding", [b"VALID", b"SAME"])
@pytest.mark.parametrize(("window", "strides"), [
    ((3, 3), (2, 2)), ((2, 2), (2, 2)), ((2, 3), (3, 2)), ((3, 1), (2, 2)), ((1, 2), (2, 3))])
@pytest.mark.parametrize("dims", [(4, 7, 8, 5), (3, 3, 4, 16), (5, 6, 3, 40)])
def test_results(eager_over_threads, by_loop, dims, window, strides, padding):
    over = spans(dims[1:3], window, strides, padding)
    x, dy = images(dims, over)
    y, dx = definition(x, dy, over)
    np.testing.assert_array_equal(
        by_loop(lambda compute: pooling_loops.forward(x, over, compute)), y)
    np.testing.assert_allclose(
        by_loop(lambda compute: pooling_loops.gradient(x, dy, over, compute)), dx, atol=1e-6)


def test_gradients_of_windows_at_each_position(eager_over_threads, by_loop):
    over = spans((5, 6), (3, 3), (1, 1), b"SAME")
    x, dy = images((3, 5, 6, 18), over)
    got = by_loop(lambda compute: pooling_loops.gradient(x, dy, over, compute))
    np.testing.assert_allclose(got, definition(x, dy, over)[1], atol=1e-6)


def test_numbers_that_are_none_and_infinite_ones(eager_over_threads, by_loop):
    """As oneDNN has it: what is no number is never the largest, and none is below the lowest."""
    lowest, nan, inf = np.finfo(np.float32).min, np.nan, np.inf
    windows = np.array([[nan, 1, 2, nan], [nan] * 4, [-inf] * 4, [1, inf, inf, nan]], np.float32)
    x = np.repeat(windows.reshape(4, 2, 2, 1), 16, axis=-1)
    over = spans((2, 2), (2, 2), (2, 2), b"VALID")
    y = by_loop(lambda compute: pooling_loops.forward(x, over, compute))
    np.testing.assert_array_equal(y[:, 0, 0, 3], np.array([2, lowest, lowest, inf], np.float32))
    dy = np.full(y.shape, nan, np.float32)
    dx = by_loop(lambda compute: pooling_loops.gradient(x, dy, over, compute))
    assert np.isnan(dx[:, :, :, 5]).reshape(4, 4).argmax(1).tolist() == [2, 0, 0, 1]
    assert np.isnan(dx).sum() == dy.size


def test_what_has_no_loop(eager_over_threads, monkeypatch):
    """Large windows, those that lie beside the image, few images; gradients in the deterministic
    mode, and maxima of windows at each position."""
    own = object()
    x = np.zeros((4, 12, 12, 8), np.float32)
    cases = [(x, spans((12, 12), (4, 4), (2, 2), b"VALID")),
             (x, spans((12, 12), (2, 2), (2, 2), ((2, 2), (0, 0)))),
             (x[:1], spans((12, 12), (2, 2), (2, 2), b"VALID"))]
    dy_of = {id(over): np.zeros((len(x), over[0].out, over[1].out, 8), np.float32)
             for x, over in cases}
    for _ in range(2):
        for x, over in cases:
            assert pooling_loops.forward(x, over, lambda: own) is own
            assert pooling_loops.gradient(x, dy_of[id(over)], over, lambda: own) is own
        each = spans((12, 12), (3, 3), (1, 2), b"SAME")
        assert pooling_loops.forward(cases[0][0], each, lambda: own) is own
        compiling.wait()
    monkeypatch.setattr(config.flags, "deterministic", True)
    x, over = cases[0][0], spans((12, 12), (2, 2), (2, 2), b"VALID")
    dy = np.zeros((4, 6, 6, 8), np.float32)
    for _ in range(2):
        assert pooling_loops.gradient(x, dy, over, lambda: own) is own
        compiling.wait()
