"""``keras.preprocessing.image``: batches of images, changed at random."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

image = tf.keras.preprocessing.image


def test_affine_transforms():
    x = np.arange(9.0).reshape(3, 3, 1)
    moved = image.apply_affine_transform(x, tx=1, fill_mode="constant", cval=-1.0)
    assert moved[:, 0, 0].tolist() == [3.0, 6.0, -1.0]
    assert image.apply_affine_transform(x, ty=0.5)[0, :, 0].tolist() == [0.5, 1.5, 2.0]
    assert image.apply_affine_transform(x, tx=2, fill_mode="reflect")[:, 0, 0].tolist() == [
        6.0, 6.0, 3.0]
    first = np.moveaxis(x, 2, 0)
    np.testing.assert_array_equal(
        image.apply_affine_transform(first, 30, zx=0.5, row_axis=1, col_axis=2, channel_axis=0)[0],
        image.apply_affine_transform(x, 30, zx=0.5)[..., 0])
    assert image.apply_brightness_shift(x, 0.5).max() == 127.0
    with pytest.raises(ValueError, match="fill_mode"):
        image.apply_affine_transform(x, tx=1, fill_mode="other")


def test_batches_of_arrays():
    x, y = np.random.RandomState(0).rand(10, 4, 4, 3), np.arange(10)
    generator = image.ImageDataGenerator(featurewise_center=True, rotation_range=20, zoom_range=0.1,
                                         width_shift_range=0.2, horizontal_flip=True,
                                         featurewise_std_normalization=True, validation_split=0.2)
    generator.fit(x)
    batches = generator.flow(x, y, 4, seed=1)
    assert [len(batches[n][1]) for n in range(len(batches))] == [4, 4, 2]
    assert next(batches)[0].shape == (4, 4, 4, 3)
    plain = image.ImageDataGenerator(rescale=2.0).flow(x, y, 5, shuffle=False)
    np.testing.assert_allclose(next(plain)[0], 2 * x[:5], rtol=1e-6)
    normal = generator.standardize(x.astype("float32"))
    np.testing.assert_allclose(normal.std((0, 1, 2)), 1.0, rtol=1e-4)
    rows = np.zeros(10)
    assert generator.flow(x, rows, subset="validation").n == 2
    with pytest.raises(ValueError, match="same length"):
        generator.flow(x, y[:3])


def test_batches_of_files(tmp_path):
    pytest.importorskip("PIL")
    for name, value in (("cat", 0.0), ("dog", 200.0), ("dog", 100.0)):
        (tmp_path / name).mkdir(exist_ok=True)
        image.save_img(tmp_path / name / f"{value}.png", np.full((5, 4, 3), value), scale=False)
    batches = image.ImageDataGenerator().flow_from_directory(
        str(tmp_path), (8, 8), class_mode="sparse", shuffle=False)
    images, labels = next(batches)
    assert batches.class_indices == {"cat": 0, "dog": 1} and labels.tolist() == [0.0, 1.0, 1.0]
    assert images[:, 0, 0, 0].tolist() == [0.0, 100.0, 200.0] and images.shape == (3, 8, 8, 3)
