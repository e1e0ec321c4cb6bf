"""HDF5 files opened as this library needs them."""

from __future__ import annotations

import io
from typing import Any

from hpcflow.errors import UnavailableError


def load_h5py() -> Any:
    """The module h5py; UnavailableError that names the command to install it if it is missing."""
    try:
        import h5py
    except ImportError as error:
        raise UnavailableError(
            None, None, f"HDF5 files need h5py ({error}): pip install h5py") from error
    return h5py


def open_file(path: str | io.RawIOBase | io.BytesIO, mode: str, **options: Any) -> Any:
    """An h5py File, without file locks where HDF5 can do so.

    Files under construction are private and finished ones are never changed, and some
    parallel file systems refuse locks.
    """
    h5py = load_h5py()
    version = h5py.version.hdf5_version_tuple
    if version >= (1, 12, 1) or (version[:2] == (1, 10) and version[2] >= 7):
        options["locking"] = False
    return h5py.File(path, mode, libver=("v110", "v110"), **options)
