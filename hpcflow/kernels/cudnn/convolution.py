"""Convolutions of two dimensions and their gradients by cuDNN, grouped ones as well.

Images are (batch, height, width, channels); filters, which are small, are transposed to what the
library takes: (outputs, height, width, inputs). Where a window is one element wide the convolution
is a product of matrices, which needs no transposing. What the library has no way for is left to the
plain kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import config
from hpcflow.base.geometry.windows import Span, extent
from hpcflow.kernels.common.windows import check_rank, last, pad, restored, window_of
from hpcflow.kernels.cublas import products
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import convolution as plain
from hpcflow.kernels.registry import KernelNode, kernel

# In float64 the library has gradients only for channels first.
_TYPES = {"T": ("float16", "float32")}


def math_type(dtype: np.dtype) -> int:
    """The kind of arithmetic: tensor cores for halves, for float32 only where TF32 is asked for."""
    if dtype == np.float16:
        return c.TENSOR_MATH
    return c.DEFAULT_MATH if config.flags.tf32 else c.FMA_MATH


class _Plan:
    """The descriptors of one convolution, and what computes it and its gradients.

    `x_dims` are of the images as the library sees them, with the zeros around them that its own
    padding, of as much on both sides, cannot add.
    """

    def __init__(self, lib: Any, dtype: np.dtype, math: int, x_dims: tuple, w_dims: tuple,
                 over: Sequence[Span]) -> None:
        self.lib, self.dtype, self.over = lib, dtype, over
        self.outside = None if _symmetric(over) else x_dims
        before = [s.before for s in over] if self.outside is None else [0, 0]
        if self.outside is not None:
            space = [(s.out - 1) * s.stride + extent(s.window, s.rate) for s in over]
            x_dims = (x_dims[0], *space, x_dims[-1])
        self.x_dims, self.y_dims = x_dims, (x_dims[0], *(s.out for s in over), w_dims[-1])
        height, width, inner, outer = w_dims
        self.w_dims, self.filter_dims = w_dims, (outer, height, width, inner)
        self.x, self.y = c.tensor(lib, x_dims, dtype), c.tensor(lib, self.y_dims, dtype)
        self.w = lib.create("Filter", ("SetFilter4dDescriptor", c.TYPES[dtype], c.NHWC, outer,
                                       inner, height, width))
        self.convolution = lib.create(
            "Convolution", ("SetConvolution2dDescriptor", *before, *(s.stride for s in over),
                            *(s.rate for s in over), c.CROSS_CORRELATION, c.FLOAT),
            ("SetConvolutionGroupCount", x_dims[-1] // inner), ("SetConvolutionMathType", math))

    @functools.cached_property
    def forward(self) -> _Call:
        """From images and filters to outputs."""
        return _Call(self, "ConvolutionForward", self.x, self.w, self.y)

    @functools.cached_property
    def by_data(self) -> _Call:
        """From filters and the outputs' gradients to the images'."""
        return _Call(self, "ConvolutionBackwardData", self.w, self.y, self.x)

    @functools.cached_property
    def by_filter(self) -> _Call:
        """From images and the outputs' gradients to the filters'."""
        return _Call(self, "ConvolutionBackwardFilter", self.x, self.y, self.w)

    def images(self, xp: Any, x: Any) -> Any:
        """The images, with zeros around them where the library's padding does not do."""
        return xp.ascontiguousarray(x if self.outside is None else pad(xp, x, self.over))

    def filters(self, xp: Any, w: Any) -> Any:
        """The filters as the library takes them."""
        outer = self.w_dims[-1]
        return xp.ascontiguousarray(w.reshape(-1, outer).T).reshape(self.filter_dims)


class _Call:
    """One of a plan's functions: the best way that the library has for it."""

    def __init__(self, plan: _Plan, name: str, a: Any, b: Any, result: Any) -> None:
        self._plan, self._name = plan, name
        self._descriptors = a, b, result
        self._ways = plan.lib.ways(name, a, b, plan.convolution, result)
        self._prepare()

    def _prepare(self) -> None:
        way, (one, zero), (a, b, result) = (
            self._ways[0], c.scales(self._plan.dtype), self._descriptors)
        self._memory = way.memory
        self._run = self._plan.lib.prepare(
            self._name, one, a, c.ARRAY, b, c.ARRAY, self._plan.convolution, way.algo,
            c.ARRAY if way.memory else None, way.memory, zero, result, c.ARRAY)

    def __call__(self, xp: Any, a: Any, b: Any, result: Any) -> None:
        """Compute `result`; NoWayError if the library has no way that works."""
        while True:
            memory = [xp.empty(self._memory, np.uint8)] if self._memory else []
            try:
                return self._run(a, b, *memory, result)
            except c.NoWayError:
                if len(self._ways) == 1:
                    raise
            self._ways = self._ways[1:]
            self._prepare()


_plan = functools.lru_cache(maxsize=1024)(_Plan)


def _symmetric(over: Sequence[Span]) -> bool:
    """True if the library's padding, of as much on both sides, gives the same outputs."""
    return all((s.size + 2 * s.before - extent(s.window, s.rate)) // s.stride + 1 == s.out
               for s in over)


def is_product(over: Sequence[Span]) -> bool:
    """True if every output sees just the input at its place."""
    return all(s.window == s.stride == 1 and s.out == s.size and not s.before for s in over)


class _Convolution:
    """A convolution of certain shapes in all three directions."""

    def __init__(self, lib: Any, xp: Any, dtype: np.dtype, x_dims: tuple, w_dims: tuple,
                 over: Sequence[Span]) -> None:
        self.xp, self.x_dims, self.w_dims = xp, x_dims, tuple(w_dims)
        self.plan = _plan(lib, dtype, math_type(dtype), tuple(x_dims), self.w_dims, tuple(over))

    def forward(self, x: Any, w: Any) -> Any:
        """The outputs."""
        plan, xp = self.plan, self.xp
        y = xp.empty(plan.y_dims, x.dtype)
        plan.forward(xp, plan.images(xp, x), plan.filters(xp, w), y)
        return y

    def by_input(self, w: Any, dy: Any) -> Any:
        """The gradient of the images."""
        plan, xp = self.plan, self.xp
        dx = xp.empty(plan.x_dims, dy.dtype)
        plan.by_data(xp, plan.filters(xp, w), xp.ascontiguousarray(dy), dx)
        return dx if plan.outside is None else _inside(xp, dx, self.x_dims, plan.over)

    def by_filter(self, x: Any, dy: Any) -> Any:
        """The gradient of the filters."""
        plan, xp = self.plan, self.xp
        dw = xp.empty(plan.filter_dims, x.dtype)
        plan.by_filter(xp, plan.images(xp, x), xp.ascontiguousarray(dy), dw)
        return xp.ascontiguousarray(dw.reshape(self.w_dims[-1], -1).T).reshape(self.w_dims)


class _Product:
    """A convolution whose window is one element wide: all positions by one product."""

    def __init__(self, xp: Any, x_dims: tuple, w_dims: tuple) -> None:
        self.multiply = products.of(xp)
        self.x_dims, self.y_dims = tuple(x_dims), (*x_dims[:-1], w_dims[-1])
        self.w_dims = tuple(w_dims)

    def forward(self, x: Any, w: Any) -> Any:
        """The outputs."""
        return self.multiply(x.reshape(-1, x.shape[-1]), self._matrix(w)).reshape(self.y_dims)

    def by_input(self, w: Any, dy: Any) -> Any:
        """The gradient of the images."""
        return self.multiply(dy.reshape(-1, dy.shape[-1]), self._matrix(w),
                             flip_b=True).reshape(self.x_dims)

    def by_filter(self, x: Any, dy: Any) -> Any:
        """The gradient of the filters."""
        return self.multiply(x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]),
                             flip_a=True).reshape(self.w_dims)

    def _matrix(self, w: Any) -> Any:
        return w.reshape(self.w_dims[-2:])


def _inside(xp: Any, dx: Any, x_dims: tuple, over: Sequence[Span]) -> Any:
    """The gradient without that of the padding; zero where no window reaches."""
    kept = [min(s.size, n - s.before) for s, n in zip(over, dx.shape[1:3])]
    (top, left), (height, width) = [s.before for s in over], kept
    inner = dx[:, top : top + height, left : left + width]
    if inner.shape == x_dims:
        return xp.ascontiguousarray(inner)
    out = xp.zeros(x_dims, dx.dtype)
    out[:, :height, :width] = inner
    return out


class _Shapes:
    """The convolutions of one op, by the shapes that it has seen."""

    def __init__(self, node: KernelNode, lib: Any) -> None:
        self.node, self.lib, self.window = node, lib, window_of(node)
        self.first = self.window.channels_first
        self._found: dict[tuple, Any] = {}

    def of(self, x_dims: tuple, w_dims: tuple, dy_dims: tuple | None = None) -> Any:
        """The convolution of these shapes, channels last; None if there is nothing to compute.

        Raises InvalidArgumentError for shapes that do not fit.
        """
        key = (x_dims, w_dims, dy_dims, config.flags.tf32)
        try:
            return self._found[key]
        except KeyError:
            made = self._found[key] = self._made(x_dims, w_dims, dy_dims)
            return made

    def _made(self, x_dims: tuple, w_dims: tuple, dy_dims: tuple | None) -> Any:
        if len(w_dims) != 4:
            check_rank("filter", np.empty(w_dims, bool), 4)
        over = plain.checked_spans(self.window, x_dims, w_dims, dy_dims)
        if 0 in (*x_dims, *w_dims, *(s.out for s in over)):
            return None
        xp, dtype = self.node.xp, self.node.np_dtype()
        if is_product(over) and x_dims[-1] == w_dims[-2]:
            return _Product(xp, x_dims, w_dims)
        return _Convolution(self.lib, xp, dtype, x_dims, w_dims, over)

    def forget(self, found: Any) -> None:
        """Leave these shapes to the plain kernel from now on."""
        for key in [k for k, v in self._found.items() if v is found]:
            self._found[key] = None


def _attempted(shapes: _Shapes, found: Any, compute: Callable[[Any], Any],
               simple: Callable[[], Any]) -> Any:
    """What the library computes, channels as the op has them; by the plain kernel where the
    library has no way."""
    if found is None:
        return simple()
    try:
        return restored(compute(found), shapes.first)
    except c.NoWayError:
        shapes.forget(found)
        return simple()


@kernel("Conv2D", device="GPU", types=_TYPES, fresh=True)
def forward(node: KernelNode) -> Callable:
    """The convolution of input and filter."""
    simple, lib = plain.forward(node), c.serving(node.xp)
    if lib is None:
        return simple
    shapes = _Shapes(node, lib)

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, 4)
        images = last(x, shapes.first)
        found = shapes.of(images.shape, w.shape)
        return _attempted(shapes, found, lambda by: by.forward(images, w), lambda: simple(x, w))

    return run


@kernel("Conv2DBackpropInput", device="GPU", types=_TYPES, fresh=True, host_inputs=(0,))
def backprop_input(node: KernelNode) -> Callable:
    """The gradient by the input, whose shape is the first input's value."""
    simple, lib = plain.backprop_input(node), c.serving(node.xp)
    if lib is None:
        return simple
    shapes = _Shapes(node, lib)

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("out_backprop", dy, 4)
        x_dims = plain.channels_last(plain.described(sizes, "input_sizes", 4), shapes.first)
        grads = last(dy, shapes.first)
        found = shapes.of(x_dims, w.shape, grads.shape)
        return _attempted(shapes, found, lambda by: by.by_input(w, grads),
                          lambda: simple(sizes, w, dy))

    return run


@kernel("Conv2DBackpropFilter", device="GPU", types=_TYPES, fresh=True, host_inputs=(1,))
def backprop_filter(node: KernelNode) -> Callable:
    """The gradient by the filter, whose shape is the second input's value."""
    simple, lib = plain.backprop_filter(node), c.serving(node.xp)
    if lib is None:
        return simple
    shapes = _Shapes(node, lib)

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("out_backprop", dy, 4)
        images, grads = last(x, shapes.first), last(dy, shapes.first)
        found = shapes.of(images.shape, plain.described(sizes, "filter_sizes", 4), grads.shape)
        if found is None:
            return simple(x, sizes, dy)
        try:
            return found.by_filter(images, grads)
        except c.NoWayError:
            shapes.forget(found)
            return simple(x, sizes, dy)

    return run
