"""Reading checkpoints of hpcflow: any slice of any variable, verified."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import UnimplementedError
from hpcflow.host import memory
from hpcflow.host.tuning import files as tuning
from hpcflow.storage import encoding, hdf5, plain_hdf5
from hpcflow.storage.checkpoint_file import CheckpointFile, Damage
from hpcflow.storage.index import IndexedVariable, parse_index
from hpcflow.storage.raw_files import pread_into
from hpcflow.storage.records import checksum
from hpcflow.storage.saving import FORMAT_VERSION
from hpcflow.storage.slices import Region, intersection


class Reader(CheckpointFile):
    """An open checkpoint of hpcflow.

    Every element that `read` returns has been verified: data carry a CRC-32 per block of rows
    of a written piece (about 8 MiB), and all blocks that a slice touches are read and
    checked. String variables are verified as wholes, the index when the file is opened. Data are
    read only where they lie inside of this file, in one piece and as they are.

    Raises NotFoundError if there is no file, DataLossError if it is truncated or damaged or
    no complete checkpoint, UnimplementedError if a later version of hpcflow wrote it.
    """

    _variables: dict[str, IndexedVariable]

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Any = None
        self._descriptor = -1
        try:
            with self._damage_reported():
                version = self._open()
        except BaseException:
            self.close()
            raise
        if version > FORMAT_VERSION:
            self.close()
            raise UnimplementedError(
                None,
                None,
                f"checkpoint '{path}' has format version {version}; this hpcflow reads up to "
                f"{FORMAT_VERSION}",
            )

    def _open(self) -> int:
        """Open the file and read the index if it is of a known version, which is returned."""
        self._file = plain_hdf5.open_plain(self.path)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size
        self._version = version = hdf5.format_version(self._file)
        if version <= FORMAT_VERSION:
            self._variables = parse_index(self._read_index())
        return version

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read_index(self) -> bytes:
        found = plain_hdf5.dataset(self._file, hdf5.INDEX)
        index = self._bytes(found, plain_hdf5.stored_bytes(found)).tobytes()
        if checksum(index) != int(plain_hdf5.attribute(found, "crc32")):
            raise Damage("the checksum of its index is wrong")
        return index

    def _bytes(self, found: Any, size: int) -> np.ndarray:
        """All of a data set, which has so many bytes."""
        if plain_hdf5.stored_bytes(found) != size:
            raise Damage("a data set has another size than the index says")
        position = plain_hdf5.place(found, self._size)
        out = np.empty(size, np.uint8)
        pread_into(self._descriptor, out.data, position)
        return out

    def _read(self, variable: IndexedVariable, region: Region) -> np.ndarray:
        if variable.dtype is dtypes.string:
            return self._read_strings(variable)[region.selector()].copy()
        return self._read_numbers(variable, region)

    def _read_numbers(self, variable: IndexedVariable, region: Region) -> np.ndarray:
        position = self._position(variable)
        size = variable.dtype.size
        values = memory.given(region.extent, variable.dtype.np)
        out = values.view(f"u{size}" if size <= 8 else "c16")  # bits: any type will do
        wanted = [(block, expected) for piece in variable.pieces
                  for block, expected in piece.blocks() if block.overlaps(region)]

        def read(item: tuple[Region, int]) -> None:
            self._read_block(*item, position, region, out)

        _for_all(read, wanted)
        kind = encoding.stored_dtype(variable.dtype)
        if kind.isnative:
            return values
        return encoding.from_stored(out.reshape(-1).view(kind), variable.dtype, region.extent)

    def _read_block(self, block: Region, expected: int, position: int, region: Region,
                    out: np.ndarray) -> None:
        """Read and verify a block, and put what `region` has of it into `out`."""
        whole = region.contains(block)
        target = out[block.selector_within(region)] if whole else None
        direct = target is not None and target.flags.c_contiguous
        data = target if target is not None and direct else np.empty(block.extent, out.dtype)
        if _read_region(self._descriptor, position, block, data.reshape(-1)) != expected:
            raise Damage("a checksum is wrong")
        if not direct:
            shared = intersection(block, region)
            out[shared.selector_within(region)] = data[shared.selector_within(block)]

    def _position(self, variable: IndexedVariable) -> int:
        """The first byte of a variable of numbers."""
        found = plain_hdf5.dataset(self._file, f"{hdf5.VARIABLES}/{variable.link}")
        kind, shape = self._expected(variable)
        if found.shape != shape or not found.id.get_type().equal(kind):
            raise Damage("its dataset has another type or shape than the index says")
        return plain_hdf5.place(found, self._size)

    def _expected(self, variable: IndexedVariable) -> tuple[Any, tuple[int, ...]]:
        """The HDF5 type and the shape of the dataset of a variable of numbers."""
        if self._version > 1:
            return hdf5.file_type(variable.dtype), variable.shape
        kind, shape = encoding.first_form(variable.dtype, variable.shape)
        return hdf5.type_of(kind), shape

    def _read_strings(self, variable: IndexedVariable) -> np.ndarray:
        found = plain_hdf5.member(self._file, f"{hdf5.VARIABLES}/{variable.link}")
        if hasattr(found, "keys"):
            offsets, data = self._string_parts(found, variable)
        else:
            offsets, data = encoding.encode_strings(self._fixed_strings(variable))
        if checksum(data, checksum(offsets)) != variable.string_checksum:
            raise Damage("a checksum is wrong")
        return encoding.decode_strings(offsets.view("<u8"), data, variable.shape)

    def _string_parts(self, group: Any, variable: IndexedVariable) -> tuple[np.ndarray, np.ndarray]:
        ends = plain_hdf5.dataset(group, "offsets")
        stored = plain_hdf5.dataset(group, "bytes")
        return (self._bytes(ends, 8 * (prod(variable.shape) + 1)),
                self._bytes(stored, plain_hdf5.stored_bytes(stored)))

    def _fixed_strings(self, variable: IndexedVariable) -> np.ndarray:
        found = plain_hdf5.dataset(self._file, f"{hdf5.VARIABLES}/{variable.link}")
        if found.dtype.kind != "S" or found.shape != variable.shape:
            raise Damage("its dataset has another type or shape than the index says")
        content = self._bytes(found, plain_hdf5.stored_bytes(found))
        return content.view(found.dtype).astype(object)


def _for_all(read: Callable[[tuple[Region, int]], None], blocks: list[tuple[Region, int]]) -> None:
    """Read blocks, several at a time: checksums take longer than reading from memory."""
    threads = min(len(blocks), len(os.sched_getaffinity(0)), tuning.READ_THREADS)
    if threads < 2:
        for block in blocks:
            read(block)
        return
    with ThreadPoolExecutor(threads, "hpcflow restore") as pool:
        for _ in pool.map(read, blocks):  # raises what one of them raised
            pass


def _read_region(descriptor: int, position: int, region: Region, out: np.ndarray) -> int:
    """Read a region of a row-major array that begins at `position` into flat elements; return
    their checksum."""
    run, starts = region.runs()
    if len(starts) == 1:
        start = position + int(starts[0]) * out.dtype.itemsize
        return _read_checked(descriptor, out.view(np.uint8).data, start)
    _read_runs(descriptor, position, run, starts, out)
    return checksum(out.view(np.uint8))


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
