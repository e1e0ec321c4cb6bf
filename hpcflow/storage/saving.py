"""The first and the last stage of saving: laying out the file, and making it final."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import InternalError, InvalidArgumentError
from hpcflow.shapes import format_shape
from hpcflow.storage import encoding, hdf5, paths, raw_files
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.file_image import FileImage
from hpcflow.storage.index import check_coverage, encode_index, piece_table
from hpcflow.storage.layout import Entry, Layout, as_layout, link_name
from hpcflow.storage.records import PieceRecord, checksum, decode_records
from hpcflow.storage.slices import format_slice_spec
from hpcflow.storage.system_errors import system_errors
from hpcflow.version import __version__

FORMAT_VERSION = 2
_log = logging.getLogger("hpcflow")


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
        _remove(temporary)
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
    described = [(entry, pieces[entry.name], _strings_checksum(*strings[entry.link])
                  if entry.is_string else None) for entry in layout.entries]
    slices = {entry.link: _slices(pieces[entry.name]) for entry in layout.entries
              if not entry.is_string and len(pieces[entry.name]) > 1}
    with system_errors(f"completing checkpoint '{layout.path}'"):
        attributes = {**_attributes(), **_global_step(layout)}
    image = hdf5.complete(layout.entries, encode_index(described), piece_table(described),
                          attributes, strings, slices)
    with system_errors(f"completing checkpoint '{layout.path}' of {image.size} bytes"):
        _put(image, layout.temporary, durable=True)
        os.replace(layout.temporary, layout.path)
        paths.sync_directory(layout.path)
    return layout.path


def abandon(layout: Layout | bytes) -> None:
    """Remove the temporary file, if it is still there. An earlier checkpoint stays.

    What keeps it there is only logged: this follows on an error that says more.
    """
    _remove(as_layout(layout).temporary)


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
    try:
        check_coverage(entry.shape, pieces)
    except Damage as error:
        raise InternalError(
            None, None,
            f"saving '{entry.name}' of shape {format_shape(entry.shape)}: {error}") from None


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


def _strings_checksum(offsets: np.ndarray, data: np.ndarray) -> int:
    return checksum(data, checksum(offsets))


def _slices(pieces: Sequence[PieceRecord]) -> np.ndarray:
    return np.array([format_slice_spec(*piece.region).encode() for piece in pieces])


def _attributes() -> dict[str, Any]:
    return {
        "format_version": np.int32(FORMAT_VERSION),
        "hpcflow_version": np.bytes_(__version__),
        "created": np.bytes_(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())),
    }


def _global_step(layout: Layout) -> dict[str, Any]:
    """The attribute that says the global step, where there is one; its owner has written it."""
    entry = layout.by_name.get("global_step")
    if entry is None or entry.shape or not entry.dtype.is_integer or entry.offset is None:
        return {}
    value = np.zeros(1, encoding.stored_dtype(entry.dtype))
    with raw_files.opened(layout.temporary) as descriptor:
        raw_files.pread_into(descriptor, value.view(np.uint8).data, entry.offset)
    return {"global_step": value[0]}


def _put(image: FileImage, path: str, flags: int = 0, durable: bool = False) -> None:
    """Write an image into a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)
    try:
        image.put_into(descriptor)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        _log.warning("could not remove the unfinished checkpoint '%s': %s", path, error)
