"""Images turned, moved, sheared, zoomed and made brighter, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.keras.settings import image_data_format

__all__ = ["apply_affine_transform", "apply_brightness_shift", "apply_channel_shift", "flip_axis",
           "random_brightness", "random_channel_shift", "random_rotation", "random_shear",
           "random_shift", "random_zoom"]


def apply_affine_transform(x: np.ndarray, theta: float = 0, tx: float = 0, ty: float = 0,
                           shear: float = 0, zx: float = 1, zy: float = 1, row_axis: int = 0,
                           col_axis: int = 1, channel_axis: int = 2, fill_mode: str = "nearest",
                           cval: float = 0.0, order: int = 1) -> np.ndarray:
    """Return an image, turned by `theta` degrees, moved by `tx` rows and `ty` columns, sheared by
    `shear` degrees and zoomed by `zx` and `zy`, around its middle.

    What lies outside is by `fill_mode` ``constant`` (`cval`), or continues the image: ``nearest``,
    ``reflect``, ``wrap``. `order` 0 takes the nearest pixel, 1 interpolates. ``ValueError`` for
    another mode or order.
    """
    turned, sheared = np.deg2rad(theta), np.deg2rad(shear)
    matrix = np.array([[np.cos(turned), -np.sin(turned), 0], [np.sin(turned), np.cos(turned), 0],
                       [0, 0, 1]])
    matrix = matrix @ [[1, 0, tx], [0, 1, ty], [0, 0, 1]]
    matrix = matrix @ [[1, -np.sin(sheared), 0], [0, np.cos(sheared), 0], [0, 0, 1]]
    matrix = matrix @ np.diag([zx, zy, 1.0])
    if np.array_equal(matrix, np.eye(3)):
        return x
    middle = np.array([x.shape[row_axis] / 2 + 0.5, x.shape[col_axis] / 2 + 0.5])
    offset = matrix[:2, 2] + middle - matrix[:2, :2] @ middle
    channels = np.moveaxis(x, channel_axis, 0)
    places = np.indices(channels.shape[1:]).reshape(2, -1)
    read = matrix[:2, :2] @ places + offset[:, None]
    moved = np.stack([_sampled(c, read, fill_mode, cval, order) for c in channels])
    return np.moveaxis(moved, 0, channel_axis)


def _sampled(image: np.ndarray, read: np.ndarray, mode: str, cval: float,
             order: int) -> np.ndarray:
    """The values of an image at places between its pixels, as an image of its shape."""
    if order not in (0, 1):
        raise ValueError(f"order must be 0 or 1, got {order}")
    ends = np.array(image.shape)[:, None] - 1
    if mode == "wrap":
        read = np.mod(read, np.maximum(ends, 1))
    begin = np.floor(read if order else read + 0.5).astype(int)
    part = read - begin if order else np.zeros_like(read)
    found = np.zeros(read.shape[1])
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        step = np.array(corner)[:, None]
        weight = np.prod(np.where(step, part, 1.0 - part), axis=0)
        rows, columns = (_inside(i, n, mode) for i, n in zip(begin + step, image.shape))
        found += weight * image[rows, columns]
    if mode == "constant":
        found[np.any((read < 0) | (read > ends), axis=0)] = cval
    return found.reshape(image.shape).astype(image.dtype)


def _inside(index: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Indices of pixels for those that may lie outside."""
    if mode == "reflect":
        index = np.mod(index, 2 * size)
        return np.where(index < size, index, 2 * size - 1 - index)
    if mode not in ("constant", "nearest", "wrap"):
        raise ValueError(f"fill_mode must be constant, nearest, reflect or wrap, got {mode!r}")
    return np.clip(index, 0, size - 1)


def flip_axis(x: Any, axis: int) -> np.ndarray:
    """Return `x` backwards along an axis."""
    return np.flip(np.asarray(x), axis)


def apply_channel_shift(x: np.ndarray, intensity: float, channel_axis: int = 0) -> np.ndarray:
    """Return `x` plus a number, within the range of its values."""
    return np.clip(x + intensity, np.min(x), np.max(x))


def apply_brightness_shift(x: np.ndarray, brightness: float) -> np.ndarray:
    """Return an image times a number, as whole numbers to 255; its values are spread over these
    before."""
    x = np.asarray(x, np.float32)
    x = x - x.min()
    most = x.max()
    pixels = np.floor(x / most * 255 if most else x)
    return np.floor(np.clip(pixels * brightness, 0, 255)).astype(np.float32)


def random_rotation(x: np.ndarray, rg: float, row_axis: int = 1, col_axis: int = 2,
                    channel_axis: int = 0, fill_mode: str = "nearest", cval: float = 0.0,
                    interpolation_order: int = 1) -> np.ndarray:
    """Return an image turned by at most `rg` degrees."""
    return apply_affine_transform(x, np.random.uniform(-rg, rg), 0, 0, 0, 1, 1, row_axis, col_axis,
                                  channel_axis, fill_mode, cval, interpolation_order)


def random_shift(x: np.ndarray, wrg: float, hrg: float, row_axis: int = 1, col_axis: int = 2,
                 channel_axis: int = 0, fill_mode: str = "nearest", cval: float = 0.0,
                 interpolation_order: int = 1) -> np.ndarray:
    """Return an image moved by at most a part `wrg` of its width and `hrg` of its height."""
    tx = np.random.uniform(-hrg, hrg) * x.shape[row_axis]
    ty = np.random.uniform(-wrg, wrg) * x.shape[col_axis]
    return apply_affine_transform(x, 0, tx, ty, 0, 1, 1, row_axis, col_axis, channel_axis,
                                  fill_mode, cval, interpolation_order)


def random_shear(x: np.ndarray, intensity: float, row_axis: int = 1, col_axis: int = 2,
                 channel_axis: int = 0, fill_mode: str = "nearest", cval: float = 0.0,
                 interpolation_order: int = 1) -> np.ndarray:
    """Return an image sheared by at most `intensity` degrees."""
    return apply_affine_transform(x, 0, 0, 0, np.random.uniform(-intensity, intensity), 1, 1,
                                  row_axis, col_axis, channel_axis, fill_mode, cval,
                                  interpolation_order)


def random_zoom(x: np.ndarray, zoom_range: Any, row_axis: int = 1, col_axis: int = 2,
                channel_axis: int = 0, fill_mode: str = "nearest", cval: float = 0.0,
                interpolation_order: int = 1) -> np.ndarray:
    """Return an image zoomed by two numbers between those of `zoom_range`. ``ValueError`` if it
    has not two."""
    if len(zoom_range) != 2:
        raise ValueError("`zoom_range` should be a tuple or list of two floats. Received: "
                         f"{zoom_range}")
    same = zoom_range[0] == 1 and zoom_range[1] == 1
    zx, zy = (1, 1) if same else np.random.uniform(zoom_range[0], zoom_range[1], 2)
    return apply_affine_transform(x, 0, 0, 0, 0, zx, zy, row_axis, col_axis, channel_axis,
                                  fill_mode, cval, interpolation_order)


def random_channel_shift(x: np.ndarray, intensity_range: float,
                         channel_axis: int = 0) -> np.ndarray:
    """Return an image plus a number of at most `intensity_range`."""
    return apply_channel_shift(x, np.random.uniform(-intensity_range, intensity_range),
                               channel_axis)


def random_brightness(x: np.ndarray, brightness_range: Any) -> np.ndarray:
    """Return an image times a number between those of `brightness_range`. ``ValueError`` if it has
    not two."""
    if len(brightness_range) != 2:
        raise ValueError("`brightness_range should be tuple or list of two floats. Received: "
                         f"{brightness_range}")
    return apply_brightness_shift(x, np.random.uniform(*brightness_range))


def axes_of(data_format: str | None) -> tuple[int, int, int]:
    """The axes of rows, columns and channels of one image. ``ValueError`` for another format."""
    data_format = data_format or image_data_format()
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError('`data_format` should be `"channels_last"` or `"channels_first"`. '
                         f"Received: {data_format}")
    return (1, 2, 0) if data_format == "channels_first" else (0, 1, 2)
