"""Fused batch normalization by oneDNN, and its gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.kernels.nn.convolution import channels_last
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.convolution import numpy_kernel
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, kernel

_GLOBAL_STATISTICS, _SCALE_AND_SHIFT = 1, 2 | 4
_OPTIONS: dict[str, Any] = {"device": "CPU", "priority": 10}
_ONE, _TWO = {"T": ["float32"]}, {"T": ["float32"], "U": ["float32"]}


class _BatchNorm:
    """The forward or the backward primitive for arrays of one shape."""

    def __init__(self, lib: Library, dims: tuple, first: bool, epsilon: float, training: bool,
                 backward: bool) -> None:
        batch, *space, channels = dims
        self.lib, dims = lib, (batch, channels, *space)
        self.x = p.Description(lib, dims, p.image_strides(dims, first))
        self.vector = p.Description(lib, (channels,), (1,))
        self.flags = _SCALE_AND_SHIFT | (0 if training else _GLOBAL_STATISTICS)
        self.run = self._backward(epsilon) if backward else self._forward(epsilon)

    def _forward_desc(self, epsilon: float) -> Any:
        return self.lib.create("batch_normalization_forward_primitive_desc_create",
                               self.lib.engine, p.FORWARD_TRAINING, self.x.handle, self.x.handle,
                               epsilon, self.flags, self.lib.attr)

    def _forward(self, epsilon: float) -> p.Primitive:
        vectors = [(i, self.vector) for i in (p.SCALE, p.SHIFT, p.MEAN, p.VARIANCE)]
        return p.Primitive(self.lib, self._forward_desc(epsilon),
                           [(p.SRC, self.x), *vectors, (p.DST, self.x)])

    def _backward(self, epsilon: float) -> p.Primitive:
        lib, hint = self.lib, self._forward_desc(epsilon)
        desc = lib.create("batch_normalization_backward_primitive_desc_create", lib.engine,
                          p.BACKWARD, self.x.handle, self.x.handle, self.x.handle, epsilon,
                          self.flags, hint, lib.attr)
        lib.call("primitive_desc_destroy", hint)
        given = [(i, self.vector) for i in (p.SCALE, p.MEAN, p.VARIANCE)]
        made = [(i, self.vector) for i in (p.DIFF_SCALE, p.DIFF_SHIFT)]
        return p.Primitive(lib, desc, [(p.DIFF_DST, self.x), (p.SRC, self.x), *given,
                                       (p.DIFF_SRC, self.x), *made])


@functools.lru_cache(maxsize=512)
def _primitive(lib: Library, dims: tuple, first: bool, epsilon: float, training: bool,
               backward: bool) -> p.Primitive | None:
    """The primitive for one shape; None if the library has none."""
    try:
        return _BatchNorm(lib, dims, first, epsilon, training, backward).run
    except OneDNNError:
        return None


def _fits(x: Any, first: bool, *vectors: Any) -> bool:
    """True if the shapes are valid and not empty; otherwise NumPy's kernel reports the error."""
    return bool(x.ndim == 4 and x.size) and all(
        v.shape == (x.shape[1 if first else 3],) for v in vectors)


def _addresses(*arrays: Any) -> list[int]:
    return [address_of(a) for a in arrays]


@kernel("FusedBatchNorm", types=_ONE, fresh=True, **_OPTIONS)
@kernel("FusedBatchNormV2", "FusedBatchNormV3", types=_TWO, fresh=True, **_OPTIONS)
def _forward(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return fallback
    first, training = node.attr("data_format") == b"NCHW", node.attr("is_training")
    epsilon, extra = node.attr("epsilon"), len(node.output_dtypes) > 5

    def run(x: Any, *vectors: Any) -> tuple:
        checked = vectors[:2] if training else vectors
        run_all = None
        if _fits(x, first, *checked):
            run_all = _primitive(lib, channels_last(x.shape, first), first, epsilon, training,
                                 False)
        if run_all is None:
            return fallback(x, *vectors)
        x, scale, offset, mean, variance = map(np.ascontiguousarray, (x, *vectors))
        y = memory.empty(x.shape, np.float32)
        if training:
            mean, variance = np.empty_like(scale), np.empty_like(scale)
        run_all(*_addresses(x, scale, offset, mean, variance, y))
        count = x.size // scale.size
        unbiased = variance * np.float32(count / max(count - 1, 1) if training else 1)
        more = (np.zeros(0, np.float32),) if extra else ()
        kept = (mean, variance) if training else (mean.copy(), variance.copy())
        return (y, mean.copy(), unbiased, *kept, *more)

    return run


@kernel("FusedBatchNormGrad", types=_ONE, fresh=True, takes_over=0, **_OPTIONS)
@kernel("FusedBatchNormGradV2", "FusedBatchNormGradV3", types=_TWO, fresh=True, takes_over=0,
        **_OPTIONS)
def _gradient(node: KernelNode) -> Callable:
    lib, fallback = load(), numpy_kernel(node)
    if lib is None:
        return lambda *inputs, own=False: fallback(*inputs)
    first, training = node.attr("data_format") == b"NCHW", node.attr("is_training")
    epsilon = node.attr("epsilon")

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *rest: Any,
            own: bool = False) -> tuple:
        run_all = None
        if _fits(x, first, scale, mean, variance) and dy.shape == x.shape:
            run_all = _primitive(lib, channels_last(x.shape, first), first, epsilon, training,
                                 True)
        if run_all is None:
            return fallback(dy, x, scale, mean, variance, *rest)
        given = [np.ascontiguousarray(a) for a in (dy, x, scale, mean, variance)]

        is_free = (own or given[0] is not dy) and given[0].flags.writeable
        dx = given[0] if is_free else memory.empty(x.shape, np.float32)
        by_scale, by_offset = np.empty_like(given[2]), np.empty_like(given[2])
        run_all(*_addresses(*given, dx, by_scale, by_offset))
        return dx, by_scale, by_offset, *(np.zeros(0, np.float32) for _ in range(2))

    return run
