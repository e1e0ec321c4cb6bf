"""A line of attempts: operations on a resource that wait without holding a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from hpcflow.errors import CancelledError
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.handles import SharedHandle


class WaitingLine(SharedHandle):
    """Base of resources at which operations wait their turn, first come, first served.

    A subclass changes its state with ``lock`` held and calls :meth:`serve` afterwards, without it.

    Attributes:
        name: for messages.
        lock: guards the state of the resource.
    """

    kind = "Resource"

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self._waiting: deque[Attempt] = deque()

    def wait(self, advance: Callable[[], Any], done: Callable[[Any], None]) -> Attempt:
        """Join the line. ``advance()`` is called with the lock held whenever the attempt is first
        in the line, and returns the outcome (values or an exception), or None to go on waiting;
        ``done(outcome)`` is called once, without the lock."""
        attempt = Attempt(advance, done)
        self.join(attempt)
        return attempt

    def join(self, attempt: Attempt) -> None:
        """Let `attempt` wait as the last of the line."""
        with self.lock:
            self._waiting.append(attempt)
        self.serve()

    def serve(self) -> None:
        """Let the first attempts go on until one has to wait."""
        if not self._waiting:  # whoever joins the line serves it afterwards
            return
        over: list[tuple[Attempt, Any]] = []
        with self.lock:
            while self._waiting:
                outcome = self._waiting[0].advance()
                if outcome is None:
                    break
                attempt = self._waiting.popleft()
                attempt.over = True
                over.append((attempt, outcome))
        for attempt, outcome in over:
            attempt.done(outcome)

    def cancel(self, attempt: Attempt, reason: BaseException | None = None) -> None:
        """Take an attempt out of the line, if it is not over."""
        with self.lock:
            if attempt.over:
                return
            attempt.over = True
            self._waiting.remove(attempt)
        attempt.done(reason or CancelledError(None, None, f"{self.kind} operation was cancelled"))
        self.serve()

    def clear(self) -> None:
        """The container is cleared: whoever waits is cancelled."""
        for attempt in list(self._waiting):
            self.cancel(attempt)
