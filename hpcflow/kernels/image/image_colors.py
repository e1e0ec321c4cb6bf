"""Kernels of colours.

Hue, saturation and value are in [0, 1]: the hexcone of Smith, "Color gamut transform pairs" (1978).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.errors import FailedPreconditionError, InvalidArgumentError
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _check_colors(x: Any, error: Callable = FailedPreconditionError) -> None:
    if not x.ndim:
        raise invalid("images must have at least one dimension, got a scalar")
    if x.shape[-1] != 3:
        raise error(None, None, "images must have 3 channels in the last dimension, got shape "
                    f"{shown(x)}")


def _check_adjusted_colors(x: Any, adjustment: Any) -> None:
    _check_adjusted(x, adjustment)
    _check_colors(x, InvalidArgumentError)


def _check_adjusted(x: Any, *scalars: Any) -> None:
    if x.ndim < 3:
        raise invalid(f"images must be at least 3-D, got shape {shown(x)}")
    for value in scalars:
        if value.ndim:
            raise invalid(f"the adjustment must be a scalar, got shape {shown(value)}")


def rgb_to_hsv(xp: Any, rgb: Any) -> tuple[Any, Any, Any]:
    """Hue, saturation and value of colours [..., 3]."""
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = xp.maximum(xp.maximum(red, green), blue)
    spread = value - xp.minimum(xp.minimum(red, green), blue)
    one = rgb.dtype.type(1)
    saturation = xp.where(value > 0, spread / xp.where(value > 0, value, one), 0 * one)
    norm = one / (6 * xp.where(spread > 0, spread, one))
    by_green, by_blue = norm * (blue - red) + one / 3, norm * (red - green) + 2 * one / 3
    hue = xp.where(red == value, norm * (green - blue), xp.where(green == value, by_green, by_blue))
    hue = xp.where(spread > 0, hue, 0 * one)
    return xp.where(hue < 0, hue + one, hue), saturation, value


def hsv_to_rgb(xp: Any, hue: Any, saturation: Any, value: Any) -> Any:
    """The inverse of :func:`rgb_to_hsv`, for hues of any whole turn less."""
    turn = hue * 6
    red = xp.clip(xp.abs(turn - 3) - 1, 0, 1)
    green = xp.clip(2 - xp.abs(turn - 2), 0, 1)
    blue = xp.clip(2 - xp.abs(turn - 4), 0, 1)
    gray = 1 - saturation
    return xp.stack([(gray + saturation * c) * value for c in (red, green, blue)], -1)


@kernel("RGBToHSV", fresh=True)
def _rgb_to_hsv(node: KernelNode) -> Callable:
    xp = node.xp

    def run(images: Any) -> Any:
        _check_colors(images)
        return xp.stack(rgb_to_hsv(xp, images), -1)

    return run


@kernel("HSVToRGB", fresh=True)
def _hsv_to_rgb(node: KernelNode) -> Callable:
    xp = node.xp

    def run(images: Any) -> Any:
        _check_colors(images)
        return hsv_to_rgb(xp, images[..., 0], images[..., 1], images[..., 2])

    return run


@kernel("AdjustHue", fresh=True)
def _adjust_hue(node: KernelNode) -> Callable:
    """Turns the hue by `delta` of a whole turn."""
    xp = node.xp

    def run(images: Any, delta: Any) -> Any:
        _check_adjusted_colors(images, delta)
        hue, saturation, value = rgb_to_hsv(xp, images)
        turned = hue + delta
        return hsv_to_rgb(xp, turned - xp.floor(turned), saturation, value)

    return run


@kernel("AdjustSaturation", fresh=True)
def _adjust_saturation(node: KernelNode) -> Callable:
    """Multiplies the saturation by `scale`, up to 1."""
    xp = node.xp

    def run(images: Any, scale: Any) -> Any:
        _check_adjusted_colors(images, scale)
        hue, saturation, value = rgb_to_hsv(xp, images)
        return hsv_to_rgb(xp, hue, xp.clip(saturation * scale, 0, 1), value)

    return run


def _stretched(xp: Any, x: Any, factor: Any) -> Any:
    """Differences from the mean of each channel of each image, multiplied."""
    pixels = x.reshape(*x.shape[:-3], -1, x.shape[-1])
    mean = xp.full((1, pixels.shape[-2]), 1 / pixels.shape[-2], x.dtype) @ pixels
    mean = mean[..., None, :]
    out = x - mean
    out *= factor
    out += mean
    return out


@kernel("AdjustContrastv2", fresh=True)
def _adjust_contrast(node: KernelNode) -> Callable:
    xp = node.xp

    def run(images: Any, factor: Any) -> Any:
        _check_adjusted(images, factor)
        return _stretched(xp, images, factor) if images.size else images.copy()

    return run


@kernel("AdjustContrast", fresh=True)
def _adjust_contrast_within(node: KernelNode) -> Callable:
    xp = node.xp

    def run(images: Any, factor: Any, low: Any, high: Any) -> Any:
        _check_adjusted(images, factor, low, high)
        x = images.astype(xp.float32)
        return xp.clip(_stretched(xp, x, factor), low, high) if x.size else x

    return run
