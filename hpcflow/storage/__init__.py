"""Checkpoint files: one HDF5 file with one contiguous dataset per logical variable.

Saving takes three stages, which may run in different processes:

1. `create` (the coordinator) lays out a temporary file and returns a `Layout`;
2. `write` (every owner) puts pieces of variables into it and returns a
   record of what was written;
3. `commit` (the coordinator) checks that the records cover everything, stores the index with
   the checksums, syncs, and renames the file once to its final name; `abandon` removes it.

Until the rename an earlier file of the same name is untouched. `open_checkpoint` reads whole
variables or any slices of them and verifies the checksums, also of checkpoints that other 1.x
runtimes wrote. h5py is imported when a function needs it.
"""

from hpcflow.storage.checkpoint_file import CheckpointFile
from hpcflow.storage.converting import write_bundle, write_hdf5
from hpcflow.storage.layout import Entry, Layout
from hpcflow.storage.locking import DirectoryLock
from hpcflow.storage.opening import (
    checkpoint_exists,
    checkpoints_in,
    delete,
    modification_time,
    open_checkpoint,
)
from hpcflow.storage.paths import checkpoint_path, remove_leftovers, temporary_path
from hpcflow.storage.raw_files import read_file
from hpcflow.storage.reading import Reader
from hpcflow.storage.saving import abandon, commit, create
from hpcflow.storage.slices import Region, format_slice_spec, parse_slice_spec
from hpcflow.storage.writing import write
