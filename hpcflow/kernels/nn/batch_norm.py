"""Kernels of batch normalization as one op, and of its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.math.device_sums import reducer
from hpcflow.kernels.nn import channel_rows as rows
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_FLOATS = {"T": ("float16", "float32", "float64")}


class _Layout:
    """Sums over everything but the channels, and vectors that broadcast along them."""

    def __init__(self, node: KernelNode, data_format: bytes) -> None:
        first = data_format == b"NCHW"
        self._total = _sums if node.xp is np else reducer(node.device, "sum")
        self.channel = 1 if first else 3
        self.others = (0, 2, 3) if first else (0, 1, 2)
        self._vector = (-1, 1, 1) if first else (-1,)
        self._dot = "nchw,nchw->c" if first else "nhwc,nhwc->c"

    def along(self, vector: Any) -> Any:
        return vector.reshape(self._vector)

    def sum(self, x: Any) -> Any:
        return self._total(x, self.others)

    def dot(self, xp: Any, x: Any, y: Any) -> Any:
        return np.einsum(self._dot, x, y) if xp is np else self.sum(x * y)

    def count(self, x: Any) -> int:
        return math.prod(x.shape[a] for a in self.others)

    def check(self, x: Any, **vectors: Any) -> None:
        check_rank("x", x, 4)
        for what, vector in vectors.items():
            if vector.shape != (x.shape[self.channel],):
                raise invalid(f"{what} {shown(vector)} does not fit the channels of "
                              f"{shown(x)}")


def _sums(x: Any, axes: tuple[int, ...]) -> Any:
    return x.sum(axis=axes)


def _wide(*arrays: Any) -> list:
    return [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]


def moments(xp: Any, x: Any, layout: _Layout) -> tuple[Any, Any]:
    """(mean, variance); NaN for an empty batch."""
    count = layout.count(x)
    number = x.dtype.type(count if count else np.nan)
    mean = layout.sum(x) / number
    centered = x - layout.along(mean)
    return mean, layout.dot(xp, centered, centered) / number


def _results(node: KernelNode, *values: Any) -> tuple:
    return tuple(v.astype(node.np_dtype(i), copy=False) for i, v in enumerate(values))


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", types=_FLOATS, fresh=True)
def fused_batch_norm(node: KernelNode) -> Callable:
    """(y, mean, variance to average, mean, variance); the third is free of bias in training."""
    xp, epsilon, layout = node.xp, node.attr("epsilon"), _Layout(node, node.attr("data_format"))
    training, extra = node.attr("is_training"), len(node.output_dtypes) > 5
    by_rows = xp is np and layout.channel == 3

    def run(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> tuple:
        layout.check(x, scale=scale, offset=offset)
        x, scale, offset, mean, variance = _wide(x, scale, offset, mean, variance)
        flat = x.reshape(-1, x.shape[3]) if by_rows and x.size else None
        if training:
            mean, variance = moments(xp, x, layout) if flat is None else rows.moments(flat)
            count = layout.count(x)
            unbiased = variance * variance.dtype.type(count / max(count - 1, 1))
        else:
            layout.check(x, mean=mean, variance=variance)
            unbiased = variance
        slope = scale / xp.sqrt(variance + variance.dtype.type(epsilon))
        if flat is None:
            y = (x - layout.along(mean)) * layout.along(slope) + layout.along(offset)
        else:
            y = rows.normalized(flat, mean, slope, offset).reshape(x.shape)
        more = (xp.zeros(0, scale.dtype),) if extra else ()
        kept = mean.copy(), variance.copy()
        if not training:  # what came in does not go out
            mean, unbiased = mean.copy(), variance.copy()
        return _results(node, y, mean, unbiased, *kept, *more)

    return run


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", types=_FLOATS,
        fresh=True)
def fused_batch_norm_grad(node: KernelNode) -> Callable:
    """The gradients by x, scale and offset, from the statistics that the op reserved."""
    xp, epsilon, layout = node.xp, node.attr("epsilon"), _Layout(node, node.attr("data_format"))
    training = node.attr("is_training")

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *_: Any) -> tuple:
        layout.check(x, scale=scale, reserve_space_1=mean, reserve_space_2=variance)
        if dy.shape != x.shape:
            raise invalid(f"y_backprop {shown(dy)} must have the shape of x {shown(x)}")
        dy, x, scale, mean, variance = _wide(dy, x, scale, mean, variance)
        inverse = 1 / xp.sqrt(variance + variance.dtype.type(epsilon))
        empty = xp.zeros(0, scale.dtype)
        if xp is np and layout.channel == 3 and x.size:
            found = _by_blocks(dy, x, scale, mean, inverse, training)
            return _results(node, *found, empty, empty.copy())
        unit = (x - layout.along(mean)) * layout.along(inverse)
        by_offset, by_scale = layout.sum(dy), layout.dot(xp, dy, unit)
        if training:
            number = x.dtype.type(max(layout.count(x), 1))
            dy = dy - layout.along(by_offset / number)
            dy -= unit * layout.along(by_scale / number)
        dx = dy * layout.along(scale * inverse)
        return _results(node, dx, by_scale, by_offset, empty, empty.copy())

    return run


def _by_blocks(dy: Any, x: Any, scale: Any, mean: Any, inverse: Any, training: bool) -> tuple:
    """(dx, by scale, by offset) for channels that come last."""
    dims, channels = x.shape, x.shape[3]
    dy, x = dy.reshape(-1, channels), x.reshape(-1, channels)
    by_offset, product = rows.gradient_sums(dy, x, mean)
    by_scale, slope = product * inverse, scale * inverse
    if training:
        number = x.dtype.type(len(x))
        dx = rows.input_gradient(dy, x, mean, slope, by_offset / number,
                                 by_scale * inverse / number)
    else:
        dx = rows.normalized(dy, np.zeros_like(slope), slope, np.zeros_like(slope))
    return dx.reshape(dims), by_scale, by_offset


@kernel("BatchNormWithGlobalNormalization", types=_FLOATS, fresh=True)
def _global(node: KernelNode) -> Callable:
    xp, layout = node.xp, _Layout(node, b"NHWC")
    epsilon, scaled = node.attr("variance_epsilon"), node.attr("scale_after_normalization")

    def run(t: Any, m: Any, v: Any, beta: Any, gamma: Any) -> Any:
        layout.check(t, m=m, v=v, beta=beta)
        inverse = 1 / xp.sqrt(v + v.dtype.type(epsilon))
        if scaled:
            layout.check(t, gamma=gamma)
            inverse = inverse * gamma
        return (t - m) * inverse + beta

    return run


@kernel("BatchNormWithGlobalNormalizationGrad", types=_FLOATS, fresh=True)
def _global_grad(node: KernelNode) -> Callable:
    """By everything, with mean and variance as variables of their own."""
    xp, layout = node.xp, _Layout(node, b"NHWC")
    epsilon, scaled = node.attr("variance_epsilon"), node.attr("scale_after_normalization")

    def run(t: Any, m: Any, v: Any, gamma: Any, dy: Any) -> tuple:
        layout.check(t, m=m, v=v)
        if dy.shape != t.shape:
            raise invalid(f"backprop {shown(dy)} must have the shape of t {shown(t)}")
        inverse = 1 / xp.sqrt(v + v.dtype.type(epsilon))
        total, product = layout.sum(dy), layout.dot(xp, dy, t - m)
        slope = inverse * gamma if scaled else inverse
        by_gamma = product * inverse if scaled else xp.zeros_like(gamma)
        half = t.dtype.type(-0.5)
        return (dy * slope, -total * slope, half * product * slope * inverse * inverse, total,
                by_gamma)

    return run
