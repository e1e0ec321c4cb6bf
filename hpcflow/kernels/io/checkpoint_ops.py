"""Kernels of the ops that save or restore in one piece: SaveV2, RestoreV2 and their kin.

They use the same files as staged checkpoints. Slices of a variable that are saved without the rest
of it, as by the shards of a sharded save, are stored one by one until MergeV2Checkpoints joins
them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np

from hpcflow import storage
from hpcflow.dtypes import DType
from hpcflow.errors import DataLossError, InvalidArgumentError, NotFoundError
from hpcflow.kernels.common.background import in_background
from hpcflow.kernels.common.text import as_bytes, as_text, texts
from hpcflow.kernels.registry import ASYNC, KernelNode, kernel
from hpcflow.storage import (
    CheckpointFile,
    Region,
    checkpoint_path,
    open_checkpoint,
    parse_slice_spec,
)

_PART_MARK = "\n"  # between the name of a variable and the slice stored under it


class _Piece(NamedTuple):
    """A variable, or the slice of it that `region` says, to be saved."""

    name: str
    region: Region | None
    dtype: DType
    value: np.ndarray

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the whole variable."""
        return self.value.shape if self.region is None else self.region.full


# ---------------------------------------------------------------- saving


@kernel("Save", "SaveSlices", "SaveV2", device="CPU", mode=ASYNC)
def _save(node: KernelNode) -> Callable:
    with_slices = node.op_type != "Save"
    types = node.attr("dtypes" if node.op_type == "SaveV2" else "T")

    def save(prefix: Any, names: np.ndarray, *rest: Any) -> None:
        values = rest[1:] if with_slices else rest
        specs = texts(rest[0]) if with_slices else [""] * len(values)
        labels = texts(names)
        if not len(labels) == len(specs) == len(values):
            raise InvalidArgumentError(
                None, None, f"saving: {len(labels)} names and {len(specs)} slices for "
                f"{len(values)} tensors")
        arrays = [np.asarray(v, dtype=object if isinstance(v, bytes) else None) for v in values]
        regions = map(parse_slice_spec, specs)
        pieces = map(_Piece, labels, regions, types, arrays)
        _store(as_text(prefix), _split_incomplete(list(pieces)))

    return in_background(save)


def _store(prefix: str, pieces: list[_Piece]) -> None:
    """Write one checkpoint file that holds all pieces."""
    entries: dict[str, tuple] = {}
    for piece in pieces:
        if piece.region is None and piece.name in entries:
            raise InvalidArgumentError(None, None, f"saving: '{piece.name}' is given twice")
        entries[piece.name] = (piece.name, piece.dtype, piece.full_shape)
    _write_file(prefix, entries.values(), [(p.name, p.region, p.value) for p in pieces])


def _write_file(prefix: str, entries: Iterable[tuple], writes: Iterable[tuple]) -> None:
    path = checkpoint_path(prefix)
    with suppress(OSError):  # what is wrong with the directory shows in a moment
        os.mkdir(os.path.dirname(path))
    layout = storage.create(path, entries)
    try:
        records = [storage.write(layout, [piece]) for piece in writes]
        storage.commit(layout, records)
    finally:
        storage.abandon(layout)


def _split_incomplete(pieces: list[_Piece]) -> list[_Piece]:
    """Slices that do not make up their whole variable become entries of their own."""
    saved: dict[str, int] = {}
    for piece in pieces:
        saved[piece.name] = saved.get(piece.name, 0) + piece.value.size
    result = []
    for piece in pieces:
        region = piece.region
        if region is not None and saved[piece.name] != int(np.prod(region.full, dtype=np.int64)):
            piece = piece._replace(name=_part_name(piece.name, region), region=None)
        result.append(piece)
    return result


def _part_name(name: str, region: Region) -> str:
    return name + _PART_MARK + storage.format_slice_spec(*region)


# ---------------------------------------------------------------- restoring


@kernel("RestoreV2", device="CPU", mode=ASYNC)
def _restore_v2(node: KernelNode) -> Callable:
    types = node.attr("dtypes")

    def restore(prefix: Any, names: np.ndarray, specs: np.ndarray) -> Any:
        with open_checkpoint(as_text(prefix)) as reader:
            wanted = zip(texts(names), texts(specs), types, strict=True)
            values = [_read(reader, *item) for item in wanted]
        return values[0] if len(values) == 1 else tuple(values)

    return in_background(restore)


@kernel("Restore", "RestoreSlice", device="CPU", mode=ASYNC)
def _restore(node: KernelNode) -> Callable:
    dtype = node.attr("dt")

    def restore(pattern: Any, name: Any, spec: Any = b"") -> Any:
        files, label, part = as_text(pattern), as_text(name), as_text(spec)
        for path in _matching_files(files):
            with open_checkpoint(path) as reader:
                if reader.has(label) or reader.has(_wanted_part(label, part)):
                    return _read(reader, label, part, dtype)
        raise NotFoundError(
            None, None, f"variable '{label}' not found in any checkpoint '{files}'")

    return in_background(restore)


def _read(reader: CheckpointFile, name: str, spec: str, dtype: Any) -> Any:
    part = _wanted_part(name, spec)
    if not reader.has(name) and reader.has(part):
        value = reader.read(part, dtype=dtype)
    else:
        value = reader.read(name, spec or None, dtype=dtype)
    return value if value.ndim else value[()]


def _wanted_part(name: str, spec: str) -> str:
    region = parse_slice_spec(spec)
    return name if region is None else _part_name(name, region)


def _matching_files(pattern: str) -> list[str]:
    """The checkpoint of a prefix, or the files of all the shards that a pattern names."""
    if storage.checkpoint_exists(pattern):
        return [pattern]
    path = checkpoint_path(pattern)
    found = sorted(glob.glob(path))
    if not found:
        raise NotFoundError(None, None, f"no checkpoint matches '{path}'")
    return found


# ---------------------------------------------------------------- merging shards


@kernel("MergeV2Checkpoints", device="CPU", mode=ASYNC)
def _merge(node: KernelNode) -> Callable:
    delete_directories = node.attr("delete_old_dirs")

    def merge(prefixes: np.ndarray, destination: Any) -> None:
        sources, target = texts(prefixes), as_text(destination)
        with ExitStack() as stack:
            readers = [stack.enter_context(open_checkpoint(s)) for s in sources]
            _merge_into(target, readers)
        for source in sources:
            _remove_shard(source, target, delete_directories)

    return in_background(merge)


def _merge_into(prefix: str, readers: list[CheckpointFile]) -> None:
    entries: dict[str, tuple] = {}
    pieces: list[tuple[CheckpointFile, str, str, Region | None]] = []
    for reader in readers:
        for stored in reader.names():
            name, _, spec = stored.partition(_PART_MARK)
            region = parse_slice_spec(spec)
            shape = reader.shape(stored) if region is None else region.full
            entry = (name, reader.dtype(stored), shape)
            if entries.setdefault(name, entry) != entry:
                raise DataLossError(
                    None, None, f"merging checkpoints into '{prefix}': the shards disagree about "
                    f"'{name}'")
            pieces.append((reader, stored, name, region))
    # Values are read one at a time.
    values = ((name, region, reader.read(stored)) for reader, stored, name, region in pieces)
    _write_file(prefix, entries.values(), values)


def _remove_shard(source: str, destination: str, delete_directory: bool) -> None:
    if checkpoint_path(source) == checkpoint_path(destination):
        return
    storage.delete(source)
    directory = os.path.dirname(source)
    if delete_directory and directory and directory != os.path.dirname(destination):
        with suppress(OSError):  # others may still be in it
            os.rmdir(directory)


# ---------------------------------------------------------------- names of shards


@kernel("ShardedFilename", device="CPU", fresh=True)
def _sharded_filename(node: KernelNode) -> Callable:
    return lambda base, shard, count: b"%s-%05d-of-%05d" % (as_bytes(base), shard, count)


@kernel("ShardedFilespec", device="CPU", fresh=True)
def _sharded_filespec(node: KernelNode) -> Callable:
    return lambda base, count: b"%s-?????-of-%05d" % (as_bytes(base), count)
