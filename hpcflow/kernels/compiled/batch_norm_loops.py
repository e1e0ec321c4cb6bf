"""The gradient of batch normalization as two compiled loops.

The first adds up, the second computes the gradient by the image. It goes back from where the first
one ended, which the caches still have, and writes over the gradient that came in where nobody else
needs that: memory is what both wait for. Sums are formed in another order than in the other forms,
so the last bits differ; the deterministic mode keeps to those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.loops import compiling
from hpcflow.loops.form import DENSE, PER_COLUMN, Builder, Map, Program
from hpcflow.loops.form_loop import FormLoop


def gradient(dy: Any, x: Any, scale: Any, mean: Any, inverse: Any,
             compute: Callable[[], tuple], own: bool = False) -> tuple:
    """The gradients by x, scale and offset, by statistics of this batch.

    Args:
        dy, x: images of one shape and dtype, channels last.
        scale, mean: a number of the same dtype for each channel.
        inverse: of the standard deviations.
        compute: finds the same without the loops.
        own: nobody needs `dy` any more, so it may become the result.
    """
    arrays = dy, x, scale, mean, inverse
    if not x.size or not compiling.approximates() or not _fit(arrays):
        return compute()
    channels = scale.size
    loops = _loops(compiling.name_of(x.dtype), channels)
    adds, applies = loops.sums.compiled(), loops.gradient.compiled()
    if adds is None or applies is None or adds.function is None or applies.function is None:
        return array_loops.timed(adds, lambda: array_loops.timed(applies, compute))
    by_offset, by_scale = np.empty((2, channels), x.dtype)
    numbers, rows = np.empty((3, channels), x.dtype), x.size // channels
    loops.sums.run(adds, rows, (dy, x, scale, mean, inverse, by_offset, by_scale, numbers),
                   (1 / rows,))
    dx = dy if own and dy.flags.writeable else memory.empty(x.shape, x.dtype)
    images = [a.reshape(rows, channels) for a in (dy, x, dx)]
    step = max(1, tuning.BATCH_NORM_BACK_BYTES // images[0].strides[0])
    for stop in range(rows, 0, -step):
        part = slice(max(0, stop - step), stop)
        dy_part, x_part, dx_part = (a[part] for a in images)
        loops.gradient.run(applies, len(dx_part), (dy_part, x_part, mean, numbers, dx_part))
    return dx, by_scale, by_offset


def _fit(arrays: tuple) -> bool:
    """True if all are contiguous arrays of one floating-point type that loops exist for."""
    dtype = arrays[0].dtype
    return dtype.isnative and dtype.char in "fd" and all(
        [type(a) is np.ndarray and a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned
         for a in arrays])


class _Loops(NamedTuple):
    sums: FormLoop
    gradient: FormLoop


@functools.lru_cache(maxsize=64)
def _loops(dtype: str, channels: int) -> _Loops:
    return _Loops(FormLoop(_sums(dtype, channels)), FormLoop(_gradient(dtype, channels)))


def _sums(dtype: str, channels: int) -> Program:
    """Of dy, x, scale, mean and inverse, and 1 / rows: the gradients by offset, Σ dy, and by scale,
    Σ dy (x - mean) inverse; and what `_gradient` needs beside these."""
    b = Builder(channels)
    dy, x = (b.load(b.array(dtype), DENSE) for _ in range(2))
    scale, mean, inverse = (b.load(b.array(dtype), PER_COLUMN) for _ in range(3))
    by_offset = b.reduce_columns("sum", dy)
    product = b.reduce_columns("sum", b.apply("multiply", dy, b.apply("subtract", x, mean)))
    by_scale = b.apply("multiply", product, inverse)
    b.store(b.array(dtype), PER_COLUMN, by_offset)
    b.store(b.array(dtype), PER_COLUMN, by_scale)
    numbers, share = b.array(dtype), b.argument(dtype)
    spread = b.apply("multiply", by_scale, inverse)
    for k, value in enumerate((b.apply("multiply", scale, inverse),
                               b.apply("multiply", by_offset, share),
                               b.apply("multiply", spread, share))):
        b.store(numbers, Map(0, 1, channels * k), value)
    return b.program()


def _gradient(dtype: str, channels: int) -> Program:
    """dx = slope (dy - by_mean - (x - mean) by_spread), of dy, x, mean, and the other three."""
    b = Builder(channels)
    dy, x = (b.load(b.array(dtype), DENSE) for _ in range(2))
    mean, numbers = b.load(b.array(dtype), PER_COLUMN), b.array(dtype)
    slope, by_mean, by_spread = (b.load(numbers, Map(0, 1, channels * k)) for k in range(3))
    spread = b.apply("multiply", b.apply("subtract", x, mean), by_spread)
    rest = b.apply("subtract", b.apply("subtract", dy, by_mean), spread)
    b.store(b.array(dtype), DENSE, b.apply("multiply", slope, rest))
    return b.program()
