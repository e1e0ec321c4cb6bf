"""Reading checkpoints of hpcflow: any slice of any variable, verified."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import UnimplementedError
from hpcflow.host import memory
from hpcflow.storage import encoding, hdf5, plain_hdf5
from hpcflow.storage.block_reads import BlockRead, run_all
from hpcflow.storage.checkpoint_file import CheckpointFile, Damage
from hpcflow.storage.index import IndexedVariable, parse_index
from hpcflow.storage.raw_files import pread_into
from hpcflow.storage.records import checksum
from hpcflow.storage.saving import FORMAT_VERSION
from hpcflow.storage.slices import Region


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
        """Close the file. That this failed says nothing about what was read."""
        file, self._file = self._file, None
        descriptor, self._descriptor = self._descriptor, -1
        if file is not None:
            with suppress(OSError, RuntimeError):
                file.close()
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def _read_index(self) -> bytes:
        found = plain_hdf5.dataset(self._file, hdf5.INDEX)
        index = self._bytes(found.id).tobytes()
        if checksum(index) != int(plain_hdf5.attribute(found, "crc32")):
            raise Damage("the checksum of its index is wrong")
        return index

    def _bytes(self, found: Any) -> np.ndarray:
        """All of a data set, as bytes."""
        position = plain_hdf5.place(found, self._size)
        out = np.empty(plain_hdf5.stored_bytes(found), np.uint8)
        pread_into(self._descriptor, out.data, position)
        return out

    def _read_all(self, wanted: Sequence[tuple[str, IndexedVariable, Region]]
                  ) -> list[np.ndarray]:
        values: list[np.ndarray] = []
        reads: list[BlockRead] = []
        for name, variable, region in wanted:
            with self._damage_of(name):
                if variable.dtype is dtypes.string:
                    values.append(self._read_strings(variable)[region.selector()].copy())
                else:
                    array, blocks = self._plan(name, variable, region)
                    values.append(array)
                    reads += blocks
        run_all(reads)
        return [_native(*item) for item in zip(values, wanted)]

    def _plan(self, name: str, variable: IndexedVariable, region: Region
              ) -> tuple[np.ndarray, list[BlockRead]]:
        """An array for a region of a variable of numbers, and the blocks to be read for it."""
        position = self._position(variable)
        size = variable.dtype.size
        values = memory.given(region.extent, variable.dtype.np)
        out = values.view(f"u{size}" if size <= 8 else "c16")  # bits: any type will do
        reported = partial(self._damage_of, name)
        return values, [
            BlockRead(self._descriptor, position, block, expected, region, out, reported)
            for piece in variable.pieces for block, expected in piece.blocks()
            if block.overlaps(region)]

    def _position(self, variable: IndexedVariable) -> int:
        """The first byte of a variable of numbers."""
        found = plain_hdf5.dataset_id(self._group, variable.link)
        kind, shape = self._expected(variable)
        if found.shape != shape or not found.get_type().equal(kind):
            raise Damage("its dataset has another type or shape than the index says")
        return plain_hdf5.place(found, self._size)

    @cached_property
    def _group(self) -> Any:
        """The identifier of the group of all variables."""
        return plain_hdf5.member(self._file, hdf5.VARIABLES).id

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
        if plain_hdf5.stored_bytes(ends.id) != 8 * (prod(variable.shape) + 1):
            raise Damage("a data set has another size than the index says")
        return self._bytes(ends.id), self._bytes(stored.id)

    def _fixed_strings(self, variable: IndexedVariable) -> np.ndarray:
        found = plain_hdf5.dataset(self._file, f"{hdf5.VARIABLES}/{variable.link}")
        if found.dtype.kind != "S" or found.shape != variable.shape:
            raise Damage("its dataset has another type or shape than the index says")
        content = self._bytes(found.id)
        return content.view(found.dtype).astype(object)


def _native(values: np.ndarray, wanted: tuple[str, IndexedVariable, Region]) -> np.ndarray:
    """Elements as they lie in the file, in this machine's order of bytes."""
    _, variable, region = wanted
    if variable.dtype is dtypes.string or encoding.stored_dtype(variable.dtype).isnative:
        return values
    kind = encoding.stored_dtype(variable.dtype)
    return encoding.from_stored(values.reshape(-1).view(kind), variable.dtype, region.extent)
