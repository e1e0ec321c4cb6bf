"""Plain reads and writes of files: whole transfers, syncing, and only of regular files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from hpcflow.host.tuning import files as tuning


@contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The descriptor of an existing regular file, closed at the end.

    Raises OSError; also for a FIFO, a device or a directory, which are never waited for.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor).st_mode)
        yield descriptor
    finally:
        os.close(descriptor)


class NotARegularFile(OSError):
    """A path leads to something that is no file of bytes."""


def require_regular(path: str) -> None:
    """Raise OSError unless `path` leads to a regular file: missing, a FIFO, a directory."""
    _check(os.stat(path).st_mode)


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise NotARegularFile("it is no regular file")


def read_file(path: str) -> bytes:
    """The content of a regular file. Raises OSError."""
    with opened(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read()


def pwrite_all(descriptor: int, data: bytearray | memoryview, position: int) -> None:
    """Write all bytes of a buffer at a position of a file."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        part = view[done : done + tuning.FILE_TRANSFER_BYTES]
        done += os.pwrite(descriptor, part, position + done)


def pread_into(descriptor: int, out: memoryview, position: int) -> None:
    """Fill a buffer from a position of a file. Raises EOFError where the file is too short."""
    done = 0
    while done < len(out):
        part = out[done : done + tuning.FILE_TRANSFER_BYTES]
        count = os.preadv(descriptor, [part], position + done)
        if not count:
            raise EOFError("the file is too short")
        done += count
