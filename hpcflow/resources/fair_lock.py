"""A lock that threads get in the order in which they asked for it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any


class FairLock:
    """A context manager; Python's own lock goes to whoever asks when it is free, which may be the
    same thread for ever."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_held = False
        self._gates: deque[Any] = deque()  # a lock for each thread that waits

    def __enter__(self) -> None:
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
        try:
            gate.acquire()  # until the one before has left
        except BaseException:  # of a signal handler
            with self._guard:
                if gate in self._gates:
                    self._gates.remove(gate)
                    raise
            self.__exit__()  # it has just been given
            raise

    def __exit__(self, *error: object) -> None:
        with self._guard:
            if self._gates:
                self._gates.popleft().release()
            else:
                self._is_held = False
