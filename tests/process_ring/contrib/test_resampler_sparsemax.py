"""Images read between their pixels, and the sparse softmax: values and gradients."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.resampler import resampler
from hpcflow.contrib.sparsemax import sparsemax, sparsemax_loss


def test_places_between_pixels_and_outside(session):
    data = np.random.default_rng(0).random((2, 3, 4, 2))
    warp = np.array([[[0, 0], [3, 2], [1.5, 0.25], [3.25, 1], [-1, 0], [9, 9]]] * 2, np.float64)
    found = session.run(resampler(data, warp))
    np.testing.assert_allclose(found[:, 0], data[:, 0, 0])
    np.testing.assert_allclose(found[:, 1], data[:, 2, 3])
    between = 0.75 * data[:, 0, 1:3].mean(1) + 0.25 * data[:, 1, 1:3].mean(1)
    np.testing.assert_allclose(found[:, 2], between)
    np.testing.assert_allclose(found[:, 3], 0.75 * data[:, 1, 3])
    np.testing.assert_array_equal(found[:, 4:], 0)
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), -1)[None].repeat(2, 0)
    np.testing.assert_allclose(session.run(resampler(data, grid)), data)
    with pytest.raises(ValueError, match="warp"):
        resampler(data, warp[..., :1])


def test_gradients_between_pixels(session):
    rng = np.random.default_rng(1)
    data = hf.constant(rng.random((1, 3, 3, 2)))
    warp = hf.constant(rng.integers(0, 2, (1, 5, 2)) + rng.uniform(0.2, 0.8, (1, 5, 2)))
    with session.as_default():
        for x in (data, warp):
            error = hf.test.compute_gradient_error(x, x.shape.as_list(), resampler(data, warp),
                                                   [1, 5, 2])
            assert error < 1e-6


def test_sparsemax_is_the_nearest_point_of_the_simplex(session):
    z = np.array([[0.1, 1.1, 0.2, 0.9], [3.0, 1.0, -1.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    p = session.run(sparsemax(z))
    np.testing.assert_allclose(p, [[0, 0.6, 0, 0.4], [1, 0, 0, 0], [0.25] * 4])
    rng = np.random.default_rng(2)
    z = rng.normal(size=(50, 7)) * 2
    p = session.run(sparsemax(z))
    np.testing.assert_allclose(p.sum(1), 1)
    # At the nearest point the positive elements have one distance, and no other has a larger one.
    tau = np.max(np.where(p > 0, z - p, -np.inf), 1, keepdims=True)
    np.testing.assert_allclose(p, np.maximum(z - tau, 0), atol=1e-12)


def test_gradient_of_the_loss(session):
    z = hf.constant(np.random.default_rng(3).normal(size=(4, 5)))
    labels = np.eye(5)[[0, 3, 1, 4]]
    p = sparsemax(z)
    loss = sparsemax_loss(z, p, labels)
    grad, wanted = session.run([hf.gradients(loss, z)[0], p - labels])
    np.testing.assert_allclose(grad, wanted, atol=1e-12)
    assert (session.run(loss) >= 0).all()
    perfect = sparsemax_loss(10 * labels, sparsemax(10 * labels), labels)
    np.testing.assert_allclose(session.run(perfect), 0, atol=1e-12)
