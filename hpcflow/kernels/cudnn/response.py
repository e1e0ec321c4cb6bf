"""Local response normalization by cuDNN, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import device_response as plain
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float32",)}
_ACROSS_CHANNELS = 0
_FLOAT32 = np.dtype(np.float32)
_WIDEST, _LEAST_BIAS, _LEAST_POWER = 16, 1e-5, 0.01  # what the library takes


def _settings(node: KernelNode) -> tuple[int, float, float, float] | None:
    """(width, alpha, beta, k) as the library counts; None for what it does not take.

    Its alpha is divided by the width of the window.
    """
    width = 2 * int(node.attr("depth_radius")) + 1
    alpha, beta, bias = (float(node.attr(n)) for n in ("alpha", "beta", "bias"))
    if width > _WIDEST or bias < _LEAST_BIAS or beta < _LEAST_POWER:
        return None
    return width, alpha * width, beta, bias


class _Plans:
    """What computes an op on images of the dimensions that it has seen."""

    def __init__(self, lib: Any, settings: tuple[int, float, float, float]) -> None:
        self._lib = lib
        self._norm = lib.create("LRN", ("SetLRNDescriptor", *settings))
        self._one, self._zero = c.scales(_FLOAT32)
        self._calls: dict[tuple, Callable[..., None]] = {}

    def forward(self, dims: tuple) -> Callable[..., None]:
        """(x, y): compute y."""
        if dims not in self._calls:
            x = c.tensor(self._lib, dims, _FLOAT32)
            self._calls[dims] = self._lib.prepare(
                "LRNCrossChannelForward", self._norm, _ACROSS_CHANNELS, self._one, x, c.ARRAY,
                self._zero, x, c.ARRAY)
        return self._calls[dims]

    def backward(self, dims: tuple) -> Callable[..., None]:
        """(y, dy, x, dx): compute dx."""
        if dims not in self._calls:
            x = c.tensor(self._lib, dims, _FLOAT32)
            self._calls[dims] = self._lib.prepare(
                "LRNCrossChannelBackward", self._norm, _ACROSS_CHANNELS, self._one, x, c.ARRAY, x,
                c.ARRAY, x, c.ARRAY, self._zero, x, c.ARRAY)
        return self._calls[dims]


@kernel("LRN", device="GPU", types=_TYPES, fresh=True, priority=1)
def lrn(node: KernelNode) -> Callable:
    """Each channel divided by a power of the squares around it."""
    simple, lib, settings = plain.lrn(node), c.serving(node.xp), _settings(node)
    if lib is None or settings is None:
        return simple
    xp, plans = node.xp, _Plans(lib, settings)

    def run(x: Any) -> Any:
        if x.ndim != 4 or not x.size:
            return simple(x)
        y = xp.empty(x.shape, x.dtype)
        plans.forward(x.shape)(xp.ascontiguousarray(x), y)
        return y

    return run


@kernel("LRNGrad", device="GPU", types=_TYPES, fresh=True, priority=1)
def lrn_grad(node: KernelNode) -> Callable:
    """The gradient by the input, from that, input and output."""
    simple, lib, settings = plain.lrn_grad(node), c.serving(node.xp), _settings(node)
    if lib is None or settings is None:
        return simple
    xp, plans = node.xp, _Plans(lib, settings)

    def run(dy: Any, x: Any, y: Any) -> Any:
        if x.ndim != 4 or not x.size or not dy.shape == x.shape == y.shape:
            return simple(dy, x, y)
        dx = xp.empty(x.shape, x.dtype)
        plans.backward(x.shape)(*map(xp.ascontiguousarray, (y, dy, x)), dx)
        return dx

    return run
