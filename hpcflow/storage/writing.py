"""The second stage of saving: owners write their pieces and record the checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hpcflow import config
from hpcflow.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    describe_value,
)
from hpcflow.storage import encoding, hdf5
from hpcflow.storage.layout import Entry, Layout, as_layout
from hpcflow.storage.raw_files import pwrite_all
from hpcflow.storage.records import PieceRecord, checksum, encode_records, rows_per_block
from hpcflow.storage.slices import Region, as_region
from hpcflow.storage.system_errors import system_errors

#: (variable name, slice spec or Region or None for the whole variable, values)
PieceArgument = tuple[str, Any, Any]
#: Puts the bytes of a region of a variable into the file.
_Store = Callable[[Entry, Region, np.ndarray], None]


class _Piece(NamedTuple):
    entry: Entry
    region: Region
    values: np.ndarray


def use_collective_writes() -> bool:
    """True if owners should call `write_collective`: the flag HPCFLOW_CHECKPOINT_IO decides.

    `auto` means where h5py has MPI-IO. Raises FailedPreconditionError if `mpio` is asked for
    and h5py lacks it.
    """
    wanted = config.flags.checkpoint_io
    if wanted == "pwrite":
        return False
    available = hdf5.parallel_hdf5_available()
    if wanted == "mpio" and not available:
        raise FailedPreconditionError(
            None, None, "HPCFLOW_CHECKPOINT_IO=mpio, but this h5py was built without MPI"
        )
    return available


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
            store = _pwrite_store(descriptor)
            records = [_store_piece(piece, store) for piece in prepared]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return encode_records(records)


def write_collective(layout: Layout | bytes, pieces: Iterable[PieceArgument], comm: Any) -> bytes:
    """Do what `write` does, through MPI-IO; every rank of `comm` must call it.

    `comm` is an mpi4py communicator. A rank without pieces takes part with none. A rank whose
    own pieces fail still makes the same collective calls and raises its error afterwards; the
    others do not learn of it from here.
    """
    layout = as_layout(layout)
    records: list[PieceRecord] = []
    prepared: list[_Piece] = []
    failure: Exception | None = None
    try:
        prepared = [_prepare(layout, *piece) for piece in pieces]
    except Exception as error:  # noqa: BLE001 - raised after the collective calls
        failure = error
    with system_errors(f"writing checkpoint '{layout.path}' collectively"):
        with hdf5.parallel_file(layout.temporary, comm) as file:
            try:
                store = _hdf5_store(file)
                records = [_store_piece(piece, store) for piece in prepared]
            except Exception as error:  # noqa: BLE001 - likewise
                failure = error
        if failure is not None:
            raise failure
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


def _store_piece(piece: _Piece, store: _Store) -> PieceRecord:
    """Write a piece block by block, checksumming each while it is in the cache."""
    entry, region, values = piece
    if entry.is_string:
        return _string_record(piece)
    rows = rows_per_block(region, entry.dtype.size)
    checksums = []
    for block in region.row_blocks(rows):
        # Of a copy: what is written matches its checksum even if the array is being updated.
        data = encoding.to_bytes(np.array(values[block.selector_within(region)]))
        checksums.append(checksum(data))
        store(entry, block, data)
    return PieceRecord(entry.name, region, rows, tuple(checksums))


def _string_record(piece: _Piece) -> PieceRecord:
    """Strings travel in the record: their size is unknown when the file is laid out."""
    entry, region, values = piece
    try:
        offsets, data = encoding.encode_strings(values)
    except TypeError as error:
        raise InvalidArgumentError(None, None, f"saving '{entry.name}': {error}") from error
    return PieceRecord(entry.name, region, 1, (), offsets.tobytes() + data.tobytes())


def _pwrite_store(descriptor: int) -> _Store:
    """Store blocks by one pwrite per contiguous run; needs no HDF5 in the owner."""

    def store(entry: Entry, block: Region, data: np.ndarray) -> None:
        run, starts = block.runs()
        size = run * entry.dtype.size
        view = data.data
        positions = starts * entry.dtype.size + (entry.offset or 0)
        for number, position in enumerate(positions.tolist()):
            pwrite_all(descriptor, view[number * size : (number + 1) * size], position)

    return store


def _hdf5_store(file: Any) -> _Store:
    group = file[hdf5.VARIABLES]

    def store(entry: Entry, block: Region, data: np.ndarray) -> None:
        hdf5.write_region(group, entry, block, data)

    return store
