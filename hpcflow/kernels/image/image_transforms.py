"""Kernels of images seen through linear and projective maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.image.image_resizing import Tap, check_images, checked_size, combined, spread
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32
_TINY = _F(1000) * np.finfo(_F).tiny

# ---------------------------------------------------------------- filters


def _lanczos(radius: float) -> Callable[[np.ndarray], np.ndarray]:
    def weight(x: np.ndarray) -> np.ndarray:
        turn = _F(math.pi) * x
        with np.errstate(divide="ignore", invalid="ignore"):
            wave = _F(radius) * np.sin(turn) * np.sin(turn / _F(radius)) / (turn * turn)
        return np.where(x > radius, _F(0), np.where(x <= 1e-3, _F(1), wave))

    return weight


def _gaussian(x: np.ndarray) -> np.ndarray:
    sigma = _F(0.5)
    return np.where(x >= 1.5, _F(0), np.exp(-x * x / (_F(2) * sigma * sigma)))


def _box(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0.5, _F(1), np.where(x == 0.5, _F(0.5), _F(0)))


def _keys(x: np.ndarray) -> np.ndarray:
    far = ((_F(-0.5) * x + _F(2.5)) * x - _F(4)) * x + _F(2)
    near = ((_F(1.5) * x - _F(2.5)) * x) * x + _F(1)
    return np.where(x >= 2, _F(0), np.where(x >= 1, far, near))


def _mitchell(x: np.ndarray) -> np.ndarray:
    far = ((_F(-7 / 18) * x + _F(2)) * x - _F(10 / 3)) * x + _F(16 / 9)
    near = ((_F(7 / 6) * x - _F(2)) * x) * x + _F(8 / 9)
    return np.where(x >= 2, _F(0), np.where(x >= 1, far, near))


# Name -> (half its width, its weight at a distance).
_FILTERS: dict[bytes, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    b"lanczos1": (1.0, _lanczos(1.0)),
    b"lanczos3": (3.0, _lanczos(3.0)),
    b"lanczos5": (5.0, _lanczos(5.0)),
    b"gaussian": (1.5, _gaussian),
    b"box": (0.5, _box),
    b"triangle": (1.0, lambda x: np.where(x < 1, _F(1) - x, _F(0))),
    b"keyscubic": (2.0, _keys),
    b"mitchellcubic": (2.0, _mitchell),
}


def _taps(size: int, new: int, scale: np.float32, move: np.float32, name: bytes,
          antialias: bool) -> list[Tap]:
    """The taps of `new` outputs from `size` inputs; outputs beyond the edges have none."""
    radius, weight_of = _FILTERS[name]
    back = _F(1) / scale
    wide = max(back, _F(1)) if antialias else _F(1)
    at = (np.arange(new, dtype=_F) + _F(0.5)) * back + -back * move
    reach = _F(radius) * wide
    first = np.clip(np.ceil(at - reach - _F(0.5)).astype(np.int64), 0, size - 1)
    last = np.clip(np.floor(at + reach - _F(0.5)).astype(np.int64), 0, size - 1)
    outside = (at < 0) | (at > size)
    taps, total = [], np.zeros(new, _F)
    for k in range(int((last - first).max(initial=-1)) + 1):
        place = first + k
        distance = np.abs((place.astype(_F) + _F(0.5) - at) * (_F(1) / wide))
        weight = np.where((place > last) | outside, _F(0), weight_of(distance)).astype(_F)
        total += weight
        taps.append(Tap(np.minimum(place, size - 1), weight))
    known = np.abs(total) >= _TINY
    share = np.where(known, _F(1) / np.where(known, total, _F(1)), _F(0)).astype(_F)
    return [Tap(place, weight * share) for place, weight in taps]


class _Filter:
    """The taps that the attributes and inputs of a node describe."""

    def __init__(self, node: KernelNode) -> None:
        self.name, self.antialias = node.attr("kernel_type"), bool(node.attr("antialias"))
        if self.name not in _FILTERS:
            raise invalid(f"Unrecognized kernel type: {self.name.decode()}")

    def along(self, axis: int, size: int, new: int, scale: Any, move: Any) -> list[Tap]:
        """The taps along axis 1 (rows) or 2."""
        if np.shape(scale) != (2,) or np.shape(move) != (2,):
            raise invalid("scale and translation must be two numbers each, got shapes "
                          f"{shown(np.shape(scale))} and {shown(np.shape(move))}")
        if not (np.asarray(scale) > 0).all():
            raise invalid("scale must be greater than zero.")
        return _taps(size, new, _F(scale[axis - 1]), _F(move[axis - 1]), self.name, self.antialias)


@kernel("ScaleAndTranslate", fresh=True, host_inputs=(1, 2, 3))
def _scale_and_translate(node: KernelNode) -> Callable:
    xp, chosen = node.xp, _Filter(node)

    def run(images: Any, size: Any, scale: Any, move: Any) -> Any:
        check_images(images)
        x = images.astype(_F)
        for axis, new in zip((1, 2), checked_size(size), strict=True):
            x = combined(xp, x, chosen.along(axis, x.shape[axis], new, scale, move), axis)
        return x

    return run


@kernel("ScaleAndTranslateGrad", fresh=True, host_inputs=(2, 3))
def _scale_and_translate_grad(node: KernelNode) -> Callable:
    xp, chosen = node.xp, _Filter(node)

    def run(grads: Any, original: Any, scale: Any, move: Any) -> Any:
        check_images(grads, "grads")
        check_images(original, "original_image")
        if grads.shape[::3] != original.shape[::3]:
            raise invalid("grads and original_image must have the same batch and channels, got "
                          f"{shown(grads)} and {shown(original)}")
        dy = grads
        for axis in (1, 2):
            size = original.shape[axis]
            taps = chosen.along(axis, size, dy.shape[axis], scale, move)
            dy = spread(xp, dy, taps, axis, size)
        return dy

    return run


# ---------------------------------------------------------------- projective maps


def _reflected(xp: Any, at: Any, size: int) -> Any:
    """Places beyond the edges go back from them: [dcba|abcd|dcba]."""
    if size <= 1:
        return xp.zeros_like(at)
    round_trip = _F(2 * size)
    low = round_trip * xp.trunc(-at / round_trip) + at
    low = xp.where(low < -size, low + round_trip, -low - _F(1))
    high = at - round_trip * xp.trunc(at / round_trip)
    high = xp.where(high >= size, round_trip - high - _F(1), high)
    return xp.clip(xp.where(at < 0, low, xp.where(at > size - 1, high, at)), 0, size - 1)


def _wrapped(xp: Any, at: Any, size: int) -> Any:
    """Places beyond the edges come in at the other: [abcd|abcd|abcd]."""
    if size <= 1:
        return xp.zeros_like(at)
    turn = _F(size - 1)
    low = at + _F(size) * (xp.trunc(-at / turn) + _F(1))
    high = at - _F(size) * xp.trunc(at / turn)
    return xp.clip(xp.where(at < 0, low, xp.where(at > size - 1, high, at)), 0, size - 1)


_FILLS: dict[bytes, Callable[[Any, Any, int], Any]] = {
    b"CONSTANT": lambda xp, at, size: at,
    b"NEAREST": lambda xp, at, size: xp.clip(at, 0, size - 1),
    b"REFLECT": _reflected,
    b"WRAP": _wrapped,
}


def _sources(xp: Any, transforms: Any, size: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Rows and columns ``[maps, height, width]`` where the pixels come from, and which come from
    nowhere."""
    y = xp.arange(size[0], dtype=_F)[None, :, None]
    x = xp.arange(size[1], dtype=_F)[None, None, :]
    a = [transforms[:, i, None, None] for i in range(8)]
    depth = a[6] * x + a[7] * y + _F(1)
    nowhere = depth == 0
    depth = xp.where(nowhere, _F(1), depth)
    return ((a[3] * x + a[4] * y + a[5]) / depth, (a[0] * x + a[1] * y + a[2]) / depth, nowhere)


def _read(xp: Any, images: Any, y: Any, x: Any, fill: Any) -> Any:
    """The pixels at whole places, `fill` beyond the edges."""
    height, width = images.shape[1:3]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows = xp.where(inside, y, 0).astype(np.int64)
    columns = xp.where(inside, x, 0).astype(np.int64)
    batch = xp.arange(images.shape[0])[:, None, None]
    return xp.where(inside[..., None], images[batch, rows, columns], fill)


def _between(xp: Any, images: Any, y: Any, x: Any, fill: Any) -> Any:
    """The pixels at any places, interpolated between four neighbours."""
    top, left = xp.floor(y), xp.floor(x)
    rows = []
    for row in (top, top + _F(1)):
        near = _read(xp, images, row, left, fill).astype(_F)
        far = _read(xp, images, row, left + _F(1), fill).astype(_F)
        rows.append((left + _F(1) - x)[..., None] * near + (x - left)[..., None] * far)
    return (top + _F(1) - y)[..., None] * rows[0] + (y - top)[..., None] * rows[1]


def _rounded(xp: Any, x: Any) -> Any:
    """The nearest whole numbers, halves away from zero."""
    whole = xp.trunc(x)
    return xp.where(xp.abs(x - whole) >= 0.5, whole + xp.copysign(_F(1), x), whole)


@kernel("ImageProjectiveTransformV2", "ImageProjectiveTransformV3", fresh=True,
        host_inputs=(2, 3))
def _projective_transform(node: KernelNode) -> Callable:
    xp, dtype = node.xp, node.np_dtype()
    smooth, mode = node.attr("interpolation").upper() == b"BILINEAR", node.attr("fill_mode").upper()
    if not smooth and node.attr("interpolation").upper() != b"NEAREST":
        raise invalid(f"Invalid interpolation {node.attr('interpolation').decode()}. Supported "
                      "types: NEAREST, BILINEAR")
    if mode not in _FILLS:
        raise invalid(f"Invalid mode {mode.decode()}. Supported types: "
                      + ", ".join(name.decode() for name in _FILLS))

    def run(images: Any, transforms: Any, size: Any, fill: Any = 0.0) -> Any:
        check_images(images)
        if transforms.ndim != 2 or transforms.shape[1] != 8 or (
                transforms.shape[0] not in (1, images.shape[0])):
            raise invalid("Input transform should be num_images x 8 or 1 x 8, got "
                          f"{shown(transforms)}")
        if np.ndim(fill):
            raise invalid(f"fill_value must be a scalar, got shape {shown(np.shape(fill))}")
        fill = np.asarray(fill).astype(dtype)[()]
        y, x, nowhere = _sources(xp, transforms, checked_size(size))
        y, x = _FILLS[mode](xp, y, images.shape[1]), _FILLS[mode](xp, x, images.shape[2])
        if smooth:
            found = _between(xp, images, y, x, fill)
        else:
            found = _read(xp, images, _rounded(xp, y), _rounded(xp, x), fill)
        return xp.where(nowhere[..., None], fill, found).astype(dtype)

    return run
