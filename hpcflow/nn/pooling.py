"""Pooling over windows: maxima and means, in two and three dimensions and in general."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank
from hpcflow.nn.windowing import (
    format_1d,
    numbers_per_dimension,
    of_rows,
    positive_list,
    with_holes,
)
from hpcflow.ops.random.random_ops import get_seed

__all__ = ["avg_pool", "avg_pool1d", "avg_pool3d", "avg_pool_v2", "fractional_avg_pool",
           "fractional_max_pool", "max_pool", "max_pool1d", "max_pool3d", "max_pool_v2",
           "max_pool_with_argmax", "pool"]  # fmt: skip


@also_called(input="value")
def avg_pool(value: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
             padding: str, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Return the mean of each window of a batch of images; padding is not counted.

    Args:
        value: [batch, height, width, channels] (``NHWC``) or ``NCHW``.
        ksize: the window, four numbers in the order of the data format; or those of height and
            width, or one for both.
        strides: its steps, given like the window.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        name: of the op.

    Raises:
        ValueError: if the window does not fit.
    """
    return raw_ops.AvgPool(value=value, **_windows(ksize, strides, 2, data_format), padding=padding,
                           data_format=data_format, name=name or "AvgPool")


@also_called(input="value")
def max_pool(value: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
             padding: str, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Return the largest element of each window; see :func:`avg_pool` for the arguments."""
    return raw_ops.MaxPool(input=value, **_windows(ksize, strides, 2, data_format), padding=padding,
                           data_format=data_format, name=name or "MaxPool")


def avg_pool_v2(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
                padding: str, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Return the mean of each window along one, two or three dimensions, by the rank of `input`.

    See :func:`avg_pool` for the arguments. Raises ``ValueError`` for a rank other than 3, 4 or 5,
    or an unknown one.
    """
    return _by_rank((avg_pool1d, avg_pool, avg_pool3d), input, ksize, strides, padding,
                    data_format, name)


def max_pool_v2(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
                padding: str, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Return the largest element of each window; see :func:`avg_pool_v2`."""
    return _by_rank((max_pool1d, max_pool, max_pool3d), input, ksize, strides, padding,
                    data_format, name)


def _by_rank(functions: Sequence[Callable], input: TensorLike, ksize: Sizes, strides: Sizes,
             padding: str, data_format: str | None, name: str | None) -> Tensor:
    input = convert_to_tensor(input)
    rank = input.get_shape().ndims
    if rank not in (3, 4, 5):
        raise ValueError("`input.shape.rank` must be 3, 4 or 5, but the input is of rank "
                         f"{rank}.")
    chosen = data_format or ("NWC", "NHWC", "NDHWC")[rank - 3]
    return functions[rank - 3](input, ksize, strides, padding, chosen, name)


def _windows(ksize: Sizes, strides: Sizes, space: int, data_format: str | None) -> dict[str, Any]:
    """The attributes that say the window and its steps."""
    return {"ksize": numbers_per_dimension(ksize, space, data_format, "ksize"),
            "strides": numbers_per_dimension(strides, space, data_format, "strides")}


def avg_pool1d(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
               padding: str, data_format: str = "NWC", name: str | None = None) -> Tensor:
    """Return the mean of each window along [batch, width, channels], or ``NCW``."""
    return _pool_rows(avg_pool, input, ksize, strides, padding, data_format, name or "AvgPool1D")


def max_pool1d(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
               padding: str, data_format: str = "NWC", name: str | None = None) -> Tensor:
    """Return the largest element of each window along [batch, width, channels], or ``NCW``."""
    return _pool_rows(max_pool, input, ksize, strides, padding, data_format, name or "MaxPool1D")


def _pool_rows(pool_images: Callable, input: TensorLike, ksize: Sizes, strides: Sizes, padding: str,
               data_format: str, name: str) -> Tensor:
    """A pooling of images one row high."""
    chosen = format_1d(data_format)
    axis = 1 if chosen == "NHWC" else 2
    with name_scope(name, values=[input]) as scope:
        pooled = pool_images(raw_ops.ExpandDims(input, np.int32(axis)),
                             of_rows(ksize, chosen, "ksize"), of_rows(strides, chosen, "strides"),
                             padding, chosen)
        return raw_ops.Squeeze(pooled, squeeze_dims=[axis], name=scope)


def max_pool_with_argmax(input: TensorLike, ksize: Sequence[int], strides: Sequence[int],
                         padding: str, Targmax: Any = None, name: str | None = None,
                         output_dtype: DTypeLike | None = None,
                         include_batch_in_index: bool = False) -> tuple[Tensor, Tensor]:
    """Return (maxima, positions) of each window of NHWC images.

    The position of ``[b, y, x, c]`` is ``(y * width + x) * channels + c``, with
    `include_batch_in_index` ``((b * height + y) * width + x) * channels + c``, of the type
    `Targmax` or `output_dtype` (int64 by default).
    """
    Targmax = output_dtype if Targmax is None else Targmax
    return raw_ops.MaxPoolWithArgmax(
        input=input, ksize=ksize, strides=strides, padding=padding,
        Targmax=dtypes.int64 if Targmax is None else Targmax,
        include_batch_in_index=include_batch_in_index, name=name)


def avg_pool3d(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
               padding: str, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Return the mean of each window of volumes, ``NDHWC`` (default) or ``NCDHW``."""
    return raw_ops.AvgPool3D(input=input, **_windows(ksize, strides, 3, data_format),
                             padding=padding, data_format=data_format or "NDHWC", name=name)


def max_pool3d(input: TensorLike, ksize: int | Sequence[int], strides: int | Sequence[int],
               padding: str, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Return the largest element of each window of volumes, ``NDHWC`` (default) or ``NCDHW``."""
    return raw_ops.MaxPool3D(input=input, **_windows(ksize, strides, 3, data_format),
                             padding=padding, data_format=data_format or "NDHWC", name=name)


def fractional_max_pool(value: TensorLike, pooling_ratio: Sequence[float],
                        pseudo_random: bool | None = None, overlapping: bool | None = None,
                        deterministic: bool | None = None, seed: int | None = None,
                        seed2: int | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest element of each window of random sizes that differ by one.

    Args:
        value: [batch, height, width, channels].
        pooling_ratio: input size divided by output size, four numbers from 1; 1 for batch and
            channels. The output has ``floor(size / ratio)`` rows and columns.
        pseudo_random: choose the sizes so that windows are spread evenly.
        overlapping: let each window include the first element of the next one.
        deterministic: the same windows in every step.
        seed: of the windows, for `deterministic` ones.
        seed2: the other seed.
        name: of the op.

    Returns:
        The maxima, and where the windows begin along rows and columns (int64, with the end).
    """
    return _fractional("FractionalMaxPool", value, pooling_ratio, pseudo_random, overlapping,
                       deterministic, seed, seed2, name)


def fractional_avg_pool(value: TensorLike, pooling_ratio: Sequence[float],
                        pseudo_random: bool | None = None, overlapping: bool | None = None,
                        deterministic: bool | None = None, seed: int | None = None,
                        seed2: int | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of each window of random sizes; see :func:`fractional_max_pool`."""
    return _fractional("FractionalAvgPool", value, pooling_ratio, pseudo_random, overlapping,
                       deterministic, seed, seed2, name)


def _fractional(op_type: str, value: TensorLike, pooling_ratio: Sequence[float],
                pseudo_random: bool | None, overlapping: bool | None, deterministic: bool | None,
                seed: int | None, seed2: int | None,
                name: str | None) -> tuple[Tensor, Tensor, Tensor]:
    y, rows, columns = getattr(raw_ops, op_type)(
        value=value, pooling_ratio=[float(r) for r in pooling_ratio],
        pseudo_random=bool(pseudo_random), overlapping=bool(overlapping),
        deterministic=bool(deterministic), seed=seed or 0, seed2=seed2 or 0, name=name)
    return y, rows, columns


def fractional_max_pool_v2(value: TensorLike, pooling_ratio: float | Sequence[float],
                           pseudo_random: bool = False, overlapping: bool = False, seed: int = 0,
                           name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`fractional_max_pool`; `seed` other than 0 makes the sizes the same in all steps.

    `pooling_ratio` may be one number for both dimensions of space, or two.
    """
    return _fractional_v2("FractionalMaxPool", value, pooling_ratio, pseudo_random, overlapping,
                          seed, name)


def fractional_avg_pool_v2(value: TensorLike, pooling_ratio: float | Sequence[float],
                           pseudo_random: bool = False, overlapping: bool = False, seed: int = 0,
                           name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of each window of random sizes; see :func:`fractional_max_pool_v2`."""
    return _fractional_v2("FractionalAvgPool", value, pooling_ratio, pseudo_random, overlapping,
                          seed, name)


def _fractional_v2(op_type: str, value: TensorLike, ratio: float | Sequence[float],
                   pseudo_random: bool, overlapping: bool, seed: int,
                   name: str | None) -> tuple[Tensor, Tensor, Tensor]:
    ratios = list(ratio) if isinstance(ratio, Sequence) else [ratio, ratio]
    if len(ratios) == 2:
        ratios = [1.0, *ratios, 1.0]
    first, second = get_seed(seed) if seed else (0, 0)
    return _fractional(op_type, value, ratios, pseudo_random, overlapping, bool(seed), first,
                       second, name)


@also_called(dilations="dilation_rate")
def pool(input: TensorLike, window_shape: Sequence[int], pooling_type: str, padding: str,
         dilation_rate: Sequence[int] | None = None, strides: Sequence[int] | None = None,
         name: str | None = None, data_format: str | None = None) -> Tensor:
    """Return maxima or means over windows in 1, 2 or 3 dimensions of space.

    Args:
        input: [batch, *space, channels], or [batch, channels, *space] for a format that starts
            with ``NC``.
        window_shape: one number per dimension of space.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        padding: ``"SAME"`` or ``"VALID"``; with holes, ``SAME`` pads with zeros that count.
        dilation_rate: distances of the window's elements; ones by default. Not with strides.
        strides: one number per dimension of space; ones by default.
        name: of the op.
        data_format: ``NWC``, ``NHWC``, ``NDHWC`` (default), ``NCW``, ``NCHW`` or ``NCDHW``.

    Raises:
        ValueError: for arguments that do not fit each other, or strides above the window.
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"pooling_type must be MAX or AVG but is {pooling_type!r}")
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        window = [int(n) for n in window_shape]
        rank = len(window)
        if not 1 <= rank <= 3:
            raise ValueError(f"window_shape must have 1, 2 or 3 numbers but is {window}")
        with_rank(input._dims, rank + 2, "input")
        steps = positive_list(strides, rank, "strides")
        if any(s > w for s, w in zip(steps, window)):
            raise ValueError(f"strides {steps} must not be greater than window_shape {window}")
        rates = positive_list(dilation_rate, rank, "dilation_rate")
        first = bool(data_format) and str(data_format).startswith("NC")

        def plain(x: Tensor, padding: str, name: str | None) -> Tensor:
            return _plain(x, window, steps, pooling_type, padding, first, name)

        return with_holes(input, plain, window, rates, steps, padding, first, scope)


def _plain(x: Tensor, window: list[int], strides: list[int], pooling_type: str, padding: str,
           first: bool, name: str | None) -> Tensor:
    """Pooling without holes; one dimension of space is pooled as an image one row high."""
    if len(window) == 1:
        axis = 2 if first else 1
        image = raw_ops.ExpandDims(x, np.int32(axis))
        pooled = _plain(image, [1, *window], [1, *strides], pooling_type, padding, first, None)
        return raw_ops.Squeeze(pooled, squeeze_dims=[axis], name=name)

    def every(values: list[int]) -> list[int]:
        return [1, 1, *values] if first else [1, *values, 1]

    flat = len(window) == 2
    op_type = f"{pooling_type.capitalize()}Pool{'' if flat else '3D'}"
    data_format = ("NCHW" if first else "NHWC") if flat else ("NCDHW" if first else "NDHWC")
    return getattr(raw_ops, op_type)(x, ksize=every(window), strides=every(strides),
                                     padding=padding, data_format=data_format, name=name)
