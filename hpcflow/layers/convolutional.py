"""Convolution layers, transposed and separable ones included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import InitializerLike, Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.layers.building import (
    Bias,
    add_bias,
    finish,
    format_name,
    is_channels_first,
    known_size,
    layer_scope,
    numbers,
    padding_name,
    set_shape,
)
from hpcflow.nn.convolution import conv2d_transpose as transposed_of_images
from hpcflow.nn.convolution import conv3d_transpose as transposed_of_volumes
from hpcflow.nn.convolution import convolution
from hpcflow.nn.convolution import separable_conv2d as separable_convolution
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import get_variable

_ZEROS = Zeros()
#: What the op of a layer is called, by the dimensions of space.
_NAMES = {1: "conv1d", 2: "Conv2D", 3: "Conv3D"}


def _convolution(rank: int, inputs: TensorLike, filters: int, kernel_size: Sequence[int] | int,
                 strides: int | Sequence[int], padding: str, data_format: str,
                 dilation_rate: int | Sequence[int], activation: Callable | None, use_bias: bool,
                 kernel_initializer: InitializerLike | None, bias_initializer: InitializerLike,
                 kernel_regularizer: Callable | None, bias_regularizer: Callable | None,
                 activity_regularizer: Callable | None, trainable: bool, name: str | None,
                 reuse: bool | None, kernel_constraint: Callable | None,
                 bias_constraint: Callable | None) -> Tensor:
    """The convolution layer over `rank` dimensions of space."""
    inputs, layer = convert_to_tensor(inputs), f"conv{rank}d"
    first = is_channels_first(data_format)
    window, steps = numbers(kernel_size, rank, "kernel_size"), numbers(strides, rank, "strides")
    dilation, padding = numbers(dilation_rate, rank, "dilation_rate"), padding_name(padding)
    with layer_scope(name, layer, reuse, inputs):
        channels = known_size(inputs, 1 if first else -1, layer, rank + 2)
        kernel = convert_to_tensor(get_variable(
            "kernel", [*window, channels, filters], inputs.dtype.base_dtype, kernel_initializer,
            kernel_regularizer, trainable, constraint=kernel_constraint))
        outputs = convolution(
            inputs, kernel, padding, steps, dilation, data_format=format_name(first, rank),
            name=_NAMES[rank])
        bias = Bias(use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        outputs = add_bias(outputs, bias, first)
        return finish(outputs, activation, activity_regularizer)


def conv1d(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = 1,
           padding: str = "valid", data_format: str = "channels_last", dilation_rate: Sizes = 1,
           activation: Callable | None = None, use_bias: bool = True,
           kernel_initializer: InitializerLike | None = None,
           bias_initializer: InitializerLike = _ZEROS, kernel_regularizer: Callable | None = None,
           bias_regularizer: Callable | None = None, activity_regularizer: Callable | None = None,
           trainable: bool = True, name: str | None = None, reuse: bool | None = None,
           kernel_constraint: Callable | None = None,
           bias_constraint: Callable | None = None) -> Tensor:
    """Return a convolution over one dimension; arguments as of :func:`conv2d`.

    `inputs` has shape ``[batch, width, channels]``, or ``[batch, channels, width]``.
    """
    return _convolution(1, inputs, filters, kernel_size, strides, padding, data_format,
                        dilation_rate, activation, use_bias, kernel_initializer,
                        bias_initializer, kernel_regularizer, bias_regularizer,
                        activity_regularizer, trainable, name, reuse, kernel_constraint,
                        bias_constraint)


def conv2d(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = (1, 1),
           padding: str = "valid", data_format: str = "channels_last",
           dilation_rate: Sizes = (1, 1), activation: Callable | None = None, use_bias: bool = True,
           kernel_initializer: InitializerLike | None = None,
           bias_initializer: InitializerLike = _ZEROS, kernel_regularizer: Callable | None = None,
           bias_regularizer: Callable | None = None, activity_regularizer: Callable | None = None,
           trainable: bool = True, name: str | None = None, reuse: bool | None = None,
           kernel_constraint: Callable | None = None,
           bias_constraint: Callable | None = None) -> Tensor:
    """Return activation(convolution(inputs, kernel) + bias).

    Args:
        inputs: ``[batch, height, width, channels]``, or ``[batch, channels, height, width]``.
        filters: number of channels of the result.
        kernel_size: height and width of the window, or one number for both.
        strides: steps of the window, or one number.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".
        dilation_rate: distances of the window's elements; not together with strides.
        activation: a function of tensors, or None.
        use_bias: whether there is a bias.
        kernel_initializer: of ``kernel``, shape ``[height, width, channels, filters]``.
        bias_initializer: of ``bias``, shape ``[filters]``.
        kernel_regularizer: function of the kernel whose result joins the regularization losses.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the result.
        trainable: whether optimizers change the variables.
        name: variable scope; "conv2d" made unique if None.
        reuse: whether the layer's variables are those of an earlier one.

    Raises: ``ValueError`` for another rank or an unknown number of channels.
    """
    return _convolution(2, inputs, filters, kernel_size, strides, padding, data_format,
                        dilation_rate, activation, use_bias, kernel_initializer,
                        bias_initializer, kernel_regularizer, bias_regularizer,
                        activity_regularizer, trainable, name, reuse, kernel_constraint,
                        bias_constraint)


def conv3d(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = (1, 1, 1),
           padding: str = "valid", data_format: str = "channels_last",
           dilation_rate: Sizes = (1, 1, 1), activation: Callable | None = None,
           use_bias: bool = True, kernel_initializer: InitializerLike | None = None,
           bias_initializer: InitializerLike = _ZEROS, kernel_regularizer: Callable | None = None,
           bias_regularizer: Callable | None = None, activity_regularizer: Callable | None = None,
           trainable: bool = True, name: str | None = None, reuse: bool | None = None,
           kernel_constraint: Callable | None = None,
           bias_constraint: Callable | None = None) -> Tensor:
    """Return a convolution over three dimensions; arguments as of :func:`conv2d`.

    `inputs` has shape ``[batch, depth, height, width, channels]``, or channels second.
    """
    return _convolution(3, inputs, filters, kernel_size, strides, padding, data_format,
                        dilation_rate, activation, use_bias, kernel_initializer,
                        bias_initializer, kernel_regularizer, bias_regularizer,
                        activity_regularizer, trainable, name, reuse, kernel_constraint,
                        bias_constraint)


def separable_conv2d(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = (1, 1),
                     padding: str = "valid", data_format: str = "channels_last",
                     dilation_rate: TensorLike = (1, 1), depth_multiplier: int = 1,
                     activation: Callable | None = None, use_bias: bool = True,
                     depthwise_initializer: InitializerLike | None = None,
                     pointwise_initializer: InitializerLike | None = None,
                     bias_initializer: InitializerLike = _ZEROS,
                     depthwise_regularizer: Callable | None = None,
                     pointwise_regularizer: Callable | None = None,
                     bias_regularizer: Callable | None = None,
                     activity_regularizer: Callable | None = None, trainable: bool = True,
                     name: str | None = None, reuse: bool | None = None,
                     depthwise_constraint: Callable | None = None,
                     pointwise_constraint: Callable | None = None,
                     bias_constraint: Callable | None = None) -> Tensor:
    """Return a convolution of each channel by itself, followed by one that mixes them.

    `depth_multiplier` is the number of results of the first convolution for each channel. The
    variables are ``depthwise_kernel`` ``[height, width, channels, depth_multiplier]``,
    ``pointwise_kernel`` ``[1, 1, channels * depth_multiplier, filters]`` and ``bias``. Arguments
    otherwise as of :func:`conv2d`.
    """
    return _separable(2, inputs, filters, kernel_size, strides, padding, data_format,
                      dilation_rate, depth_multiplier, activation, use_bias,
                      depthwise_initializer, pointwise_initializer, bias_initializer,
                      depthwise_regularizer, pointwise_regularizer, bias_regularizer,
                      activity_regularizer, trainable, name, reuse, depthwise_constraint,
                      pointwise_constraint, bias_constraint)


def separable_conv1d(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = 1,
                     padding: str = "valid", data_format: str = "channels_last",
                     dilation_rate: Sizes = 1, depth_multiplier: int = 1,
                     activation: Callable | None = None, use_bias: bool = True,
                     depthwise_initializer: InitializerLike | None = None,
                     pointwise_initializer: InitializerLike | None = None,
                     bias_initializer: InitializerLike = _ZEROS,
                     depthwise_regularizer: Callable | None = None,
                     pointwise_regularizer: Callable | None = None,
                     bias_regularizer: Callable | None = None,
                     activity_regularizer: Callable | None = None, trainable: bool = True,
                     name: str | None = None, reuse: bool | None = None,
                     depthwise_constraint: Callable | None = None,
                     pointwise_constraint: Callable | None = None,
                     bias_constraint: Callable | None = None) -> Tensor:
    """As :func:`separable_conv2d` over one dimension, for inputs ``[batch, width, channels]`` or
    ``[batch, channels, width]``; the kernels have one dimension of space."""
    return _separable(1, inputs, filters, kernel_size, strides, padding, data_format,
                      dilation_rate, depth_multiplier, activation, use_bias,
                      depthwise_initializer, pointwise_initializer, bias_initializer,
                      depthwise_regularizer, pointwise_regularizer, bias_regularizer,
                      activity_regularizer, trainable, name, reuse, depthwise_constraint,
                      pointwise_constraint, bias_constraint)


def _separable(rank: int, inputs: TensorLike, filters: int, kernel_size: int | Sequence[int],
               strides: int | Sequence[int], padding: str, data_format: str,
               dilation_rate: TensorLike, depth_multiplier: int, activation: Callable | None,
               use_bias: bool, depthwise_initializer: InitializerLike | None,
               pointwise_initializer: InitializerLike | None, bias_initializer: InitializerLike,
               depthwise_regularizer: Callable | None, pointwise_regularizer: Callable | None,
               bias_regularizer: Callable | None, activity_regularizer: Callable | None,
               trainable: bool, name: str | None, reuse: bool | None,
               depthwise_constraint: Callable | None, pointwise_constraint: Callable | None,
               bias_constraint: Callable | None) -> Tensor:
    """The separable layer over `rank` dimensions of space."""
    inputs, layer = convert_to_tensor(inputs), f"separable_conv{rank}d"
    first = is_channels_first(data_format)
    window, steps = numbers(kernel_size, rank, "kernel_size"), numbers(strides, rank, "strides")
    dilation, padding = numbers(dilation_rate, rank, "dilation_rate"), padding_name(padding)
    with layer_scope(name, layer, reuse, inputs):
        channels = known_size(inputs, 1 if first else -1, layer, rank + 2)
        middle, dtype = channels * depth_multiplier, inputs.dtype.base_dtype
        deep = get_variable("depthwise_kernel", [*window, channels, depth_multiplier], dtype,
                            depthwise_initializer, depthwise_regularizer, trainable,
                            constraint=depthwise_constraint)
        flat = get_variable("pointwise_kernel", [1] * rank + [middle, filters], dtype,
                            pointwise_initializer, pointwise_regularizer, trainable,
                            constraint=pointwise_constraint)
        separated = _separated_rows if rank == 1 else _separated_images
        outputs = separated(inputs, convert_to_tensor(deep), convert_to_tensor(flat), steps,
                            padding, dilation, first)
        bias = Bias(use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        outputs = add_bias(outputs, bias, first)
        return finish(outputs, activation, activity_regularizer)


def _separated_images(images: Tensor, deep: Tensor, flat: Tensor, steps: list[int], padding: str,
                      dilation: list[int], first: bool) -> Tensor:
    return separable_convolution(images, deep, flat, _with_batch(steps, first), padding, dilation,
                                 data_format=format_name(first, 2))


def _separated_rows(rows: Tensor, deep: Tensor, flat: Tensor, steps: list[int], padding: str,
                    dilation: list[int], first: bool) -> Tensor:
    """As of images one row high; a step along that row has no effect."""
    axis = np.int32(2 if first else 1)
    outputs = _separated_images(
        raw_ops.ExpandDims(rows, axis), raw_ops.ExpandDims(deep, np.int32(0)),
        raw_ops.ExpandDims(flat, np.int32(0)), steps * 2, padding, [1, *dilation], first)
    return raw_ops.Squeeze(outputs, squeeze_dims=[axis])


def _with_batch(space: list[int], channels_first: bool) -> list[int]:
    """Numbers for all dimensions: 1 for batch and channels."""
    return [1, 1, *space] if channels_first else [1, *space, 1]


def conv2d_transpose(inputs: TensorLike, filters: int, kernel_size: Sizes, strides: Sizes = (1, 1),
                     padding: str = "valid", data_format: str = "channels_last",
                     activation: Callable | None = None, use_bias: bool = True,
                     kernel_initializer: InitializerLike | None = None,
                     bias_initializer: InitializerLike = _ZEROS,
                     kernel_regularizer: Callable | None = None,
                     bias_regularizer: Callable | None = None,
                     activity_regularizer: Callable | None = None, trainable: bool = True,
                     name: str | None = None, reuse: bool | None = None,
                     kernel_constraint: Callable | None = None,
                     bias_constraint: Callable | None = None) -> Tensor:
    """Return the transpose of a convolution: images that are larger by the strides.

    The kernel has shape ``[height, width, filters, channels]``. A size n becomes ``n stride`` with
    "same" padding and ``n stride + max(window - stride, 0)`` with "valid". Arguments otherwise as
    of :func:`conv2d`.
    """
    return _transposed(2, inputs, filters, kernel_size, strides, padding, data_format, activation,
                       use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                       bias_regularizer, activity_regularizer, trainable, name, reuse,
                       kernel_constraint, bias_constraint)


def conv3d_transpose(inputs: TensorLike, filters: int, kernel_size: Sizes,
                     strides: Sizes = (1, 1, 1), padding: str = "valid",
                     data_format: str = "channels_last", activation: Callable | None = None,
                     use_bias: bool = True, kernel_initializer: InitializerLike | None = None,
                     bias_initializer: InitializerLike = _ZEROS,
                     kernel_regularizer: Callable | None = None,
                     bias_regularizer: Callable | None = None,
                     activity_regularizer: Callable | None = None, trainable: bool = True,
                     name: str | None = None, reuse: bool | None = None,
                     kernel_constraint: Callable | None = None,
                     bias_constraint: Callable | None = None) -> Tensor:
    """As :func:`conv2d_transpose` over three dimensions, for the inputs of :func:`conv3d`."""
    return _transposed(3, inputs, filters, kernel_size, strides, padding, data_format, activation,
                       use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                       bias_regularizer, activity_regularizer, trainable, name, reuse,
                       kernel_constraint, bias_constraint)


def _transposed(rank: int, inputs: TensorLike, filters: int, kernel_size: Sequence[int] | int,
                strides: Sizes, padding: str, data_format: str, activation: Callable | None,
                use_bias: bool, kernel_initializer: InitializerLike | None,
                bias_initializer: InitializerLike, kernel_regularizer: Callable | None,
                bias_regularizer: Callable | None, activity_regularizer: Callable | None,
                trainable: bool, name: str | None, reuse: bool | None,
                kernel_constraint: Callable | None, bias_constraint: Callable | None) -> Tensor:
    """The transposed layer over `rank` dimensions of space."""
    inputs, layer = convert_to_tensor(inputs), f"conv{rank}d_transpose"
    first, padding = is_channels_first(data_format), padding_name(padding)
    window, steps = numbers(kernel_size, rank, "kernel_size"), numbers(strides, rank, "strides")
    with layer_scope(name, layer, reuse, inputs):
        channels = known_size(inputs, 1 if first else -1, layer, rank + 2)
        kernel = convert_to_tensor(get_variable(
            "kernel", [*window, filters, channels], inputs.dtype.base_dtype, kernel_initializer,
            kernel_regularizer, trainable, constraint=kernel_constraint))
        extra = [max(w - s, 0) if padding == "VALID" else 0
                 for w, s in zip(window, steps, strict=True)]
        transpose = transposed_of_images if rank == 2 else transposed_of_volumes
        with counted_as(get_default_graph(), 20 + 2 * rank + 2 * rank * (padding == "VALID")):
            shape, dims = _transposed_shape(inputs, filters, steps, extra, first)
            outputs = transpose(inputs, kernel, shape, _with_batch(steps, first), padding,
                                format_name(first, rank))
        set_shape(outputs, dims)
        bias = Bias(use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        outputs = add_bias(outputs, bias, first)
        return finish(outputs, activation, activity_regularizer)


def _transposed_shape(inputs: Tensor, filters: int, steps: list[int], extra: list[int],
                      channels_first: bool) -> tuple[Any, list]:
    """The shape of the result, as a tensor (or an array if it is known) and as far as known."""
    space = range(2, len(steps) + 2) if channels_first else range(1, len(steps) + 1)
    given: list = inputs.shape.as_list()
    dims: list = list(given)
    dims[1 if channels_first else -1] = filters
    for axis, step, more in zip(space, steps, extra, strict=True):
        dims[axis] = None if given[axis] is None else given[axis] * step + more
    if None not in dims:
        return np.array(dims, np.int32), dims
    sizes = raw_ops.Unpack(raw_ops.Shape(inputs), num=len(dims))
    parts: list = [sizes[i] if d is None else np.int32(d) for i, d in enumerate(dims)]
    for axis, step, more in zip(space, steps, extra, strict=True):
        if dims[axis] is None:
            parts[axis] = raw_ops.Add(raw_ops.Mul(sizes[axis], np.int32(step)), np.int32(more))
    return raw_ops.Pack(parts), dims
