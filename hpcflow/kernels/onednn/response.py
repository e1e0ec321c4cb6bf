"""Local response normalization by oneDNN, and its gradient.

The library's fast code is for the power 3/4; the kernels of NumPy do the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.kernels.common.windows import in_float32
from hpcflow.kernels.nn import response
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.convolution import TYPES, numpy_kernel
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, kernel

_ACROSS_CHANNELS = 0xAFF  # the algorithm
_POWER = 0.75
# The library's gradient over wider windows than of 5 channels is wrong in the last channels unless
# their number is a multiple of this.
_LANES = 16
_OPTIONS: dict[str, Any] = {"device": "CPU", "types": {"T": TYPES}, "priority": 10, "fresh": True}


class _Response:
    """Forward and backward primitives for images of one shape, channels last.

    Attributes:
        noted: bytes that a forward pass notes for the backward pass; zero where the library has
            nothing but its slow reference.
    """

    def __init__(self, lib: Library, dims: tuple, radius: int, alpha: float, bias: float) -> None:
        batch, *space, channels = dims
        self.lib, dims = lib, (batch, channels, *space)
        self.x = p.Description(lib, dims, p.image_strides(dims, False))
        size = 2 * radius + 1
        self._numbers = size, alpha * size, _POWER, bias  # the library takes the mean of squares
        hint = self._forward_desc(p.FORWARD_TRAINING)
        notes = p.Description.chosen(hint, lib, p.WORKSPACE_MD)
        self.noted = notes.bytes
        desc = lib.create("lrn_backward_primitive_desc_create", lib.engine, _ACROSS_CHANNELS,
                          self.x.handle, self.x.handle, self.x.handle, *self._numbers, hint,
                          lib.attr)
        more = [(p.WORKSPACE, notes)] if self.noted else []
        self._back = p.Primitive(lib, desc, [(p.SRC, self.x), (p.DIFF_DST, self.x),
                                             (p.DIFF_SRC, self.x), *more])
        both = [(p.SRC, self.x), (p.DST, self.x)]
        self._note = p.Primitive(lib, hint, [*both, *more])
        self._run = p.Primitive(lib, self._forward_desc(p.FORWARD_INFERENCE), both)

    def _forward_desc(self, kind: int) -> Any:
        return self.lib.create("lrn_forward_primitive_desc_create", self.lib.engine, kind,
                               _ACROSS_CHANNELS, self.x.handle, self.x.handle, *self._numbers,
                               self.lib.attr)

    def forward(self, x: Any, y: Any) -> None:
        """Normalize `x` into `y`."""
        self._run(address_of(x), address_of(y))

    def gradient(self, dy: Any, x: Any, dx: Any) -> None:
        """The gradient by `x`: normalizes again, which notes what the library needs."""
        notes = p.thread.buffer("notes", self.noted)
        # The result is of no use; the gradient overwrites it.
        self._note(address_of(x), address_of(dx), notes)
        self._back(address_of(x), address_of(dy), address_of(dx), notes)


@functools.lru_cache(maxsize=512)
def _response(lib: Library, dims: tuple, radius: int, alpha: float, bias: float) -> Any:
    """The primitives for one shape; None if the library has no fast ones."""
    try:
        made = _Response(lib, dims, radius, alpha, bias)
    except OneDNNError:
        return None
    return made if made.noted else None


def _finder(node: KernelNode) -> Callable | None:
    """A function of images that finds their primitives, or None for all."""
    lib, radius = load(), node.attr("depth_radius")
    # The library crashes when asked for the gradient over windows of one channel.
    if lib is None or node.attr("beta") != _POWER or radius < 1:
        return None
    alpha, bias = node.attr("alpha"), node.attr("bias")

    def find(x: Any) -> _Response | None:
        if x.ndim != 4 or not x.size or (radius > 2 and x.shape[3] % _LANES):
            return None
        return _response(lib, x.shape, radius, alpha, bias)

    return find


@kernel("LRN", **_OPTIONS)
def _lrn(node: KernelNode) -> Callable:
    fallback, find = numpy_kernel(node), _finder(node)
    if find is None:
        return fallback

    def run(x: Any) -> Any:
        found = find(x)
        if found is None:
            return fallback(x)
        y = memory.empty(x.shape, np.float32)
        found.forward(np.ascontiguousarray(x), y)
        return y

    return in_float32(node, run)


@kernel("_LRNGrad", device="CPU", priority=10, fresh=True)
def _lrn_grad(node: KernelNode) -> Callable:
    """Of an output that is the LRN of `x`, since the library computes it again."""
    fallback, find = response.lrn_grad(node), _finder(node)
    if find is None:
        return fallback

    def run(dy: Any, x: Any, y: Any) -> Any:
        found = find(x)
        if found is None or not dy.shape == x.shape == y.shape:
            return fallback(dy, x, y)
        dx = memory.empty(x.shape, np.float32)
        found.gradient(np.ascontiguousarray(dy), np.ascontiguousarray(x), dx)
        return dx

    return run
