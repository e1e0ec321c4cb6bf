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

from hpcflow.host.tuning import comm as tuning

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
        self._spins = 0 if oversubscribed else tuning.WAIT_SPINS
        self._most_spins = 0 if oversubscribed else tuning.WAIT_MOST_SPINS
        self._least = (tuning.WAIT_MIN_SHARED_SECONDS if oversubscribed
                       else tuning.WAIT_MIN_YIELD_SECONDS)
        self._most = (tuning.WAIT_MAX_SHARED_SECONDS if oversubscribed
                      else tuning.WAIT_MAX_YIELD_SECONDS)
        self._budget = self._least
        self._misses = 0
        self._since = 0.0
        self._sleep = tuning.WAIT_MIN_SLEEP_SECONDS
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
                self._adapt_spins(waited > yields * tuning.WAIT_ALONE_SECONDS)
        self._misses = 0

    def end(self) -> None:
        """End a wait, as what was waited for has happened: as `reset`, but only long waits are
        learned from, because somebody goes on now."""
        if self._misses > tuning.WAIT_LONG_MISSES:
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
        elif not self._sleep and misses % tuning.WAIT_CLOCK_STRIDE == 0:
            if time.monotonic() - self._since > self._budget:
                self._sleep = tuning.WAIT_MIN_SLEEP_SECONDS
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
            self._sleep = tuning.WAIT_MIN_SLEEP_SECONDS
            return
        longest = tuning.WAIT_MAX_SLEEP_SECONDS
        if self._sleep >= longest and time.monotonic() - self._since > tuning.WAIT_IDLE_SECONDS:
            longest = tuning.WAIT_IDLE_SLEEP_SECONDS
        self._sleep = min(self._sleep * tuning.WAIT_SLEEP_GROWTH, longest)

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
