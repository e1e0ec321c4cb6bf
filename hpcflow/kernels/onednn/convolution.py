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

from hpcflow.kernels import convolution as plain
from hpcflow.kernels import depthwise
from hpcflow.kernels.convolution import channels_last, described
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, find_kernel, kernel
from hpcflow.kernels.windows import check_rank, window_of
from hpcflow.windows import Span

_AUTO = 3  # the algorithm


class _Geometry:
    """The descriptions of one convolution's arrays, and its window.

    `x_dims` have the channels last, `w_dims` are the op's; groups are one per channel or none.
    """

    def __init__(self, lib: Library, x_dims: tuple, w_dims: tuple, over: Sequence[Span],
                 first: bool, grouped: bool) -> None:
        self.lib = lib
        batch, *space, depth = x_dims
        *window, inner, outer = w_dims
        channels = inner * outer if grouped else outer
        self.x = self._image((batch, depth, *space), first)
        self.y = self._image((batch, channels, *(s.out for s in over)), first)
        steps = [math.prod(w_dims[i + 1 :]) for i in range(len(window))]
        if grouped:
            dims, strides = (inner, outer, 1, *window), (outer, 1, 1, *steps)
        else:
            dims, strides = (outer, inner, *window), (1, outer, *steps)
        self.w = p.Description(lib, dims, strides)
        self.any_w = p.Description(lib, dims)
        self.window = [p.vector(numbers) for numbers in (
            [s.stride for s in over], [s.rate - 1 for s in over], [s.before for s in over],
            [s.after for s in over])]

    def _image(self, dims: tuple, first: bool) -> p.Description:
        return p.Description(self.lib, dims, p.image_strides(dims, first))

    def forward_desc(self) -> Any:
        """The description of the forward primitive; the others take it as a hint."""
        lib = self.lib
        return lib.create("convolution_forward_primitive_desc_create", lib.engine,
                          p.FORWARD_TRAINING, _AUTO, self.x.handle, self.any_w.handle, None,
                          self.y.handle, *self.window, lib.attr)


class _Forward:
    """y = convolution(x, w) for arrays of one shape."""

    def __init__(self, g: _Geometry) -> None:
        desc = g.forward_desc()
        w = p.Description.chosen(desc, g.lib, p.WEIGHTS_MD)
        self.bytes = w.bytes
        self.order = p.reorder(g.lib, g.w, w)
        self.run = p.Primitive(g.lib, desc, [(p.SRC, g.x), (p.WEIGHTS, w), (p.DST, g.y)])

    def __call__(self, x: Any, w: Any, y: Any) -> None:
        self.run(x.ctypes.data, _ordered(self.order, w, self.bytes), y.ctypes.data)


def _ordered(order: p.Primitive | None, w: Any, size: int) -> int:
    """The address of the filter in the order that a primitive wants."""
    if order is None:
        return w.ctypes.data
    buffer = p.thread.buffer("filter", size)
    order(w.ctypes.data, buffer)
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
        self.run(dy.ctypes.data, _ordered(self.order, w, self.bytes), dx.ctypes.data)


class _ByFilter:
    """The gradient by w, from x and dy."""

    def __init__(self, g: _Geometry) -> None:
        lib, hint = g.lib, g.forward_desc()
        desc = lib.create("convolution_backward_weights_primitive_desc_create", lib.engine, _AUTO,
                          g.x.handle, g.any_w.handle, None, g.y.handle, *g.window, hint, lib.attr)
        lib.call("primitive_desc_destroy", hint)
        w = p.Description.chosen(desc, lib, p.DIFF_WEIGHTS_MD)
        self.bytes = w.bytes
        self.order = p.reorder(lib, w, g.w)
        self.run = p.Primitive(lib, desc,
                               [(p.SRC, g.x), (p.DIFF_DST, g.y), (p.DIFF_WEIGHTS, w)])

    def __call__(self, x: Any, dy: Any, dw: Any) -> None:
        if self.order is None:
            self.run(x.ctypes.data, dy.ctypes.data, dw.ctypes.data)
            return
        buffer = p.thread.buffer("filter", self.bytes)
        self.run(x.ctypes.data, dy.ctypes.data, buffer)
        self.order(buffer, dw.ctypes.data)


@functools.lru_cache(maxsize=1024)
def _primitive(kind: type, lib: Library, x_dims: tuple, w_dims: tuple, over: tuple, first: bool,
               grouped: bool) -> Any:
    """The primitive for one shape; None if the library has none."""
    try:
        return kind(_Geometry(lib, x_dims, w_dims, over, first, grouped))
    except OneDNNError:
        return None


# ---------------------------------------------------------------- kernels

_OPTIONS: dict[str, Any] = {"device": "CPU", "types": {"T": ["float32"]}, "priority": 10,
                            "fresh": True}


def numpy_kernel(node: KernelNode) -> Callable:
    """The kernel of NumPy, for what the library does not do."""
    found = find_kernel(node.op_type, "xp", node.attrs)
    assert found is not None
    return found.factory(node)


def _checked_spans(node: KernelNode) -> Callable:
    module = depthwise if node.op_type.startswith("Depthwise") else plain
    return module.checked_spans


def _output_shape(x_dims: Sequence[int], channels: int, over: Sequence[Span],
                  first: bool) -> tuple[int, ...]:
    space = tuple(s.out for s in over)
    return (x_dims[0], channels, *space) if first else (x_dims[0], *space, channels)


@kernel("Conv2D", "Conv3D", "DepthwiseConv2dNative", **_OPTIONS)
def _forward(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, grouped = window.channels_first, len(window.strides) + 2, _grouped(node)

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("filter", w, rank)
        dims = channels_last(x.shape, first)
        over = checked(window, dims, w.shape)
        channels = w.shape[-1] * (w.shape[-2] if grouped else 1)
        y = np.empty(_output_shape(dims, channels, over, first), np.float32)
        if not (y.size and x.size and w.size):
            return fallback(x, w)
        primitive = _primitive(_Forward, lib, dims, w.shape, over, first, grouped)
        if primitive is None:
            return fallback(x, w)
        primitive(np.ascontiguousarray(x), np.ascontiguousarray(w), y)
        return y

    return run


def _grouped(node: KernelNode) -> bool:
    return node.op_type.startswith("Depthwise")


@kernel("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput",
        **_OPTIONS)
def _by_input(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, grouped = window.channels_first, len(window.strides) + 2, _grouped(node)

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("filter", w, rank)
        check_rank("out_backprop", dy, rank)
        shape = described(sizes, "input_sizes", rank)
        dims = channels_last(shape, first)
        over = checked(window, dims, w.shape, channels_last(dy.shape, first))
        dx = np.empty(shape, np.float32)
        if not (dy.size and dx.size and w.size):
            return fallback(sizes, w, dy)
        primitive = _primitive(_ByInput, lib, dims, w.shape, over, first, grouped)
        if primitive is None:
            return fallback(sizes, w, dy)
        primitive(np.ascontiguousarray(dy), np.ascontiguousarray(w), dx)
        return dx

    return run


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter",
        **_OPTIONS)
def _by_filter(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    window, checked = window_of(node), _checked_spans(node)
    first, rank, grouped = window.channels_first, len(window.strides) + 2, _grouped(node)

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("out_backprop", dy, rank)
        w_dims = described(sizes, "filter_sizes", rank)
        dims = channels_last(x.shape, first)
        over = checked(window, dims, w_dims, channels_last(dy.shape, first))
        dw = np.empty(w_dims, np.float32)
        if not (dy.size and x.size and dw.size):
            return fallback(x, sizes, dy)
        primitive = _primitive(_ByFilter, lib, dims, w_dims, over, first, grouped)
        if primitive is None:
            return fallback(x, sizes, dy)
        primitive(np.ascontiguousarray(x), np.ascontiguousarray(dy), dw)
        return dw

    return run
