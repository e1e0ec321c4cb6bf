"""Convolutions of two dimensions and their gradients by cuDNN, grouped ones as well.

Images are (batch, height, width, channels); filters, which are small, are transposed to what the
library takes: (outputs, height, width, inputs).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, extent
from hpcflow.kernels.common.windows import check_rank, last, pad, restored, window_of
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import convolution as plain
from hpcflow.kernels.registry import KernelNode, kernel

# In float64 the library has gradients only for channels first.
_TYPES = {"T": ("float16", "float32")}


class _Plan:
    """The descriptors of one convolution, and the ways to compute it.

    `x_dims` are of the images as the library sees them, `before` the zeros around them.
    """

    def __init__(self, lib: Any, dtype: np.dtype, x_dims: tuple, w_dims: tuple,
                 over: Sequence[Span], before: tuple[int, ...]) -> None:
        self.lib = lib
        self.x_dims = x_dims
        self.y_dims = (x_dims[0], *(s.out for s in over), w_dims[-1])
        height, width, inner, outer = w_dims
        code = c.TYPES[dtype]
        self.x, self.y = c.tensor(lib, x_dims, dtype), c.tensor(lib, self.y_dims, dtype)
        self.w = lib.create("Filter", ("SetFilter4dDescriptor", code, c.NHWC, outer, inner,
                                       height, width))
        compute = c.DOUBLE if code == c.DOUBLE else c.FLOAT
        settings: list[tuple] = [
            ("SetConvolution2dDescriptor", *before, *(s.stride for s in over),
             *(s.rate for s in over), c.CROSS_CORRELATION, compute),
            ("SetConvolutionGroupCount", x_dims[-1] // inner)]
        if code == c.FLOAT:
            settings.append(("SetConvolutionMathType", c.FMA_MATH))
        self.convolution = lib.create("Convolution", *settings)
        self.one, self.zero = c.scales(dtype)

    @functools.cached_property
    def forward(self) -> c.AlgorithmFound:
        """The way to compute the convolution."""
        return self.lib.best("ConvolutionForward", self.x, self.w, self.convolution, self.y)

    @functools.cached_property
    def by_data(self) -> c.AlgorithmFound:
        """The way to compute the gradient by the images."""
        return self.lib.best("ConvolutionBackwardData", self.w, self.y, self.convolution, self.x)

    @functools.cached_property
    def by_filter(self) -> c.AlgorithmFound:
        """The way to compute the gradient by the filter."""
        return self.lib.best("ConvolutionBackwardFilter", self.x, self.y, self.convolution, self.w)

    def run(self, xp: Any, name: str, how: c.AlgorithmFound, a: tuple, b: tuple,
            result: tuple) -> None:
        """Call a function on two (descriptor, array), with memory for the time of the call."""
        memory = xp.empty(how.memory, np.uint8)
        self.lib.call(name, self.lib.handle(), self.one, *a, *b, self.convolution, how.algo, memory,
                      how.memory, self.zero, *result)


_plan = functools.lru_cache(maxsize=1024)(_Plan)


def _symmetric(over: Sequence[Span]) -> bool:
    """True if the library's padding, of as much on both sides, gives the same outputs."""
    return all((s.size + 2 * s.before - extent(s.window, s.rate)) // s.stride + 1 == s.out
               for s in over)


def _plan_of(lib: Any, xp: Any, dtype: np.dtype, x_dims: tuple, w_dims: Sequence[int],
             over: Sequence[Span]) -> _Plan:
    """The plan; where the padding differs on both sides, for images that have it already."""
    if _symmetric(over):
        return _plan(lib, dtype, tuple(x_dims), tuple(w_dims), tuple(over),
                     tuple(s.before for s in over))
    space = [(s.out - 1) * s.stride + extent(s.window, s.rate) for s in over]
    return _plan(lib, dtype, (x_dims[0], *space, x_dims[-1]), tuple(w_dims), tuple(over), (0, 0))


def _images(xp: Any, x: Any, plan: _Plan, over: Sequence[Span]) -> Any:
    return xp.ascontiguousarray(x if plan.x_dims == x.shape else pad(xp, x, over))


def _convolve(lib: Any, xp: Any, x: Any, w: Any, over: Sequence[Span]) -> Any:
    plan = _plan_of(lib, xp, x.dtype, x.shape, w.shape, over)
    y = xp.empty(plan.y_dims, x.dtype)
    filters = xp.ascontiguousarray(w.transpose(3, 0, 1, 2))
    plan.run(xp, "ConvolutionForward", plan.forward, (plan.x, _images(xp, x, plan, over)),
             (plan.w, filters), (plan.y, y))
    return y


def _input_gradient(lib: Any, xp: Any, w: Any, dy: Any, x_dims: tuple,
                    over: Sequence[Span]) -> Any:
    plan = _plan_of(lib, xp, dy.dtype, x_dims, w.shape, over)
    dx = xp.empty(plan.x_dims, dy.dtype)
    filters = xp.ascontiguousarray(w.transpose(3, 0, 1, 2))
    plan.run(xp, "ConvolutionBackwardData", plan.by_data, (plan.w, filters),
             (plan.y, xp.ascontiguousarray(dy)), (plan.x, dx))
    return dx if plan.x_dims == x_dims else _inside(xp, dx, x_dims, over)


def _inside(xp: Any, dx: Any, x_dims: tuple, over: Sequence[Span]) -> Any:
    """The gradient without that of the padding; zero where no window reaches."""
    out = xp.zeros(x_dims, dx.dtype)
    kept = [min(s.size, n - s.before) for s, n in zip(over, dx.shape[1:3])]
    (top, left), (height, width) = [s.before for s in over], kept
    out[:, :height, :width] = dx[:, top : top + height, left : left + width]
    return out


def _filter_gradient(lib: Any, xp: Any, x: Any, w_dims: Sequence[int], dy: Any,
                     over: Sequence[Span]) -> Any:
    plan = _plan_of(lib, xp, x.dtype, x.shape, w_dims, over)
    height, width, inner, outer = w_dims
    dw = xp.empty((outer, height, width, inner), x.dtype)
    plan.run(xp, "ConvolutionBackwardFilter", plan.by_filter,
             (plan.x, _images(xp, x, plan, over)), (plan.y, xp.ascontiguousarray(dy)),
             (plan.w, dw))
    return xp.ascontiguousarray(dw.transpose(1, 2, 3, 0))


def _is_empty(*dims: Sequence[int]) -> bool:
    return any(0 in d for d in dims)


@kernel("Conv2D", device="GPU", types=_TYPES, fresh=True)
def forward(node: KernelNode) -> Callable:
    """The convolution of input and filter."""
    simple, lib = plain.forward(node), c.serving(node.xp)
    if lib is None:
        return simple
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("filter", w, 4)
        images = last(x, first)
        over = plain.checked_spans(window, images.shape, w.shape)
        if _is_empty(images.shape, w.shape, [s.out for s in over]):
            return simple(x, w)
        return restored(_convolve(lib, xp, images, w, over), first)

    return run


@kernel("Conv2DBackpropInput", device="GPU", types=_TYPES, fresh=True, host_inputs=(0,))
def backprop_input(node: KernelNode) -> Callable:
    """The gradient by the input, whose shape is the first input's value."""
    simple, lib = plain.backprop_input(node), c.serving(node.xp)
    if lib is None:
        return simple
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("filter", w, 4)
        check_rank("out_backprop", dy, 4)
        x_dims = plain.channels_last(plain.described(sizes, "input_sizes", 4), first)
        grads = last(dy, first)
        over = plain.checked_spans(window, x_dims, w.shape, grads.shape)
        if _is_empty(x_dims, w.shape, grads.shape):
            return simple(sizes, w, dy)
        return restored(_input_gradient(lib, xp, w, grads, x_dims, over), first)

    return run


@kernel("Conv2DBackpropFilter", device="GPU", types=_TYPES, fresh=True, host_inputs=(1,))
def backprop_filter(node: KernelNode) -> Callable:
    """The gradient by the filter, whose shape is the second input's value."""
    simple, lib = plain.backprop_filter(node), c.serving(node.xp)
    if lib is None:
        return simple
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("out_backprop", dy, 4)
        w_dims = plain.described(sizes, "filter_sizes", 4)
        images, grads = last(x, first), last(dy, first)
        over = plain.checked_spans(window, images.shape, w_dims, grads.shape)
        if _is_empty(images.shape, w_dims, grads.shape):
            return simple(x, sizes, dy)
        return _filter_gradient(lib, xp, images, w_dims, grads, over)

    return run
