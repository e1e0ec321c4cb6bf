"""``hf.gfile``: files and directories, with errors of the library's own classes."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from hpcflow import errors
from hpcflow.base.keywords import also_called
from hpcflow.storage.system_errors import class_of

__all__ = ["Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory",
           "ListDirectory", "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk"]

_MODES = ("r", "w", "a", "r+", "w+", "a+")


@contextmanager
def _own_errors(path: str = "") -> Iterator[None]:
    """Turn the system's errors, of `path` where they name none, into those of the library."""
    try:
        yield
    except OSError as e:
        kind: Any = (errors.FailedPreconditionError if isinstance(e, NotADirectoryError)
                     else class_of(e))
        name = path if e.filename is None else e.filename
        raise kind(None, None, f"{name}; {e.strerror or e}") from e


class GFile:
    """A file, opened when it is first used. Text in UTF-8 unless `mode` has a "b".

    Modes are "r", "w" and "a", each also with "+" for both directions: there reads and writes have
    positions of their own, and a read sees what was written before. Raises
    ``InvalidArgumentError`` for another mode, ``PermissionDeniedError`` for what the mode excludes,
    ``NotFoundError`` and their like when the file is first used.
    """

    def __init__(self, name: str, mode: str = "r") -> None:
        self._name = os.fspath(name)
        self._mode = mode
        self._plain = mode.replace("b", "")
        if self._plain not in _MODES:
            raise errors.InvalidArgumentError(
                None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+', but "
                f"{mode!r}, for {self._name}")
        self._reads: BinaryIO | None = None
        self._writes: BinaryIO | None = None

    @property
    def name(self) -> str:
        """The path."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode in which the file is opened."""
        return self._mode

    def _reader(self) -> BinaryIO:
        if self._plain in ("w", "a"):
            raise errors.PermissionDeniedError(None, None,
                                               f"File isn't open for reading: {self._name}")
        if self._plain != "r":
            self._writer().flush()
        if self._reads is None:
            with _own_errors(self._name):
                self._reads = open(self._name, "rb")  # noqa: SIM115  (kept open)
        return self._reads

    def _writer(self) -> BinaryIO:
        if self._plain == "r":
            raise errors.PermissionDeniedError(None, None,
                                               f"File isn't open for writing: {self._name}")
        if self._writes is None:
            # What is not there yet is made, also where a file is opened to be read and written.
            kept = self._plain == "r+" and os.path.exists(self._name)
            mode = "r+b" if kept else f"{self._plain[0].replace('r', 'w')}b"
            with _own_errors(self._name):
                self._writes = open(self._name, mode)  # type: ignore[assignment]  # noqa: SIM115
        assert self._writes is not None
        return self._writes

    def _value(self, content: bytes) -> Any:
        return content if "b" in self._mode else content.decode()

    def size(self) -> int:
        """The size in bytes."""
        self.flush()
        with _own_errors(self._name):
            return os.stat(self._name).st_size

    def read(self, n: int = -1) -> Any:
        """Read `n` bytes, or all that is left."""
        with _own_errors(self._name):
            return self._value(self._reader().read(n))

    def readline(self) -> Any:
        """Read a line, with its end."""
        with _own_errors(self._name):
            return self._value(self._reader().readline())

    def readlines(self) -> list:
        """Read all lines."""
        return list(iter(self.readline, self._value(b"")))

    def write(self, file_content: Any) -> None:
        """Write text or bytes."""
        content = file_content.encode() if isinstance(file_content, str) else file_content
        with _own_errors(self._name):
            self._writer().write(content)

    def seek(self, position: int | None = None, whence: int = 0,
             offset: int | None = None) -> None:
        """Let the next read be `position` bytes behind the beginning (`whence` is 0), the current
        position (1) or the end (2); `offset` is a later name of `position`.

        Raises ``TypeError`` unless one of the two is given, ``InvalidArgumentError`` for another
        `whence` and a position before the beginning, ``OutOfRangeError`` for one behind the end.
        """
        if offset is not None and position is not None:
            raise TypeError("seek(): offset and position may not be set simultaneously.")
        target = position if offset is None else offset
        if target is None:
            raise TypeError("seek(): offset argument required")
        reader = self._reader()
        if whence not in (0, 1, 2):
            raise errors.InvalidArgumentError(
                None, None, f"Invalid whence argument {whence}. Valid values for whence are 0, 1 "
                "or 2.")
        target += (0, reader.tell(), self.size() if whence == 2 else 0)[whence]
        if target < 0:
            raise errors.InvalidArgumentError(
                None, None, f"Cannot seek to a negative position: {target} in {self._name}")
        if target > self.size():
            raise errors.OutOfRangeError(
                None, None, f"Cannot seek to {target}, which is behind the end of {self._name}")
        reader.seek(target)

    def tell(self) -> int:
        """The position of the next read; of the next write in files that are only written."""
        return (self._writer() if self._plain in ("w", "a") else self._reader()).tell()

    def seekable(self) -> bool:
        """True: reads may begin anywhere."""
        return True

    def flush(self) -> None:
        """Hand what was written to the system."""
        if self._writes is not None:
            with _own_errors(self._name):
                self._writes.flush()

    def close(self) -> None:
        """Close the file; it opens again when it is used again."""
        reads, writes, self._reads, self._writes = self._reads, self._writes, None, None
        for file in (reads, writes):
            if file is not None:
                with _own_errors(self._name):
                    file.close()

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


def Glob(filename: str | Sequence[str]) -> list[str]:
    """The paths that match a pattern, or each of several."""
    patterns = [filename] if isinstance(filename, (str, bytes, os.PathLike)) else filename
    return [path for pattern in patterns for path in sorted(_glob.glob(os.fsdecode(pattern)))]


def MkDir(dirname: str) -> None:
    """Make a directory; nothing happens where `dirname` exists already."""
    with _own_errors(), suppress(FileExistsError):
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
