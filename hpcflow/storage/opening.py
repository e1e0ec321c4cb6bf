"""Checkpoints of any format that is read: which one a prefix names, opening, age and removal."""

from __future__ import annotations

import glob
import os

from hpcflow.errors import (
    DataLossError,
    FailedPreconditionError,
    NotFoundError,
    UnimplementedError,
)
from hpcflow.storage.bundle import BundleReader
from hpcflow.storage.checkpoint_file import CheckpointFile
from hpcflow.storage.paths import INDEX_SUFFIX, SUFFIX, bundle_index_path, checkpoint_path
from hpcflow.storage.reading import Reader
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tensor_slices import SlicesReader, matching_tables

Prefix = str | os.PathLike[str]


def open_checkpoint(prefix: Prefix) -> CheckpointFile:
    """Open the checkpoint of a prefix: the HDF5 file of hpcflow, else what another runtime wrote.

    Raises NotFoundError if there is none, DataLossError if it is damaged, UnimplementedError if it
    is of a form that is not read.
    """
    prefix = os.fsdecode(prefix)
    if "\0" in prefix:
        raise NotFoundError(None, None, f"checkpoint {prefix!r}: no path has a null character")
    main = _main_file(prefix)
    if main == checkpoint_path(prefix):
        return Reader(main)
    return BundleReader(prefix) if main == bundle_index_path(prefix) else SlicesReader(prefix)


def checkpoint_exists(prefix: Prefix) -> bool:
    """True if there is a checkpoint of this prefix, whoever wrote it."""
    return os.path.isfile(_main_file(os.fsdecode(prefix)))


def checkpoints_in(directory: str) -> list[str]:
    """The prefixes of the complete checkpoints of a directory, oldest first; of any form but the
    first. Raises NotFoundError if there is no such directory.
    """
    with system_errors(f"directory '{directory}'"):
        names = [name for name in os.listdir(directory) if not name.startswith(".")]
    found = {os.path.join(directory, name.removesuffix(suffix))
             for name in names for suffix in (SUFFIX, INDEX_SUFFIX) if name.endswith(suffix)}
    return sorted(filter(_is_checkpoint, found), key=lambda p: (modification_time(p), len(p), p))


def _is_checkpoint(prefix: str) -> bool:
    """True for what opens as a checkpoint, and for a damaged one; not for other files."""
    try:
        open_checkpoint(prefix).close()
    except (NotFoundError, UnimplementedError, FailedPreconditionError):
        return False
    except DataLossError:
        return os.path.exists(prefix + ".meta")
    return True


def modification_time(prefix: Prefix) -> float:
    """When the checkpoint was completed, in seconds since the epoch. Raises NotFoundError."""
    path = _main_file(os.fsdecode(prefix))
    with system_errors(f"checkpoint '{path}'"):
        return os.stat(path).st_mtime


def delete(prefix: Prefix) -> None:
    """Remove the checkpoint of this prefix. Raises NotFoundError if there is none."""
    for path in _files(os.fsdecode(prefix)):
        with system_errors(f"removing checkpoint '{path}'"):
            os.unlink(path)


def _files(prefix: str) -> list[str]:
    """All files of a checkpoint; of hpcflow's form if there is none."""
    main = _main_file(prefix)
    if main == bundle_index_path(prefix):
        return [main, *glob.glob(glob.escape(prefix) + ".data-?????-of-?????")]
    return [main] if main == checkpoint_path(prefix) else matching_tables(prefix)


def _main_file(prefix: str) -> str:
    """The file whose presence makes a checkpoint; of hpcflow's form if there is none."""
    own, index = checkpoint_path(prefix), bundle_index_path(prefix)
    if os.path.isfile(own):
        return own
    if os.path.isfile(index):
        return index
    return next(iter(matching_tables(prefix)), own)
