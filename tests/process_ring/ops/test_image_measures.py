"""Edges, qualities and files of images beyond those of 1.0."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.default_rng(4)


def run(x, feeds=None):
    with hf.Session() as session:
        return session.run(x, feeds)


def test_edges_of_a_ramp():
    ramp = np.tile(np.arange(6.0, dtype=np.float32)[:, None, None], (1, 5, 2))[None]
    edges = hf.image.sobel_edges(ramp)
    dy, dx = hf.image.image_gradients(ramp)
    assert edges.get_shape().as_list() == [1, 6, 5, 2, 2]
    found, down, across = run([edges, dy, dx])
    np.testing.assert_array_equal(found[0, 1:-1, ..., 0], np.full((4, 5, 2), 8))
    np.testing.assert_array_equal(found[..., 1], 0)
    np.testing.assert_array_equal(down[0, :-1], np.ones((5, 5, 2)))
    np.testing.assert_array_equal(down[0, -1], 0)
    np.testing.assert_array_equal(across, 0)


def test_equal_images_are_alike():
    x = RNG.uniform(size=(2, 24, 24, 3)).astype(np.float32)
    same, scales, far = run([hf.image.ssim(x, x, 1.0),
                             hf.image.ssim_multiscale(x, x, 1.0, (0.5, 0.5)),
                             hf.image.ssim(x, 1 - x, 1.0)])
    np.testing.assert_allclose(same, 1, rtol=1e-5)
    np.testing.assert_allclose(scales, 1, rtol=1e-5)
    assert (far < 0.2).all()
    np.testing.assert_allclose(run(hf.image.psnr(x, x + 0.1, 1.0)), 20, rtol=1e-4)
    with pytest.raises(ValueError, match="smaller than the window"):
        hf.image.ssim(x[:, :8], x[:, :8], 1.0)


def test_part_of_a_file():
    image = np.tile(np.arange(32, dtype=np.uint8)[:, None, None], (1, 24, 3))
    data = run(hf.image.encode_jpeg(image))
    whole, part, shape = run([hf.image.decode_jpeg(data),
                              hf.image.decode_and_crop_jpeg(data, [4, 2, 10, 7]),
                              hf.image.extract_jpeg_shape(data)])
    np.testing.assert_array_equal(part, whole[4:14, 2:9])
    assert shape.tolist() == [32, 24, 3]
    with pytest.raises(hf.errors.InvalidArgumentError, match="crop window"):
        run(hf.image.decode_and_crop_jpeg(data, [30, 2, 10, 7]))


def test_padded_sizes():
    x = np.ones((4, 8, 1), np.float32)
    padded = hf.image.resize_image_with_pad(x, 6, 6)
    assert padded.get_shape().as_list() == [6, 6, 1]
    np.testing.assert_array_equal(run(padded)[..., 0].sum(1), [0, 6, 6, 6, 0, 0])
