"""Deadlines of loops that never wait: they look at the clock themselves."""

from __future__ import annotations

import time

from hpcflow.errors import DeadlineExceededError


class DirectRun:
    """What stands for the step where a whole step is one call: its loops look at ``check``."""

    __slots__ = ("deadline", "reason")

    def __init__(self, timeout: float | None) -> None:
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.reason: BaseException | None = None

    def cancel(self, error: BaseException) -> None:
        """Let the loop that runs end with `error`; callable from any thread."""
        self.reason = error

    def check(self) -> None:
        """As ``Step.check``."""
        if self.reason is not None:
            raise self.reason
        if self.deadline is not None:
            check_deadline(self.deadline)


def check_deadline(deadline: float) -> None:
    """Raise ``DeadlineExceededError`` when ``time.monotonic()`` has passed `deadline`."""
    if time.monotonic() > deadline:
        raise DeadlineExceededError(None, None, "Timed out in a loop")
