"""Local response normalization by cuDNN, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import response as plain
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float32",)}
_ACROSS_CHANNELS = 0
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


@kernel("LRN", device="GPU", types=_TYPES, fresh=True)
def lrn(node: KernelNode) -> Callable:
    """Each channel divided by a power of the squares around it."""
    simple, lib, settings = plain.lrn(node), c.serving(node.xp), _settings(node)
    if lib is None or settings is None:
        return simple
    xp, norm = node.xp, lib.create("LRN", ("SetLRNDescriptor", *settings))
    one, zero = c.scales(np.dtype(np.float32))

    def run(x: Any) -> Any:
        if x.ndim != 4 or not x.size:
            return simple(x)
        images, y = c.tensor(lib, x.shape, x.dtype), xp.empty(x.shape, x.dtype)
        lib.call("LRNCrossChannelForward", lib.handle(), norm, _ACROSS_CHANNELS, one, images,
                 xp.ascontiguousarray(x), zero, images, y)
        return y

    return run


@kernel("LRNGrad", device="GPU", types=_TYPES, fresh=True)
def lrn_grad(node: KernelNode) -> Callable:
    """The gradient by the input, from that, input and output."""
    simple, lib, settings = plain.lrn_grad(node), c.serving(node.xp), _settings(node)
    if lib is None or settings is None:
        return simple
    xp, norm = node.xp, lib.create("LRN", ("SetLRNDescriptor", *settings))
    one, zero = c.scales(np.dtype(np.float32))

    def run(dy: Any, x: Any, y: Any) -> Any:
        if x.ndim != 4 or not x.size or not dy.shape == x.shape == y.shape:
            return simple(dy, x, y)
        images, dx = c.tensor(lib, x.shape, x.dtype), xp.empty(x.shape, x.dtype)
        dy, x, y = map(xp.ascontiguousarray, (dy, x, y))
        lib.call("LRNCrossChannelBackward", lib.handle(), norm, _ACROSS_CHANNELS, one, images, y,
                 images, dy, images, x, zero, images, dx)
        return dx

    return run
