"""Gradients of max poolings in one pass, compiled by Numba where that is installed.

A window finds its first largest input and adds its gradient there while the inputs are in cache.
The sums that overlapping windows form have another order than in the forms without, so their last
bits differ; the deterministic mode keeps to those.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, moves, whole
from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.loops import compiling, window_gradients
from hpcflow.loops.window_gradients import RANK

_DTYPES = ("float32", "float64")


def max_gradient(x: Any, dy: Any, over: Sequence[Span], compute: Callable[[], Any]) -> Any:
    """The gradient of a max pooling by its input.

    Args:
        x: the input of the pooling.
        dy: the gradient by its output.
        over: how the window moves along each dimension but the first.
        compute: finds the same without the loop.
    """
    axes = _axes(tuple(over)) if _fit(x, dy) else None
    if axes is None:
        return compute()
    planes, moving, channels = axes
    window = tuple([s.window for s in moving])
    found = compiling.compiled(
        _loop(compiling.name_of(x.dtype), window,
              math.prod(window) <= tuning.POOLING_MOST_UNROLLED))
    if found.function is None:
        began = time.perf_counter()
        dx = compute()
        found.spent(time.perf_counter() - began)
        return dx
    dx = memory.empty(x.shape, x.dtype)
    flat = [a.reshape(-1) for a in (x, dy, dx)]
    _run(found.function, flat, len(x) * planes, moving, channels)
    return dx


def _fit(x: Any, dy: Any) -> bool:
    return (type(x) is np.ndarray and x.size >= tuning.POOLING_LARGE and compiling.approximates()
            and x.dtype == dy.dtype and compiling.name_of(x.dtype) in _DTYPES
            and all([a.flags.c_contiguous and a.flags.aligned for a in (x, dy)]))


@functools.lru_cache(maxsize=1024)
def _axes(over: tuple[Span, ...]) -> tuple[int, tuple[Span, ...], int] | None:
    """Return the number of planes in an element of the batch, `RANK` spans of the windows in a
    plane, and the number of channels side by side; None if windows move along more dimensions, or
    none."""
    moving = [i for i, s in enumerate(over) if moves(s)]
    if not moving or moving[-1] - moving[0] >= RANK or any(s.rate != 1 for s in over):
        return None
    first, end = moving[0], moving[-1] + 1
    return (math.prod(s.size for s in over[:first]),
            (*[whole(1)] * (RANK - end + first), *over[first:end]),
            math.prod(s.size for s in over[end:]))


def _run(loop: Callable, arrays: list, planes: int, moving: Sequence[Span], channels: int) -> None:
    """Run the loop on all cores: over planes, and over groups of channels if the planes are few."""
    x = arrays[0]
    cores = threads.pool().size if x.nbytes >= loops_tuning.PARALLEL_LARGE_BYTES else 1
    lanes = window_gradients.lanes(x.itemsize)
    group = -(-channels // -(-cores // planes))
    group += -group % lanes
    groups = -(-channels // group)
    spans = tuple([(s.size, s.window, s.stride, s.out, s.before) for s in moving])
    ranges = threads.bounds(planes * groups, 1 if cores == 1 else 4 * cores, 1)
    threads.pool().run(lambda k: loop(*arrays, *ranges[k], groups, group, channels, spans),
                       len(ranges))


_loop = functools.lru_cache(maxsize=256)(window_gradients.MaxGradient)
