"""Batch normalization on a device, with the channels last: two launches each way.

The first sums over everything but the channels, and makes of the sums the few numbers of each
channel that the second applies to all elements. Sums of squares are taken of the distance from the
first element of a channel, so that a large mean does not swallow the variance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.nn import batch_norm as plain
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops.cuda import Launch, Programs
from hpcflow.loops.form import DENSE, PER_COLUMN, Builder, Program

_TYPES = {"T": ("float16", "float32", "float64")}


class _Writer:
    """A program over images of one dtype with so many channels.

    Numbers of channels have the type that is computed in.
    """

    def __init__(self, channels: int, dtype: str) -> None:
        self.b = Builder(channels)
        self.dtype = dtype
        self.wide = "float32" if dtype == "float16" else dtype

    def image(self) -> int:
        """The element of one more array of images."""
        return self.b.cast(self.b.load(self.b.array(self.dtype), DENSE), self.wide)

    def vector(self) -> int:
        """The number of one more array of channels."""
        return self.b.load(self.b.array(self.wide), PER_COLUMN)

    def number(self, value: float) -> int:
        """A constant."""
        return self.b.constant(value, self.wide)

    def put(self, value: int) -> None:
        """One more array of channels, written to."""
        self.b.store(self.b.array(self.wide), PER_COLUMN, value)

    def put_image(self, value: int) -> None:
        """One more array of images, written to."""
        self.b.store(self.b.array(self.dtype), DENSE, self.b.cast(value, self.dtype))

    def inverse(self, variance: int, epsilon: float) -> int:
        """One over the deviation."""
        root = self.b.apply("sqrt", self.b.apply("add", variance, self.number(epsilon)))
        return self.b.apply("divide", self.number(1.0), root)


def statistics(channels: int, dtype: str, epsilon: float) -> Program:
    """(x, scale, mean, unbiased variance, mean, variance, slope, count, correction)."""
    w = _Writer(channels, dtype)
    b = w.b
    x, images = w.image(), 0
    scale = w.vector()
    count, correction = b.argument(w.wide), b.argument(w.wide)
    start = b.cast(b.load(images, PER_COLUMN), w.wide)  # the first row
    distance = b.apply("subtract", x, start)
    shift = b.apply("divide", b.reduce_columns("sum", distance), count)
    squares = b.apply("divide", b.reduce_columns("sum", b.apply("square", distance)), count)
    mean = b.apply("add", start, shift)
    variance = b.apply("maximum", b.apply("subtract", squares, b.apply("square", shift)),
                       w.number(0.0))
    for value in (mean, b.apply("multiply", variance, correction), mean, variance,
                  b.apply("multiply", scale, w.inverse(variance, epsilon))):
        w.put(value)
    return b.program()


def normalization(channels: int, dtype: str) -> Program:
    """(x, mean, slope, offset, y)."""
    w = _Writer(channels, dtype)
    x, mean, slope, offset = w.image(), w.vector(), w.vector(), w.vector()
    scaled = w.b.apply("multiply", w.b.apply("subtract", x, mean), slope)
    w.put_image(w.b.apply("add", scaled, offset))
    return w.b.program()


def gradient_sums(channels: int, dtype: str, epsilon: float) -> Program:
    """(dy, x, scale, mean, variance, by scale, by offset, slope, and what is subtracted from dy:
    a number, and one for each unit of x minus its mean, count)."""
    w = _Writer(channels, dtype)
    b = w.b
    dy, x, scale, mean, variance = w.image(), w.image(), w.vector(), w.vector(), w.vector()
    count = b.argument(w.wide)
    inverse = w.inverse(variance, epsilon)
    by_offset = b.reduce_columns("sum", dy)
    product = b.reduce_columns("sum", b.apply("multiply", dy, b.apply("subtract", x, mean)))
    by_scale = b.apply("multiply", product, inverse)
    each = b.apply("divide", b.apply("multiply", by_scale, inverse), count)
    for value in (by_scale, by_offset, b.apply("multiply", scale, inverse),
                  b.apply("divide", by_offset, count), each):
        w.put(value)
    return b.program()


def gradient(channels: int, dtype: str, training: bool) -> Program:
    """(dy, slope, dx), in training (dy, x, mean, slope, common, each, dx)."""
    w = _Writer(channels, dtype)
    b = w.b
    if training:
        dy, x, mean, slope, common, each = (w.image(), w.image(), *(w.vector() for _ in range(4)))
        part = b.apply("multiply", b.apply("subtract", x, mean), each)
        dy = b.apply("subtract", b.apply("subtract", dy, common), part)
    else:
        dy, slope = w.image(), w.vector()
    w.put_image(b.apply("multiply", dy, slope))
    return b.program()


def _fits(x: Any, *parameters: Any) -> bool:
    """True for images with a parameter for each channel, in the type that is computed in."""
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    return x.ndim == 4 and x.size > 0 and all(
        p.shape == x.shape[3:] and p.dtype == wide for p in parameters)


def _programs(node: KernelNode) -> Programs | None:
    found: Programs | None = getattr(node.device, "programs", None)
    return found if node.attr("data_format") == b"NHWC" else None


def _prepared(programs: Programs, make: Callable[..., Program]) -> Callable[..., Launch]:
    """What runs the program that ``make(channels, dtype name, ...)`` writes."""
    return functools.cache(lambda *given: programs.prepare((make(*given),)))


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", device="GPU", types=_TYPES,
        fresh=True)
def fused_batch_norm(node: KernelNode) -> Callable:
    """(y, mean, variance to average, mean, variance); the third is free of bias in training."""
    simple, programs = plain.fused_batch_norm(node), _programs(node)
    if programs is None or not node.attr("is_training"):
        return simple
    xp, epsilon, extra = node.xp, node.attr("epsilon"), len(node.output_dtypes) > 5
    sums, normalized = _prepared(programs, statistics), _prepared(programs, normalization)

    def run(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> tuple:
        if not _fits(x, scale, offset):
            return simple(x, scale, offset, mean, variance)
        x, scale, offset = map(programs.dense, (x, scale, offset))
        channels, name, wide = x.shape[3], x.dtype.name, scale.dtype.type
        rows = x.size // channels
        made = [xp.empty(scale.shape, scale.dtype) for _ in range(5)]
        sums(channels, name, epsilon)((rows,), ([
            x, scale, *made, wide(rows), wide(rows / max(rows - 1, 1))],))
        y, slope = xp.empty(x.shape, x.dtype), made.pop()
        normalized(channels, name)((rows,), ([x, made[0], slope, offset, y],))
        return (y, *made, *((xp.empty(0, scale.dtype),) if extra else ()))

    return run


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", device="GPU",
        types=_TYPES, fresh=True)
def fused_batch_norm_grad(node: KernelNode) -> Callable:
    """The gradients by x, scale and offset, from the statistics that the op reserved."""
    simple, programs = plain.fused_batch_norm_grad(node), _programs(node)
    if programs is None:
        return simple
    xp, epsilon, training = node.xp, node.attr("epsilon"), bool(node.attr("is_training"))
    sums, applied = _prepared(programs, gradient_sums), _prepared(programs, gradient)

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *rest: Any) -> tuple:
        if dy.shape != x.shape or dy.dtype != x.dtype or not _fits(x, scale, mean, variance):
            return simple(dy, x, scale, mean, variance, *rest)
        dy, x, scale, mean, variance = map(programs.dense, (dy, x, scale, mean, variance))
        channels, name = x.shape[3], x.dtype.name
        rows = x.size // channels
        made = [xp.empty(scale.shape, scale.dtype) for _ in range(5)]
        sums(channels, name, epsilon)((rows,), ([
            dy, x, scale, mean, variance, *made, scale.dtype.type(rows)],))
        by_scale, by_offset, slope, common, each = made
        dx = xp.empty(x.shape, x.dtype)
        given = [dy, x, mean, slope, common, each, dx] if training else [dy, slope, dx]
        applied(channels, name, training)((rows,), (given,))
        return (dx, by_scale, by_offset, xp.empty(0, scale.dtype), xp.empty(0, scale.dtype))

    return run
