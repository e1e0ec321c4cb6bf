"""Poolings by oneDNN, and their gradients.

The maximum of a window of nothing but minus infinity is the lowest finite number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.kernels.common.windows import Window, in_float32, window_of
from hpcflow.kernels.compiled import pooling_loops
from hpcflow.kernels.nn import fused
from hpcflow.kernels.nn.convolution import channels_last
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.convolution import TYPES, numpy_kernel
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_MAX, _MEAN_WITHOUT_PADDING = 511, 1023
_OPTIONS: dict[str, Any] = {"device": "CPU", "types": {"T": TYPES}, "priority": 10, "fresh": True}


class _Pooling:
    """Forward and backward primitives of one pooling, for arrays of one shape."""

    def __init__(self, lib: Library, algorithm: int, dims: tuple, over: Sequence[Span],
                 first: bool, keep: bool) -> None:
        self.lib, self.algorithm = lib, algorithm
        batch, *space, channels = dims
        out = (batch, channels, *(s.out for s in over))
        dims = (batch, channels, *space)
        self.x = p.Description(lib, dims, p.image_strides(dims, first))
        self.y = p.Description(lib, out, p.image_strides(out, first))
        self.window = [p.vector(numbers) for numbers in (
            [s.stride for s in over], [s.window for s in over], [0] * len(over),
            [s.before for s in over], [s.after for s in over])]
        desc = self._forward_desc(p.FORWARD_TRAINING if keep else p.FORWARD_INFERENCE)
        arguments = [(p.SRC, self.x), (p.DST, self.y)]
        self.places = 0
        if keep:
            workspace = p.Description.chosen(desc, lib, p.WORKSPACE_MD)
            self.places = workspace.bytes
            if self.places:
                arguments.append((p.WORKSPACE, workspace))
            self.back = self._backward(workspace)
        self.run = p.Primitive(lib, desc, arguments)

    def _forward_desc(self, kind: int) -> Any:
        return self.lib.create("pooling_forward_primitive_desc_create", self.lib.engine, kind,
                               self.algorithm, self.x.handle, self.y.handle, *self.window,
                               self.lib.attr)

    def _backward(self, workspace: p.Description) -> p.Primitive:
        lib, hint = self.lib, self._forward_desc(p.FORWARD_TRAINING)
        desc = lib.create("pooling_backward_primitive_desc_create", lib.engine, self.algorithm,
                          self.x.handle, self.y.handle, *self.window, hint, lib.attr)
        lib.call("primitive_desc_destroy", hint)
        arguments = [(p.DIFF_DST, self.y), (p.DIFF_SRC, self.x)]
        if self.places:
            arguments.append((p.WORKSPACE, workspace))
        return p.Primitive(lib, desc, arguments)

    def forward(self, x: Any, y: Any) -> None:
        """Pool `x` into `y`."""
        self.run(address_of(x), address_of(y))

    def max_gradient(self, x: Any, dy: Any, dx: Any) -> None:
        """The gradient by `x`: pools again, which says where the maxima are."""
        y = p.thread.buffer("pooled", dy.nbytes)
        places = p.thread.buffer("places", self.places)
        self.run(address_of(x), y, places)
        self.back(address_of(dy), address_of(dx), places)

    def forward_with_places(self, x: Any, y: Any) -> Any:
        """Pool `x` into `y`; returns where the maxima are, for :meth:`gradient_at`."""
        places = memory.empty((self.places,), np.uint8)
        self.run(address_of(x), address_of(y), address_of(places))
        return places

    def gradient_at(self, places: Any, dy: Any, dx: Any) -> None:
        """The gradient by `x` of a pooling whose maxima are known."""
        self.back(address_of(dy), address_of(dx), address_of(places))

    def mean_gradient(self, dy: Any, dx: Any) -> None:
        """The gradient of means does not depend on the input."""
        self.back(address_of(dy), address_of(dx))


@functools.lru_cache(maxsize=1024)
def _pooling(lib: Library, algorithm: int, dims: tuple, over: tuple, first: bool,
             keep: bool) -> _Pooling | None:
    """The primitives for one shape; None if the library has none."""
    try:
        return _Pooling(lib, algorithm, dims, over, first, keep)
    except OneDNNError:
        return None


def _over_channels(node: KernelNode, window: Window) -> bool:
    channel = 1 if window.channels_first else -1
    return node.attr("ksize")[channel] != 1 or node.attr("strides")[channel] != 1


def _chosen(node: KernelNode) -> tuple:
    """(library or None, NumPy kernel, window, algorithm) for an op."""
    window = window_of(node)
    lib = None if _over_channels(node, window) else load()
    algorithm = _MAX if "Max" in node.op_type else _MEAN_WITHOUT_PADDING
    return lib, numpy_kernel(node), window, algorithm


def _out_shape(x_dims: tuple, over: Sequence[Span], first: bool) -> tuple[int, ...]:
    space = tuple(s.out for s in over)
    return (x_dims[0], x_dims[-1], *space) if first else (x_dims[0], *space, x_dims[-1])


@kernel("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D", **_OPTIONS)
def _forward(node: KernelNode) -> Callable:
    lib, fallback, window, algorithm = _chosen(node)
    if lib is None:
        return fallback
    first, rank = window.channels_first, len(window.windows) + 2
    is_looped = algorithm == _MAX and not first

    def run(x: Any) -> Any:
        if x.ndim != rank or not x.size:
            return fallback(x)
        dims = channels_last(x.shape, first)
        over = window.over(dims[1:-1])
        pooling = _pooling(lib, algorithm, dims, over, first, False)
        if pooling is None:
            return fallback(x)

        def compute() -> Any:
            y = memory.empty(_out_shape(dims, over, first), np.float32)
            pooling.forward(np.ascontiguousarray(x), y)
            return y

        return pooling_loops.forward(x, over, compute) if is_looped else compute()

    return in_float32(node, run)


@kernel("MaxPoolGrad", **_OPTIONS)
@kernel("MaxPool3DGrad", **{**_OPTIONS, "types": {"T": TYPES, "TInput": TYPES}})
def _max_gradient(node: KernelNode) -> Callable:
    lib, fallback, window, algorithm = _chosen(node)
    if lib is None:
        return fallback
    first, rank = window.channels_first, len(window.windows) + 2

    def run(x: Any, y: Any, dy: Any) -> Any:
        if x.ndim != rank or not x.size:
            return fallback(x, y, dy)
        dims = channels_last(x.shape, first)
        over = window.over(dims[1:-1])
        pooling = _pooling(lib, algorithm, dims, over, first, True)
        expected = _out_shape(dims, over, first)
        if pooling is None or y.shape != expected or dy.shape != expected:
            return fallback(x, y, dy)

        def compute() -> Any:
            dx = memory.empty(x.shape, np.float32)
            pooling.max_gradient(np.ascontiguousarray(x), np.ascontiguousarray(dy), dx)
            return dx

        return compute() if first else pooling_loops.gradient(x, dy, over, compute)

    return in_float32(node, run)


@kernel("AvgPoolGrad", "AvgPool3DGrad", **_OPTIONS)
def _mean_gradient(node: KernelNode) -> Callable:
    lib, fallback, window, algorithm = _chosen(node)
    if lib is None:
        return fallback
    first, rank = window.channels_first, len(window.windows) + 2

    def run(shape: Any, dy: Any) -> Any:
        x_dims = tuple(int(n) for n in np.asarray(shape).reshape(-1))
        if len(x_dims) != rank or min(x_dims) < 0:
            raise invalid(f"orig_input_shape must be {rank} sizes but is {shown(x_dims)}")
        dims = channels_last(x_dims, first)
        if 0 in dims:
            return fallback(shape, dy)
        over = window.over(dims[1:-1])
        pooling = _pooling(lib, algorithm, dims, over, first, True)
        if pooling is None or dy.shape != _out_shape(dims, over, first):
            return fallback(shape, dy)
        dx = memory.empty(x_dims, np.float32)
        pooling.mean_gradient(np.ascontiguousarray(dy), dx)
        return dx

    return in_float32(node, run)


# ---------------------------------------------------------------- with the places of the maxima


@kernel("_MaxPool", device="CPU", priority=10, fresh=True)
def _forward_with_places(node: KernelNode) -> Callable:
    plain, pooling_of = fused.max_pool(node), _with_places(node)

    def run(x: Any) -> tuple:
        found = pooling_of(x)
        if found is None:
            return plain(x)
        pooling, dims = found
        y = memory.empty(dims, np.float32)
        return y, pooling.forward_with_places(np.ascontiguousarray(x), y)

    return run


@kernel("_MaxPoolGrad", device="CPU", priority=10, fresh=True)
def _gradient_at_places(node: KernelNode) -> Callable:
    plain, pooling_of = fused.max_pool_grad(node), _with_places(node)

    def run(x: Any, y: Any, dy: Any, places: Any) -> Any:
        found = pooling_of(x)
        if found is None or not y.shape == dy.shape == found[1]:
            return plain(x, y, dy, places)
        dx = memory.empty(x.shape, np.float32)
        found[0].gradient_at(places, np.ascontiguousarray(dy), dx)
        return dx

    return run


def _with_places(node: KernelNode) -> Callable:
    """A function of the input: (its pooling, the shape of the output), or None without one.

    Forward and backward ask alike, so the places are the library's wherever both find a pooling.
    """
    window = window_of(node)
    lib = None if _over_channels(node, window) else load()
    first = window.channels_first

    def find(x: Any) -> tuple | None:
        if lib is None or x.ndim != 4 or not x.size:
            return None
        dims = channels_last(x.shape, first)
        over = window.over(dims[1:-1])
        pooling = _pooling(lib, _MAX, dims, over, first, True)
        if pooling is None or not pooling.places:
            return None
        return pooling, _out_shape(dims, over, first)

    return find
