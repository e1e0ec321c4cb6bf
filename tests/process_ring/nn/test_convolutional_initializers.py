"""Initializers of convolutions that keep lengths."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import framework


def run(x):
    with hf.Session() as session:
        return session.run(x)


@pytest.mark.parametrize("rank, size", [(1, 1), (1, 4), (2, 2), (2, 3), (3, 2)])
def test_convolutions_keep_lengths(rank, size):
    """Of images that go around, so that nothing is lost at the edges."""
    make = getattr(framework, f"convolutional_orthogonal_{rank}d")
    weights = make(gain=3.0, seed=5, dtype=hf.float64)([size] * rank + [4, 6])
    x = np.random.default_rng(rank).normal(size=(1, *[5] * rank, 4))
    around = np.pad(x, [(0, 0), *[(0, size - 1)] * rank, (0, 0)], mode="wrap")
    y = run(getattr(hf.nn, f"conv{rank}d")(around, weights, 1, "VALID"))
    assert y.shape == (1, *[5] * rank, 6)
    np.testing.assert_allclose(np.linalg.norm(y), 3 * np.linalg.norm(x), rtol=1e-10)


def test_the_middle_of_a_window():
    make = framework.convolutional_delta_orthogonal(gain=2.0, dtype=hf.float64)
    for window in ((3,), (3, 4), (1, 3, 5)):
        found = run(make([*window, 3, 5]))
        middle = found[tuple((size - 1) // 2 for size in window)]
        np.testing.assert_allclose(middle @ middle.T, 4 * np.eye(3), atol=1e-12)
        assert np.count_nonzero(found) == 15


def test_shapes_that_are_refused():
    for make, shape, message in (
            (framework.convolutional_orthogonal_2d, [3, 3, 4, 2], "In_filters"),
            (framework.convolutional_orthogonal_2d, [3, 2, 2, 4], "Kernel sizes"),
            (framework.convolutional_orthogonal_1d, [3, 3, 2, 4], "dimensions"),
            (framework.convolutional_delta_orthogonal, [3, 4], "dimensions"),
            (framework.convolutional_delta_orthogonal, [3, 4, 2], "In_filters")):
        with pytest.raises(ValueError, match=message):
            make()(shape)
    with pytest.raises(ValueError, match="floating"):
        framework.convolutional_orthogonal_1d(dtype=hf.int32)
