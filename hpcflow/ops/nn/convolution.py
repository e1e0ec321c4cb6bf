"""Convolutions: Conv2D, Conv3D and DepthwiseConv2dNative, with their two gradient ops each."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dim, show, with_rank
from hpcflow.ops.common.type_sets import ANY_FLOAT, SUMMED
from hpcflow.ops.common.window_shapes import (
    FORMAT_2D,
    FORMAT_3D,
    PADDING,
    PADDING_OR_EXPLICIT,
    agreeing,
    axes,
    in_space,
    placed,
    slid,
)


def conv_output(op: Operation, x: Any, filter_dims: Any) -> Dims:
    """The shape of a convolution's output from the shapes of input and filter."""
    rank = len(x)
    strides = in_space(op, "strides", rank)
    depth, channels = x[axes(op, rank).channel], filter_dims[-1]
    if op.type.startswith("Conv2D"):
        _check_groups(x, depth, filter_dims)
    else:
        depth = _same_depth(x, depth, filter_dims)
    if op.type.startswith("Depthwise"):
        channels = None if None in (depth, channels) else depth * channels
    rates = None if op.attr("dilations") is None else in_space(op, "dilations", rank)
    return placed(op, x[0], slid(op, x, filter_dims[:-2], strides, rates), channels)


def _same_depth(x: Any, depth: int | None, filter_dims: Any) -> int | None:
    try:
        return merge_dim(depth, filter_dims[-2])
    except ValueError:
        raise ValueError(f"Dimensions must be equal, but are {depth} and {filter_dims[-2]}: "
                         f"depth of the input {show(x)} and of the filter {show(filter_dims)}"
                         ) from None


def _check_groups(x: Any, depth: int | None, filter_dims: Any) -> None:
    """A filter less deep than the input is one for each group of channels."""
    inner, outer = filter_dims[-2:]
    if None in (depth, inner) or depth == inner:
        return
    if inner == 0 or depth % inner:
        raise ValueError(f"Dimensions must be equal, but are {depth} and {inner}, or the first a "
                         f"multiple of the second: depth of the input {show(x)} and of the filter "
                         f"{show(filter_dims)}")
    if outer is not None and outer % max(depth // inner, 1):
        raise ValueError(f"Depth of the output ({outer}) is not a multiple of the number of groups "
                         f"({depth // inner}): input {show(x)}, filter {show(filter_dims)}")


def _rank(op: Operation) -> int:
    return 5 if op.type.startswith("Conv3D") else 4


def _conv_shape(op: Operation) -> list[Dims]:
    rank = _rank(op)
    return [conv_output(op, with_rank(op.input_dims(0), rank, "input"),
                    with_rank(op.input_dims(1), rank, "filter"))]


def _sizes(op: Operation, index: int, rank: int) -> Dims:
    """The shape that input `index` describes; that of the input itself in the older ops."""
    if op.type in ("Conv3DBackpropInput", "Conv3DBackpropFilter"):
        return with_rank(op.input_dims(index), rank, op.op_def.inputs[index].name)
    return with_rank(constant_value_as_dims(op.inputs[index]), rank,
                     op.op_def.inputs[index].name)


def _input_backprop_shape(op: Operation) -> list[Dims]:
    """The shape that is asked for; whether `out_backprop` is of one that makes it, a step says."""
    rank = _rank(op)
    x = _sizes(op, 0, rank)
    conv_output(op, x, with_rank(op.input_dims(1), rank, "filter"))
    return [x]


def _filter_backprop_shape(op: Operation) -> list[Dims]:
    rank = _rank(op)
    filter_dims = _sizes(op, 1, rank)
    x = with_rank(op.input_dims(0), rank, "input")
    agreeing(op, conv_output(op, x, filter_dims), 2, "out_backprop")
    return [filter_dims]


_2D_ADDED = "explicit_paddings: list(int) = []; dilations: list(int) = [1, 1, 1, 1]"
_2D = (f"T: {{half, bfloat16, float, double, int32}}; strides: list(int); "
       f"use_cudnn_on_gpu: bool = true; {PADDING_OR_EXPLICIT}; {FORMAT_2D}; {_2D_ADDED}")
_3D = f"T: {SUMMED}; strides: list(int) >= 5; {PADDING}"
_3D_ADDED = "dilations: list(int) = [1, 1, 1, 1, 1]"
_DEPTHWISE = (f"T: {ANY_FLOAT}; strides: list(int); {PADDING_OR_EXPLICIT}; {FORMAT_2D}; "
              f"{_2D_ADDED}")
_SIZES_3D = "Tshape: {int32, int64} = int32"

register_op("Conv2D", "input: T; filter: T", "output: T", _2D, shape=_conv_shape)
register_op("Conv2DBackpropInput", "input_sizes: int32; filter: T; out_backprop: T", "output: T",
            _2D, shape=_input_backprop_shape)
register_op("Conv2DBackpropFilter", "input: T; filter_sizes: int32; out_backprop: T", "output: T",
            _2D, shape=_filter_backprop_shape)

register_op("Conv3D", "input: T; filter: T", "output: T", f"{_3D}; {FORMAT_3D}; {_3D_ADDED}",
            shape=_conv_shape)
register_op("Conv3DBackpropInputV2", "input_sizes: Tshape; filter: T; out_backprop: T",
            "output: T", f"{_3D}; {FORMAT_3D}; {_3D_ADDED}; {_SIZES_3D}",
            shape=_input_backprop_shape)
register_op("Conv3DBackpropFilterV2", "input: T; filter_sizes: int32; out_backprop: T",
            "output: T", f"{_3D}; {FORMAT_3D}; {_3D_ADDED}", shape=_filter_backprop_shape)
register_op("Conv3DBackpropInput", "input: T; filter: T; out_backprop: T", "output: T",
            _3D, shape=_input_backprop_shape,
            deprecated="use Conv3DBackpropInputV2")
register_op("Conv3DBackpropFilter", "input: T; filter: T; out_backprop: T", "output: T",
            _3D, shape=_filter_backprop_shape,
            deprecated="use Conv3DBackpropFilterV2")

register_op("DepthwiseConv2dNative", "input: T; filter: T", "output: T", _DEPTHWISE,
            shape=_conv_shape)
register_op("DepthwiseConv2dNativeBackpropInput",
            "input_sizes: int32; filter: T; out_backprop: T", "output: T", _DEPTHWISE,
            shape=_input_backprop_shape)
register_op("DepthwiseConv2dNativeBackpropFilter",
            "input: T; filter_sizes: int32; out_backprop: T", "output: T", _DEPTHWISE,
            shape=_filter_backprop_shape)


# ---------------------------------------------------------------- gradients

# Forward op -> (its gradient by the input, its gradient by the filter).
_FAMILIES = {
    "Conv2D": ("Conv2DBackpropInput", "Conv2DBackpropFilter"),
    "Conv3D": ("Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
    "DepthwiseConv2dNative": ("DepthwiseConv2dNativeBackpropInput",
                              "DepthwiseConv2dNativeBackpropFilter"),
}


def _shape_of(tensor: Tensor) -> Any:
    """The shape of `tensor` as a constant where it is known."""
    dims = tensor._dims
    if dims is None or None in dims:
        return raw_ops.Shape(tensor)
    return np.array(dims, np.int32)


def _attrs(op: Operation) -> dict[str, Any]:
    names = ("strides", "padding", "data_format", "use_cudnn_on_gpu", "explicit_paddings",
             "dilations")
    return {name: op.attr(name) for name in names if name in op.op_def.attr_map}


def _register(forward: str, by_input: str, by_filter: str) -> None:
    """The three ops are linear in both operands, and are each other's gradients."""

    def apply(op_type: str, op: Operation, *operands: Any) -> Tensor:
        return getattr(raw_ops, op_type)(*operands, **_attrs(op))

    @RegisterGradient(forward)
    def _conv_grad(op: Operation, grad: Tensor) -> tuple:
        x, w = op.inputs
        return (apply(by_input, op, _shape_of(x), w, grad),
                apply(by_filter, op, x, _shape_of(w), grad))

    @RegisterGradient(by_input)
    def _by_input_grad(op: Operation, grad: Tensor) -> tuple:
        _, w, dy = op.inputs
        return (None, apply(by_filter, op, grad, _shape_of(w), dy),
                apply(forward, op, grad, w))

    @RegisterGradient(by_filter)
    def _by_filter_grad(op: Operation, grad: Tensor) -> tuple:
        x, _, dy = op.inputs
        return (apply(by_input, op, _shape_of(x), grad, dy), None, apply(forward, op, x, grad))


for _forward, _backward in _FAMILIES.items():
    _register(_forward, *_backward)
