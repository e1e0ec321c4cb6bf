"""The first and the last stage of saving: laying out the file, and making it final."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import InternalError, InvalidArgumentError
from hpcflow.shapes import format_shape
from hpcflow.storage import encoding, hdf5, paths
from hpcflow.storage.file_image import FileImage
from hpcflow.storage.layout import Entry, Layout, as_layout, link_name
from hpcflow.storage.records import PieceRecord, checksum, decode_records
from hpcflow.storage.system_errors import system_errors
from hpcflow.version import __version__

FORMAT_VERSION = 1


def create(path: str, entries: Iterable[tuple[str, Any, Sequence[int]]]) -> Layout:
    """Lay out a checkpoint that will be called `path`; only a temporary file is made.

    `entries` are `(name, dtype, full shape)` of every logical variable. The layout tells owners
    where to write; send it as `layout.to_bytes()`.

    Raises InvalidArgumentError for a name given twice or a type that cannot be stored,
    NotFoundError if the directory does not exist, and other OpErrors of the file system.
    """
    path = os.path.abspath(path)
    temporary = paths.temporary_path(path)
    image, placed = hdf5.lay_out(_plan_entries(entries))
    try:
        with system_errors(f"creating checkpoint '{path}' of {image.size} bytes"):
            _put(image, temporary, os.O_CREAT | os.O_EXCL)
    except BaseException:
        remove_if_there(temporary)
        raise
    return Layout(path, temporary, tuple(placed))


def commit(layout: Layout | bytes, records: Iterable[bytes]) -> str:
    """Complete the file and give it its final name; returns that name.

    `records` are what the calls of `write` returned, in any order. An earlier file of the
    name is replaced in one step; a failure before leaves it as it was (and the temporary
    file, for `abandon`).

    Raises InternalError if the records do not cover every element exactly once.
    """
    layout = as_layout(layout)
    pieces = _pieces_by_variable(layout, records)
    for entry in layout.entries:
        _check_coverage(entry, pieces[entry.name])
    strings = {
        entry.link: _join_strings(entry, pieces[entry.name])
        for entry in layout.entries
        if entry.is_string
    }
    index = json.dumps(
        {"variables": [_describe(entry, pieces[entry.name], strings) for entry in layout.entries]}
    ).encode()
    image = hdf5.complete(layout.entries, index, _attributes(), strings)
    with system_errors(f"completing checkpoint '{layout.path}' of {image.size} bytes"):
        _put(image, layout.temporary, durable=True)
        os.replace(layout.temporary, layout.path)
        paths.sync_directory(layout.path)
    return layout.path


def abandon(layout: Layout | bytes) -> None:
    """Remove the temporary file, if it is still there. An earlier checkpoint stays."""
    layout = as_layout(layout)
    with system_errors(f"abandoning checkpoint '{layout.path}'"):
        remove_if_there(layout.temporary)


def _plan_entries(entries: Iterable[tuple[str, Any, Sequence[int]]]) -> list[Entry]:
    planned: dict[str, Entry] = {}
    for name, given, shape in entries:
        dtype = dtypes.as_dtype(given).base_dtype
        if name in planned:
            raise InvalidArgumentError(None, None, f"saving: variable '{name}' is given twice")
        if not encoding.is_storable(dtype):
            raise InvalidArgumentError(
                None, None, f"saving: '{name}' is of type {dtype.name}, which cannot be stored"
            )
        full = tuple([int(dim) for dim in shape])
        planned[name] = Entry(name, dtype, full, link_name(name))
    return list(planned.values())


def _pieces_by_variable(layout: Layout, records: Iterable[bytes]) -> dict[str, list[PieceRecord]]:
    pieces: dict[str, list[PieceRecord]] = {entry.name: [] for entry in layout.entries}
    for record in records:
        for piece in decode_records(record):
            if piece.name not in pieces:
                raise InternalError(
                    None, None, f"a record of '{piece.name}' does not belong to '{layout.path}'"
                )
            pieces[piece.name].append(piece)
    return pieces


def _check_coverage(entry: Entry, pieces: Sequence[PieceRecord]) -> None:
    """Disjoint pieces with as many elements as the variable cover it exactly once."""
    total = np.prod(entry.shape, dtype=np.int64)
    written = sum(piece.region.size for piece in pieces)
    if not pieces or written != total or _any_overlap(pieces):
        raise InternalError(
            None,
            None,
            f"saving '{entry.name}' of shape {format_shape(entry.shape)}: expected every element "
            f"once, got {len(pieces)} pieces with {written} of {total} elements",
        )


def _any_overlap(pieces: Sequence[PieceRecord]) -> bool:
    ordered = sorted([piece.region for piece in pieces if piece.region.size], key=lambda r: r.start)
    for number, region in enumerate(ordered):
        for later in ordered[number + 1 :]:
            if region.start and later.start[0] >= region.start[0] + region.extent[0]:
                break  # so are all that follow
            if region.overlaps(later):
                return True
    return False


def _join_strings(entry: Entry, pieces: Sequence[PieceRecord]) -> tuple[np.ndarray, np.ndarray]:
    """Put the string pieces together; returns offsets and bytes of the whole variable."""
    values = np.empty(entry.shape, object)
    for piece in pieces:
        blob, offsets_end = piece.strings or b"", (piece.region.size + 1) * 8
        offsets = np.frombuffer(blob[:offsets_end], "<u8")
        data = np.frombuffer(blob[offsets_end:], np.uint8)
        part = encoding.decode_strings(offsets, data, piece.region.extent)
        values[piece.region.selector()] = part
    return encoding.encode_strings(values)


def _describe(
    entry: Entry,
    pieces: Sequence[PieceRecord],
    strings: dict[str, tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """The index entry of a variable."""
    described: dict[str, Any] = {
        "name": entry.name,
        "dtype": entry.dtype.name,
        "shape": entry.shape,
        "link": entry.link,
    }
    if entry.is_string:
        offsets, data = strings[entry.link]
        described["checksum"] = checksum(data, checksum(offsets))
    else:
        described["pieces"] = [
            {
                "start": piece.region.start,
                "extent": piece.region.extent,
                "rows": piece.rows,
                "checksums": piece.checksums,
            }
            for piece in pieces
        ]
    return described


def _attributes() -> dict[str, Any]:
    return {
        "format_version": np.int32(FORMAT_VERSION),
        "hpcflow_version": np.bytes_(__version__),
        "created": np.bytes_(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())),
    }


def _put(image: FileImage, path: str, flags: int = 0, durable: bool = False) -> None:
    """Write an image into a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)
    try:
        image.put_into(descriptor)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_if_there(path: str) -> None:
    """Remove a file. Raises OSError, but not where there is none."""
    with suppress(FileNotFoundError):
        os.unlink(path)
