"""``hf.gfile``: files and directories, with errors of the library's own classes."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hpcflow import errors
from hpcflow.base.keywords import also_called

__all__ = ["Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory",
           "ListDirectory", "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk"]

_ERRORS: list[tuple[type[OSError], Any]] = [
    (FileNotFoundError, errors.NotFoundError),
    (FileExistsError, errors.AlreadyExistsError),
    (PermissionError, errors.PermissionDeniedError),
    (IsADirectoryError, errors.FailedPreconditionError),
    (NotADirectoryError, errors.FailedPreconditionError),
]


@contextmanager
def _own_errors() -> Iterator[None]:
    """Turn the system's errors into those of the library."""
    try:
        yield
    except OSError as e:
        kind = next((own for system, own in _ERRORS if isinstance(e, system)), errors.UnknownError)
        raise kind(None, None, str(e)) from e


class GFile:
    """A file, opened when it is first used. Text unless `mode` has a "b"."""

    def __init__(self, name: str, mode: str = "r") -> None:
        self._name = os.fspath(name)
        self._mode = mode
        self._opened: Any = None

    @property
    def name(self) -> str:
        """The path."""
        return self._name

    @property
    def mode(self) -> str:
        """How the file is opened."""
        return self._mode

    def _file(self) -> Any:
        if self._opened is None:
            with _own_errors():
                self._opened = open(self._name, self._mode)  # noqa: SIM115  (kept open)
        return self._opened

    def size(self) -> int:
        """The size in bytes."""
        self.flush()
        with _own_errors():
            return os.stat(self._name).st_size

    def read(self, n: int = -1) -> Any:
        """Read `n` characters or bytes, or all that is left."""
        return self._file().read(n)

    def readline(self) -> Any:
        """Read a line, with its end."""
        return self._file().readline()

    def readlines(self) -> list:
        """Read all lines."""
        return self._file().readlines()

    def write(self, file_content: Any) -> None:
        """Write text or bytes."""
        self._file().write(file_content)

    def seek(self, position: int) -> None:
        """Go to a position."""
        self._file().seek(position)

    def tell(self) -> int:
        """The current position."""
        return self._file().tell()

    def flush(self) -> None:
        """Hand what was written to the system."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Close the file; it opens again when it is used again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def next(self) -> Any:
        """The next line; ``StopIteration`` at the end."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    __next__ = next

    def __iter__(self) -> GFile:
        return self

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


Open = FastGFile = GFile


def Exists(filename: str) -> bool:
    """True if the path exists."""
    return os.path.exists(filename)


def IsDirectory(dirname: str) -> bool:
    """True if the path is a directory."""
    return os.path.isdir(dirname)


def ListDirectory(dirname: str) -> list[str]:
    """The names in a directory."""
    with _own_errors():
        return sorted(os.listdir(dirname))


def Glob(filename: str) -> list[str]:
    """The paths that match a pattern."""
    return sorted(_glob.glob(filename))


def MkDir(dirname: str) -> None:
    """Make a directory."""
    with _own_errors():
        os.mkdir(dirname)


def MakeDirs(dirname: str) -> None:
    """Make a directory and its parents; it may exist already."""
    with _own_errors():
        os.makedirs(dirname, exist_ok=True)


def Remove(filename: str) -> None:
    """Delete a file."""
    with _own_errors():
        os.remove(filename)


def DeleteRecursively(dirname: str) -> None:
    """Delete a directory with everything in it."""
    with _own_errors():
        shutil.rmtree(dirname)


def Copy(oldpath: str, newpath: str, overwrite: bool = False) -> None:
    """Copy a file; ``AlreadyExistsError`` if `newpath` exists and is not to be overwritten."""
    _check_free(newpath, overwrite)
    with _own_errors():
        shutil.copyfile(oldpath, newpath)


def Rename(oldname: str, newname: str, overwrite: bool = False) -> None:
    """Rename a file or directory; errors as :func:`Copy`."""
    _check_free(newname, overwrite)
    with _own_errors():
        os.replace(oldname, newname)


def _check_free(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(None, None, f"file already exists: {path}")


class _FileStatistics:
    """Length in bytes, time of modification in nanoseconds, and whether it is a directory."""

    def __init__(self, path: str) -> None:
        found = os.stat(path)
        self.length = found.st_size
        self.mtime_nsec = found.st_mtime_ns
        self.is_directory = os.path.isdir(path)


def Stat(filename: str) -> _FileStatistics:
    """Facts about a path."""
    with _own_errors():
        return _FileStatistics(filename)


def Walk(top: str, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """(directory, subdirectories, files) of a tree, parents first if `in_order`."""
    return os.walk(top, topdown=in_order)


# The names of io.gfile, with its names of arguments.
copy = also_called(src="oldpath", dst="newpath")(Copy)
exists = also_called(path="filename")(Exists)
glob = also_called(pattern="filename")(Glob)
isdir = also_called(path="dirname")(IsDirectory)
listdir = also_called(path="dirname")(ListDirectory)
makedirs = also_called(path="dirname")(MakeDirs)
mkdir = also_called(path="dirname")(MkDir)
remove = also_called(path="filename")(Remove)
rename = also_called(src="oldname", dst="newname")(Rename)
rmtree = also_called(path="dirname")(DeleteRecursively)
stat = also_called(path="filename")(Stat)


def walk(top: str, topdown: bool = True,
         onerror: Callable | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """(directory, subdirectories, files) of a tree, parents first if `topdown`."""
    return os.walk(top, topdown, onerror)
