"""Convolutions of one, two and three dimensions, with holes, by channel, and transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called, also_ordered
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, show, with_rank
from hpcflow.nn.windowing import (
    format_1d,
    format_with_default,
    numbers_per_dimension,
    of_rows,
    over_batches,
    padding_attrs,
    positive_list,
    with_holes,
)

__all__ = [
    "atrous_conv2d",
    "atrous_conv2d_transpose",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "conv2d_transpose",
    "conv3d",
    "conv3d_backprop_filter_v2",
    "conv3d_transpose",
    "conv_transpose",
    "convolution",
    "depthwise_conv2d",
    "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input",
    "separable_conv2d",
]


# ---------------------------------------------------------------- plain


@also_called(filters="filter")
@also_ordered("dilations", "name")
def conv2d(input: TensorLike, filter: TensorLike, strides: int | Sequence[int],
           padding: str | Sequence[Sequence[int]], use_cudnn_on_gpu: bool | None = None,
           data_format: str | None = None, name: str | None = None,
           dilations: int | Sequence[int] | None = None) -> Tensor:
    """Return the convolution (cross-correlation) of a batch of images with a filter.

    ``output[b, i, j, k] = Σ input[b, s₁ i + di, s₂ j + dj, q] filter[di, dj, q, k]``.

    Args:
        input: [batch, height, width, in] (``NHWC``) or [batch, in, height, width] (``NCHW``); the
            batch may have several dimensions.
        filter: [height, width, in, out], or less deep by a factor: so many groups of the input's
            channels then have filters of their own, which give as many groups of channels.
        strides: four numbers, in the order of the data format, 1 for batch and channels; or those
            of height and width, or one for both.
        padding: ``"SAME"``, ``"VALID"``, or a pair of numbers (before, after) per dimension.
        use_cudnn_on_gpu: kept in the graph; no effect on the result.
        data_format: ``"NHWC"`` (default) or ``"NCHW"``.
        name: of the op.
        dilations: distances of the filter's elements, given like the strides.

    Raises:
        ValueError: if the depths or the window do not fit.
    """
    attrs = _attrs_2d(strides, padding, use_cudnn_on_gpu, data_format, dilations)
    return over_batches(input, 4, name, "conv2d", lambda images, name: raw_ops.Conv2D(
        input=images, filter=filter, name=name, **attrs))


def _attrs_2d(strides: Sizes, padding: str | Sequence[Any], use_cudnn_on_gpu: bool | None,
              data_format: str | None, dilations: Sizes | None) -> dict[str, Any]:
    """The attributes of Conv2D and of its gradients."""
    return {"use_cudnn_on_gpu": use_cudnn_on_gpu is not False,
            **_depthwise_attrs(numbers_per_dimension(strides, 2, data_format, "strides"), padding,
                               data_format, dilations)}


def _depthwise_attrs(strides: Sequence[int], padding: str | Sequence[Any], data_format: str | None,
                     dilations: Sizes | None) -> dict[str, Any]:
    return {"strides": strides, **padding_attrs(padding), "data_format": data_format or "NHWC",
            "dilations": numbers_per_dimension(dilations, 2, data_format, "dilations")}


@also_ordered("dilations", "name")
def conv2d_backprop_input(input_sizes: TensorLike, filter: TensorLike, out_backprop: TensorLike,
                          strides: Sequence[int], padding: str | Sequence[Sequence[int]],
                          use_cudnn_on_gpu: bool | None = None, data_format: str | None = None,
                          name: str | None = None,
                          dilations: Sequence[int] | None = None) -> Tensor:
    """Return the gradient of :func:`conv2d` by its input, whose shape is `input_sizes`."""
    return raw_ops.Conv2DBackpropInput(
        input_sizes=input_sizes, filter=filter, out_backprop=out_backprop, name=name,
        **_attrs_2d(strides, padding, use_cudnn_on_gpu, data_format, dilations))


@also_ordered("dilations", "name")
def conv2d_backprop_filter(input: TensorLike, filter_sizes: TensorLike, out_backprop: TensorLike,
                           strides: Sequence[int], padding: str | Sequence[Sequence[int]],
                           use_cudnn_on_gpu: bool | None = None, data_format: str | None = None,
                           name: str | None = None,
                           dilations: Sequence[int] | None = None) -> Tensor:
    """Return the gradient of :func:`conv2d` by its filter, whose shape is `filter_sizes`."""
    return raw_ops.Conv2DBackpropFilter(
        input=input, filter_sizes=filter_sizes, out_backprop=out_backprop, name=name,
        **_attrs_2d(strides, padding, use_cudnn_on_gpu, data_format, dilations))


@also_called(filters="filter")
@also_ordered("dilations", "name")
def conv3d(input: TensorLike, filter: TensorLike, strides: int | Sequence[int], padding: str,
           data_format: str | None = None, name: str | None = None,
           dilations: int | Sequence[int] | None = None) -> Tensor:
    """Return the convolution of volumes [batch, depth, height, width, in] (``NDHWC``, or
    ``NCDHW``) with a filter [depth, height, width, in, out]; see :func:`conv2d`."""
    attrs = _attrs_3d(strides, padding, data_format, dilations)
    return over_batches(input, 5, name, "conv3d", lambda volumes, name: raw_ops.Conv3D(
        input=volumes, filter=filter, name=name, **attrs))


def _attrs_3d(strides: Sizes, padding: str, data_format: str | None,
              dilations: Sizes | None) -> dict[str, Any]:
    return {"strides": numbers_per_dimension(strides, 3, data_format, "strides"),
            "padding": padding, "data_format": data_format or "NDHWC",
            "dilations": numbers_per_dimension(dilations, 3, data_format, "dilations")}


@also_ordered("dilations", "name")
def conv3d_backprop_filter_v2(input: TensorLike, filter_sizes: TensorLike, out_backprop: TensorLike,
                              strides: Sequence[int], padding: str,
                              data_format: str | None = None, name: str | None = None,
                              dilations: Sequence[int] | None = None) -> Tensor:
    """Return the gradient of :func:`conv3d` by its filter, whose shape is `filter_sizes`."""
    return raw_ops.Conv3DBackpropFilterV2(
        input=input, filter_sizes=filter_sizes, out_backprop=out_backprop, name=name,
        **_attrs_3d(strides, padding, data_format, dilations))


@also_called(input="value")
def conv1d(value: TensorLike, filters: TensorLike, stride: int | Sequence[int], padding: str,
           use_cudnn_on_gpu: bool | None = None, data_format: str | None = None,
           name: str | None = None, dilations: int | Sequence[int] | None = None) -> Tensor:
    """Return the convolution of [batch, width, in] (``NWC`` or ``NHWC``; ``NCW`` or ``NCHW``:
    [batch, in, width]) with a filter [width, in, out]: :func:`conv2d` on images one row high."""
    chosen = format_1d(data_format)
    axis = 1 if chosen == "NHWC" else 2
    strides, rates = of_rows(stride, chosen, "stride"), of_rows(dilations, chosen, "dilations")

    def convolve(value: TensorLike, name: str | None) -> Tensor:
        with name_scope(name, "conv1d", [value, filters]) as scope:
            image = raw_ops.ExpandDims(value, np.int32(axis))
            rows = raw_ops.ExpandDims(filters, np.int32(0))
            result = conv2d(image, rows, strides, padding, use_cudnn_on_gpu, chosen,
                            dilations=rates)
            return raw_ops.Squeeze(result, squeeze_dims=[axis], name=scope)

    return over_batches(value, 3, name, "conv1d", convolve)


# ---------------------------------------------------------------- transposed


def _transposed(value: TensorLike, filter: TensorLike, output_shape: TensorLike, channel: int,
                rank: int) -> tuple:
    """The operands of a transposed convolution, converted and checked."""
    value = convert_to_tensor(value, name="value")
    filter = convert_to_tensor(filter, name="filter")
    shape = convert_to_tensor(output_shape, name="output_shape")
    dims, w = with_rank(value._dims, rank, "value"), with_rank(filter._dims, rank, "filter")
    try:
        merge_dim(dims[channel], w[-1])
    except ValueError:
        raise ValueError(f"input channels of {show(dims)} do not match the filter's output "
                         f"channels: {show(w)}") from None
    return value, filter, shape


def conv1d_transpose(input: TensorLike, filters: TensorLike, output_shape: TensorLike,
                     strides: int | Sequence[int], padding: str = "SAME", data_format: str = "NWC",
                     dilations: int | Sequence[int] | None = None,
                     name: str | None = None) -> Tensor:
    """Return the transpose (gradient) of :func:`conv1d`; see :func:`conv2d_transpose`.

    Args:
        input: [batch, width, in], or ``NCW``.
        filters: [width, out, in].
        output_shape: the shape of the result, three numbers or a tensor.
        strides: of the convolution that this transposes.
        padding: ``"SAME"`` or ``"VALID"``, of that convolution.
        data_format: ``"NWC"`` or ``"NCW"``.
        dilations: distances of the filter's elements.
        name: of the op.
    """
    chosen = format_1d(data_format)
    axis = 1 if chosen == "NHWC" else 2
    steps, rates = of_rows(strides, chosen, "strides"), of_rows(dilations, chosen, "dilations")
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        sizes = convert_to_tensor(output_shape, name="output_shape")
        ends = raw_ops.Split(np.int32(0), sizes, num_split=3)
        shape = raw_ops.ConcatV2([*ends[:axis], np.ones(1, np.int32), *ends[axis:]], np.int32(0))
        result = conv2d_transpose(raw_ops.ExpandDims(input, np.int32(axis)),
                                  raw_ops.ExpandDims(filters, np.int32(0)), shape, steps, padding,
                                  chosen, dilations=rates)
        return raw_ops.Squeeze(result, squeeze_dims=[axis], name=scope)


@also_called(input="value", filters="filter")
def conv2d_transpose(value: TensorLike, filter: TensorLike, output_shape: TensorLike,
                     strides: int | Sequence[int], padding: str | Sequence[Sequence[int]] = "SAME",
                     data_format: str = "NHWC", name: str | None = None,
                     dilations: int | Sequence[int] | None = None) -> Tensor:
    """Return the transpose (gradient) of :func:`conv2d`, sometimes called deconvolution.

    Args:
        value: [batch, height, width, in], or ``NCHW``.
        filter: [height, width, out, in].
        output_shape: the shape of the result, a list or a tensor.
        strides: of the convolution that this transposes.
        padding: ``"SAME"``, ``"VALID"`` or pairs of numbers, of that convolution.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        name: of the op.
        dilations: distances of the filter's elements.

    Raises:
        ValueError: if the shapes, the padding or the data format do not fit.
    """
    chosen = format_with_default(data_format, ("NHWC", "NCHW"))
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        channel = 3 if chosen == "NHWC" else 1
        value, filter, shape = _transposed(value, filter, output_shape, channel, 4)
        return raw_ops.Conv2DBackpropInput(
            shape, filter, value, name=scope,
            **_attrs_2d(strides, padding, None, chosen, dilations))


@also_called(input="value", filters="filter")
def conv3d_transpose(value: TensorLike, filter: TensorLike, output_shape: TensorLike,
                     strides: int | Sequence[int], padding: str = "SAME",
                     data_format: str | None = None, name: str | None = None,
                     dilations: int | Sequence[int] | None = None) -> Tensor:
    """Return the transpose (gradient) of :func:`conv3d`; see :func:`conv2d_transpose`."""
    chosen = format_with_default(data_format, ("NDHWC", "NCDHW"))
    with name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        channel = 4 if chosen == "NDHWC" else 1
        value, filter, shape = _transposed(value, filter, output_shape, channel, 5)
        return raw_ops.Conv3DBackpropInputV2(
            shape, filter, value, name=scope, **_attrs_3d(strides, padding, chosen, dilations))


def conv_transpose(input: TensorLike, filters: TensorLike, output_shape: TensorLike,
                   strides: int | Sequence[int], padding: str = "SAME",
                   data_format: str | None = None, dilations: int | Sequence[int] | None = None,
                   name: str | None = None) -> Tensor:
    """Return :func:`conv1d_transpose`, :func:`conv2d_transpose` or :func:`conv3d_transpose`.

    Which one follows from the length of `output_shape`, or the known rank of `filters`; other
    ranks are a ``ValueError``.
    """
    dims = convert_to_tensor(output_shape, dtypes.int32, name="output_shape").shape
    known = dims[0].value if dims.ndims == 1 else convert_to_tensor(filters).shape.ndims
    of_rank: dict[Any, Any] = {3: conv1d_transpose, 4: conv2d_transpose, 5: conv3d_transpose}
    if known not in of_rank:
        raise ValueError(f"output_shape must have 3, 4 or 5 numbers but has {known}")
    if data_format is None and known == 3:
        data_format = "NWC"
    return of_rank[known](input, filters, output_shape, strides, padding, data_format, name=name,
                          dilations=dilations)


# ---------------------------------------------------------------- with holes


@also_called(filters="filter", dilations="dilation_rate")
def convolution(input: TensorLike, filter: TensorLike, padding: str,
                strides: Sequence[int] | None = None, dilation_rate: Sequence[int] | None = None,
                name: str | None = None, data_format: str | None = None) -> Tensor:
    """Return the convolution over 1, 2 or 3 dimensions of space, with strides or with holes.

    Args:
        input: [batch, *space, in], or [batch, in, *space] for a format that starts with ``NC``.
        filter: [*window, in, out].
        padding: ``"SAME"`` or ``"VALID"``.
        strides: one number per dimension of space; ones by default.
        dilation_rate: distances of the filter's elements; ones by default. Not with strides.
        name: of the op.
        data_format: ``NWC``, ``NHWC`` or ``NDHWC`` (default), ``NCW``, ``NCHW`` or ``NCDHW``.

    Raises:
        ValueError: if the ranks or depths differ, or both strides and holes are asked for.
    """
    with name_scope(name, "convolution", [input, filter]) as scope:
        input = convert_to_tensor(input, name="input")
        filter = convert_to_tensor(filter, name="filter")
        rank = _space_rank(input, filter)
        steps = positive_list(strides, rank, "strides")
        rates = positive_list(dilation_rate, rank, "dilation_rate")
        first = bool(data_format) and str(data_format).startswith("NC")

        def plain(x: Tensor, padding: str, name: str | None) -> Tensor:
            return _plain(x, filter, steps, padding, first, name)

        return with_holes(input, plain, _sizes(filter, rank), rates, steps, padding, first, scope)


def _space_rank(input: Tensor, filter: Tensor) -> int:
    known = filter._dims if filter._dims is not None else input._dims
    if known is None:
        raise ValueError("the rank of the input or of the filter must be known")
    rank = len(known) - 2
    if not 1 <= rank <= 3:
        raise ValueError(f"filter must have 1, 2 or 3 dimensions of space but is {show(known)}")
    with_rank(input._dims, rank + 2, "input")
    return rank


def _sizes(filter: Tensor, rank: int) -> Any:
    """The filter's window: numbers where they are known, else a tensor."""
    dims = with_rank(filter._dims, rank + 2, "filter")[:rank]
    if None not in dims:
        return list(dims)
    return raw_ops.Slice(raw_ops.Shape(filter), np.array([0], np.int32),
                         np.array([rank], np.int32))


def _plain(x: Tensor, filter: Tensor, strides: Sequence[int], padding: str, first: bool,
           name: str | None) -> Tensor:
    """A convolution without holes."""
    if len(strides) == 1:
        return conv1d(x, filter, strides[0], padding,
                      data_format="NCHW" if first else "NHWC", name=name)
    every = [1, 1, *strides] if first else [1, *strides, 1]
    if len(strides) == 2:
        return conv2d(x, filter, every, padding, data_format="NCHW" if first else "NHWC",
                      name=name)
    return conv3d(x, filter, every, padding, "NCDHW" if first else "NDHWC", name)


def atrous_conv2d(value: TensorLike, filters: TensorLike, rate: int, padding: str,
                  name: str | None = None) -> Tensor:
    """Return the convolution of NHWC images with a filter whose elements are `rate` apart."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def atrous_conv2d_transpose(value: Tensor, filters: Any, output_shape: Sequence[int | None],
                            rate: int, padding: str, name: str | None = None) -> Tensor:
    """Return the transpose (gradient) of :func:`atrous_conv2d`.

    Args:
        value: [batch, height, width, in].
        filters: [height, width, out, in].
        output_shape: the shape [batch, height, width, out] of the result.
        rate: the distance of the filter's elements.
        padding: ``"SAME"`` or ``"VALID"``, of the convolution that this transposes.
        name: of the op.
    """
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as scope:
        value, filters, shape = _transposed(value, filters, output_shape, 3, 4)
        wide = _with_holes(filters, rate)
        return raw_ops.Conv2DBackpropInput(shape, wide, value, strides=[1, 1, 1, 1],
                                           padding=padding, name=scope)


def _with_holes(filters: Tensor, rate: int) -> Tensor:
    """The filter with `rate` - 1 zeros between its elements."""
    if rate < 1:
        raise ValueError(f"rate must be positive but is {rate}")
    if rate == 1:
        return filters
    height, width, out, depth = with_rank(filters._dims, 4, "filters")
    if None in (height, width, out, depth):
        raise ValueError(f"the shape of the filters must be known but is {show(filters._dims)}")
    gaps = np.array([[0, 0], [0, 0], [0, rate - 1], [0, 0], [0, rate - 1], [0, 0], [0, 0]])
    apart = raw_ops.Reshape(filters, np.array([1, height, 1, width, 1, out, depth], np.int32))
    spread = raw_ops.Pad(apart, gaps.astype(np.int32))
    whole = raw_ops.Reshape(spread, np.array([height * rate, width * rate, out, depth], np.int32))
    ends = np.array([(height - 1) * rate + 1, (width - 1) * rate + 1, out, depth], np.int32)
    return raw_ops.Slice(whole, np.zeros(4, np.int32), ends)


# ---------------------------------------------------------------- by channel


@also_ordered("dilations", "name")
def depthwise_conv2d_native(input: TensorLike, filter: TensorLike, strides: Sequence[int],
                            padding: str | Sequence[Sequence[int]],
                            data_format: str | None = None, name: str | None = None,
                            dilations: Sequence[int] | None = None) -> Tensor:
    """Return the convolution of every channel with filters of its own.

    `filter` is [height, width, in, multiple]; channel ``q * multiple + m`` of the result is the
    convolution of channel q with ``filter[:, :, q, m]``.
    """
    return raw_ops.DepthwiseConv2dNative(
        input=input, filter=filter, name=name,
        **_depthwise_attrs(strides, padding, data_format, dilations))


@also_ordered("dilations", "name")
def depthwise_conv2d_native_backprop_input(input_sizes: TensorLike, filter: TensorLike,
                                           out_backprop: TensorLike, strides: Sequence[int],
                                           padding: str | Sequence[Sequence[int]],
                                           data_format: str | None = None, name: str | None = None,
                                           dilations: Sequence[int] | None = None) -> Tensor:
    """Return the gradient of :func:`depthwise_conv2d_native` by its input."""
    return raw_ops.DepthwiseConv2dNativeBackpropInput(
        input_sizes=input_sizes, filter=filter, out_backprop=out_backprop, name=name,
        **_depthwise_attrs(strides, padding, data_format, dilations))


@also_ordered("dilations", "name")
def depthwise_conv2d_native_backprop_filter(input: TensorLike, filter_sizes: TensorLike,
                                            out_backprop: TensorLike, strides: Sequence[int],
                                            padding: str | Sequence[Sequence[int]],
                                            data_format: str | None = None, name: str | None = None,
                                            dilations: Sequence[int] | None = None) -> Tensor:
    """Return the gradient of :func:`depthwise_conv2d_native` by its filter."""
    return raw_ops.DepthwiseConv2dNativeBackpropFilter(
        input=input, filter_sizes=filter_sizes, out_backprop=out_backprop, name=name,
        **_depthwise_attrs(strides, padding, data_format, dilations))


@also_called(dilations="rate")
def depthwise_conv2d(input: TensorLike, filter: TensorLike, strides: Sequence[int], padding: str,
                     rate: Sequence[int] | None = None, name: str | None = None,
                     data_format: str | None = None) -> Tensor:
    """Return :func:`depthwise_conv2d_native`, with holes where `rate` is not [1, 1]."""
    with name_scope(name, "depthwise", [input, filter]) as scope:
        input = convert_to_tensor(input, name="tensor_in")
        filter = convert_to_tensor(filter, name="filter_in")
        rates = positive_list(rate, 2, "rate")
        chosen = format_with_default(data_format, ("NHWC", "NCHW"))
        first = chosen == "NCHW"

        def plain(x: Tensor, padding: str, name: str | None) -> Tensor:
            return depthwise_conv2d_native(x, filter, strides, padding, chosen, name)

        steps = list(strides[2:] if first else strides[1:3])
        return with_holes(input, plain, _sizes(filter, 2), rates, steps, padding, first, scope)


@also_called(dilations="rate")
def separable_conv2d(input: TensorLike, depthwise_filter: TensorLike, pointwise_filter: TensorLike,
                     strides: Sequence[int], padding: str, rate: Sequence[int] | None = None,
                     name: str | None = None, data_format: str | None = None) -> Tensor:
    """Return :func:`depthwise_conv2d` followed by a 1x1 convolution that mixes the channels.

    Args:
        input: images, NHWC or NCHW.
        depthwise_filter: [height, width, in, multiple].
        pointwise_filter: [1, 1, in * multiple, out].
        strides: of the first convolution.
        padding: ``"SAME"`` or ``"VALID"``.
        rate: distances of the first filter's elements.
        name: of the op.
        data_format: ``"NHWC"`` (default) or ``"NCHW"``.

    Raises:
        ValueError: if the filters do not fit each other.
    """
    with name_scope(name, "separable_conv2d",
                    [input, depthwise_filter, pointwise_filter]) as scope:
        deep = convert_to_tensor(depthwise_filter, name="depthwise_filter")
        flat = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        _check_pointwise(with_rank(deep._dims, 4, "depthwise_filter"),
                         with_rank(flat._dims, 4, "pointwise_filter"))
        middle = depthwise_conv2d(input, deep, strides, padding, rate, "depthwise", data_format)
        return conv2d(middle, flat, [1, 1, 1, 1], "VALID", data_format=data_format, name=scope)


def _check_pointwise(deep: tuple, flat: tuple) -> None:
    if any(d not in (1, None) for d in flat[:2]):
        raise ValueError(f"pointwise_filter must be 1x1 but is {show(flat)}")
    channels = None if None in deep[2:] else deep[2] * deep[3]
    if None not in (channels, flat[2]) and flat[2] != channels:
        raise ValueError(f"pointwise_filter {show(flat)} must take the {channels} channels of "
                         f"depthwise_filter {show(deep)}")


