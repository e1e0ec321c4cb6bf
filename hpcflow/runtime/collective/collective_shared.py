"""Reductions in memory that the ranks of a node share: what lies where, and who may use it when.

Each rank has an array there in which the others read what they have to reduce, and the first one
also has the array of the results, which all ranks see. So a result is written once for the node,
and nobody copies it. Its views are read-only, and as long as some rank has one the next result goes
to memory of each rank's own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.comm.patterns import Shared
from hpcflow.comm.shared_memory import aligned
from hpcflow.dtypes import DType
from hpcflow.host.memory import address_of
from hpcflow.runtime.collective.collective_parts import Pool, is_free


def room_sizes(nbytes: int, members: int) -> list[int]:
    """The bytes of a reduction of `nbytes` in the room of each of the members of a node."""
    size = aligned(nbytes)
    return [2 * size, *[size] * (members - 1)]


class SharedArrays:
    """The arrays of one operation in shared memory: in the rooms `memories` of the node's
    members."""

    def __init__(self, memories: Sequence[Any], me: int, length: int, dtype: DType) -> None:
        nbytes = length * dtype.itemsize
        start = aligned(nbytes)
        self.me = me
        self.sources = [memory[:nbytes].view(dtype) for memory in memories]
        # Over memory of its own, as its views are counted.
        self.results = [np.frombuffer(memories[0][start : start + nbytes], dtype)]
        #: Nobody reads this rank's source any more when an operation is over.
        self.is_own = True

    def own(self, start: int, stop: int) -> Any:
        """Elements of this rank's array."""
        return self.sources[self.me][start:stop]

    def open(self, pool: Pool) -> SharedRun:
        """Open one run, whose result comes from `pool` where the common one is not free."""
        return SharedRun(self, pool)


class SharedRun:
    """One run; ``out`` is where the result is, once it is known."""

    def __init__(self, arrays: SharedArrays, pool: Pool) -> None:
        self._arrays = arrays
        self._pool = pool
        self._lock = threading.Lock()
        self._is_free = is_free(arrays.results, 0)
        self._packed = False
        self.out: Any = None

    def pack(self, values: Sequence[Any]) -> Any:
        """The values as one flat array; None if they are in this rank's memory now, where some may
        have been made."""
        arrays, flat = self._arrays, [np.ascontiguousarray(v).reshape(-1) for v in values]
        if not arrays.is_own:  # others may still copy from it
            return flat[0] if len(flat) == 1 else np.concatenate(flat)
        start, missing = 0, []
        for value in flat:
            there = arrays.own(start, start + len(value))
            start += len(value)
            if len(value) and address_of(value) != address_of(there):
                missing.append((there, value))
        if missing and len(flat) == 1:
            return flat[0]
        for there, value in missing:
            np.copyto(there, value)
        return None

    def block(self, block: slice) -> Shared:
        """The memory of a block."""
        arrays = self._arrays
        return Shared([s[block] for s in arrays.sources], self._is_free,
                      lambda common: self._settle(common)[block])

    def _settle(self, common: bool) -> Any:
        arrays = self._arrays
        with self._lock:
            if self.out is None:
                arrays.is_own = common
                if common:
                    self.out = arrays.results[0][:]
                else:
                    source = arrays.sources[arrays.me]
                    self.out = self._pool.take(len(source), source.dtype)
            return self.out

    def result(self) -> Any:
        """The whole result; what others see too is read-only."""
        if self._arrays.is_own:
            self.out.flags.writeable = False
        return self.out
