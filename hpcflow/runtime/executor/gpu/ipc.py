"""Memory of a GPU that another process of the node writes to (CUDA IPC).

The receiver exports memory, the sender opens it and copies from GPU to GPU. Exported memory must
not be freed while another process has it open; so it lives until all have done with it: whoever
exported it, and the ranks that it is for, which say when they have closed it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu.streams import Streams

#: Where values lie in exported memory: at multiples of so many bytes.
ALIGNMENT = 512
_WHOLE = 2 << 20  # CUDA shares pages of this size; so nothing else lies in them
_OWN = -1  # the rank that has exported it


class Exported:
    """`nbytes` of memory of the current GPU that `ranks` may open; ``number`` names it."""

    def __init__(self, streams: Streams, ranks: Sequence[int], nbytes: int) -> None:
        self.ranks = tuple(ranks)
        self.users = {_OWN, *ranks}  # who has not done with it
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
        self._refused: set[int] = set()  # ranks that cannot open it
        self._lock = threading.Lock()

    def make(self, streams: Streams, ranks: Sequence[int], nbytes: int) -> Exported | None:
        """Export memory to ranks of the node; None if it does not go, or there is too little."""
        with self._lock:
            held = sum(e.nbytes for e in self._kept.values())
        if self._refused.intersection(ranks) or (
                (held + nbytes) * tuning.EXPORTED_PART > streams.device.mem_info[1]):
            return None
        try:
            made = Exported(streams, ranks, nbytes)
        except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
            for rank in ranks:
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

    def done(self, number: int, rank: int = _OWN) -> None:
        """A rank (this one by default) has done with exported memory; behind the last it is
        free."""
        with self._lock:
            found = self._kept.get(number)
            if found is not None:
                found.users.discard(rank)
                if not found.users:
                    del self._kept[number]

    def rank_lost(self, rank: int) -> None:
        """A rank is gone, and with it all that it had open."""
        with self._lock:
            numbers = list(self._kept)
        for number in numbers:
            self.done(number, rank)

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


class GpuBytes:
    """Bytes in memory of a GPU, as MPI takes them; `owner` keeps the memory.

    It is handled as a flat array of bytes, so nothing is launched to look at it in another way.
    """

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.address, self.nbytes, self._owner = address, nbytes, owner
        self.flags = _InOrder()
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}

    def reshape(self, size: int) -> GpuBytes:
        """Itself."""
        return self

    def view(self, dtype: object) -> GpuBytes:
        """Itself."""
        return self

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> GpuBytes:
        start, stop, _ = part.indices(self.nbytes)
        return GpuBytes(self.address + start, stop - start, self._owner)


class _InOrder:
    c_contiguous = True


def bytes_apart(streams: Streams, nbytes: int) -> GpuBytes | None:
    """Memory that no kernel uses, so that MPI may write to it; None if there is too little."""
    try:
        memory = streams.xp.cuda.Memory(nbytes)
    except Exception:  # noqa: BLE001  (every part of CUDA has errors of its own)
        return None
    return GpuBytes(int(memory.ptr), nbytes, memory)


def aligned(nbytes: int) -> int:
    """The bytes that a value takes in exported memory."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


_numbers = itertools.count()
exports = Exports()


def complete(streams: Streams, value: Any) -> tuple[GpuBytes, Any]:
    """The bytes of an array in C order, and the event behind which they are complete."""
    streams.refuse("values go to another process")
    value = value if value.flags.c_contiguous else streams.xp.ascontiguousarray(value)
    return GpuBytes(value.data.ptr, int(value.nbytes), value), streams.event(streams.compute)


def copy_to(streams: Streams, watched: Any, value: Any, address: int) -> tuple[Any, Any]:
    """Begin to copy a device array to `address` behind the kernels that compute it: the array, to
    be kept, and the event until which both must be left alone."""
    streams.refuse("values go to another process")
    value = value if value.flags.c_contiguous else streams.xp.ascontiguousarray(value)
    streams.down.wait_event(streams.event(streams.compute))
    noted = watched("to another process", value.nbytes, streams.down)
    copy_bytes(streams, address, value.data.ptr, value.nbytes, streams.down)
    noted()
    return value, streams.event(streams.down)


def copy_from(streams: Streams, watched: Any, address: int, shape: tuple[int, ...],
              dtype: Any) -> tuple[Any, Any]:
    """An array with what lies at `address`, and the event until which that must stay."""
    streams.refuse("values come from another process")
    made = streams.xp.empty(shape, dtype)
    noted = watched("from another process", made.nbytes, streams.compute)
    copy_bytes(streams, made.data.ptr, address, made.nbytes, streams.compute)
    noted()
    return made, streams.event(streams.compute)


def array_at(streams: Streams, address: int, size: int, dtype: np.dtype) -> Any:
    """A flat array of what lies at an address, whose memory somebody keeps."""
    cuda, nbytes = streams.xp.cuda, size * dtype.itemsize
    memory = cuda.UnownedMemory(address, nbytes, None, streams.number)
    return streams.xp.ndarray((size,), dtype, cuda.MemoryPointer(memory, 0))


def copy_bytes(streams: Streams, target: int, source: int, nbytes: int, stream: Any) -> None:
    """Begin to copy from GPU to GPU on `stream`."""
    runtime = streams.xp.cuda.runtime
    runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream.ptr)
