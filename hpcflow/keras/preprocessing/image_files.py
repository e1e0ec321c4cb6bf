"""Images of files, by Pillow, which must be there, and as arrays."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hpcflow.keras.preprocessing.affine import axes_of
from hpcflow.keras.settings import floatx

__all__ = ["array_to_img", "img_to_array", "load_img", "save_img"]

_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError("Could not import PIL.Image: images of files need Pillow") from error


def array_to_img(x: Any, data_format: str | None = None, scale: bool = True,
                 dtype: str | None = None) -> Any:
    """Return an image of Pillow with the values of an array of 1, 3 or 4 channels, which `scale`
    spreads over 0 to 255. ``ValueError`` for other shapes."""
    pillow = _pillow()
    x = np.asarray(x, dtype or floatx())
    if x.ndim != 3:
        raise ValueError("Expected image array to have rank 3 (single image). Got array with "
                         f"shape: {x.shape}")
    x = np.moveaxis(x, axes_of(data_format)[2], 2)
    if scale:
        x = x - np.min(x)
        x = (x / np.max(x) if np.max(x) else x) * 255
    if x.shape[2] not in (1, 3, 4):
        raise ValueError(f"Unsupported channel number: {x.shape[2]}")
    if x.shape[2] > 1:
        return pillow.fromarray(np.ascontiguousarray(x.astype("uint8")))
    return pillow.fromarray(x[:, :, 0].astype("int32" if np.max(x) > 255 else "uint8"))


def img_to_array(img: Any, data_format: str | None = None, dtype: str | None = None) -> np.ndarray:
    """Return the pixels of an image with a dimension for channels. ``ValueError`` if it has not
    two or three dimensions."""
    x = np.asarray(img, dtype or floatx())
    if x.ndim not in (2, 3):
        raise ValueError(f"Unsupported image shape: {x.shape}")
    return np.moveaxis(x if x.ndim == 3 else x[:, :, None], 2, axes_of(data_format)[2])


def load_img(path: Any, grayscale: bool = False, color_mode: str = "rgb", target_size: Any = None,
             interpolation: str = "nearest") -> Any:
    """Return the image of a file, in a mode (``grayscale``, ``rgb``, ``rgba``) and a size.

    `interpolation` is a name of Pillow's. ``ValueError`` for other names.
    """
    pillow = _pillow()
    color_mode = "grayscale" if grayscale else color_mode
    if color_mode not in _MODES:
        raise ValueError('color_mode must be "grayscale", "rgb", or "rgba"')
    with open(path, "rb") as file:
        img = pillow.open(file)
        img.load()
    if img.mode != _MODES[color_mode] and (color_mode, img.mode) not in (
            ("grayscale", "I"), ("grayscale", "I;16")):
        img = img.convert(_MODES[color_mode])
    if target_size is None or img.size == (target_size[1], target_size[0]):
        return img
    kind = getattr(pillow.Resampling, interpolation.upper(), None)
    if kind is None:
        raise ValueError(f"Invalid interpolation method {interpolation} specified. Supported "
                         f"methods are {', '.join(k.name.lower() for k in pillow.Resampling)}")
    return img.resize((target_size[1], target_size[0]), kind)


def save_img(path: Any, x: Any, data_format: str | None = None, file_format: str | None = None,
             scale: bool = True, **keywords: Any) -> None:
    """Write an array as an image."""
    img = array_to_img(x, data_format, scale)
    if img.mode == "RGBA" and file_format in ("jpg", "jpeg"):
        img = img.convert("RGB")
    img.save(path, format=file_format, **keywords)
