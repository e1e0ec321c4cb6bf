"""Signals that a process takes for others."""

from __future__ import annotations

import os
import signal
from collections import deque
from types import TracebackType
from typing import Any

#: Those that ask a job to end, and others that programs use.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OTHERS = (signal.SIGUSR1, signal.SIGUSR2)


class Caught:
    """While it is entered, the signals above are kept for `take`; those that the process was
    started to ignore, as by nohup, stay ignored."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Caught:
        for number in (*ENDING, *OTHERS):
            before = signal.getsignal(number)
            if before != signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._keep)
        return self

    def _keep(self, number: int, frame: object) -> None:
        self._numbers.append(number)

    def take(self) -> list[int]:
        """The signals that have come since the last call."""
        return [self._numbers.popleft() for _ in range(len(self._numbers))]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def signal_process(pid: int, number: int) -> None:
    """Send a signal to a process, if it still is there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
