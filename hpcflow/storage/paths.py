"""Names of checkpoint files, and what crashed runs leave of them."""

from __future__ import annotations

import glob
import os
import secrets
import time
from contextlib import suppress

from hpcflow.storage.system_errors import system_errors

SUFFIX = ".h5"
INDEX_SUFFIX = ".index"
_TEMPORARY_MARK = ".tmp-"
_LONGEST_NAME = 255  # bytes of a name in a directory, on all common file systems


def checkpoint_path(prefix: str) -> str:
    """The file of a checkpoint prefix: `model.ckpt-100` is stored as `model.ckpt-100.h5`."""
    return prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX


def bundle_index_path(prefix: str) -> str:
    """The index of a tensor bundle, the form in which other 1.x runtimes write checkpoints."""
    return prefix + INDEX_SUFFIX


def bundle_data_path(prefix: str, shard: int, shards: int) -> str:
    """One of the files that hold the values of a tensor bundle."""
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def temporary_path(path: str) -> str:
    """A new unique name in the directory of `path`, hidden, recognizable as unfinished.

    Of a name that is nearly as long as names may be it has only the beginning.
    """
    directory, name = os.path.split(os.path.abspath(path))
    ending = f"{_TEMPORARY_MARK}{secrets.token_hex(6)}"
    space = _LONGEST_NAME - 1 - len(ending)
    if space < len(os.fsencode(name)) <= _LONGEST_NAME:
        root, suffix = os.path.splitext(name)
        begin = os.fsencode(root)[: space - len(os.fsencode(suffix))]
        name = begin.decode(errors="ignore") + suffix
    return os.path.join(directory, f".{name}{ending}")


def remove_leftovers(prefix: str, unchanged_for: float = 0.0) -> list[str]:
    """Remove unfinished files that crashed runs left behind; returns their paths.

    Concerns the temporary files of `prefix` and of names that continue it (`prefix-100`) that
    nobody has written to for `unchanged_for` seconds. Call it only while nobody saves under this
    prefix, or with a time in which every save ends.
    """
    directory, name = os.path.split(os.path.abspath(prefix))
    pattern = f".{glob.escape(name)}*{_TEMPORARY_MARK}*"
    removed = []
    newest = time.time() - unchanged_for
    for path in glob.glob(os.path.join(glob.escape(directory), pattern)):
        with system_errors(f"removing leftover '{path}'"), suppress(FileNotFoundError):
            if not unchanged_for or os.stat(path).st_mtime <= newest:
                os.unlink(path)
                removed.append(path)
    return removed


def sync_directory(path: str) -> None:
    """Make the names in the directory of `path` durable."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
