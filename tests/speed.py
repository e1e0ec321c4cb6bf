"""How fast this machine is, in whose seconds the limits of the tests are given."""

from __future__ import annotations

import os
import threading
import time

# Handed on to the processes that a run starts, so that one run measures once.
VARIABLE = "TESTS_SLOWNESS"
# Processor seconds of one pass of the work below on the machine for which limits are written.
REFERENCE_SECONDS = 0.0120
PASSES = 7
# A limit in processor seconds is reached by work, one on the clock also by waiting for a core.
CLOCK_FACTOR = 8.0
# For how long a test waits for another process or thread before it fails: no answer to how fast
# that has to be, and less than the time limit of the test.
PATIENCE_SHARE = 0.75


def slowness() -> float:
    """How many times longer than the reference machine this one computes, at least 1."""
    known = os.environ.get(VARIABLE)
    if known is None:
        measured = min(_pass_seconds() for _ in range(PASSES))
        known = os.environ[VARIABLE] = f"{max(1.0, measured / REFERENCE_SECONDS):.2f}"
    return float(known)


def _pass_seconds() -> float:
    """Processor seconds of some work of the kind that tests do: names, calls, small objects."""
    start = time.process_time()
    table: dict[str, list[int]] = {}
    for i in range(80_000):
        table.setdefault(f"name_{i % 997}", []).append(i)
    sum(len(found) for found in sorted(table.values()))
    return time.process_time() - start


def patience(limit: float = 60.0) -> float:
    """Seconds of the clock that a test with that limit may wait for something to happen."""
    return PATIENCE_SHARE * CLOCK_FACTOR * limit * slowness()


class OtherWork:
    """A busy loop in a thread while the body runs: how many times longer it takes than on a core of
    its own, apart from what so many busy processes of the test cause.

    Attributes:
        slowed: that number, at least 1, after the body.
    """

    def __init__(self, ours: int) -> None:
        self._ours = max(1.0, (ours + 1) / len(os.sched_getaffinity(0)))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.slowed = 1.0

    def _work(self) -> None:
        begin, used = time.monotonic(), time.thread_time()
        while not self._over.is_set():
            sum(range(1000))
        slowed = (time.monotonic() - begin) / (time.thread_time() - used)
        self.slowed = max(1.0, slowed / self._ours)

    def __enter__(self) -> OtherWork:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
