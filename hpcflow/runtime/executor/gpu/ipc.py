"""Memory of a GPU that another process of the node writes to (CUDA IPC).

The receiver exports memory, the sender opens it and copies from GPU to GPU. Exported memory must
not be freed while the other process has it open; so it lives until both have done with it: the
lane that exported it, and the sender, which says when it has closed it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu.streams import Streams

#: Where values lie in exported memory: at multiples of so many bytes.
ALIGNMENT = 512
_WHOLE = 2 << 20  # CUDA shares pages of this size; so nothing else lies in them


class Exported:
    """`nbytes` of memory of the current GPU that rank `rank` may write to; ``number`` names it."""

    def __init__(self, streams: Streams, rank: int, nbytes: int) -> None:
        self.rank = rank
        self.nbytes = -(-nbytes // _WHOLE) * _WHOLE
        self._memory = streams.xp.cuda.Memory(self.nbytes)  # of its own, not of a pool
        self.handle: bytes = streams.xp.cuda.runtime.ipcGetMemHandle(self._memory.ptr)
        self.number = next(_numbers)

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self._memory.ptr)


class Exports:
    """The memory that this process has exported."""

    def __init__(self) -> None:
        self._kept: dict[int, Exported] = {}
        self._half: set[int] = set()  # that one side has done with
        self._refused: set[int] = set()  # ranks that cannot open it
        self._lock = threading.Lock()

    def make(self, streams: Streams, rank: int, nbytes: int) -> Exported | None:
        """Export memory to a rank of the node; None if it does not go, or there is too little."""
        with self._lock:
            held = sum(e.nbytes for e in self._kept.values())
        if rank in self._refused or (
                (held + nbytes) * tuning.EXPORTED_PART > streams.device.mem_info[1]):
            return None
        try:
            made = Exported(streams, rank, nbytes)
        except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
            self.refuse(rank, f"this GPU exports no memory: {e}")
            return None
        with self._lock:
            self._kept[made.number] = made
        return made

    def refuse(self, rank: int, why: str) -> None:
        """Export nothing more to a rank."""
        with self._lock:
            known = rank in self._refused
            self._refused.add(rank)
        if not known:
            logging.getLogger("hpcflow").info(
                "Values of GPUs go through host memory between this rank and rank %d: %s",
                rank, why)

    def done(self, number: int) -> None:
        """One of both sides has done with exported memory; behind the second it is free."""
        with self._lock:
            if number in self._half:
                self._half.discard(number)
                self._kept.pop(number, None)
            elif number in self._kept:
                self._half.add(number)

    def rank_lost(self, rank: int) -> None:
        """A rank is gone, and with it all that it had open."""
        with self._lock:
            numbers = [n for n, e in self._kept.items() if e.rank == rank]
        for number in numbers:
            self.done(number)

    def count(self) -> int:
        """How much memory is exported."""
        return len(self._kept)


class Opened:
    """Memory of another process that this one has open: `address` is where it begins here."""

    def __init__(self, streams: Streams, handle: bytes) -> None:
        self._close: Callable[[int], None] = streams.xp.cuda.runtime.ipcCloseMemHandle
        self.address: int = streams.xp.cuda.runtime.ipcOpenMemHandle(handle)

    def close(self) -> None:
        """Do not use it any more."""
        self._close(self.address)


def open_of(streams: Streams, rank: int, handle: bytes) -> Opened | None:
    """Open what `rank` has exported; None if it cannot be opened, which is said once."""
    try:
        return Opened(streams, handle)
    except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
        exports.refuse(rank, f"its memory cannot be opened here: {e}")
        return None


def aligned(nbytes: int) -> int:
    """The bytes that a value takes in exported memory."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


_numbers = itertools.count()
exports = Exports()


def copy_to(streams: Streams, watched: Any, value: Any, address: int) -> tuple[Any, Any]:
    """Begin to copy a device array to `address` behind the kernels that compute it: the array, to
    be kept, and the event until which both must be left alone."""
    streams.refuse("values go to another process")
    value = value if value.flags.c_contiguous else streams.xp.ascontiguousarray(value)
    streams.down.wait_event(streams.event(streams.compute))
    _copy(streams, watched("to another process", value.nbytes, streams.down), address,
          value.data.ptr, value.nbytes, streams.down)
    return value, streams.event(streams.down)


def copy_from(streams: Streams, watched: Any, address: int, shape: tuple[int, ...],
              dtype: Any) -> tuple[Any, Any]:
    """An array with what lies at `address`, and the event until which that must stay."""
    streams.refuse("values come from another process")
    made = streams.xp.empty(shape, dtype)
    _copy(streams, watched("from another process", made.nbytes, streams.compute), made.data.ptr,
          address, made.nbytes, streams.compute)
    return made, streams.event(streams.compute)


def _copy(streams: Streams, noted: Callable[[], None], target: int, source: int, nbytes: int,
          stream: Any) -> None:
    runtime = streams.xp.cuda.runtime
    runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream.ptr)
    noted()
