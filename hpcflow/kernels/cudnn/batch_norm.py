"""Batch normalization in training by cuDNN, and its gradient: of images with the channels last."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.nn import batch_norm as plain
from hpcflow.kernels.registry import KernelNode, kernel

_TYPES = {"T": ("float16", "float32")}
_SPATIAL = 1
_FLOAT32 = np.dtype(np.float32)


class _Plan:
    """Batch normalization of images of certain dimensions."""

    def __init__(self, lib: Any, x_dims: tuple, dtype: np.dtype, epsilon: float) -> None:
        self._lib, self._epsilon = lib, epsilon
        self._x = c.tensor(lib, x_dims, dtype)
        self._channels = c.tensor(lib, (1, 1, 1, x_dims[3]), _FLOAT32)
        self.one, self.zero = c.scales(_FLOAT32)
        # From the variance that is free of bias to the other.
        count = math.prod(x_dims[:3])
        self.biased = np.float32((count - 1) / count)

    @functools.cached_property
    def forward(self) -> Callable[..., None]:
        """(x, y, scale, offset, mean, unbiased variance, mean, inverse deviation).

        With a factor of one the running statistics are those of this batch.
        """
        return self._lib.prepare(
            "BatchNormalizationForwardTraining", _SPATIAL, self.one, self.zero, self._x, c.ARRAY,
            self._x, c.ARRAY, self._channels, c.ARRAY, c.ARRAY, 1.0, c.ARRAY, c.ARRAY,
            self._epsilon, c.ARRAY, c.ARRAY)

    @functools.cached_property
    def backward(self) -> Callable[..., None]:
        """(x, dy, dx, scale, its gradient, the offset's, mean, inverse deviation)."""
        one, zero, x = self.one, self.zero, self._x
        return self._lib.prepare(
            "BatchNormalizationBackward", _SPATIAL, one, zero, one, zero, x, c.ARRAY, x, c.ARRAY,
            x, c.ARRAY, self._channels, c.ARRAY, c.ARRAY, c.ARRAY, self._epsilon, c.ARRAY, c.ARRAY)


_plan = functools.lru_cache(maxsize=256)(_Plan)


def _serves(node: KernelNode) -> bool:
    return bool(node.attr("is_training")) and node.attr("data_format") == b"NHWC"


def _fits(x: Any, *parameters: Any) -> bool:
    """True for images of two positions at least, with a parameter in float32 for each channel."""
    return x.ndim == 4 and x.size > x.shape[3] > 0 and all(
        p.shape == x.shape[3:] and p.dtype == _FLOAT32 for p in parameters)


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", device="GPU", types=_TYPES,
        fresh=True)
def fused_batch_norm(node: KernelNode) -> Callable:
    """(y, mean, variance to average, mean, variance); the third is free of bias."""
    simple, lib = plain.fused_batch_norm(node), c.serving(node.xp)
    if lib is None or not _serves(node):
        return simple
    xp, epsilon, extra = node.xp, node.attr("epsilon"), len(node.output_dtypes) > 5

    def run(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> tuple:
        if not _fits(x, scale, offset):
            return simple(x, scale, offset, mean, variance)
        plan = _plan(lib, x.shape, x.dtype, epsilon)
        y, (kept, unbiased, saved, inverse) = xp.empty(x.shape, x.dtype), (
            xp.empty(scale.shape, np.float32) for _ in range(4))
        plan.forward(xp.ascontiguousarray(x), y, scale, offset, kept, unbiased, saved, inverse)
        biased = unbiased * plan.biased
        more = (xp.zeros(0, np.float32),) if extra else ()
        return (y, kept, unbiased, saved, biased, *more)

    return run


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", device="GPU",
        types=_TYPES, fresh=True)
def fused_batch_norm_grad(node: KernelNode) -> Callable:
    """The gradients by x, scale and offset, from the statistics that the op reserved."""
    simple, lib = plain.fused_batch_norm_grad(node), c.serving(node.xp)
    if lib is None or not _serves(node):
        return simple
    xp, epsilon = node.xp, node.attr("epsilon")

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *rest: Any) -> tuple:
        if dy.shape != x.shape or not _fits(x, scale, mean, variance):
            return simple(dy, x, scale, mean, variance, *rest)
        inverse = 1 / xp.sqrt(variance + np.float32(epsilon))
        dx, (by_scale, by_offset) = xp.empty(x.shape, x.dtype), (
            xp.empty(scale.shape, np.float32) for _ in range(2))
        _plan(lib, x.shape, x.dtype, epsilon).backward(
            xp.ascontiguousarray(x), xp.ascontiguousarray(dy), dx, scale, by_scale, by_offset, mean,
            inverse)
        return (dx, by_scale, by_offset, xp.zeros(0, np.float32), xp.zeros(0, np.float32))

    return run
