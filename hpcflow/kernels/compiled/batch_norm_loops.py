"""The gradient of batch normalization in two passes of compiled loops.

The first adds up, the second computes the gradient by the image. It goes back from where the first
one ended, which the caches still have, and writes over the gradient that came in where nobody else
needs that: memory is what both passes wait for. Sums are formed in another order than in the other
forms, so the last bits differ; the deterministic mode keeps to those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.loops import compiling, parallel_for

_AT_ONCE = 8  # rows that a loop takes
# Numbers between the sums of two parts: so that a core that fetches ahead does not fetch what
# another one is writing.
_APART = 1 << 10


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
    if x.nbytes < tuning.BATCH_NORM_LARGE_BYTES or not compiling.approximates() or not _fit(arrays):
        return compute()
    adds, applies = (compiling.compiled(loop) for loop in _loops(compiling.name_of(x.dtype)))
    if adds.function is None or applies.function is None:
        return array_loops.timed(adds, lambda: array_loops.timed(applies, compute))
    numbers = np.empty((4, scale.size), x.dtype)
    by_offset, product = _sums(adds, dy, x, mean)
    by_scale, count = product * inverse, x.dtype.type(x.size // scale.size)
    numbers[0], numbers[1] = mean, scale * inverse
    np.divide(by_offset, count, out=numbers[2])
    np.multiply(by_scale, inverse / count, out=numbers[3])
    dx = dy if own and dy.flags.writeable else memory.empty(x.shape, x.dtype)
    _apply(applies, dy, x, numbers, dx)
    return dx, by_scale, by_offset


def _fit(arrays: tuple) -> bool:
    """True if all are contiguous arrays of one floating-point type that loops exist for."""
    dtype = arrays[0].dtype
    return dtype.isnative and dtype.char in "fd" and all(
        [type(a) is np.ndarray and a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned
         for a in arrays])


@functools.lru_cache(maxsize=4)
def _loops(dtype: str) -> tuple[compiling.Loop, compiling.Loop]:
    return compiling.ChannelSums(dtype), compiling.ChannelGradient(dtype)


def _sums(found: compiling.Compiled, dy: Any, x: Any, mean: Any) -> Any:
    """Σ dy and Σ dy (x - mean) of each channel."""
    channels = mean.size
    rows = x.size // channels
    step = -(-rows // (tuning.BATCH_NORM_PARTS_PER_THREAD * threads.pool().size))
    step += -step % _AT_ONCE
    sums = np.zeros((-(-rows // step), 2 * channels + _APART), x.dtype)
    uses = parallel_for.WHOLE * 4 + parallel_for.START + parallel_for.STOP + parallel_for.WHOLE * 2
    parallel_for.run(found, rows, step, uses, [dy, x, mean, sums, 0, 0, step, channels])
    total = np.add.reduce(sums[:, : 2 * channels], 0, np.float64).astype(x.dtype)
    return total.reshape(2, channels)


def _apply(found: compiling.Compiled, dy: Any, x: Any, numbers: Any, dx: Any) -> None:
    """Let `dx` be slope (dy - by_mean - (x - mean) by_spread), with `numbers` mean, slope, by_mean
    and by_spread."""
    channels = numbers.shape[1]
    rows = x.size // channels
    step = max(1, tuning.BATCH_NORM_BLOCK_BYTES // (channels * x.itemsize))
    uses = parallel_for.WHOLE * 4 + parallel_for.START + parallel_for.STOP + parallel_for.WHOLE * 2
    parallel_for.run(found, rows, step, uses, [dy, x, numbers, dx, 0, 0, rows, channels])
