"""Image quality metrics: peak signal-to-noise ratio (PSNR) and structural similarity (SSIM)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.image.colors import convert_image_dtype
from hpcflow.ops.flow.checks import Assert
from hpcflow.ops.math.reductions import reduce_all

_FACTORS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # Wang, Simoncelli and Bovik (2003)
_IMAGE = np.array([-3, -2, -1], np.int32)


def psnr(a: TensorLike, b: TensorLike, max_val: Any, name: str | None = None) -> Tensor:
    """Return peak signal to noise ratios in decibels, one for each image.

    Args:
        a, b: images ``[..., height, width, channels]`` of one dtype.
        max_val: the range of the pixels' values.
        name: name of the scope.
    """
    with name_scope(name, "PSNR", [a, b]):
        a, b, top = _in_float32(a, b, max_val)
        checks = _same_shapes(a, b)
        mse = raw_ops.Mean(raw_ops.SquaredDifference(a, b), _IMAGE)
        decibels = np.float32(10 / math.log(10))
        peak = raw_ops.Mul(raw_ops.Log(top), np.float32(2) * decibels)
        with control_dependencies(checks):
            return raw_ops.Sub(peak, raw_ops.Mul(raw_ops.Log(mse), decibels))


def ssim(img1: TensorLike, img2: TensorLike, max_val: Any, filter_size: int = 11,
         filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
         return_index_map: bool = False) -> Tensor:
    """Return structural similarities, one for each image (Wang et al., 2004).

    Args:
        img1, img2: images ``[..., height, width, channels]`` of one dtype, of at least
            `filter_size` rows and columns.
        max_val: the range of the pixels' values.
        filter_size: of the Gaussian window.
        filter_sigma: its deviation in pixels.
        k1, k2: of the constants that keep quotients finite, as parts of `max_val`.
        return_index_map: return one number for each place of the window.
    """
    with name_scope(None, "SSIM", [img1, img2]):
        a, b, top = _in_float32(img1, img2, max_val)
        checks = _same_shapes(a, b, filter_size)
        with control_dependencies(checks):
            a = raw_ops.Identity(a)
        whole, _ = _similarity(a, b, top, _window(filter_size, filter_sigma), (k1, k2),
                               return_index_map)
        return raw_ops.Mean(whole, np.array([-1], np.int32))


def ssim_multiscale(img1: TensorLike, img2: TensorLike, max_val: Any,
                    power_factors: Sequence[float] = _FACTORS, filter_size: int = 11,
                    filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03) -> Tensor:
    """Return structural similarities over several scales, each half of the one before.

    See :func:`ssim`; `power_factors` are the weights of the scales, the finest first.
    """
    with name_scope(None, "MS-SSIM", [img1, img2]):
        a, b, top = _in_float32(img1, img2, max_val)
        checks = _same_shapes(a, b)
        with control_dependencies(checks):
            images = [raw_ops.Identity(a), raw_ops.Identity(b)]
        window, parts = _window(filter_size, filter_sigma), []
        for scale in range(len(power_factors)):
            if scale:
                images = [_halved(x) for x in images]
            with control_dependencies(_large_enough(images[0], filter_size)):
                images = [raw_ops.Identity(x) for x in images]
            whole, contrast = _similarity(images[0], images[1], top, window, (k1, k2), False)
            last = scale == len(power_factors) - 1
            parts.append(raw_ops.Relu(whole if last else contrast))
        powers = raw_ops.Pow(raw_ops.Pack(parts, axis=-1), np.array(power_factors, np.float32))
        return raw_ops.Mean(raw_ops.Prod(powers, np.array([-1], np.int32)),
                            np.array([-1], np.int32))


def _in_float32(a: TensorLike, b: TensorLike, max_val: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """The images, and the range of their values, as floating-point images."""
    a = convert_to_tensor(a, name="a")
    b = convert_to_tensor(b, a.dtype.base_dtype, name="b")
    top = raw_ops.Cast(convert_to_tensor(max_val), DstT=a.dtype.base_dtype)
    wide = [convert_image_dtype(x, dtypes.float32) for x in (top, a, b)]
    return wide[1], wide[2], wide[0]


def _same_shapes(a: Tensor, b: Tensor, smallest: int = 0) -> list:
    """Checks of what static shapes leave open; ``ValueError`` for what they rule out."""
    a.get_shape().with_rank_at_least(3)
    b.get_shape().with_rank_at_least(3)
    a.get_shape()[-3:].assert_is_compatible_with(b.get_shape()[-3:])
    checks = _large_enough(a, smallest) if smallest else []
    if not (a.get_shape().is_fully_defined() and b.get_shape().is_fully_defined()):
        ours: Any = raw_ops.Shape(a)
        theirs: Any = raw_ops.Shape(b)
        same = reduce_all(raw_ops.Equal(ours[-3:], theirs[-3:]))
        checks.append(Assert(same, ["images of different shapes", ours, theirs]))
    return checks


def _large_enough(image: Tensor, smallest: int) -> list:
    for size in image.get_shape().as_list()[-3:-1] if image.get_shape().ndims else ():
        if size is not None and size < smallest:
            raise ValueError(f"images of shape {image.get_shape()} are smaller than the window of "
                             f"{smallest}")
    if image.get_shape()[-3:-1].is_fully_defined():
        return []
    shape: Any = raw_ops.Shape(image)
    fits = reduce_all(raw_ops.GreaterEqual(shape[-3:-1], np.int32(smallest)))
    return [Assert(fits, [f"images smaller than the window of {smallest}", shape])]


def _window(size: int, sigma: float) -> np.ndarray:
    """A Gaussian window that sums to one."""
    places = np.arange(size) - (size - 1) / 2
    row = np.exp(-0.5 * (places / sigma) ** 2)
    window = np.outer(row, row)
    return (window / window.sum()).astype(np.float32)


def _similarity(a: Tensor, b: Tensor, top: Tensor, window: np.ndarray,
                constants: tuple[float, float], everywhere: bool) -> tuple[Tensor, Tensor]:
    """Return the structural similarity of each channel, and its contrast-structure term alone."""
    c1, c2 = (raw_ops.Square(raw_ops.Mul(top, np.float32(k))) for k in constants)
    mean = _blurred(a, window), _blurred(b, window)
    product = raw_ops.Mul(np.float32(2), raw_ops.Mul(*mean))
    squares = raw_ops.Add(raw_ops.Square(mean[0]), raw_ops.Square(mean[1]))
    luminance = raw_ops.RealDiv(raw_ops.Add(product, c1), raw_ops.Add(squares, c1))
    both = raw_ops.Mul(np.float32(2), _blurred(raw_ops.Mul(a, b), window))
    each = _blurred(raw_ops.Add(raw_ops.Square(a), raw_ops.Square(b)), window)
    contrast = raw_ops.RealDiv(raw_ops.Add(raw_ops.Sub(both, product), c2),
                               raw_ops.Add(raw_ops.Sub(each, squares), c2))
    whole = raw_ops.Mul(luminance, contrast)
    if everywhere:
        return whole, contrast
    space = np.array([-3, -2], np.int32)
    return raw_ops.Mean(whole, space), raw_ops.Mean(contrast, space)


def _blurred(x: Tensor, window: np.ndarray) -> Tensor:
    """Filter the images channel by channel, where the window fits."""
    shape: Any = raw_ops.Shape(x)
    flat = raw_ops.Reshape(x, raw_ops.ConcatV2([np.array([-1], np.int32), shape[-3:]],
                                               np.int32(0)))
    flat.set_shape([None, *x.get_shape().as_list()[-3:]])
    channels = raw_ops.Pack([np.int32(1), np.int32(1), shape[-1], np.int32(1)])
    filters = raw_ops.Tile(window[:, :, None, None], channels)
    blurred = raw_ops.DepthwiseConv2dNative(flat, filters, strides=[1, 1, 1, 1], padding="VALID")
    after: Any = raw_ops.Shape(blurred)
    result = raw_ops.Reshape(blurred, raw_ops.ConcatV2([shape[:-3], after[1:]], np.int32(0)))
    result.set_shape([*x.get_shape().as_list()[:-3], *blurred.get_shape().as_list()[1:]])
    return result


def _halved(x: Tensor) -> Tensor:
    """Halve the images' size by averaging 2 x 2 squares; odd sizes repeat the last pixels."""
    shape: Any = raw_ops.Shape(x)
    flat = raw_ops.Reshape(x, raw_ops.ConcatV2([np.array([-1], np.int32), shape[-3:]],
                                               np.int32(0)))
    odd = raw_ops.FloorMod(shape[-3:], np.array([2, 2, 1], np.int32))
    after = raw_ops.ConcatV2([np.array([0], np.int32), odd], np.int32(0))
    pads = raw_ops.Pack([raw_ops.ZerosLike(after), after], axis=1)
    padded = raw_ops.MirrorPad(flat, pads, mode="SYMMETRIC")
    padded.set_shape([None, *(None if d is None else d + d % (2 if i < 2 else 1)
                              for i, d in enumerate(x.get_shape().as_list()[-3:]))])
    halved = raw_ops.AvgPool(padded, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    sizes: Any = raw_ops.Shape(halved)
    result = raw_ops.Reshape(halved, raw_ops.ConcatV2([shape[:-3], sizes[1:]], np.int32(0)))
    result.set_shape([*x.get_shape().as_list()[:-3], *halved.get_shape().as_list()[1:]])
    return result
