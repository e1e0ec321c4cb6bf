"""Files that lie beside a program (``hpcflow.resource_loader``)."""

from __future__ import annotations

import inspect
from pathlib import Path

from hpcflow.base.late_names import named_otherwise


def _folder_of_caller() -> Path:
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Path(frame.f_code.co_filename if frame else ".").resolve().parent


def get_data_files_path() -> str:
    """Return the directory of the file that calls this."""
    return str(_folder_of_caller())


def get_path_to_datafile(path: str) -> str:
    """Return the full name of `path`, which is relative to the directory of the caller's file."""
    return str(_folder_of_caller() / path)


def load_resource(path: str) -> bytes:
    """Return the contents of the file `path`, relative to the directory of the caller's file.

    Raises ``OSError`` if it cannot be read.
    """
    return (_folder_of_caller() / path).read_bytes()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return `path`: files are read as the system sees fit."""
    return path


__getattr__ = named_otherwise(__name__)
