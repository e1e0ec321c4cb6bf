"""Reading blocks of variables and verifying them, in several threads at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from hpcflow.host.tuning import files as tuning
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.raw_files import pread_into
from hpcflow.storage.records import checksum
from hpcflow.storage.slices import Region, intersection


class BlockRead(NamedTuple):
    """A block of a variable that is to be read.

    Attributes:
        descriptor: the open file.
        position: the first byte of the variable.
        block: what is read.
        expected: its checksum.
        region: the part of the variable that is wanted.
        out: the array of that part.
        reported: makes the context in which damage becomes an error that names the variable.
    """

    descriptor: int
    position: int
    block: Region
    expected: int
    region: Region
    out: np.ndarray
    reported: Callable[[], AbstractContextManager[None]]

    def run(self) -> None:
        """Read and verify the block, and put what `region` has of it into `out`."""
        with self.reported():
            target = (self.out[self.block.selector_within(self.region)]
                      if self.region.contains(self.block) else None)
            direct = target is not None and target.flags.c_contiguous
            data = target if target is not None and direct else np.empty(
                self.block.extent, self.out.dtype)
            if self._fill(data.reshape(-1)) != self.expected:
                raise Damage("a checksum is wrong")
            if not direct:
                shared = intersection(self.block, self.region)
                self.out[shared.selector_within(self.region)] = data[
                    shared.selector_within(self.block)]

    def _fill(self, data: np.ndarray) -> int:
        """Read the block into flat elements; return the checksum."""
        run, starts = self.block.runs()
        if len(starts) == 1:
            start = self.position + int(starts[0]) * data.dtype.itemsize
            return _read_checked(self.descriptor, data.view(np.uint8).data, start)
        _read_runs(self.descriptor, self.position, run, starts, data)
        return checksum(data.view(np.uint8))


def run_all(reads: Iterable[BlockRead]) -> None:
    """Do all reads, in this thread and, where there is much to read, in others beside it.

    Raises what one of them raised, once no other is under way.
    """
    rest = deque(reads)
    size = sum([read.block.size * read.out.dtype.itemsize for read in rest])
    threads = min(len(rest), 1 + size // tuning.RECORD_BLOCK_BYTES,
                  len(os.sched_getaffinity(0)), tuning.READ_THREADS)
    if threads < 2:
        _work_off(rest)
        return
    with ThreadPoolExecutor(threads - 1, "hpcflow restore") as pool:
        others = [pool.submit(_work_off, rest) for _ in range(threads - 1)]
        _work_off(rest)
        for other in others:
            other.result()


def _work_off(rest: deque[BlockRead]) -> None:
    """Do what nobody has begun; after a failure nobody begins any more."""
    try:
        while True:
            try:
                read = rest.popleft()
            except IndexError:
                return
            read.run()
    except BaseException:
        rest.clear()
        raise


def _read_checked(descriptor: int, out: memoryview, position: int) -> int:
    """Fill a buffer from a position of a file; return the checksum.

    It is taken of each part while the part is still in the processor's own cache.
    """
    value = 0
    for at in range(0, len(out), tuning.READ_CHECKED_BYTES):
        part = out[at : at + tuning.READ_CHECKED_BYTES]
        pread_into(descriptor, part, position + at)
        value = checksum(part, value)
    return value


def _read_runs(descriptor: int, position: int, run: int, starts: np.ndarray,
               out: np.ndarray) -> None:
    """Read runs of so many elements, which begin at `starts`, one after the other into `out`."""
    size = out.dtype.itemsize
    if run * size >= tuning.READ_SHORT_RUN_BYTES:
        view = out.view(np.uint8).data
        for number, start in enumerate((starts * size).tolist()):
            part = view[number * run * size : (number + 1) * run * size]
            pread_into(descriptor, part, position + start)
        return
    done = 0
    while done < len(starts):  # as many runs as lie close together, and what is between them
        count = int(np.searchsorted(starts, starts[done] + tuning.READ_SPAN_BYTES // size)) - done
        near = starts[done : done + count] - starts[done]
        span = np.empty(int(near[-1]) + run, out.dtype)
        pread_into(descriptor, span.view(np.uint8).data, position + int(starts[done]) * size)
        out[done * run : (done + count) * run] = span[near[:, None] + np.arange(run)].reshape(-1)
        done += count
