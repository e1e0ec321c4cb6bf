"""Colours: value ranges, brightness, contrast, hue, saturation, gamma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.image.shapes import as_image
from hpcflow.ops.arrays.casting import cast, saturate_cast
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.random.random_ops import random_uniform

# Parts of red, green and blue in grey.
_GREY = (0.2989, 0.5870, 0.1140)

# ---------------------------------------------------------------- value ranges


def convert_image_dtype(image: TensorLike, dtype: DTypeLike, saturate: bool = False,
                        name: str | None = None) -> Tensor:
    """Return `image` in another dtype, its values scaled to the range of that.

    Floating-point images have values in [0, 1), integers up to the largest of their dtype.

    Args:
        image: a tensor of numbers.
        dtype: the dtype of the result.
        saturate: clip to the range of `dtype`; else values outside of it overflow.
        name: name of the operation.
    """
    tensor = convert_to_tensor(image, name="image")
    wanted, have = dtypes.as_dtype(dtype), tensor.dtype.base_dtype
    if wanted == have:
        return raw_ops.Identity(tensor, name=name)
    with name_scope(name, "convert_image", [tensor]) as scope:
        if have.is_integer and wanted.is_integer:
            return _between_integers(tensor, have, wanted, saturate, scope)
        if have.is_floating and wanted.is_floating:
            return cast(tensor, wanted, name=scope)
        if have.is_integer:
            return raw_ops.Mul(cast(tensor, wanted), _number(1.0 / have.max, wanted), name=scope)
        # Half a step more, so that rounding errors do not fall below an integer.
        scaled = raw_ops.Mul(tensor, _number(wanted.max + 0.5, have))
        return _as_type(scaled, wanted, saturate, scope)


def _number(value: float, dtype: DType) -> Any:
    return np.asarray(value, dtype.base_dtype.np)


def _as_type(x: Tensor, dtype: DType, saturate: bool, name: str | None = None) -> Tensor:
    return saturate_cast(x, dtype, name=name) if saturate else cast(x, dtype, name=name)


def _between_integers(x: Tensor, have: DType, wanted: DType, saturate: bool, name: str) -> Tensor:
    top, new_top = int(have.max), int(wanted.max)
    if saturate and have.size < 4:  # clipping is defined for few dtypes
        x = cast(x, dtypes.int32)
    if top > new_top:
        scale = _number((top + 1) // (new_top + 1), x.dtype)
        return _as_type(raw_ops.Div(x, scale), wanted, saturate, name)
    # A negative value may have no place in a wider unsigned dtype.
    scale = _number((new_top + 1) // (top + 1), wanted)
    return raw_ops.Mul(_as_type(x, wanted, saturate), scale, name=name)


def _through_floats(image: TensorLike, name: str | None, default: str, change: Callable[..., Any],
                    saturate: bool) -> Tensor:
    """``change(image as float32)`` in the dtype of `image`."""
    with name_scope(name, default, [image]) as scope:
        tensor = convert_to_tensor(image, name="image")
        changed = change(convert_image_dtype(tensor, dtypes.float32))
        return convert_image_dtype(changed, tensor.dtype.base_dtype, saturate=saturate, name=scope)


# ---------------------------------------------------------------- adjustments


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """Return `image` with `delta` added to all values, in the scale of floating-point images."""
    return _through_floats(image, None, "adjust_brightness", lambda x: raw_ops.Add(
        x, cast(delta, dtypes.float32)), True)


def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """Return images whose differences from the mean of their channel are multiplied.

    Args:
        images: ``[..., height, width, channels]``; each image and channel has its own mean.
        contrast_factor: a float.
    """
    return _through_floats(images, None, "adjust_contrast", lambda x: raw_ops.AdjustContrastv2(
        x, contrast_factor), True)


def adjust_gamma(image: TensorLike, gamma: float = 1, gain: float = 1) -> Tensor:
    """Return ``gain * image ** gamma`` in the dtype of `image`, with values taken as parts of their
    dtype's range.

    Raises:
        ValueError: if `gamma` is negative; in a step, an ``InvalidArgumentError``.
    """
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        if not isinstance(gamma, Tensor) and gamma < 0:
            raise ValueError("Gamma should be a non-negative real number")
        tensor = convert_to_tensor(image, name="image")
        dtype = tensor.dtype.base_dtype
        floats = tensor if dtype in (dtypes.float16, dtypes.float32) else convert_image_dtype(
            tensor, dtypes.float32)
        exponent = cast(gamma, floats.dtype.base_dtype)
        if isinstance(gamma, Tensor):
            right = raw_ops.GreaterEqual(exponent, _number(0, exponent.dtype))
            with control_dependencies([raw_ops.Assert(
                    right, ["Gamma should be a non-negative real number", exponent])]):
                exponent = raw_ops.Identity(exponent)
        adjusted = raw_ops.Mul(cast(gain, floats.dtype.base_dtype), raw_ops.Pow(floats, exponent))
        return convert_image_dtype(adjusted, dtype, saturate=True)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """Return RGB images with their hue turned by `delta`, in [-1, 1], of a whole turn."""
    return _through_floats(image, name, "adjust_hue", lambda x: raw_ops.AdjustHue(x, delta), False)


def adjust_saturation(image: TensorLike, saturation_factor: TensorLike,
                      name: str | None = None) -> Tensor:
    """Return RGB images with their saturation multiplied."""
    return _through_floats(image, name, "adjust_saturation", lambda x: raw_ops.AdjustSaturation(
        x, saturation_factor), False)


# ---------------------------------------------------------------- random adjustments


def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Return :func:`adjust_brightness` by a random number within ``[-max_delta, max_delta)``."""
    if max_delta < 0:
        raise ValueError(f"max_delta must be non-negative but is {max_delta}")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: TensorLike, lower: float, upper: float,
                    seed: int | None = None) -> Tensor:
    """Return :func:`adjust_contrast` by a random factor within ``[lower, upper)``."""
    return adjust_contrast(image, _random_factor(lower, upper, seed))


def random_saturation(image: TensorLike, lower: float, upper: float,
                      seed: int | None = None) -> Tensor:
    """Return :func:`adjust_saturation` by a random factor within ``[lower, upper)``."""
    return adjust_saturation(image, _random_factor(lower, upper, seed))


def _random_factor(lower: float, upper: float, seed: int | None) -> Tensor:
    if upper <= lower:
        raise ValueError(f"upper must be > lower: {upper}, {lower}")
    if lower < 0:
        raise ValueError(f"lower must be non-negative but is {lower}")
    return random_uniform([], lower, upper, seed=seed)


def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Return :func:`adjust_hue` by a random part, within ``[-max_delta, max_delta)``, of a turn."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be within [0, 0.5] but is {max_delta}")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


# ---------------------------------------------------------------- colour spaces


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Return hue, saturation and value, all in [0, 1], of RGB images ``[..., 3]``."""
    return raw_ops.RGBToHSV(images=images, name=name)


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Return RGB images of hue, saturation and value ``[..., 3]``, all in [0, 1]."""
    return raw_ops.HSVToRGB(images=images, name=name)


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """Return ``[..., 1]``: the brightness of RGB images ``[..., 3]``, in their dtype."""
    def weighted(x: Tensor) -> Tensor:
        return reduce_sum(raw_ops.Mul(x, np.array(_GREY, np.float32)), -1, keep_dims=True)

    return _through_floats(images, name, "rgb_to_grayscale", weighted, False)


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Return ``[..., 3]``: three copies of the only channel of images ``[..., 1]``."""
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        tensor = convert_to_tensor(images, name="images")
        leading = raw_ops.Fill(raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(tensor), np.int32(1)),
                                               np.array([1], np.int32)), np.int32(1))
        copies = raw_ops.ConcatV2([leading, np.array([3], np.int32)], np.int32(0))
        result = raw_ops.Tile(tensor, copies, name=scope)
        if tensor._dims is not None:
            result.set_shape([*tensor._dims[:-1], 3])
        return result


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Return the luma and the two chroma signals of NTSC of RGB images ``[..., 3]``."""
    return _mixed(images, _RGB_TO_YIQ)


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """Undo :func:`rgb_to_yiq`."""
    return _mixed(images, _YIQ_TO_RGB)


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Return the luma and the two chroma signals of PAL of RGB images ``[..., 3]``."""
    return _mixed(images, _RGB_TO_YUV)


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Undo :func:`rgb_to_yuv`."""
    return _mixed(images, _YUV_TO_RGB)


# What each input channel (a row) adds to each output channel.
_RGB_TO_YIQ = ((0.299, 0.59590059, 0.2115), (0.587, -0.27455667, -0.52273617),
               (0.114, -0.32134392, 0.31119955))
_YIQ_TO_RGB = ((1, 1, 1), (0.95598634, -0.27201283, -1.10674021),
               (0.6208248, -0.64720424, 1.70423049))
_RGB_TO_YUV = ((0.299, -0.14714119, 0.61497538), (0.587, -0.28886916, -0.51496512),
               (0.114, 0.43601035, -0.10001026))
_YUV_TO_RGB = ((1, 1, 1), (0, -0.394642334, 2.03206185), (1.13988303, -0.58062185, 0))


def _mixed(images: TensorLike, weights: tuple) -> Tensor:
    images = convert_to_tensor(images, name="images")
    kind = images.dtype.base_dtype
    flat = raw_ops.Reshape(images, np.array([-1, 3], np.int32))
    mixed = raw_ops.MatMul(flat, np.array(weights, kind.np))
    result = raw_ops.Reshape(mixed, raw_ops.Shape(images))
    result.set_shape(images.get_shape())
    return result


# ---------------------------------------------------------------- statistics


def per_image_standardization(image: TensorLike) -> Tensor:
    """Return images with mean 0 and standard deviation 1 each, as float32.

    `image` is ``[height, width, channels]``, or a batch of such. The deviation counts as
    ``1 / sqrt(number of values)`` at least, so that even images stay finite.
    """
    with name_scope(None, "per_image_standardization", [image]):
        x = cast(as_image(image, (3, 4)), dtypes.float32)
        axes = np.arange(-3, 0, dtype=np.int32)
        count = raw_ops.RealDiv(cast(raw_ops.Size(x), dtypes.float32), _batch(x))
        mean = raw_ops.Mean(x, axes, keep_dims=True)
        squares = raw_ops.Mean(raw_ops.Square(x), axes, keep_dims=True)
        variance = raw_ops.Relu(raw_ops.Sub(squares, raw_ops.Square(mean)))
        deviation = raw_ops.Maximum(raw_ops.Sqrt(variance), raw_ops.Rsqrt(count))
        return raw_ops.RealDiv(raw_ops.Sub(x, mean), deviation)


def _batch(x: Tensor) -> Any:
    """Return the number of images, as float32."""
    if len(x.shape) == 3:
        return np.float32(1)
    return cast(raw_ops.StridedSlice(raw_ops.Shape(x), [0], [1], [1], shrink_axis_mask=1),
                dtypes.float32)


def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """Return the sum of the absolute differences of neighbouring pixels.

    A scalar for one image ``[height, width, channels]``, one number per image for a batch.
    """
    with name_scope(name, "total_variation", [images]) as scope:
        tensor = as_image(images, (3, 4))
        rank = len(tensor.shape)
        axes = np.arange(rank - 3, rank, dtype=np.int32)
        parts = [raw_ops.Sum(raw_ops.Abs(_differences(tensor, axis)), axes)
                 for axis in (rank - 3, rank - 2)]
        return raw_ops.Add(*parts, name=scope)


def _differences(x: Tensor, axis: int) -> Tensor:
    rank = len(x.shape)
    first = np.zeros(rank, np.int32)
    first[axis] = 1
    later = raw_ops.Slice(x, first, np.full(rank, -1, np.int32))
    return raw_ops.Sub(later, raw_ops.Slice(x, 0 * first, raw_ops.Shape(later)))
