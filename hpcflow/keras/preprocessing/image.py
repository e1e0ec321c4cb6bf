"""Images for training: batches of arrays and files, changed at random (``ImageDataGenerator``)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.preprocessing.affine import (
    apply_affine_transform,
    apply_brightness_shift,
    apply_channel_shift,
    axes_of,
    flip_axis,
    random_brightness,
    random_channel_shift,
    random_rotation,
    random_shear,
    random_shift,
    random_zoom,
)
from hpcflow.keras.preprocessing.image_batches import (
    DirectoryIterator,
    Iterator,
    NumpyArrayIterator,
)
from hpcflow.keras.preprocessing.image_files import array_to_img, img_to_array, load_img, save_img
from hpcflow.keras.settings import image_data_format

__all__ = ["DirectoryIterator", "ImageDataGenerator", "Iterator", "NumpyArrayIterator",
           "apply_affine_transform", "apply_brightness_shift", "apply_channel_shift",
           "array_to_img", "img_to_array", "load_img", "random_brightness", "random_channel_shift",
           "random_rotation", "random_shear", "random_shift", "random_zoom", "save_img"]


class ImageDataGenerator:
    """Changes images at random, and makes them alike.

    Args:
        featurewise_center, featurewise_std_normalization: the mean and the deviation of each
            channel, of the images of :meth:`fit`, are taken out.
        samplewise_center, samplewise_std_normalization: the same of each image.
        zca_whitening, zca_epsilon: pixels are made uncorrelated.
        rotation_range: degrees.
        width_shift_range, height_shift_range: parts of the size below 1, pixels above, or several
            of which one is chosen.
        brightness_range: two factors.
        shear_range: degrees.
        zoom_range: two factors, or the distance of both from 1.
        channel_shift_range: number that is added.
        fill_mode, cval, interpolation_order: see :func:`apply_affine_transform`.
        horizontal_flip, vertical_flip: whether half of the images are turned over.
        rescale: factor of all values.
        preprocessing_function: function of an image, called first.
        data_format: ``channels_last`` or ``channels_first``.
        validation_split: part of the images that is the subset ``validation``.
        dtype: of the batches.

    Raises ``ValueError`` for other formats and ranges.
    """

    def __init__(self, featurewise_center: bool = False, samplewise_center: bool = False,
                 featurewise_std_normalization: bool = False,
                 samplewise_std_normalization: bool = False, zca_whitening: bool = False,
                 zca_epsilon: float = 1e-6, rotation_range: float = 0,
                 width_shift_range: Any = 0.0, height_shift_range: Any = 0.0,
                 brightness_range: Any = None, shear_range: float = 0.0, zoom_range: Any = 0.0,
                 channel_shift_range: float = 0.0, fill_mode: str = "nearest", cval: float = 0.0,
                 horizontal_flip: bool = False, vertical_flip: bool = False,
                 rescale: float | None = None, preprocessing_function: Any = None,
                 data_format: str | None = None, validation_split: float = 0.0,
                 dtype: str | None = None, interpolation_order: int = 1) -> None:
        vars(self).update({k: v for k, v in locals().items() if k != "self"})
        self.data_format: str = data_format or image_data_format()
        axes_of(data_format)
        self.dtype: str = dtype or "float32"
        if validation_split and not 0 < validation_split < 1:
            raise ValueError("`validation_split` must be strictly between 0 and 1. Received: "
                             f"{validation_split}")
        self._validation_split = validation_split
        if isinstance(zoom_range, (int, float)):
            zoom_range = [1 - zoom_range, 1 + zoom_range]
        for name, pair in (("zoom_range", zoom_range), ("brightness_range", brightness_range)):
            if pair is not None and (not isinstance(pair, (list, tuple)) or len(pair) != 2):
                raise ValueError(f"`{name}` should be a tuple or list of two floats. Received: "
                                 f"{pair}")
        self.zoom_range, self.brightness_range = list(zoom_range), brightness_range
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.featurewise_std_normalization = featurewise_std_normalization and not zca_whitening
        self.featurewise_center = (featurewise_center or zca_whitening
                                   or featurewise_std_normalization)
        self.mean: Any = None
        self.std: Any = None
        self.principal_components: Any = None

    # Arguments that become attributes as they are.
    rotation_range: Any
    width_shift_range: Any
    height_shift_range: Any
    shear_range: Any
    channel_shift_range: Any
    fill_mode: str
    cval: float
    horizontal_flip: bool
    vertical_flip: bool
    rescale: Any
    preprocessing_function: Any
    samplewise_std_normalization: bool
    zca_whitening: bool
    zca_epsilon: float
    interpolation_order: int

    def flow(self, x: Any, y: Any = None, batch_size: int = 32, shuffle: bool = True,
             sample_weight: Any = None, seed: int | None = None, save_to_dir: Any = None,
             save_prefix: str = "", save_format: str = "png",
             subset: str | None = None) -> NumpyArrayIterator:
        """Return batches of arrays."""
        return NumpyArrayIterator(x, y, self, batch_size, shuffle, sample_weight, seed,
                                  self.data_format, save_to_dir, save_prefix, save_format, subset,
                                  self.dtype)

    def flow_from_directory(self, directory: str, target_size: Any = (256, 256),
                            color_mode: str = "rgb", classes: Any = None,
                            class_mode: str | None = "categorical", batch_size: int = 32,
                            shuffle: bool = True, seed: int | None = None,
                            save_to_dir: Any = None, save_prefix: str = "",
                            save_format: str = "png", follow_links: bool = False,
                            subset: str | None = None,
                            interpolation: str = "nearest") -> DirectoryIterator:
        """Return batches of the images of files, in directories of their classes."""
        return DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode,
                                 batch_size, shuffle, seed, self.data_format, save_to_dir,
                                 save_prefix, save_format, follow_links, subset, interpolation,
                                 self.dtype)

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Take means, deviations and correlations of images, with `augment` of `rounds` changed
        copies of them. ``ValueError`` unless they have four dimensions."""
        x = np.array(x, self.dtype)
        if x.ndim != 4:
            raise ValueError(f"Input to `.fit()` should have rank 4. Got array with shape: "
                             f"{x.shape}")
        if seed is not None:
            np.random.seed(seed)
        x *= self.rescale or 1
        if augment:
            x = np.stack([self.random_transform(v) for _ in range(rounds) for v in x])
        axes = (0, *(a + 1 for a in axes_of(self.data_format)[:2]))
        if self.featurewise_center:
            self.mean = np.mean(x, axes, keepdims=True)[0]
            x -= self.mean
        if self.featurewise_std_normalization:
            self.std = np.std(x, axes, keepdims=True)[0]
            x /= self.std + 1e-6
        if self.zca_whitening:
            flat = x.reshape(len(x), -1)
            u, s, _ = np.linalg.svd(flat.T @ flat / len(flat))
            self.principal_components = u / np.sqrt(s + self.zca_epsilon) @ u.T

    def standardize(self, x: np.ndarray) -> np.ndarray:
        """Return an image, or several, made alike; the array itself may be changed."""
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x *= self.rescale
        if self.samplewise_center:
            x -= np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x /= np.std(x, keepdims=True) + 1e-6
        if self.featurewise_center and self._known("featurewise_center", self.mean):
            x -= self.mean
        if self.featurewise_std_normalization and self._known("featurewise_std_normalization",
                                                              self.std):
            x /= self.std + 1e-6
        if self.zca_whitening and self._known("zca_whitening", self.principal_components):
            x = (x.reshape(-1, int(np.prod(x.shape[-3:]))) @ self.principal_components).reshape(
                x.shape)
        return x

    def _known(self, what: str, value: Any) -> bool:
        if value is None:
            warnings.warn(f"This ImageDataGenerator specifies `{what}`, but it hasn't been fit on "
                          "any training data. Fit it first by calling `.fit(numpy_data)`.",
                          stacklevel=3)
        return value is not None

    def get_random_transform(self, img_shape: Any, seed: int | None = None) -> dict[str, Any]:
        """Return what :meth:`apply_transform` is to do, drawn anew."""
        rows, columns, _ = axes_of(self.data_format)
        if seed is not None:
            np.random.seed(seed)
        draw: Any = np.random.uniform
        theta = draw(-self.rotation_range, self.rotation_range) if self.rotation_range else 0
        tx = _shift(self.height_shift_range, img_shape[rows])
        ty = _shift(self.width_shift_range, img_shape[columns])
        shear = draw(-self.shear_range, self.shear_range) if self.shear_range else 0
        zx, zy = (1, 1) if self.zoom_range == [1, 1] else draw(*self.zoom_range, 2)
        flips = [bool(np.random.random() < 0.5) * f
                 for f in (self.horizontal_flip, self.vertical_flip)]
        shift, bright = self.channel_shift_range, self.brightness_range
        return {"theta": theta, "tx": tx, "ty": ty, "shear": shear, "zx": zx, "zy": zy,
                "flip_horizontal": flips[0], "flip_vertical": flips[1],
                "channel_shift_intensity": draw(-shift, shift) if shift else None,
                "brightness": None if bright is None else draw(*bright)}

    def apply_transform(self, x: np.ndarray, transform_parameters: dict[str, Any]) -> np.ndarray:
        """Return an image changed as :meth:`get_random_transform` says."""
        told, axes = transform_parameters, axes_of(self.data_format)
        x = apply_affine_transform(
            x, told.get("theta", 0), told.get("tx", 0), told.get("ty", 0), told.get("shear", 0),
            told.get("zx", 1), told.get("zy", 1), *axes, self.fill_mode, self.cval,
            self.interpolation_order)
        if told.get("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, told["channel_shift_intensity"], axes[2])
        for name, axis in (("flip_horizontal", axes[1]), ("flip_vertical", axes[0])):
            x = flip_axis(x, axis) if told.get(name) else x
        bright = told.get("brightness")
        return x if bright is None else apply_brightness_shift(x, bright)

    def random_transform(self, x: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return an image changed at random."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))


def _shift(amount: Any, size: int) -> Any:
    """By how many pixels an image is moved."""
    if not np.any(amount):
        return 0
    if np.ndim(amount) or isinstance(amount, int):
        moved = np.random.choice(amount) * np.random.choice([-1, 1])
    else:
        moved = np.random.uniform(-amount, amount)
    return moved * size if np.max(amount) < 1 else moved


__getattr__ = named_otherwise(__name__)
