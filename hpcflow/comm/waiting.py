"""Waiting for something to happen, without wasting cores or microseconds.

::

    backoff = Backoff(oversubscribed)
    while not finished():
        if transport.poll():
            backoff.reset()
        else:
            backoff.wait()

A wait spins for a moment, then yields the core for a while, then sleeps for growing times. How
long it yields follows the traffic: as long as something came within a few milliseconds lately,
the next event is likely to come soon as well. Where ranks share cores, spinning would delay the
one that is waited for, so there the wait yields at once and sleeps sooner. Elsewhere it finds out
by how long yields take whether it shares its core after all, and spins accordingly.
"""

from __future__ import annotations

import ctypes
import threading
import time

#: Polls without yielding, where there is a core for every rank: at first, and at most. Where a rank
#: shares its core after all, each of them delays the one it waits for.
SPINS = 4
MOST_SPINS = 20
#: What a poll and a yield take at most if no other process runs on the core meanwhile.
ALONE_SECONDS = 8e-6
#: For how long a wait yields, at least and at most.
MIN_YIELD_SECONDS = 200e-6
MAX_YIELD_SECONDS = 20e-3
#: The same where ranks share cores.
MIN_SHARED_SECONDS = 50e-6
MAX_SHARED_SECONDS = 1e-3
#: The first sleep; each is longer than the one before by `SLEEP_GROWTH`, so that a sleep adds at
#: most about a tenth to the wait.
MIN_SLEEP_SECONDS = 20e-6
SLEEP_GROWTH = 1.1
#: The longest sleep, and that of a process that has been idle for `IDLE_SECONDS`.
MAX_SLEEP_SECONDS = 1e-3
IDLE_SLEEP_SECONDS = 5e-3
IDLE_SECONDS = 1.0
#: Polls between two looks at the clock while yielding.
_CLOCK_STRIDE = 8
#: Polls without a result after which a little more work no longer matters.
_LONG_MISSES = 100
#: Yield the core, and the interpreter with it, so that other threads of this process get their
#: turn. (`os.sched_yield` keeps the interpreter before Python 3.13.)
_yield_core = ctypes.CDLL(None).sched_yield


class Backoff:
    """The waiting of one thread; `wake` may be called by any thread.

    `oversubscribed` says that ranks share cores (see `world.PrivateComms.oversubscribed`), or that
    the polled endpoints share this process, so that spinning is of no use; `polls_yield` that a
    poll that finds nothing yields the core itself: once is enough.
    """

    def __init__(self, oversubscribed: bool = False, polls_yield: bool = False) -> None:
        self._polls_yield = polls_yield
        self._spins = 0 if oversubscribed else SPINS
        self._most_spins = 0 if oversubscribed else MOST_SPINS
        self._least = MIN_SHARED_SECONDS if oversubscribed else MIN_YIELD_SECONDS
        self._most = MAX_SHARED_SECONDS if oversubscribed else MAX_YIELD_SECONDS
        self._budget = self._least
        self._misses = 0
        self._since = 0.0
        self._sleep = MIN_SLEEP_SECONDS
        # Held except between a wake and the end of the sleep that it cuts short.
        self._gate = threading.Lock()
        self._gate.acquire()

    def reset(self) -> None:
        """Something happened: begin anew, and learn how long it took."""
        yields = self._misses - self._spins
        if yields > 0:
            waited = time.monotonic() - self._since
            self._adapt(waited)
            if not self._sleep:
                self._adapt_spins(waited > yields * ALONE_SECONDS)
        self._misses = 0

    def end(self) -> None:
        """What was waited for has happened: as `reset`, but only long waits are learned from,
        because somebody goes on now."""
        if self._misses > _LONG_MISSES:
            self.reset()
        else:
            self._misses = 0

    def wait(self, limit: float | None = None) -> bool:
        """Nothing happened: spin, yield or sleep, for at most `limit` seconds; True if it slept."""
        misses = self._misses = self._misses + 1
        if misses <= self._spins:
            return False
        if misses == self._spins + 1:
            self._since = time.monotonic()
            self._sleep = 0.0
        elif not self._sleep and misses % _CLOCK_STRIDE == 0:
            if time.monotonic() - self._since > self._budget:
                self._sleep = MIN_SLEEP_SECONDS
        if self._sleep:
            self._sleep_once(limit)
            return True
        if not self._polls_yield:
            _yield_core()
        return False

    def wake(self) -> None:
        """End the current sleep, or the next one at once."""
        try:
            self._gate.release()
        except RuntimeError:  # woken already
            pass

    def _sleep_once(self, limit: float | None) -> None:
        seconds = self._sleep if limit is None else min(self._sleep, limit)
        if seconds > 0 and self._gate.acquire(timeout=seconds):
            self._sleep = MIN_SLEEP_SECONDS
            return
        longest = MAX_SLEEP_SECONDS
        if self._sleep >= longest and time.monotonic() - self._since > IDLE_SECONDS:
            longest = IDLE_SLEEP_SECONDS
        self._sleep = min(self._sleep * SLEEP_GROWTH, longest)

    def _adapt_spins(self, shared: bool) -> None:
        """Spin less if others had the core while this thread yielded it, and more if nobody had."""
        if shared:
            self._spins //= 2
        elif self._spins < self._most_spins:
            self._spins += 1

    def _adapt(self, waited: float) -> None:
        """Yield for twice as long as events took lately; forget slowly, and long waits at once."""
        if waited > self._most:
            self._budget = max(self._least, self._budget / 2)
        else:
            self._budget = min(self._most, max(2 * waited, 0.9 * self._budget, self._least))
