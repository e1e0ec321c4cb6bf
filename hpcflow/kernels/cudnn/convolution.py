"""Convolutions of two and three dimensions and their gradients by cuDNN, grouped ones as well.

Images are (batch, *space, channels). The library computes on them as they are, or channels
first, whichever is faster: `choosing`. Where a window is one element wide the convolution
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
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels.common.windows import check_rank, last, pad, restored, window_of
from hpcflow.kernels.cublas import products
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.cudnn.choosing import Choice, Computes, Way
from hpcflow.kernels.cudnn.orders import Order
from hpcflow.kernels.nn import convolution as plain
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float16", "float32", "float64")}


def math_type(dtype: np.dtype) -> int:
    """The kind of arithmetic: tensor cores for halves, for float32 only where TF32 is asked for."""
    if dtype == np.float16:
        return c.TENSOR_MATH
    return c.DEFAULT_MATH if config.flags.tf32 else c.FMA_MATH


class Plan:
    """The descriptors of one convolution, and what computes it and its gradients.

    `x_dims` are of the images as the library sees them, with the zeros around them that its own
    padding, of as much on both sides, cannot add.
    """

    def __init__(self, lib: Any, dtype: np.dtype, math: int, x_dims: tuple, w_dims: tuple,
                 over: Sequence[Span], deterministic: bool, search: str = "1") -> None:
        self._lib, self._dtype, self._math, self._deterministic = lib, dtype, math, deterministic
        self._is_measured = search != "0" and not deterministic
        self._most = None if search == "all" else tuning.CUDNN_MEASURED
        self.over = over
        self.outside = None if _symmetric(over) else x_dims
        self._before = [s.before for s in over] if self.outside is None else [0] * len(over)
        if self.outside is not None:
            space = [(s.out - 1) * s.stride + extent(s.window, s.rate) for s in over]
            x_dims = (x_dims[0], *space, x_dims[-1])
        self.x_dims, self.y_dims = x_dims, (x_dims[0], *(s.out for s in over), w_dims[-1])
        self.w_dims = w_dims

    @functools.cached_property
    def forward(self) -> Choice:
        """From images and filters to outputs."""
        return self._choice("ConvolutionForward", "xwy", is_gradient=False)

    @functools.cached_property
    def by_data(self) -> Choice:
        """From filters and the outputs' gradients to the images'."""
        return self._choice("ConvolutionBackwardData", "wyx")

    @functools.cached_property
    def by_filter(self) -> Choice:
        """From images and the outputs' gradients to the filters'."""
        return self._choice("ConvolutionBackwardFilter", "xyw")

    def images(self, xp: Any, x: Any) -> Any:
        """The images, with zeros around them where the library's padding does not do."""
        return x if self.outside is None else pad(xp, x, self.over)

    @functools.cached_property
    def _orders(self) -> dict[int, Order]:
        return {layout: Order(self._lib, self._dtype, layout, self.x_dims, self.w_dims, self.y_dims)
                for layout in (c.NHWC, c.NCHW)}

    def forward_ways(self) -> list[Way]:
        """The ways of `forward`; NoWayError if there is none."""
        return self._all_ways("ConvolutionForward", "xwy", is_gradient=False)

    def joined(self, way: Way, relu: bool) -> Way | None:
        """A way of `forward` that also adds a bias, its third array, and does the relu; None if the
        library does not do that in this way: without a relu it does in one alone."""
        if not relu and way.found.algo != c.PRECOMPUTED:
            return None
        order = self._orders[way.layout]
        bias = c.tensor(self._lib, (*[1] * (len(self.y_dims) - 1), self.y_dims[-1]), self._dtype,
                        way.layout)
        act = self._lib.create("Activation", (
            "SetActivationDescriptor", c.RELU if relu else c.IDENTITY, c.NAN, 0.0))
        math = self._math_of(way.found)
        return Way(self._lib, "ConvolutionBiasActivationForward", self._dtype,
                   [order.x, order.w, order.y], self._convolution(math), way.found, way.layout,
                   bias, act)

    def _choice(self, name: str, roles: str, is_gradient: bool = True) -> Choice:
        return self.choice_of(self._all_ways(name, roles, is_gradient))

    def choice_of(self, ways: Sequence[Computes]) -> Choice:
        """The choice among some ways, measured if the plan's are."""
        return Choice(ways, self._is_measured, self._lib.pause)

    def _all_ways(self, name: str, roles: str, is_gradient: bool) -> list[Way]:
        """The ways in both orders. The rule: channels last first, except for gradients where
        the library has few ways for these, in float32 and float64."""
        rule = [c.NHWC, c.NCHW]
        if is_gradient and self._math == c.FMA_MATH:
            rule.reverse()
        ways = [way for layout in rule for way in self._ways(name, roles, layout)]
        if not ways:
            raise c.NoWayError(f"cuDNN knows no way for {name}")
        return ways

    def _ways(self, name: str, roles: str, layout: int) -> list[Way]:
        order = self._orders[layout]
        operands = [getattr(order, role) for role in roles]
        first, second, result = (o.descriptor for o in operands)
        try:
            found = self._lib.ways(name, first, second, self._convolution(self._math), result,
                                   deterministic=self._deterministic)
        except c.NoWayError:
            return []
        each: dict[tuple[int, int], c.AlgorithmFound] = {}
        for one in found:
            each.setdefault((one.algo, self._math_of(one)), one)
        return [Way(self._lib, name, self._dtype, operands, self._convolution(math), one, layout)
                for (_, math), one in list(each.items())[: self._most]]

    def _math_of(self, found: c.AlgorithmFound) -> int:
        """The arithmetic of a way: it is the way's own only where nothing more is rounded."""
        return found.math_type if self._math == c.TENSOR_MATH else self._math

    def _convolution(self, math: int) -> Any:
        compute = c.DOUBLE if self._dtype == np.float64 else c.FLOAT
        return self._lib.create(
            "Convolution", ("SetConvolutionNdDescriptor", len(self.over), c.ints(self._before),
                            c.ints(s.stride for s in self.over), c.ints(s.rate for s in self.over),
                            c.CROSS_CORRELATION, compute),
            ("SetConvolutionGroupCount", self.x_dims[-1] // self.w_dims[-2]),
            ("SetConvolutionMathType", math))


_plan = functools.lru_cache(maxsize=1024)(Plan)


def _symmetric(over: Sequence[Span]) -> bool:
    """True if the library's padding, of as much on both sides, gives the same outputs."""
    return all((s.size + 2 * s.before - extent(s.window, s.rate)) // s.stride + 1 == s.out
               for s in over)


def is_product(over: Sequence[Span]) -> bool:
    """True if every output sees just the input at its place."""
    return all(s.window == s.stride == 1 and s.out == s.size and not s.before for s in over)


class Convolution:
    """A convolution of certain shapes in all three directions."""

    def __init__(self, lib: Any, xp: Any, dtype: np.dtype, x_dims: tuple, w_dims: tuple,
                 over: Sequence[Span]) -> None:
        self.xp, self.x_dims = xp, x_dims
        self.plan = _plan(lib, dtype, math_type(dtype), tuple(x_dims), tuple(w_dims), tuple(over),
                          config.flags.deterministic, config.flags.cudnn_search)

    def forward(self, x: Any, w: Any) -> Any:
        """The outputs."""
        return self.plan.forward(self.xp, self.plan.images(self.xp, x), w)

    def by_input(self, w: Any, dy: Any) -> Any:
        """The gradient of the images."""
        plan = self.plan
        dx = plan.by_data(self.xp, w, dy)
        return dx if plan.outside is None else _inside(self.xp, dx, self.x_dims, plan.over)

    def by_filter(self, x: Any, dy: Any) -> Any:
        """The gradient of the filters."""
        return self.plan.by_filter(self.xp, self.plan.images(self.xp, x), dy)


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
    kept = [min(s.size, n - s.before) for s, n in zip(over, dx.shape[1:-1])]
    seen = (slice(None), *[slice(s.before, s.before + n) for s, n in zip(over, kept)])
    inner = dx[seen]
    if inner.shape == x_dims:
        return xp.ascontiguousarray(inner)
    out = xp.zeros(x_dims, dx.dtype)
    reached = (slice(None), *map(slice, kept))
    out[reached] = inner
    return out


class Shapes:
    """The convolutions of one op, by the shapes that it has seen."""

    def __init__(self, node: KernelNode, lib: Any) -> None:
        self.node, self.lib, self.window = node, lib, window_of(node)
        self.first, self.rank = self.window.channels_first, len(self.window.strides) + 2
        self._found: dict[tuple, Any] = {}

    def of(self, x_dims: tuple, w_dims: tuple, dy_dims: tuple | None = None) -> Any:
        """The convolution of these shapes, channels last; None if there is nothing to compute.

        Raises InvalidArgumentError for shapes that do not fit.
        """
        flags = config.flags
        key = (x_dims, w_dims, dy_dims, flags.tf32, flags.deterministic, flags.cudnn_search)
        try:
            return self._found[key]
        except KeyError:
            made = self._found[key] = self._made(x_dims, w_dims, dy_dims)
            return made

    def _made(self, x_dims: tuple, w_dims: tuple, dy_dims: tuple | None) -> Any:
        if len(w_dims) != self.rank:
            check_rank("filter", np.empty(w_dims, bool), self.rank)
        over = plain.checked_spans(self.window, x_dims, w_dims, dy_dims)
        if 0 in (*x_dims, *w_dims, *(s.out for s in over)):
            return None
        xp, dtype = self.node.xp, self.node.np_dtype()
        if is_product(over) and x_dims[-1] == w_dims[-2]:
            return _Product(xp, x_dims, w_dims)
        return Convolution(self.lib, xp, dtype, x_dims, w_dims, over)

    def forget(self, found: Any) -> None:
        """Leave these shapes to the plain kernel from now on."""
        for key in [k for k, v in self._found.items() if v is found]:
            self._found[key] = None


def attempted(shapes: Shapes, found: Any, compute: Callable[[Any], Any],
               simple: Callable[[], Any]) -> Any:
    """What the library computes; by the plain kernel where the library has no way."""
    if found is None:
        return simple()
    try:
        return compute(found)
    except c.NoWayError:
        shapes.forget(found)
        return simple()


@kernel("Conv2D", "Conv3D", device="GPU", types=_TYPES, fresh=True)
def forward(node: KernelNode) -> Callable:
    """The convolution of input and filter."""
    simple, lib = plain.forward(node), c.serving(node.xp)
    if lib is None:
        return simple
    shapes = Shapes(node, lib)

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, shapes.rank)
        images = last(x, shapes.first)
        found = shapes.of(images.shape, w.shape)
        return attempted(shapes, found, lambda by: restored(by.forward(images, w), shapes.first),
                          lambda: simple(x, w))

    return run


def _by_input(node: KernelNode, simple: Callable, dims_of: Callable) -> Callable:
    lib = c.serving(node.xp)
    if lib is None:
        return simple
    shapes = Shapes(node, lib)

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("out_backprop", dy, shapes.rank)
        x_dims = plain.channels_last(
            plain.described(dims_of(sizes), "input_sizes", shapes.rank), shapes.first)
        grads = last(dy, shapes.first)
        found = shapes.of(x_dims, w.shape, grads.shape)
        return attempted(shapes, found, lambda by: restored(by.by_input(w, grads), shapes.first),
                          lambda: simple(sizes, w, dy))

    return run


def _by_filter(node: KernelNode, simple: Callable, dims_of: Callable) -> Callable:
    lib = c.serving(node.xp)
    if lib is None:
        return simple
    shapes = Shapes(node, lib)

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, shapes.rank)
        check_rank("out_backprop", dy, shapes.rank)
        images, grads = last(x, shapes.first), last(dy, shapes.first)
        w_dims = plain.described(dims_of(sizes), "filter_sizes", shapes.rank)
        found = shapes.of(images.shape, w_dims, grads.shape)
        return attempted(shapes, found, lambda by: by.by_filter(images, grads),
                          lambda: simple(x, sizes, dy))

    return run


def _value(sizes: Any) -> Any:
    return sizes


@kernel("Conv2DBackpropInput", "Conv3DBackpropInputV2", device="GPU", types=_TYPES, fresh=True,
        host_inputs=(0,))
def backprop_input(node: KernelNode) -> Callable:
    """The gradient by the input, whose shape is the first input's value."""
    return _by_input(node, plain.backprop_input(node), _value)


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", device="GPU", types=_TYPES, fresh=True,
        host_inputs=(1,))
def backprop_filter(node: KernelNode) -> Callable:
    """The gradient by the filter, whose shape is the second input's value."""
    return _by_filter(node, plain.backprop_filter(node), _value)


@kernel("Conv3DBackpropInput", device="GPU", types=_TYPES, fresh=True)
def backprop_input_v1(node: KernelNode) -> Callable:
    """The gradient by the input, which the first input has the shape of."""
    return _by_input(node, plain.backprop_input_v1(node), np.shape)


@kernel("Conv3DBackpropFilter", device="GPU", types=_TYPES, fresh=True)
def backprop_filter_v1(node: KernelNode) -> Callable:
    """The gradient by the filter, which the second input has the shape of."""
    return _by_filter(node, plain.backprop_filter_v1(node), np.shape)
