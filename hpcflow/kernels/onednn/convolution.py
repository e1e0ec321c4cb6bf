"""Convolutions and depthwise convolutions by oneDNN, and their gradients.

Images stay in the op's own layout; filters, which are small, are reordered to what the primitive
likes best and back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.windows import check_rank, in_float32, window_of
from hpcflow.kernels.nn import convolution as plain
from hpcflow.kernels.nn import depthwise
from hpcflow.kernels.nn.convolution import channels_last, described
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, find_kernel, kernel

_AUTO = 3  # the algorithm


class _Geometry:
    """The descriptions of one convolution's arrays, and its window.

    `x_dims` have the channels last, `w_dims` are the op's. `depthwise`: every channel is a group
    with as many outputs as the filter's last dimension says; else the groups are those that the
    depth of the filter makes of the input's channels.
    """

    def __init__(self, lib: Library, x_dims: tuple, w_dims: tuple, over: Sequence[Span],
                 first: bool, depthwise: bool) -> None:
        self.lib = lib
        batch, *space, depth = x_dims
        *window, inner, outer = w_dims
        channels = inner * outer if depthwise else outer
        groups = depth // inner
        self.image_dims = (batch, depth, *space), (batch, channels, *(s.out for s in over))
        self.x, self.y = (self._image(dims, first) for dims in self.image_dims)
        self.small_batch = (batch <= tuning.CONVOLUTION_SMALL_BATCH
                            and depth >= tuning.CONVOLUTION_DEEP
                            and not depthwise and groups == 1
                            and math.prod(window) > 1
                            and math.prod(s.out for s in over) >= tuning.CONVOLUTION_SPACIOUS)
        steps = [math.prod(w_dims[i + 1 :]) for i in range(len(window))]
        if depthwise:
            dims, strides = (inner, outer, 1, *window), (outer, 1, 1, *steps)
        elif groups > 1:
            each = outer // groups
            dims, strides = (groups, each, inner, *window), (each, 1, outer, *steps)
        else:
            dims, strides = (outer, inner, *window), (1, outer, *steps)
        self.w_dims, self.w_strides = dims, strides
        self.w = p.Description(lib, dims, strides)
        self.any_w = p.Description(lib, dims)
        self.bias = p.Description(lib, (channels,), (1,))
        self.window = [p.vector(numbers) for numbers in (
            [s.stride for s in over], [s.rate - 1 for s in over], [s.before for s in over],
            [s.after for s in over])]

    def _image(self, dims: tuple, first: bool) -> p.Description:
        return p.Description(self.lib, dims, p.image_strides(dims, first))

    def forward_desc(self, bias: Any = None, attr: Any = None) -> Any:
        """The description of the forward primitive; the others take it as a hint."""
        lib = self.lib
        return lib.create("convolution_forward_primitive_desc_create", lib.engine,
                          p.FORWARD_TRAINING, _AUTO, self.x.handle, self.any_w.handle, bias,
                          self.y.handle, *self.window, attr or lib.attr)


class Forward:
    """y = convolution(x, w), called with the arrays in this order."""

    bias = relu = False

    def __init__(self, g: _Geometry) -> None:
        desc = g.forward_desc(g.bias.handle if self.bias else None,
                              g.lib.relu_attr if self.relu else None)
        w = p.Description.chosen(desc, g.lib, p.WEIGHTS_MD)
        self.bytes = w.bytes
        self.order = p.reorder(g.lib, g.w, w)
        more = [(p.BIAS, g.bias)] if self.bias else []
        self.run = p.Primitive(g.lib, desc, [(p.SRC, g.x), (p.WEIGHTS, w), *more, (p.DST, g.y)])

    def __call__(self, x: Any, w: Any, *rest: Any) -> None:
        """Compute y, the last of the arrays."""
        self.run(address_of(x), ordered(self.order, w, self.bytes),
                 *[address_of(a) for a in rest])


class WithBias(Forward):
    """y = convolution(x, w) + bias, called with x, w, bias, y."""

    bias = True


class WithRelu(WithBias):
    """y = max(convolution(x, w) + bias, 0), called with x, w, bias, y."""

    relu = True


def ordered(order: p.Primitive | None, array: Any, size: int, name: str = "filter") -> int:
    """The address of an array in the order that a primitive wants."""
    if order is None:
        return address_of(array)
    buffer = p.thread.buffer(name, size)
    order(address_of(array), buffer)
    return buffer


class _ByInput:
    """The gradient by x, from w and dy."""

    def __init__(self, g: _Geometry) -> None:
        lib, hint = g.lib, g.forward_desc()
        desc = lib.create("convolution_backward_data_primitive_desc_create", lib.engine, _AUTO,
                          g.x.handle, g.any_w.handle, g.y.handle, *g.window, hint, lib.attr)
        lib.call("primitive_desc_destroy", hint)
        w = p.Description.chosen(desc, lib, p.WEIGHTS_MD)
        self.bytes = w.bytes
        self.order = p.reorder(lib, g.w, w)
        self.run = p.Primitive(lib, desc, [(p.DIFF_DST, g.y), (p.WEIGHTS, w), (p.DIFF_SRC, g.x)])

    def __call__(self, dy: Any, w: Any, dx: Any) -> None:
        self.run(address_of(dy), ordered(self.order, w, self.bytes), address_of(dx))


class ByInputOnto:
    """Adds the gradient by x of a pointwise convolution, from w and dy, to what is there: it is the
    convolution of dy with the transposed filter."""

    def __init__(self, g: _Geometry) -> None:
        lib, (outer, inner, *window), (first, second, *steps) = g.lib, g.w_dims, g.w_strides
        w = p.Description(lib, (inner, outer, *window), (second, first, *steps))
        any_w = p.Description(lib, (inner, outer, *window))
        desc = lib.create("convolution_forward_primitive_desc_create", lib.engine,
                          p.FORWARD_TRAINING, _AUTO, g.y.handle, any_w.handle, None, g.x.handle,
                          *g.window, lib.sum_attr)
        chosen = p.Description.chosen(desc, lib, p.WEIGHTS_MD)
        self.bytes = chosen.bytes
        self.order = p.reorder(lib, w, chosen)
        self.run = p.Primitive(lib, desc, [(p.SRC, g.y), (p.WEIGHTS, chosen), (p.DST, g.x)])

    def __call__(self, dy: Any, w: Any, dx: Any) -> None:
        """dx += the gradient."""
        self.run(address_of(dy), ordered(self.order, w, self.bytes), address_of(dx))


class _ByFilter:
    """The gradient by w, from x and dy.

    For small batches the library is slower in the op's own layout than in the one that it prefers,
    by up to a third, which pays for copies of x and dy.
    """

    def __init__(self, g: _Geometry) -> None:
        lib, hint = g.lib, g.forward_desc()
        x, y = (g.x, g.y) if not g.small_batch else (p.Description(lib, d) for d in g.image_dims)
        desc = lib.create("convolution_backward_weights_primitive_desc_create", lib.engine, _AUTO,
                          x.handle, g.any_w.handle, None, y.handle, *g.window, hint, lib.attr)
        lib.call("primitive_desc_destroy", hint)
        x, y, w = (p.Description.chosen(desc, lib, query)
                   for query in (p.SRC_MD, p.DIFF_DST_MD, p.DIFF_WEIGHTS_MD))
        self.bytes = {"image": x.bytes, "gradient": y.bytes, "filter": w.bytes}
        self.image_order, self.gradient_order = p.reorder(lib, g.x, x), p.reorder(lib, g.y, y)
        self.order = p.reorder(lib, w, g.w)
        self.run = p.Primitive(lib, desc, [(p.SRC, x), (p.DIFF_DST, y), (p.DIFF_WEIGHTS, w)])

    def __call__(self, x: Any, dy: Any, dw: Any) -> None:
        """Compute dw."""
        image = ordered(self.image_order, x, self.bytes["image"], "image")
        gradient = ordered(self.gradient_order, dy, self.bytes["gradient"], "gradient")
        if self.order is None:
            self.run(image, gradient, address_of(dw))
            return
        buffer = p.thread.buffer("filter", self.bytes["filter"])
        self.run(image, gradient, buffer)
        self.order(buffer, address_of(dw))


@functools.lru_cache(maxsize=1024)
def primitive(kind: type, lib: Library, x_dims: tuple, w_dims: tuple, over: tuple, first: bool,
              depthwise: bool) -> Any:
    """The primitive for one shape; None if the library has none."""
    try:
        return kind(_Geometry(lib, x_dims, w_dims, over, first, depthwise))
    except OneDNNError:
        return None


# ---------------------------------------------------------------- kernels

# Halves are computed in single precision.
TYPES = ["float32", "float16"]
_OPTIONS: dict[str, Any] = {"device": "CPU", "types": {"T": TYPES}, "priority": 10, "fresh": True}


def numpy_kernel(node: KernelNode) -> Callable:
    """The kernel of NumPy, for what the library does not do."""
    found = find_kernel(node.op_type, "xp", node.attrs)
    assert found is not None
    return found.factory(node)


def _checked_spans(node: KernelNode) -> Callable:
    module = depthwise if node.op_type.startswith("Depthwise") else plain
    return module.checked_spans


def output_shape(x_dims: Sequence[int], channels: int, over: Sequence[Span],
                 first: bool) -> tuple[int, ...]:
    """The shape of a convolution's result."""
    space = tuple(s.out for s in over)
    return (x_dims[0], channels, *space) if first else (x_dims[0], *space, channels)


@kernel("Conv2D", "Conv3D", "DepthwiseConv2dNative", **_OPTIONS)
def _forward(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, by_channel = window.channels_first, len(window.strides) + 2, _by_channel(node)

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("filter", w, rank)
        dims = channels_last(x.shape, first)
        over = checked(window, dims, w.shape)
        channels = w.shape[-1] * (w.shape[-2] if by_channel else 1)
        y = memory.empty(output_shape(dims, channels, over, first), np.float32)
        if not (y.size and x.size and w.size):
            return fallback(x, w)
        made = primitive(Forward, lib, dims, w.shape, over, first, by_channel)
        if made is None:
            return fallback(x, w)
        made(np.ascontiguousarray(x), np.ascontiguousarray(w), y)
        return y

    return in_float32(node, run)


def _by_channel(node: KernelNode) -> bool:
    return node.op_type.startswith("Depthwise")


@kernel("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput",
        **_OPTIONS)
def _by_input(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, by_channel = window.channels_first, len(window.strides) + 2, _by_channel(node)

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("filter", w, rank)
        check_rank("out_backprop", dy, rank)
        shape = described(sizes, "input_sizes", rank)
        dims = channels_last(shape, first)
        over = checked(window, dims, w.shape, channels_last(dy.shape, first))
        dx = memory.empty(shape, np.float32)
        if not (dy.size and dx.size and w.size):
            return fallback(sizes, w, dy)
        made = primitive(_ByInput, lib, dims, w.shape, over, first, by_channel)
        if made is None:
            return fallback(sizes, w, dy)
        made(np.ascontiguousarray(dy), np.ascontiguousarray(w), dx)
        return dx

    return in_float32(node, run)


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter",
        **_OPTIONS)
def _by_filter(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, by_channel = window.channels_first, len(window.strides) + 2, _by_channel(node)

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("out_backprop", dy, rank)
        w_dims = described(sizes, "filter_sizes", rank)
        dims = channels_last(x.shape, first)
        over = checked(window, dims, w_dims, channels_last(dy.shape, first))
        dw = memory.empty(w_dims, np.float32)
        if not (dy.size and x.size and dw.size):
            return fallback(x, sizes, dy)
        made = primitive(_ByFilter, lib, dims, w_dims, over, first, by_channel)
        if made is None:
            return fallback(x, sizes, dy)
        made(np.ascontiguousarray(x), np.ascontiguousarray(dy), dw)
        return dw

    return in_float32(node, run)
