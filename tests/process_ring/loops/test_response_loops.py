"""The gradient of local response normalization by compiled loops, beside the forms of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hpcflow import config
from hpcflow.kernels.compiled import response_loops
from hpcflow.loops import compiling


def norms(x, radius, bias, alpha):
    """Sums channel by channel, in double precision."""
    squares = np.square(x.astype(float))
    sums = [squares[..., max(c - radius, 0):c + radius + 1].sum(-1) for c in range(x.shape[-1])]
    return bias + alpha * np.stack(sums, -1)


def gradient(dy, x, y, radius, bias, alpha, beta):
    norm = norms(x, radius, bias, alpha)
    parts = dy * y.astype(float) / norm
    around = np.stack([parts[..., max(c - radius, 0):c + radius + 1].sum(-1)
                       for c in range(x.shape[-1])], -1)
    return dy * norm**-beta - 2 * alpha * beta * x * around


def arrays(dims):
    random = np.random.default_rng(sum(dims))
    return [random.standard_normal(dims).astype(np.float32) for _ in range(3)]


DIMS = (3, 5, 4, 40), (2, 3, 3, 5), (1, 1, 1, 1), (2, 7, 3, 64)


@pytest.mark.parametrize(("radius", "beta"), [(0, 1.0), (1, 0.75), (2, 0.75), (7, 0.5)])
def test_results(eager_over_threads, by_loop, radius, beta):
    numbers = radius, 1.5, 0.3, beta
    for dims in DIMS:
        dy, x, _ = arrays(dims)
        y = (x * norms(x, *numbers[:3]) ** -beta).astype(np.float32)
        dx = by_loop(lambda compute, given=(dy, x, y): response_loops.gradient(
            *given, *numbers, compute))
        np.testing.assert_allclose(dx, gradient(dy, x, y, *numbers), rtol=1e-5, atol=1e-6)


def test_what_has_no_loop(eager_over_threads, monkeypatch):
    """Other powers and types, very wide windows, and the deterministic mode."""
    dy, x, y = arrays((2, 3, 3, 40))
    own = object()
    cases = [((dy, x, y), (2, 1.0, 0.1, 0.6)), ((dy, x, y), (17, 1.0, 0.1, 0.5)),
             ((dy, x.astype(np.float64), y), (2, 1.0, 0.1, 0.5))]
    for _ in range(2):
        for images, numbers in cases:
            assert response_loops.gradient(*images, *numbers, lambda: own) is own
        compiling.wait()
    monkeypatch.setattr(config.flags, "deterministic", True)
    for _ in range(2):
        assert response_loops.gradient(dy, x, y, 2, 1.0, 0.1, 0.75, lambda: own) is own
        compiling.wait()
    assert not compiling._programs


def test_a_view(eager_over_threads):
    """What does not lie in order is left to the forms that take it."""
    dy, x, y = arrays((2, 3, 3, 40))
    own = object()
    for _ in range(2):
        assert response_loops.gradient(dy[:, ::2], x[:, ::2], y[:, ::2], 2, 1.0, 0.1, 0.75,
                                       lambda: own) is own
        compiling.wait()
