"""Pinned host memory, through which values go to a GPU and come back.

The GPU copies from and to pinned memory by itself, while host and kernels go on. A block must not
be written to before the last copy out of it is complete; so it comes back to its pool together
with the event of that copy.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.memory import address_of
from hpcflow.host.tuning import gpu as tuning

_PORTABLE = 1  # cudaHostRegisterPortable: for all GPUs of the process


class Pinned:
    """A block of pinned memory, as bytes, and the event of the last copy from or to it."""

    __slots__ = ("memory", "array", "event")

    def __init__(self, xp: Any, nbytes: int) -> None:
        self.memory = xp.cuda.alloc_pinned_memory(nbytes)
        self.array = np.frombuffer(self.memory, np.uint8, nbytes)
        self.event = xp.cuda.Event(disable_timing=True)

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.memory.ptr)

    def typed(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """An array of this type at its beginning."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.array[:count].view(dtype).reshape(shape)


class PinnedPool:
    """The blocks of one device for one direction, in sizes that are powers of two."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._free: dict[int, deque[Pinned]] = {}
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Pinned:
        """A block of at least so many bytes that nobody uses."""
        size = max(tuning.PINNED_LEAST_BYTES, 1 << (nbytes - 1).bit_length())
        with self._lock:
            waiting = self._free.get(size)
            # The one that has been given back first is complete first.
            if waiting and (waiting[0].event.done or len(waiting) >= tuning.PINNED_MOST):
                block = waiting.popleft()
            else:
                block = None
        if block is None:
            return Pinned(self._xp, size)
        if not block.event.done:
            block.event.synchronize()
        return block

    def give(self, block: Pinned) -> None:
        """Give a block back whose event has been recorded behind its last use."""
        with self._lock:
            self._free.setdefault(block.array.size, deque()).append(block)


def array(xp: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
    """An array in pinned memory of its own; None if there is none."""
    count = math.prod(shape)
    try:
        nbytes = count * np.dtype(dtype).itemsize
        memory = xp.cuda.alloc_pinned_memory(nbytes)
    except Exception:  # noqa: BLE001  (every part of CUDA has errors of its own)
        return None
    return np.frombuffer(memory, np.uint8, nbytes).view(dtype).reshape(shape)


def register(xp: Any, memory: np.ndarray) -> Callable[[], None] | None:
    """Pin the memory of an array; returns what takes that back, or None if it cannot be pinned."""
    runtime, key = xp.cuda.runtime, address_of(memory)
    with _lock:
        if key not in _registered:
            try:
                runtime.hostRegister(key, memory.nbytes, _PORTABLE)
            except Exception:  # noqa: BLE001  (limits of the system, or no such call)
                return None
            _registered[key] = 0
        _registered[key] += 1

    def release(kept: np.ndarray = memory) -> None:  # the memory lives until then
        with _lock:
            _registered[key] -= 1
            if not _registered[key]:
                del _registered[key]
                with contextlib.suppress(Exception):  # the driver may be gone
                    runtime.hostUnregister(key)

    return release


# How often memory is registered, by its address.
_registered: dict[int, int] = {}
_lock = threading.Lock()
