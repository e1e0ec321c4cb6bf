"""The runs of a session that are under way, and what becomes of them when it is closed."""

from __future__ import annotations

from typing import Protocol

from hpcflow.errors import CancelledError


class Cancellable(Protocol):
    """A run of a step."""

    def cancel(self, error: BaseException) -> None:
        """Stop the run, and wait a while for what it had started; callable from any thread."""


class Runs:
    """The runs of a session. A run is added before it begins anything, so that a session that is
    closed either refuses it or cancels it."""

    __slots__ = ("_closed", "_runs")

    def __init__(self) -> None:
        self._runs: set[Cancellable] = set()
        self._closed = False

    def add(self, run: Cancellable) -> None:
        """`run` is about to begin; ``CancelledError`` if the session is closed."""
        self._runs.add(run)
        if self._closed:  # looked at after the run can be seen, so that one of two threads sees
            self._runs.discard(run)
            self.check()

    def discard(self, run: Cancellable) -> None:
        """`run` is over."""
        self._runs.discard(run)

    def __contains__(self, run: Cancellable) -> bool:
        return run in self._runs

    def check(self) -> None:
        """``CancelledError`` if the session is closed."""
        if self._closed:
            raise CancelledError(None, None, "The step was not begun: its session has been closed")

    def cancel(self) -> None:
        """Stop all runs, and wait a while for what they started."""
        for run in list(self._runs):
            run.cancel(CancelledError(
                None, None, "The step was cancelled by Session::Close: its session was closed"))

    def close(self) -> None:
        """Begin no more runs, and stop those that are under way."""
        self._closed = True
        self.cancel()
