"""The ways in which the library computes a convolution, and which of them is taken.

What is fast depends on shapes, the order of memory and the card. So the first time each way that
the library's heuristics name among the best (or any way at all, if ``HPCFLOW_CUDNN_SEARCH`` is
``all``) runs a few times, and the fastest stays. In the deterministic mode, without a search, and
while a graph is recorded, the first way by a fixed rule is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.cudnn.orders import Operand


class Way:
    """One algorithm of the library, on operands in one order of memory.

    With the descriptors of a bias and an activation it takes the bias as its third array.
    """

    def __init__(self, lib: Any, name: str, dtype: np.dtype, operands: Sequence[Operand],
                 convolution: Any, found: c.AlgorithmFound, layout: int,
                 *joined: Any) -> None:
        self.found, self.layout = found, layout
        place = "last" if layout == c.NHWC else "first"
        #: For people.
        self.title = (f"algorithm {found.algo}, math {found.math_type}, channels {place}, "
                      f"{found.memory >> 20} MiB" + (", with bias" if joined else ""))
        first, second, result = self._operands = operands
        one, zero = c.scales(dtype)
        #: Bytes of the memory that the algorithm wants for itself.
        self.memory = found.memory
        #: All bytes that are taken while it computes, besides operands and result.
        self.extra = found.memory + sum(o.extra for o in operands)
        given = [one, first.descriptor, c.ARRAY, second.descriptor, c.ARRAY, convolution,
                 found.algo, c.ARRAY if found.memory else None, found.memory, zero,
                 result.descriptor, c.ARRAY]
        if joined:  # the last array is added, times zero, before the bias, and is the result
            bias, activation = joined
            given += [bias, c.ARRAY, activation, result.descriptor, c.ARRAY]
        self._run = lib.prepare(name, *given)

    def __call__(self, xp: Any, a: Any, b: Any, *bias: Any) -> Any:
        """The result; CudnnError if the library does not compute it."""
        first, second, result = self._operands
        a, b, made = first.entered(xp, a), second.entered(xp, b), result.blank(xp)
        memory = [xp.empty(self.memory, np.uint8)] if self.memory else []
        if bias:
            self._run(a, b, *memory, made, xp.ascontiguousarray(bias[0]), made)
        else:
            self._run(a, b, *memory, made)
        del a, b, memory
        return result.left(xp, made)


class Computes(Protocol):
    """What a choice is among: a way, or one with something behind it; see `Way`."""

    title: str
    memory: int
    extra: int

    def __call__(self, xp: Any, *given: Any) -> Any:
        """The result."""


class Choice:
    """One function of a convolution, by the best of `ways`, which come in the order of the rule: by
    the fastest one if they are measured, each behind a `pause`, else by the first that works."""

    def __init__(self, ways: Sequence[Computes], is_measured: bool,
                 pause: Callable[[], None] = lambda: None) -> None:
        self._ways, self._pause = [*ways], pause
        self._is_measured = is_measured
        #: What was measured: ways by their titles, and milliseconds.
        self.times: dict[str, float] = {}
        self._is_settled = len(ways) < 2
        self._lock = threading.Lock()

    def __call__(self, xp: Any, *given: Any) -> Any:
        """The result; NoWayError if the library has no way that works, MemoryError if there is too
        little memory for all of them."""
        short: MemoryError | None = None
        if not self._is_settled:
            self._settle(xp, given)
        for way in list(self._ways):
            try:
                return way(xp, *given)
            except c.NoWayError:
                self._ways = [w for w in self._ways if w is not way]
            except MemoryError as e:
                short = e  # another way may take less
        if short is not None:
            raise short
        raise c.NoWayError("no way of cuDNN for this convolution works")

    def _settle(self, xp: Any, given: tuple) -> None:
        with self._lock:
            if self._is_settled or xp.cuda.get_current_stream().is_capturing():
                return
            most = room(xp)
            self._ways = [w for w in self._ways if w.extra <= most
                          and w.memory <= tuning.CUDNN_MOST_BYTES] or [
                min(self._ways, key=lambda w: w.extra)]
            if len(self._ways) > 1 and self._is_measured:
                times = measured(xp, self._ways, given, self._pause)
                self.times = {w.title: ms for w, ms in times.items()}
                self._ways = preferred(times) or self._ways
            self._is_settled = True


def preferred(times: dict[Computes, float]) -> list[Computes]:
    """The ways, the fastest first; but before it the one that takes the least memory of those that
    are about as fast."""
    if not times:
        return []
    most = tuning.CUDNN_AS_FAST * min(times.values())
    first = min((w for w, ms in times.items() if ms <= most), key=lambda w: (w.extra, times[w]))
    return [first, *sorted((w for w in times if w is not first), key=times.__getitem__)]


def room(xp: Any) -> int:
    """Bytes that a way may take of those that are free."""
    pool = xp.get_default_memory_pool()
    free = xp.cuda.Device().mem_info[0] + pool.total_bytes() - pool.used_bytes()
    if pool.get_limit():
        free = min(free, pool.get_limit() - pool.used_bytes())
    return free // tuning.CUDNN_PART_OF_FREE


def measured(xp: Any, ways: Sequence[Computes], given: tuple,
             pause: Callable[[], None]) -> dict[Computes, float]:
    """The ways that work, and their milliseconds.

    The memory that they take is given back to the GPU, or to what a limit leaves.
    """
    common, stream = xp.get_default_memory_pool(), xp.cuda.get_current_stream()
    pool = xp.cuda.MemoryPool(common.malloc if common.get_limit() else None)
    times: dict[Computes, float] = {}
    with xp.cuda.using_allocator(pool.malloc):
        for way in ways:
            try:
                best = min(times.values(), default=np.inf)
                times[way] = _milliseconds(xp, way, given, best, pause)
            except (c.CudnnError, MemoryError):
                continue
            finally:
                stream.synchronize()
                pool.free_all_blocks()
    return times


def _milliseconds(xp: Any, way: Computes, given: tuple, best: float,
                  pause: Callable[[], None]) -> float:
    """Of a run after the first, which loads code; of the better of two, if it may be the best."""
    way(xp, *given)
    first = _timed(xp, way, given)
    if first < tuning.CUDNN_SHORT_MS:  # much of it may be the host's
        return _timed(xp, way, given, pause)
    return first if first > tuning.CUDNN_HOPELESS * best else min(first, _timed(xp, way, given))


def _timed(xp: Any, way: Computes, given: tuple, pause: Callable[[], None] | None = None) -> float:
    start, end = xp.cuda.Event(), xp.cuda.Event()
    if pause is not None:
        pause()
    start.record()
    way(xp, *given)
    end.record()
    end.synchronize()
    return xp.cuda.get_elapsed_time(start, end)
