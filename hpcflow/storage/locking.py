"""One saver at a time in a directory, of all threads and processes.

A lock covers a save from its begin to the file that names the latest checkpoint, so that this is
the one that was begun last. It leaves no file: the directory itself is locked, where its file
system can do so; elsewhere the threads of a process still take turns.

Who waits stands in line: it holds a shared lock on the byte of the directory whose number is the
time at which it came. Nobody goes ahead of another who has an earlier byte, also not who has just
saved; and who dies leaves the line.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
import threading
import time
from contextlib import suppress

from hpcflow.errors import DeadlineExceededError
from hpcflow.host.tuning import files as tuning

_log = logging.getLogger("hpcflow")
_turns: dict[str, threading.Lock] = {}
_guard = threading.Lock()
_RANGE = struct.Struct("hhqqi")  # Linux's ``struct flock``: kind, whence, start, length, process


class DirectoryLock:
    """The right to save into a directory, from construction until `release`, by any thread.

    A directory that does not exist is not locked: saving into it fails anyway. Raises
    DeadlineExceededError if another saver holds it for ten minutes.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.realpath(directory or ".")
        self._descriptor = -1
        self._came = time.time_ns() // 1000
        self._end = time.monotonic() + tuning.LOCK_PATIENCE_SECONDS
        with _guard:
            self._turn = _turns.setdefault(self._directory, threading.Lock())
        try:
            self._lock_file()
            if not self._turn.acquire(timeout=max(self._end - time.monotonic(), 0)):
                raise self._too_late()
        except BaseException:
            self._unlock_file()
            raise

    def release(self) -> None:
        """Let others save; once."""
        self._unlock_file()
        self._turn.release()

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock_file(self) -> None:
        try:
            self._descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        self._stand_in_line(fcntl.F_RDLCK)
        pause = tuning.LOCK_FIRST_PAUSE_SECONDS
        while self._is_another_ahead() or not self._try_lock():
            if time.monotonic() > self._end:
                raise self._too_late()
            time.sleep(pause)
            pause = min(2 * pause, tuning.LOCK_LONGEST_PAUSE_SECONDS)
        self._stand_in_line(fcntl.F_UNLCK)

    def _unlock_file(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)  # ends the locks, too
            self._descriptor = -1

    def _stand_in_line(self, kind: int) -> None:
        """Come, or leave; where the file system has no locks of bytes there is no line."""
        with suppress(OSError):
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK,
                        _RANGE.pack(kind, os.SEEK_SET, self._came, 1, 0))

    def _is_another_ahead(self) -> bool:
        asked = _RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, self._came, 0)
        try:
            found = fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, asked)
        except OSError:
            return False
        return _RANGE.unpack(found)[0] != fcntl.F_UNLCK

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
                return False
            _log.debug("'%s' cannot be locked: %s", self._directory, error)
        return True

    def _too_late(self) -> DeadlineExceededError:
        return DeadlineExceededError(
            None, None, f"another saver holds the directory '{self._directory}' for "
            f"{tuning.LOCK_PATIENCE_SECONDS:g} s")
