"""Checkpoints of any format that is read: which one a prefix names, opening, age and removal."""

from __future__ import annotations

import glob
import os

from hpcflow.storage.bundle import BundleReader
from hpcflow.storage.checkpoint_file import CheckpointFile
from hpcflow.storage.paths import bundle_index_path, checkpoint_path
from hpcflow.storage.reading import Reader
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tensor_slices import SlicesReader, matching_tables


def open_checkpoint(prefix: str) -> CheckpointFile:
    """Open the checkpoint of a prefix: the HDF5 file of hpcflow, else what another runtime wrote.

    Raises NotFoundError if there is none, DataLossError if it is damaged, UnimplementedError if it
    is of a form that is not read.
    """
    main = _main_file(prefix)
    if main == checkpoint_path(prefix):
        return Reader(main)
    return BundleReader(prefix) if main == bundle_index_path(prefix) else SlicesReader(prefix)


def checkpoint_exists(prefix: str) -> bool:
    """Whether there is a checkpoint of this prefix, whoever wrote it."""
    return os.path.isfile(_main_file(prefix))


def modification_time(prefix: str) -> float:
    """When the checkpoint was completed, in seconds since the epoch. Raises NotFoundError."""
    path = _main_file(prefix)
    with system_errors(f"checkpoint '{path}'"):
        return os.stat(path).st_mtime


def delete(prefix: str) -> None:
    """Remove the checkpoint of this prefix. Raises NotFoundError if there is none."""
    for path in _files(prefix):
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
