"""What waits for a GPU without holding a thread: values on their way to other ranks.

The event loop asks the events, as it asks for messages, and goes on with what is complete.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

from hpcflow.runtime.executor.event_loop import event_loop


class Completions:
    """Actions that wait for events of GPUs; one for the process, polled by its event loop."""

    yields = True  # a poll of this alone is no reason to spin

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], bool], Callable[[], None]]] = deque()
        self._polling = threading.Lock()

    def when(self, done: Callable[[], bool], action: Callable[[], None]) -> None:
        """Call ``action()``, which takes little time, in the thread that polls, once ``done()``."""
        self._waiting.append((done, action))

    def pending(self) -> int:
        """The number of actions that wait."""
        return len(self._waiting)

    def poll(self) -> bool:
        """Look once at everything that waits; True if something was complete."""
        if not self._waiting or not self._polling.acquire(False):
            return False
        try:
            return self._look()
        finally:
            self._polling.release()

    def _look(self) -> bool:
        came = False
        for _ in range(len(self._waiting)):
            done, action = self._waiting.popleft()
            if _is_done(done):
                action()
                came = True
            else:
                self._waiting.append((done, action))
        return came


def _is_done(done: Callable[[], bool]) -> bool:
    """True also if the device has failed: who goes on will hear of it."""
    try:
        return bool(done())
    except Exception:  # noqa: BLE001  (every part of CUDA has errors of its own)
        return True


@functools.cache
def completions() -> Completions:
    """The completions of this process."""
    made = Completions()
    event_loop().poll_also(made)
    return made
