"""One saver at a time in a directory, of all threads and processes.

A lock covers a save from its begin to the file that names the latest checkpoint, so that this is
the one that was begun last. It leaves no file: the directory itself is locked, where its file
system can do so; elsewhere the threads of a process still take turns.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
import time
from contextlib import suppress

from hpcflow.errors import DeadlineExceededError
from hpcflow.host.tuning import files as tuning

_log = logging.getLogger("hpcflow")
_turns: dict[str, threading.Lock] = {}
_guard = threading.Lock()


class DirectoryLock:
    """The right to save into a directory, from construction until `release`, by any thread.

    A directory that does not exist is not locked: saving into it fails anyway. Raises
    DeadlineExceededError if another saver holds it for ten minutes.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.realpath(directory or ".")
        self._descriptor = -1
        self._end = time.monotonic() + tuning.LOCK_PATIENCE_SECONDS
        with _guard:
            self._turn = _turns.setdefault(self._directory, threading.Lock())
        if not self._turn.acquire(timeout=tuning.LOCK_PATIENCE_SECONDS):
            raise self._too_late()
        try:
            self._lock_file()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others save; once."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)  # ends the lock, too
            self._descriptor = -1
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
        pause = tuning.LOCK_FIRST_PAUSE_SECONDS
        while not self._try_lock():
            if time.monotonic() > self._end:
                raise self._too_late()
            time.sleep(pause)
            pause = min(2 * pause, tuning.LOCK_LONGEST_PAUSE_SECONDS)

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
