"""SecondOrStepTimer: every so many seconds, or steps."""

from __future__ import annotations

import time


class SecondOrStepTimer:
    """Says at which steps something that happens now and then is due.

    Args:
        every_secs: seconds between two times.
        every_steps: steps between two times; exactly one of the two is given.

    Raises ``ValueError`` for none or both of them.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forget the last time: the next step is the first again."""
        self._last_triggered_step: int | None = None
        self._last_triggered_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """True for the first step, and when enough seconds or steps have passed since."""
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            return time.time() >= self._last_triggered_time + self._every_secs
        return step >= self._last_triggered_step + (self._every_steps or 0)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it happened at `step`; returns (seconds, steps) since the time before, or
        Nones."""
        now = time.time()
        if self._last_triggered_step is None:
            elapsed: tuple[float | None, int | None] = (None, None)
        else:
            elapsed = (now - self._last_triggered_time, step - self._last_triggered_step)
        self._last_triggered_time, self._last_triggered_step = now, step
        return elapsed

    def last_triggered_step(self) -> int | None:
        """The step of the last time, or None."""
        return self._last_triggered_step


class NeverTriggerTimer:
    """A timer of something that is never due."""

    def reset(self) -> None:
        """Nothing to forget."""

    def should_trigger_for_step(self, step: int) -> bool:
        """False."""
        return False

    def update_last_triggered_step(self, step: int) -> tuple[None, None]:
        """Return (None, None): there was no time before."""
        return None, None

    def last_triggered_step(self) -> None:
        """Return None."""
