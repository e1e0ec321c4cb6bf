"""Hue, saturation and value of images, changed in the color space YIQ."""

from __future__ import annotations

from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor

#: Rows Y, I, Q of columns R, G, B, and back.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]],
                   np.float32)
_TO_RGB = np.array([[1.0, 0.95617069, 0.62143257], [1.0, -0.2726886, -0.64681324],
                    [1.0, -1.103744, 1.70062309]], np.float32)


def adjust_hsv_in_yiq(image: TensorLike, delta_hue: TensorLike = 0,
                      scale_saturation: TensorLike = 1, scale_value: TensorLike = 1,
                      name: str | None = None) -> Tensor:
    """Return images with their colors turned and scaled, in the type that they have.

    Args:
        image: RGB images; the last dimension has 3 elements.
        delta_hue: the angle by which I and Q turn around Y.
        scale_saturation: factor of I and Q.
        scale_value: factor of Y, I and Q.
        name: name scope.
    """
    with hf.name_scope(name, "adjust_hsv_in_yiq", [image]):
        given = hf.convert_to_tensor(image, name="image")
        if given.shape.ndims is not None:
            given.shape.with_rank_at_least(3)[-1:].assert_is_compatible_with([3])
        angle, saturation, value = (hf.cast(hf.convert_to_tensor(x), hf.float32)
                                    for x in (delta_hue, scale_saturation, scale_value))
        chroma: Any = value * saturation
        cos, sin = chroma * hf.cos(angle), chroma * hf.sin(angle)
        zero = hf.zeros_like(value)
        turned = hf.reshape(hf.stack([value, zero, zero, zero, cos, -sin, zero, sin, cos]), [3, 3])
        colors = hf.matmul(_TO_RGB, hf.matmul(turned, _TO_YIQ))
        pixels = hf.image.convert_image_dtype(given, hf.float32)
        flat = hf.matmul(hf.reshape(pixels, [-1, 3]), colors, transpose_b=True)
        changed = hf.reshape(flat, hf.shape(pixels))
        changed.set_shape(given.shape)
        return hf.image.convert_image_dtype(changed, given.dtype)


def random_hsv_in_yiq(image: TensorLike, max_delta_hue: float = 0, lower_saturation: float = 1,
                      upper_saturation: float = 1, lower_value: float = 1, upper_value: float = 1,
                      seed: int | None = None) -> Tensor:
    """Return images changed as by :func:`adjust_hsv_in_yiq`, with random amounts.

    Args:
        image: RGB images.
        max_delta_hue: the largest angle, to both sides.
        lower_saturation: least factor of the saturation.
        upper_saturation: its largest factor.
        lower_value: least factor of the value.
        upper_value: its largest factor.
        seed: seed of the random numbers.

    Raises ``ValueError`` for negative bounds and for lower ones above the upper.
    """
    for name, bound in (("max_delta", max_delta_hue), ("lower_saturation", lower_saturation),
                        ("lower_value", lower_value)):
        if bound < 0:
            raise ValueError(f"{name} must be non-negative.")
    if lower_saturation > upper_saturation:
        raise ValueError("lower_saturation must be < upper_saturation.")
    if lower_value > upper_value:
        raise ValueError("lower_value must be < upper_value.")
    angle, saturation, value = (
        low if low == high else hf.random_uniform([], low, high, seed=seed)
        for low, high in ((-max_delta_hue, max_delta_hue), (lower_saturation, upper_saturation),
                          (lower_value, upper_value)))
    return adjust_hsv_in_yiq(image, angle, saturation, value)
