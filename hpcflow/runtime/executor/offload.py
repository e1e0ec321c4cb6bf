"""Threads for long pieces of steps, so that a task goes on serving its other masters meanwhile.

A step runs piece by piece: from its start until it waits, and again whenever something came. Short
pieces run in the thread that drives the event loop, where handing them over would take longer than
they do. Those of a plan that turned out long go to a thread, if several masters use the task. Those
of a plan whose pieces have all been very short are run by the poll that finds what they waited for:
nobody else polls meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter as now

from hpcflow.host.fp_mode import silence_for_good
from hpcflow.host.tuning import runtime as tuning

Action = Callable[[], None]


class Masters:
    """A record of which masters use a task: whether several do at this time, and which pieces of
    steps are long."""

    __slots__ = ("long_seconds", "_changed", "_last")

    def __init__(self, oversubscribed: bool = False) -> None:
        self.long_seconds = (tuning.PIECE_LONG_SHARED_SECONDS if oversubscribed
                             else tuning.PIECE_LONG_SECONDS)
        self._last = -1
        self._changed = float("-inf")

    def came(self, rank: int) -> None:
        """The master at `rank` starts a step."""
        if rank != self._last:
            if self._last >= 0:
                self._changed = time.monotonic()
            self._last = rank

    def are_several(self) -> bool:
        """True if the steps that came lately were not all of one master."""
        return time.monotonic() - self._changed < tuning.MASTER_SECONDS


class Pace:
    """A measure of how long the pieces of a plan's steps take.

    Attributes:
        longest: seconds of the longest, less the longer ago it was; pessimistic at first.
    """

    __slots__ = ("longest", "_masters", "_seconds")

    def __init__(self, masters: Masters) -> None:
        self.longest = 2 * tuning.PIECE_SHORT_SECONDS
        self._masters = masters
        self._seconds = 0.0

    def run(self, action: Action, here: bool = False) -> None:
        """Run a piece: here, or in a thread if that is better and not ruled out by `here`."""
        if self._seconds > self._masters.long_seconds and not here and self._masters.are_several():
            _submit(lambda: self.run(action, True))
            return
        seconds = self.note(action)
        # One long piece makes the plan long; it takes some short ones to forget it.
        last = 0.9 * self._seconds
        self._seconds = seconds if seconds > last else last

    def note(self, action: Action) -> float:
        """Run a piece here, and note how long it takes, which is returned."""
        start = now()
        action()
        seconds = now() - start
        last = tuning.PIECE_MEMORY * self.longest
        self.longest = seconds if seconds > last else last
        return seconds


_queue: SimpleQueue[Action] = SimpleQueue()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


def _submit(action: Action) -> None:
    if not _threads:
        with _lock:
            if not _threads:
                _threads.extend(threading.Thread(
                    target=_serve, daemon=True, name=f"hpcflow-step-{i}")
                    for i in range(tuning.OFFLOAD_THREADS))
                for thread in _threads:
                    thread.start()
    _queue.put(action)


def _serve() -> None:
    silence_for_good()
    while True:
        _queue.get()()
