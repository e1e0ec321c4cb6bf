"""The gradient of batch normalization in two passes, compiled by Numba where that is installed.

The first adds up, the second computes the gradient by the image. It goes back from where the first
one ended, which the caches still have. Sums are formed in another order than in the other forms, so
the last bits differ; the deterministic mode keeps to those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import aligned, jit, spread, threads
from hpcflow.kernels import array_loops

_LARGE_BYTES = 1 << 20  # of an image, from which on the loops are worth it
_PARTS_PER_THREAD = 8
_BLOCK_BYTES = 1 << 17  # of each image in the second pass
# Numbers between the sums of two parts: so that a core that fetches ahead does not fetch what
# another one is writing.
_APART = 1 << 10


def gradient(dy: Any, x: Any, scale: Any, mean: Any, inverse: Any,
             compute: Callable[[], tuple]) -> tuple:
    """The gradients by x, scale and offset, by statistics of this batch.

    Args:
        dy, x: images of one shape and dtype, channels last.
        scale, mean: a number of the same dtype for each channel.
        inverse: of the standard deviations.
        compute: finds the same without the loops.
    """
    vectors = scale, mean, inverse
    if x.nbytes < _LARGE_BYTES or not jit.approximates() or any(
            [type(a) is not np.ndarray or a.dtype != x.dtype for a in (dy, x, *vectors)]):
        return compute()
    numbers = np.empty((4, scale.size), x.dtype)
    adds = array_loops.find(_ADD, [dy, x, mean], [(2, x.dtype)], 4)
    applies = array_loops.find(_APPLY, [dy, x, numbers], [(x.ndim, x.dtype)], 4)
    if adds is None or applies is None or adds.function is None or applies.function is None:
        return array_loops.timed(adds, lambda: array_loops.timed(applies, compute))
    by_offset, product = _sums(adds, dy, x, mean)
    by_scale, count = product * inverse, x.dtype.type(x.size // scale.size)
    numbers[0], numbers[1] = mean, scale * inverse
    np.divide(by_offset, count, out=numbers[2])
    np.multiply(by_scale, inverse / count, out=numbers[3])
    return _applied(applies, dy, x, numbers), by_scale, by_offset


def _sums(found: jit.Compiled, dy: Any, x: Any, mean: Any) -> Any:
    """Σ dy and Σ dy (x - mean) of each channel."""
    channels = mean.size
    rows = x.size // channels
    step = -(-rows // (_PARTS_PER_THREAD * threads.pool().size))
    step += -step % _AT_ONCE
    sums = np.zeros((-(-rows // step), 2 * channels + _APART), x.dtype)
    uses = spread.WHOLE * 4 + spread.START + spread.STOP + spread.WHOLE * 2
    spread.run(found, rows, step, uses, [dy, x, mean, sums, 0, 0, step, channels])
    total = np.add.reduce(sums, 0, np.float64).astype(x.dtype)
    return total[: 2 * channels].reshape(2, channels)


def _applied(found: jit.Compiled, dy: Any, x: Any, numbers: Any) -> Any:
    """slope (dy - by_mean - (x - mean) by_spread), with `numbers` mean, slope, by_mean, by_spread.
    """
    channels = numbers.shape[1]
    rows, dx = x.size // channels, aligned.empty(x.shape, x.dtype)
    step = max(1, _BLOCK_BYTES // (channels * x.itemsize))
    uses = spread.WHOLE * 4 + spread.START + spread.STOP + spread.WHOLE * 2
    spread.run(found, rows, step, uses, [dy, x, numbers, dx, 0, 0, rows, channels])
    return dx


_AT_ONCE = 4  # rows that are added up before their sum is

# Rows `first` to `last` of all, in parts of `step` rows that have sums of their own.
_ADD = """
def loop(dy, x, mean, sums, first, last, step, channels):
    dy, x, count = flat(dy), flat(x), np.uint64(channels)
    part = sums[first // step]
    totals, products = part[:channels], part[channels:]
    whole = last - (last - first) % 4
    for row in range(first, whole, 4):
        i = np.uint64(row * channels)
        j, k, l = i + count, i + count + count, i + count + count + count
        for c in range(count):
            totals[c] += (dy[i + c] + dy[j + c]) + (dy[k + c] + dy[l + c])
            products[c] += (dy[i + c] * (x[i + c] - mean[c]) + dy[j + c] * (x[j + c] - mean[c])
                            + (dy[k + c] * (x[k + c] - mean[c]) + dy[l + c] * (x[l + c] - mean[c])))
    for row in range(whole, last):
        i = np.uint64(row * channels)
        for c in range(count):
            totals[c] += dy[i + c]
            products[c] += dy[i + c] * (x[i + c] - mean[c])
"""

# The rows as far from the end as `first` and `last` are from the beginning.
_APPLY = """
def loop(dy, x, numbers, dx, first, last, rows, channels):
    dy, x, dx, count = flat(dy), flat(x), flat(dx), np.uint64(channels)
    mean, slope, by_mean, by_spread = numbers[0], numbers[1], numbers[2], numbers[3]
    for row in range(rows - last, rows - first):
        i = np.uint64(row * channels)
        for c in range(count):
            dx[i + c] = slope[c] * (dy[i + c] - by_mean[c] - (x[i + c] - mean[c]) * by_spread[c])
"""
