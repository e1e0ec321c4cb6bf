"""The lock around MPI, which nobody waits for.

It is a token in a deque: taking it is `pop`, atomic and three times as fast as a lock object. A
thread that finds it taken leaves its operation in `deferred`; whoever holds the lock runs it before
or right after letting go. So posting works from any thread, from callbacks and from signal
handlers, and a polling thread starves nobody.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from hpcflow.comm import survivors
from hpcflow.comm.matching import Task
from hpcflow.comm.mpi_requests import mpi_failure
from hpcflow.comm.transport import Transport, closed_error
from hpcflow.comm.world import PrivateComms

#: The lock of all transports where MPI wants one caller at a time.
_PROCESS_LOCK = deque((None,))


class LockedTransport(Transport):
    """A transport over `comms` whose operations run under a lock, until it is closed or a rank is
    lost."""

    def __init__(self, comms: PrivateComms) -> None:
        from mpi4py import MPI

        self.comms = comms
        self.rank = comms.control.rank
        self.size = comms.control.size
        self.description = f"MPI, rank {self.rank} of {self.size}"
        self.mpi_error = MPI.Exception
        self._lock = deque((None,)) if comms.any_thread else _PROCESS_LOCK
        #: Take the lock, or raise IndexError; let it go.
        self.lock: Callable[[], None] = self._lock.pop
        self.unlock: Callable[[None], None] = self._lock.append
        #: What threads that found the lock taken want done.
        self.deferred: deque[Task] = deque()
        self._closed = False
        #: Whether a rank is lost, and nothing moves any more; see `survivors`.
        self.broken = False

    def run_locked(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run `action` under the lock: now, or by the thread that holds it, soon."""
        try:
            self.lock()
        except IndexError:
            self.defer(action, *arguments)
            return
        try:
            if self.deferred:
                self.run_deferred()
            action(*arguments)
        except self.mpi_error as error:
            if not self.breaks(error):
                raise mpi_failure(error, f"rank {self.rank}") from None
        finally:
            self.unlock(None)
            if self.deferred:
                self.flush()

    def defer(self, action: Callable[..., None], *arguments: Any) -> None:
        """Leave `action` to the thread that holds the lock."""
        if self._closed:
            raise closed_error(self.description)
        if self.broken:
            return
        self.deferred.append((action, arguments))
        self.flush()

    def run_deferred(self) -> None:
        """Do what other threads want. For use under the lock."""
        while self.deferred:
            action, arguments = self.deferred.popleft()
            action(*arguments)

    def flush(self) -> None:
        """Do what other threads want, unless one holds the lock: it comes here afterwards."""
        while self.deferred:
            try:
                self.lock()
            except IndexError:
                return
            try:
                self.run_deferred()
            except self.mpi_error as error:
                if not self.breaks(error):
                    raise
            finally:
                self.unlock(None)

    # --- a rank that is lost, and the end -----------------------------------------------------

    def breaks(self, error: Exception) -> bool:
        """True if `error` says that a rank is lost, and the others are to go on: then nothing moves
        here any more, and they learn it too. For use under the lock."""
        if not survivors.tells_of_loss(error):
            return False
        self.break_off()
        return True

    def break_off(self) -> None:
        """Let nothing move any more, here or on another rank. For use under the lock."""
        if not self.broken:
            self.broken = True
            self.lock = deque[None]().pop  # nobody gets it any more
            survivors.revoke(self.comms)

    def give_up(self) -> None:
        """As `break_off`, without the lock; nothing moves any more when it returns."""
        self.run_locked(self.break_off)
        while not self.broken:  # whoever holds the lock does it
            time.sleep(1e-4)

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error(self.description)

    def _refuse(self) -> None:
        raise closed_error(self.description)
