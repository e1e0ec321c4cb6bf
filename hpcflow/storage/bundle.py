"""Checkpoints that other 1.x runtimes wrote: tensor bundles, the files `PREFIX.index` and
`PREFIX.data-00000-of-00001`.

The index is a sorted table of BundleEntryProto by the names of variables; the data files hold the
values, little-endian, one after the other. A variable that was saved in slices has an entry
without data that lists them, and one more entry per slice under a key made of name and slice.
Source: the comments of `tensor_bundle.proto` and `tensor_bundle.h` of the reference runtime.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import UnimplementedError
from hpcflow.storage.checkpoint_file import CheckpointFile, Damage
from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.encoding import from_stored, stored_dtype
from hpcflow.storage.paths import bundle_data_path, bundle_index_path
from hpcflow.storage.raw_files import read_file, require_regular
from hpcflow.storage.saved_slices import SavedSlice, assemble, known_dtype, parse_entry, saved_slice
from hpcflow.storage.slices import Region, whole
from hpcflow.storage.sorted_table import read_table
from hpcflow.storage.varints import read_varint

_FORMAT = 1  # of the readers that this one stands for
_UINT32 = struct.Struct("<I")


@dataclass(frozen=True)
class _Place:
    """The bytes of a variable, or of a slice of it."""

    shard: int
    offset: int
    size: int
    checksum: int


@dataclass(frozen=True)
class _Variable:
    name: str
    dtype: DType
    shape: tuple[int, ...]
    place: _Place
    slices: tuple[SavedSlice, ...]


class BundleReader(CheckpointFile):
    """An open tensor bundle.

    Values are verified by the CRC-32C of each slice that they were saved in.

    Raises NotFoundError if there is no file, DataLossError if one is damaged, UnimplementedError
    for big-endian files, values of other types than numbers and strings, or a later format.
    """

    def __init__(self, prefix: str) -> None:
        self.path = prefix
        self._files: dict[int, np.ndarray] = {}
        with self._damage_reported():
            self._entries = read_table(read_file(bundle_index_path(prefix)))
            self._shards = self._read_header(self._entries.pop(b""))

    def close(self) -> None:
        """Close the files."""
        self._files.clear()

    def _read_header(self, data: bytes) -> int:
        header = parse_entry("BundleHeader", data)
        if header.endianness != 0:
            raise UnimplementedError(
                None, None, f"checkpoint '{self.path}' holds big-endian values")
        if header.version.min_consumer > _FORMAT:
            raise UnimplementedError(
                None, None, f"checkpoint '{self.path}' needs a reader of version "
                f"{header.version.min_consumer}; this is {_FORMAT}")
        return int(header.num_shards)

    @cached_property
    def _variables(self) -> dict[str, _Variable]:  # type: ignore[override]
        # The keys of slices start with a zero byte.
        with self._damage_reported():
            return {key.decode(): self._variable(key.decode(), data)
                    for key, data in self._entries.items() if not key.startswith(b"\0")}

    def _variable(self, name: str, data: bytes) -> _Variable:
        entry = parse_entry("BundleEntry", data)
        dtype = known_dtype(entry.dtype, name, self.path)
        shape = tuple([int(dim.size) for dim in entry.shape.dim])
        slices = tuple([saved_slice(name, shape, item) for item in entry.slices])
        if min(shape, default=0) < 0:
            raise Damage(f"a dimension of '{name}' is negative")
        return _Variable(name, dtype, shape, _place(entry), slices)

    def _read(self, variable: _Variable, region: Region) -> np.ndarray:
        if not variable.slices:
            return self._values(variable, whole(variable.shape), variable.place, region)

        def read_slice(part: SavedSlice, wanted: Region) -> np.ndarray:
            place = _place(parse_entry("BundleEntry", self._entries[part.key]))
            return self._values(variable, part.region, place, wanted)

        return assemble(variable.dtype, variable.slices, region, read_slice)

    def _values(self, variable: _Variable, stored: Region, place: _Place,
                wanted: Region) -> np.ndarray:
        """The part `wanted` of the slice `stored`, whose bytes lie at `place`."""
        data = self._bytes(place)
        if variable.dtype is dtypes.string:
            values = _decode_strings(data.tobytes(), place.checksum, stored.extent)
        else:
            kind = stored_dtype(variable.dtype)
            if prod(stored.extent) * kind.itemsize != place.size:
                raise Damage("its size is not that of its shape and type")
            if masked_crc32c(data.data) != place.checksum:
                raise Damage("a checksum is wrong")
            values = from_stored(np.frombuffer(data, kind), variable.dtype, stored.extent)
        return values[wanted.selector_within(stored)].copy()

    def _bytes(self, place: _Place) -> np.ndarray:
        if not place.size:  # an empty file cannot be mapped
            return np.empty(0, np.uint8)
        file = self._files.get(place.shard)
        if file is None:
            path = bundle_data_path(self.path, place.shard, self._shards)
            require_regular(path)
            file = self._files[place.shard] = np.memmap(path, np.uint8, "r")
        if min(place.offset, place.size) < 0 or place.offset + place.size > file.size:
            raise Damage("values lie beyond their data file")
        return file[place.offset:place.offset + place.size]


def _place(entry: Any) -> _Place:
    return _Place(entry.shard_id, entry.offset, entry.size, entry.crc32c)


# ---------------------------------------------------------------- strings


def _decode_strings(data: bytes, checksum: int, shape: tuple[int, ...]) -> np.ndarray:
    """Strings are stored as their lengths, a checksum of these, and then the bytes."""
    if prod(shape) > len(data):  # every string has a length
        raise Damage("it has fewer strings than its shape")
    lengths, at = [], 0
    for _ in range(prod(shape)):
        length, at = read_varint(data, at)
        lengths.append(length)
    # The checksum is of the lengths as numbers of fixed width, and goes into that of the whole.
    fixed = b"".join([length.to_bytes(4 if length < 1 << 32 else 8, "little")
                      for length in lengths])
    stored = data[at:at + 4]
    at += 4
    if (_UINT32.pack(masked_crc32c(fixed)) != stored
            or masked_crc32c(fixed + stored + data[at:]) != checksum):
        raise Damage("a checksum is wrong")
    result = np.empty(len(lengths), object)
    for i, length in enumerate(lengths):
        result[i] = data[at:at + length]
        at += length
    return result.reshape(shape)
