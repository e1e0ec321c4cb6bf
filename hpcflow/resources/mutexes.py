"""Mutexes that steps hold: waited for without a thread, released when the step ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.errors import FailedPreconditionError
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.waiting import WaitingLine


class Mutex(WaitingLine):
    """Held by at most one step at a time, first come, first served.

    It is not reentrant: an acquire waits while anybody holds it, the same step included.
    """

    kind = "Mutex"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._owner: Any = None

    def acquire(self, step: Any, done: Callable[[Any], None], outputs: tuple = ()) -> Attempt:
        """``done(outputs)`` once `step` holds the mutex."""

        def advance() -> tuple | None:
            if self._owner is not None:
                return None
            self._owner = step
            return outputs

        return self.wait(advance, done)

    def release(self, step: Any) -> None:
        """Let the next one have it; ``FailedPreconditionError`` unless `step` holds it."""
        with self.lock:
            if self._owner is not step:
                holder = "nobody holds it" if self._owner is None else "another step holds it"
                raise FailedPreconditionError(
                    None, None, f"Mutex '{self.name}' cannot be released by this step: {holder}")
            self._owner = None
        self.serve()

    def step_ended(self, step: Any) -> None:
        """Release the mutex if `step` holds it still."""
        with self.lock:
            if self._owner is not step:
                return
            self._owner = None
        self.serve()
