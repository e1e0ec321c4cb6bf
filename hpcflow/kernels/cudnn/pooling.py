"""Pooling of images by cuDNN, and its gradients: where windows move over height and width alone,
with as much padding on both sides."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, moves
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import pooling as plain
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float16", "float32", "float64")}
_MAX, _MEAN_INSIDE, _NAN = 0, 2, 1


class _Plan:
    """The descriptors of one pooling."""

    def __init__(self, lib: Any, mode: int, dtype: np.dtype, x_dims: tuple,
                 over: Sequence[Span]) -> None:
        self.lib = lib
        height, width = over[:2]
        self.y_dims = (x_dims[0], height.out, width.out, x_dims[-1])
        self.x, self.y = c.tensor(lib, x_dims, dtype), c.tensor(lib, self.y_dims, dtype)
        self.pooling = lib.create("Pooling", (
            "SetPooling2dDescriptor", mode, _NAN, height.window, width.window, height.before,
            width.before, height.stride, width.stride))
        self.one, self.zero = c.scales(dtype)

    def forward(self, x: Any, y: Any) -> None:
        """Compute y."""
        self.lib.call("PoolingForward", self.lib.handle(), self.pooling, self.one, self.x, x,
                      self.zero, self.y, y)

    def backward(self, x: Any, y: Any, dy: Any, dx: Any) -> None:
        """Compute dx."""
        self.lib.call("PoolingBackward", self.lib.handle(), self.pooling, self.one, self.y, y,
                      self.y, dy, self.x, x, self.zero, self.x, dx)


_plan = functools.lru_cache(maxsize=1024)(_Plan)


def _serves(dims: Sequence[int], over: Sequence[Span]) -> bool:
    """True if cuDNN computes the same."""
    return (len(over) == 3 and not moves(over[2]) and 0 not in dims
            and all(s.rate == 1 and s.out > 0 and s.before < s.window
                    and (s.size + 2 * s.before - s.window) // s.stride + 1 == s.out
                    for s in over[:2]))


def _forward(mode: int, simple_of: Callable) -> Callable:
    def factory(node: KernelNode) -> Callable:
        simple, lib, geometry = simple_of(node), c.serving(node.xp), plain._geometry(node)
        if lib is None:
            return simple
        xp = node.xp

        def run(x: Any) -> Any:
            over = geometry(x)
            if not _serves(x.shape, over):
                return simple(x)
            plan = _plan(lib, mode, x.dtype, x.shape, over)
            y = xp.empty(plan.y_dims, x.dtype)
            plan.forward(xp.ascontiguousarray(x), y)
            return y

        return run

    return factory


kernel("MaxPool", device="GPU", types=_TYPES, fresh=True)(_forward(_MAX, plain.max_pool))
kernel("AvgPool", device="GPU", types=_TYPES, fresh=True)(_forward(_MEAN_INSIDE, plain.avg_pool))


@kernel("MaxPoolGrad", device="GPU", types=_TYPES, fresh=True)
def max_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient at one of its window's largest elements."""
    simple, lib, geometry = plain.max_pool_grad(node), c.serving(node.xp), plain._geometry(node)
    if lib is None:
        return simple
    xp = node.xp

    def run(x: Any, y: Any, dy: Any) -> Any:
        over = geometry(x, "orig_input")
        if not _serves(x.shape, over) or y.shape != dy.shape:
            return simple(x, y, dy)
        plan = _plan(lib, _MAX, x.dtype, x.shape, over)
        if dy.shape != plan.y_dims:
            return simple(x, y, dy)
        dx = xp.empty(x.shape, x.dtype)
        x, y, dy = map(xp.ascontiguousarray, (x, y, dy))
        plan.backward(x, y, dy, dx)
        return dx

    return run
