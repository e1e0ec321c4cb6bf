"""``contrib.image``: warped images and splines, against NumPy and SciPy's kernels written out."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import image


def test_a_whole_displacement_moves_pixels(session):
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)
    flow = np.zeros((2, 4, 5, 2), np.float32) + [1, -2]
    warped = session.run(image.dense_image_warp(pixels, flow))
    rows, columns = np.clip(np.arange(4) - 1, 0, 3), np.clip(np.arange(5) + 2, 0, 4)
    np.testing.assert_allclose(warped, pixels[:, rows][:, :, columns])


def test_half_a_pixel_is_between_four(session):
    pixels = np.random.default_rng(0).random((1, 3, 3, 1)).astype(np.float32)
    flow = np.full((1, 3, 3, 2), -0.5, np.float32)
    warped = session.run(image.dense_image_warp(pixels, flow))
    np.testing.assert_allclose(warped[0, 0, 0, 0], pixels[0, :2, :2, 0].mean(), rtol=1e-6)
    x = hf.constant(flow)
    with session.as_default():
        error = hf.test.compute_gradient_error(x, flow.shape, image.dense_image_warp(pixels, x),
                                               pixels.shape, flow - 0.1, delta=1e-2)
    assert error < 1e-3


@pytest.mark.parametrize("order", [1, 2, 3])
def test_splines_go_through_their_points_and_keep_planes(order, session):
    rng = np.random.default_rng(order)
    points, queries = rng.random((2, 7, 2)), rng.random((2, 5, 2))
    values = rng.random((2, 7, 3))
    at = session.run(image.interpolate_spline(points, values, points, order))
    np.testing.assert_allclose(at, values, atol=1e-4)
    plane = points @ [[2.0], [-1.0]] + 3
    there = session.run(image.interpolate_spline(points, plane, queries, order))
    np.testing.assert_allclose(there, queries @ [[2.0], [-1.0]] + 3, atol=1e-4)
    smooth = session.run(image.interpolate_spline(points, values, points, order, 10.0))
    assert np.std(smooth - values) > 0.01


def test_points_move_and_corners_stay(session):
    pixels = np.zeros((1, 9, 9, 1), np.float32)
    pixels[0, 3, 3] = 1
    source, target = np.float32([[[3, 3]]]), np.float32([[[5, 4]]])
    warped, flow = session.run(image.sparse_image_warp(pixels, source, target,
                                                       num_boundary_points=2))
    assert warped[0, 5, 4, 0] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(flow[0, 5, 4], [2, 1], atol=1e-3)
    for row, column in ((0, 0), (0, 4), (0, 8), (4, 0), (8, 8)):
        np.testing.assert_allclose(flow[0, row, column], 0, atol=1e-3)


def test_rows_and_columns_are_matched_by_least_distance() -> None:
    distances = np.float32([[0.5, 0.7, 0.6], [0.54, 0.4, 0.65], [0.44, 0.9, 0.96],
                            [0.3, 0.8, 0.53]])
    match = hf.contrib.image.bipartite_match
    with hf.Session() as sess:
        rows, columns = sess.run(match(distances, -1))
        assert rows.tolist() == [2, 1, -1, 0] and columns.tolist() == [3, 1, 0]
        rows, columns = sess.run(match(distances, [2.6]))
        assert rows.tolist() == [0, 1, -1, -1] and columns.tolist() == [0, 1, -1]
        rows, columns = sess.run(match(distances, -1, top_k=1))
        assert rows.tolist() == [-1, -1, -1, 0] and columns.tolist() == [3, -1, -1]
        with pytest.raises(hf.errors.InvalidArgumentError, match="at least 9 rows"):
            sess.run(match(distances, 9.0))
    with pytest.raises(ValueError, match="rank"):
        match(distances[0], -1)


def test_colors_change_in_yiq(session):
    """Numbers are those of TensorFlow 1.15.5."""
    from hpcflow.contrib.image.python.ops import distort_image_ops as distort

    x = hf.constant([[[0.1, 0.5, 0.9], [0.7, 0.2, 0.3]]])
    np.testing.assert_allclose(
        session.run(distort.adjust_hsv_in_yiq(x, 0.3, 0.8, 1.1)),
        [[[0.12514463, 0.5954428, 0.71628827], [0.6910338, 0.22670616, 0.50258243]]], rtol=1e-5)
    eight_bits = hf.constant([[[10, 200, 30]]], hf.uint8)
    np.testing.assert_array_equal(
        session.run(distort.adjust_hsv_in_yiq(eight_bits, 0.0, 0.5, 1.0)), [[[67, 162, 77]]])
    changed = session.run(distort.random_hsv_in_yiq(x, 0.2, 0.5, 1.5, 0.9, 1.1))
    assert changed.shape == (1, 2, 3)
    with pytest.raises(ValueError, match="lower_saturation must be <"):
        distort.random_hsv_in_yiq(x, lower_saturation=2)
