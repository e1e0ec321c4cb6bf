"""Pooling layers: maxima and means over windows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import (
    OpenScope,
    format_name,
    is_channels_first,
    numbers,
    padding_name,
)
from hpcflow.nn import pooling


def _pooled(function: Callable, rank: int, inputs: TensorLike, pool_size: TensorLike,
            strides: Sizes, padding: str, data_format: str, name: str | None,
            default: str) -> Tensor:
    """A layer over 2 or 3 dimensions of space."""
    first = is_channels_first(data_format)
    window, steps = (_with_batch(numbers(v, rank, what), first)
                     for v, what in ((pool_size, "pool_size"), (strides, "strides")))
    with _name_of_layer(name, default, inputs):
        return function(convert_to_tensor(inputs), window, steps, padding_name(padding),
                        format_name(first, rank))


def _name_of_layer(name: str | None, default: str, inputs: TensorLike) -> Any:
    """The name scope of a layer, unless it is open already."""
    if isinstance(name, OpenScope):
        return nullcontext()
    return name_scope(name, default, [inputs])


def _with_batch(space: list[int], channels_first: bool) -> list[int]:
    return [1, 1, *space] if channels_first else [1, *space, 1]


def _pooled_rows(function: Callable, inputs: TensorLike, pool_size: Sizes, strides: Sizes,
                 padding: str, data_format: str, name: str | None, default: str) -> Tensor:
    """A layer over one dimension: that over images one row high."""
    first = is_channels_first(data_format)
    axis = 2 if first else 1
    window, steps = ([1, *numbers(v, 1, what)]
                     for v, what in ((pool_size, "pool_size"), (strides, "strides")))
    with _name_of_layer(name, default, inputs):
        images = raw_ops.ExpandDims(convert_to_tensor(inputs), np.int32(axis))
        images = function(images, _with_batch(window, first), _with_batch(steps, first),
                          padding_name(padding), format_name(first, 2))
        return raw_ops.Squeeze(images, squeeze_dims=[axis])


def max_pooling1d(inputs: TensorLike, pool_size: Sizes, strides: Sizes, padding: str = "valid",
                  data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """Return maxima over windows in one dimension; arguments as of :func:`max_pooling2d`."""
    return _pooled_rows(pooling.max_pool, inputs, pool_size, strides, padding, data_format, name,
                        "max_pooling1d")


def average_pooling1d(inputs: TensorLike, pool_size: Sizes, strides: Sizes, padding: str = "valid",
                      data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """Return means over windows in one dimension; arguments as of :func:`max_pooling2d`."""
    return _pooled_rows(pooling.avg_pool, inputs, pool_size, strides, padding, data_format, name,
                        "average_pooling1d")


def max_pooling2d(inputs: TensorLike, pool_size: Sizes, strides: Sizes, padding: str = "valid",
                  data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """Return the maximum of each window of images.

    Args:
        inputs: ``[batch, height, width, channels]``, or ``[batch, channels, height, width]``.
        pool_size: height and width of the window, or one number for both.
        strides: steps of the window, or one number.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".
        name: name scope.

    Raises: ``ValueError`` for arguments of another form.
    """
    return _pooled(pooling.max_pool, 2, inputs, pool_size, strides, padding, data_format, name,
                   "max_pooling2d")


def average_pooling2d(inputs: TensorLike, pool_size: TensorLike, strides: Sizes,
                      padding: str = "valid", data_format: str = "channels_last",
                      name: str | None = None) -> Tensor:
    """Return the mean of each window of images; arguments as of :func:`max_pooling2d`."""
    return _pooled(pooling.avg_pool, 2, inputs, pool_size, strides, padding, data_format, name,
                   "average_pooling2d")


def max_pooling3d(inputs: TensorLike, pool_size: Sizes, strides: Sizes, padding: str = "valid",
                  data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """Return maxima over windows of volumes; arguments as of :func:`max_pooling2d`."""
    return _pooled(pooling.max_pool3d, 3, inputs, pool_size, strides, padding, data_format, name,
                   "max_pooling3d")


def average_pooling3d(inputs: TensorLike, pool_size: Sizes, strides: Sizes, padding: str = "valid",
                      data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """Return means over windows of volumes; arguments as of :func:`max_pooling2d`."""
    return _pooled(pooling.avg_pool3d, 3, inputs, pool_size, strides, padding, data_format, name,
                   "average_pooling3d")
