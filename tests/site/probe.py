"""A plain mpi4py and h5py program: shows that the site's own parts work together.

Usage: ``srun --mpi=pmix python tests/site/probe.py FILE``. All ranks write into one HDF5 file by
MPI-IO; rank 0 prints one line of facts.
"""

from __future__ import annotations

import sys

import h5py
import numpy as np
from mpi4py import MPI


def main(path: str) -> None:
    """Write this rank's part of `path`, then read all parts."""
    world = MPI.COMM_WORLD
    with h5py.File(path, "w", driver="mpio", comm=world) as file:
        data = file.create_dataset("ranks", (world.size,), "i4")
        data[world.rank] = world.rank
    with h5py.File(path, "r", driver="mpio", comm=world) as file:
        found = file["ranks"][:]
    np.testing.assert_array_equal(found, np.arange(world.size))
    if world.rank == 0:
        library = MPI.Get_library_version().split(",")[0]
        print(f"{world.size} ranks, {library}, parallel HDF5 {h5py.version.hdf5_version}")


if __name__ == "__main__":
    main(sys.argv[1])
