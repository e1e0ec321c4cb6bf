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

_tensor = functools.lru_cache(maxsize=256)(c.tensor)


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
    one, zero = c.scales(_FLOAT32)

    def run(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> tuple:
        if not _fits(x, scale, offset):
            return simple(x, scale, offset, mean, variance)
        count = math.prod(x.shape[:3])
        images, channels = _tensor(lib, x.shape, x.dtype), _tensor(
            lib, (1, 1, 1, x.shape[3]), _FLOAT32)
        y, (kept, unbiased, saved, inverse) = xp.empty(x.shape, x.dtype), (
            xp.empty(scale.shape, np.float32) for _ in range(4))
        # With a factor of one the running statistics are those of this batch.
        lib.call("BatchNormalizationForwardTraining", lib.handle(), _SPATIAL, one, zero, images,
                 xp.ascontiguousarray(x), images, y, channels, scale, offset, 1.0, kept, unbiased,
                 epsilon, saved, inverse)
        biased = unbiased * np.float32((count - 1) / count)
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
    one, zero = c.scales(_FLOAT32)

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *rest: Any) -> tuple:
        if dy.shape != x.shape or not _fits(x, scale, mean, variance):
            return simple(dy, x, scale, mean, variance, *rest)
        images, channels = _tensor(lib, x.shape, x.dtype), _tensor(
            lib, (1, 1, 1, x.shape[3]), _FLOAT32)
        inverse = 1 / xp.sqrt(variance + np.float32(epsilon))
        dx, (by_scale, by_offset) = xp.empty(x.shape, x.dtype), (
            xp.empty(scale.shape, np.float32) for _ in range(2))
        lib.call("BatchNormalizationBackward", lib.handle(), _SPATIAL, one, zero, one, zero,
                 images, xp.ascontiguousarray(x), images, xp.ascontiguousarray(dy), images, dx,
                 channels, scale, by_scale, by_offset, epsilon, mean, inverse)
        return (dx, by_scale, by_offset, xp.zeros(0, np.float32), xp.zeros(0, np.float32))

    return run
