"""The second stage of saving: owners write their pieces and record the checksums."""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hpcflow.errors import (
    InvalidArgumentError,
    NotFoundError,
    describe_value,
)
from hpcflow.storage import encoding
from hpcflow.storage.layout import Entry, Layout, as_layout
from hpcflow.storage.raw_files import pwrite_all
from hpcflow.storage.records import (
    PieceRecord,
    checksum,
    encode_records,
    rows_per_block,
    rows_per_part,
)
from hpcflow.storage.slices import Region, as_region
from hpcflow.storage.system_errors import system_errors

#: (variable name, slice spec or Region or None for the whole variable, values)
PieceArgument = tuple[str, Any, Any]
class _Piece(NamedTuple):
    entry: Entry
    region: Region
    values: np.ndarray


def write(layout: Layout | bytes, pieces: Iterable[PieceArgument]) -> bytes:
    """Write pieces of variables into a laid out file; returns the record for `commit`.

    Each piece is `(name, slice spec, values)`; the values have the variable's dtype and the
    shape of the slice; if they change during the call, some of both is saved.
    Several processes may call this at once for disjoint pieces. The data are durable on return.

    Raises NotFoundError for an unknown name, InvalidArgumentError for a wrong dtype, shape or
    slice (both before anything is written), ResourceExhaustedError for a full disk, and
    other OpErrors for other failures of the file system.
    """
    layout = as_layout(layout)
    prepared = [_prepare(layout, *piece) for piece in pieces]
    size = sum(piece.values.nbytes for piece in prepared)
    with system_errors(f"writing {size} bytes of checkpoint '{layout.path}'"):
        descriptor = os.open(layout.temporary, os.O_WRONLY)
        try:
            records = [_store_piece(descriptor, piece) for piece in prepared]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return encode_records(records)


def _prepare(layout: Layout, name: str, spec: str | None,
             value: np.ndarray | np.generic | bytes) -> _Piece:
    """Check a piece against the layout."""
    entry = layout.by_name.get(name)
    if entry is None:
        raise NotFoundError(
            None, None, f"'{name}' is not among the variables of checkpoint '{layout.path}'"
        )
    region = as_region(spec, entry.shape, name)
    values = np.asarray(value, dtype=object if entry.is_string else None)
    if values.dtype != entry.dtype.np or values.shape != region.extent:
        wanted = describe_value((entry.dtype, region.extent))
        raise InvalidArgumentError(
            None, None, f"saving '{name}': got {describe_value(values)}, expected {wanted}"
        )
    return _Piece(entry, region, values)


def _store_piece(descriptor: int, piece: _Piece) -> PieceRecord:
    """Write a piece block by block."""
    entry, region, values = piece
    if entry.is_string:
        return _string_record(piece)
    rows = rows_per_block(region, entry.dtype.size)
    # Of all parts: memory that is new each time costs more than the copies.
    part = rows_per_part(region, entry.dtype.size) * prod(region.extent[1:])
    scratch = np.empty(min(part, region.size), values.dtype)
    checksums = [_store_block(descriptor, piece, block, scratch)
                 for block in region.row_blocks(rows)]
    return PieceRecord(entry.name, region, rows, tuple(checksums))


def _store_block(descriptor: int, piece: _Piece, block: Region, scratch: np.ndarray) -> int:
    """Write a block; return its checksum, taken of parts while they are in the cache.

    It is that of copies: what is written matches even if the array is being updated.
    """
    entry, region, values = piece
    value = 0
    for part in block.row_blocks(rows_per_part(region, entry.dtype.size)):
        copy = scratch[: part.size].reshape(part.extent)
        copy[...] = values[part.selector_within(region)]
        data = encoding.to_bytes(copy)
        value = checksum(data, value)
        _pwrite(descriptor, entry, part, data)
    return value


def _pwrite(descriptor: int, entry: Entry, part: Region, data: np.ndarray) -> None:
    """Write by one call per contiguous run; needs no HDF5 in the owner."""
    run, starts = part.runs()
    size = run * entry.dtype.size
    positions = starts * entry.dtype.size + (entry.offset or 0)
    for number, position in enumerate(positions.tolist()):
        pwrite_all(descriptor, data.data[number * size : (number + 1) * size], position)


def _string_record(piece: _Piece) -> PieceRecord:
    """Strings travel in the record: their size is unknown when the file is laid out."""
    entry, region, values = piece
    try:
        offsets, data = encoding.encode_strings(values)
    except TypeError as error:
        raise InvalidArgumentError(None, None, f"saving '{entry.name}': {error}") from error
    return PieceRecord(entry.name, region, 1, (), offsets.tobytes() + data.tobytes())
