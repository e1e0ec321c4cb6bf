"""Deadlines of what never waits: loops look at the clock themselves, steps when they are done."""

from __future__ import annotations

import time

from hpcflow.base.held_signals import held, run_held
from hpcflow.errors import DeadlineExceededError


class DirectRun:
    """A stand-in for the step where a whole step is one call: its loops look at ``check``."""

    __slots__ = ("deadline", "reason")

    def __init__(self, timeout: float | None) -> None:
        self.deadline = deadline_after(timeout)
        self.reason: BaseException | None = None

    def cancel(self, error: BaseException) -> None:
        """Let the loop that runs end with `error`; callable from any thread."""
        self.reason = error

    def check(self) -> None:
        """As ``Step.check``."""
        if self.reason is not None:
            raise self.reason
        if held:
            run_held()
        if self.deadline is not None:
            check_deadline(self.deadline)


def check_deadline(deadline: float) -> None:
    """Raise ``DeadlineExceededError`` when ``time.monotonic()`` has passed `deadline`."""
    if time.monotonic() > deadline:
        raise DeadlineExceededError(None, None, "Timed out in a loop")


def deadline_after(timeout: float | None) -> float | None:
    """When what starts now has to be done; None if there is no timeout."""
    return None if timeout is None else time.monotonic() + timeout


def check_end(deadline: float | None) -> None:
    """Raise ``DeadlineExceededError`` where a step that is done was not so by `deadline`.

    Nothing stops a kernel that computes. Its step fails when the kernel is done, as in 1.x.
    """
    if deadline is not None and (late := time.monotonic() - deadline) > 0:
        raise DeadlineExceededError(
            None, None, "Timed out waiting for notification: a step, which was done "
            f"{late:.3f} s after its time was over")
