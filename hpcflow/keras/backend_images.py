"""Convolutions, pooling and normalization of ``keras.backend``, in either data format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hpcflow as hf
from hpcflow.keras.settings import image_data_format


def _first(data_format: str | None) -> bool:
    """Whether channels are the first dimension after the batch. ``ValueError`` for other formats.
    """
    chosen = data_format or image_data_format()
    if chosen not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {chosen}")
    return chosen == "channels_first"


def _layout(first: bool, rank: int) -> str:
    space = "DHW"[3 - rank:] if rank > 1 else "W"
    return f"NC{space}" if first else f"N{space}C"


def _with_ones(sizes: Sequence[int], first: bool) -> list[int]:
    return [1, 1, *sizes] if first else [1, *sizes, 1]


def conv1d(x: Any, kernel: Any, strides: Any = 1, padding: str = "valid",
           data_format: str | None = None, dilation_rate: Any = 1) -> Any:
    """Return the convolution of sequences; with `padding` ``causal`` no output sees what comes
    after it."""
    first = _first(data_format)
    strides, dilation_rate = (v[0] if isinstance(v, (list, tuple)) else v
                              for v in (strides, dilation_rate))
    if padding == "causal":
        before = [dilation_rate * (kernel.shape[0].value - 1), 0]
        x = hf.pad(x, [[0, 0], [0, 0], before] if first else [[0, 0], before, [0, 0]])
        padding = "valid"
    return hf.nn.convolution(x, kernel, padding.upper(), [strides], [dilation_rate],
                             data_format=_layout(first, 1))


def spatial_2d_padding(x: Any, padding: str | Sequence[Any] = ((1, 1), (1, 1)),
                       data_format: str | None = None) -> Any:
    """Return images with zeros around."""
    pads = [list(p) for p in padding]
    first = _first(data_format)
    return hf.pad(x, [[0, 0], [0, 0], *pads] if first else [[0, 0], *pads, [0, 0]])


def conv2d(x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid",
           data_format: str | None = None, dilation_rate: Any = (1, 1)) -> Any:
    """Return the convolution of images."""
    first = _first(data_format)
    return hf.nn.convolution(x, kernel, padding.upper(), list(strides), list(dilation_rate),
                             data_format="NCHW" if first else "NHWC")


def pool2d(x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid",
           data_format: str | None = None, pool_mode: str = "max") -> Any:
    """Return the maxima or means over windows of images. ``ValueError`` for another mode."""
    pooling = {"max": hf.layers.max_pooling2d, "avg": hf.layers.average_pooling2d}.get(pool_mode)
    if pooling is None:
        raise ValueError(f"Invalid pooling mode: {pool_mode}")
    return pooling(x, pool_size, strides, padding, data_format or image_data_format())


def conv3d(x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid",
           data_format: str | None = None, dilation_rate: Any = (1, 1, 1)) -> Any:
    """Return the convolution of volumes."""
    return hf.nn.convolution(x, kernel, padding.upper(), list(strides), list(dilation_rate),
                             data_format=_layout(_first(data_format), 3))


def conv2d_transpose(x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1),
                     padding: str = "valid", data_format: str | None = None,
                     dilation_rate: Any = (1, 1)) -> Any:
    """Return the gradient of a convolution of images; `output_shape` has the batch, which may be
    None."""
    first = _first(data_format)
    if isinstance(output_shape, (list, tuple)):
        batch = hf.shape(x)[0] if output_shape[0] is None else output_shape[0]
        output_shape = hf.stack([batch, *output_shape[1:]])
    return hf.nn.conv2d_transpose(x, kernel, output_shape, _with_ones(strides, first),
                                  padding.upper(), data_format=_layout(first, 2),
                                  dilations=_with_ones(dilation_rate, first))


def separable_conv2d(x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1),
                     padding: str = "valid", data_format: str | None = None,
                     dilation_rate: Any = (1, 1)) -> Any:
    """Return a convolution of each channel followed by one of each position."""
    first = _first(data_format)
    return hf.nn.separable_conv2d(x, depthwise_kernel, pointwise_kernel,
                                  _with_ones(strides, first), padding.upper(),
                                  list(dilation_rate), data_format=_layout(first, 2))


def pool3d(x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
           data_format: str | None = None, pool_mode: str = "max") -> Any:
    """Return the maxima or means (``avg``) over windows of volumes."""
    first = _first(data_format)
    if pool_mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {pool_mode}")
    pooling = hf.nn.max_pool3d if pool_mode == "max" else hf.nn.avg_pool3d
    return pooling(x, _with_ones(pool_size, first), _with_ones(strides, first), padding.upper(),
                   data_format=_layout(first, 3))


def spatial_3d_padding(x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)),
                       data_format: str | None = None) -> Any:
    """Return volumes with zeros around."""
    pads = [list(p) for p in padding]
    return hf.pad(x, [[0, 0], [0, 0], *pads] if _first(data_format) else
                  [[0, 0], *pads, [0, 0]])


def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int,
                   data_format: str) -> Any:
    """Return volumes that are larger by whole factors, each value repeated."""
    start = 2 if _first(data_format) else 1
    sizes: Any = hf.convert_to_tensor(x).get_shape().as_list()
    for axis, times in enumerate((depth_factor, height_factor, width_factor), start):
        sizes[axis] = None if sizes[axis] is None else sizes[axis] * times
        x = hf.repeat(x, times, axis)
    x.set_shape(sizes)
    return x


def batch_normalization(x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1,
                        epsilon: float = 1e-3) -> Any:
    """Return ``gamma (x - mean) / sqrt(var + epsilon) + beta``; vectors are of the channels, which
    are the dimension `axis`. `beta` and `gamma` may be None."""
    rank = x.shape.ndims
    sizes = [1] * rank
    sizes[axis] = -1

    def spread(value: Any) -> Any:
        if value is None or axis % rank == rank - 1 or hf.convert_to_tensor(value).shape.ndims != 1:
            return value
        return hf.reshape(value, sizes)

    return hf.nn.batch_normalization(x, *map(spread, (mean, var, beta, gamma)), epsilon)


def normalize_batch_in_training(x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int],
                                epsilon: float = 1e-3) -> tuple[Any, Any, Any]:
    """Return `x` normalized by its mean and variance over dimensions, and these two.

    The variance of images over batch and space is that of the sample (divided by one less), as
    fused normalization has it.
    """
    rank, axes = x.shape.ndims, sorted(reduction_axes)
    mean, variance = hf.nn.moments(x, axes)
    kept = [n for n in range(rank) if n not in axes]
    sizes = [x.shape[n].value if n in kept else 1 for n in range(rank)]

    def spread(value: Any) -> Any:
        return value if value is None or kept == [rank - 1] else hf.reshape(value, sizes)

    normed = hf.nn.batch_normalization(x, *map(spread, (mean, variance, beta, gamma)), epsilon)
    if rank == 4 and axes in ([0, 1, 2], [0, 2, 3]):
        count = hf.cast(hf.size(x) // hf.size(mean), variance.dtype)
        variance = variance * count / hf.maximum(count - 1.0, 1.0)
    return normed, mean, variance
