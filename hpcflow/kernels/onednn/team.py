"""The number of threads for matrix products of middle size: one or all, as timing decides.

Two threads rarely halve the time of such a product (a tenth of a millisecond): one of them may have
to be woken, what it reads and writes moves between the caches of the cores, and while it waits for
more it is in the way of others. What this costs shows outside of the product, so whole periods are
compared: the time from one product of a shape to the next, some periods with one thread and some
with all, in turns. That is tried again from time to time. One thread and all must give the same
bits; then nothing depends on the choice.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from hpcflow.host import blas
from hpcflow.host.tuning import kernels as tuning

_NEVER = float("inf")


class Trial:
    """A timing trial of two ways to do a recurring thing: the faster for the whole program wins.

    One trial runs at a time in a process, since each changes what the others would measure.
    """

    running: Trial | None = None  # of all
    lock = threading.Lock()

    def __init__(self) -> None:
        self.second = False  # the way that is better, as far as known
        self._uses = self._left = 0
        self._began = self._last = self._retry = 0.0
        self._wait = tuning.TEAM_WAIT_SECONDS
        self._turns: list[float] = []

    def wants_to_begin(self, now: float) -> bool:
        """Count a use at `now`; true if it is time for a trial."""
        self._last = now
        self._uses += 1
        if now < self._retry or self._uses <= tuning.TEAM_WARM:
            return False
        other = Trial.running
        return other is not self and (other is None
                                      or now - other._last > tuning.TEAM_GIVEN_UP_SECONDS)

    def begin(self, now: float) -> None:
        """Start a trial of both ways."""
        with Trial.lock:
            Trial.running = self
            self._turns, self._began, self._left = [], now, tuning.TEAM_PERIODS

    def refuse(self) -> None:
        """Rule out the second way, so that there is no trial."""
        self._retry = _NEVER

    def is_second(self, now: float) -> bool:
        """Return True if the second way is to be taken this time."""
        if Trial.running is not self:
            return self.second
        with Trial.lock:
            if self._left <= 0:
                self._turns.append(now - self._began)
                self._began, self._left = now, tuning.TEAM_PERIODS
                if len(self._turns) == 2 * tuning.TEAM_TURNS:
                    self._decide(now)
                    return self.second
            self._left -= 1
            return len(self._turns) % 2 == 1

    def _decide(self, now: float) -> None:
        one, other = (statistics.median(self._turns[k::2]) for k in (0, 1))
        before, self.second = self.second, other < tuning.TEAM_GAIN * one
        self._wait = (tuning.TEAM_WAIT_SECONDS if before != self.second
                      else min(2 * self._wait, tuning.TEAM_LONGEST_WAIT_SECONDS))
        self._retry = now + self._wait
        Trial.running = None


class Team:
    """The threads of a library; the number is each caller's own.

    Args:
        read, write: functions that tell and set the number.
    """

    def __init__(self, read: Callable[[], int], write: Callable[[int], Any]) -> None:
        self._read = read
        self._write = write
        self._trials: dict[Hashable, Trial] = {}

    @classmethod
    def of(cls, path: str) -> Team | None:
        """Return the team of the OpenMP that the library at `path` is linked with, or None."""
        try:
            library = ctypes.PyDLL(path)  # the calls are too short to give up the interpreter for
            return cls(library.omp_get_max_threads, library.omp_set_num_threads)
        except (AttributeError, OSError):
            return None

    def run(self, key: Hashable, size: int, alone: Callable[..., None],
            together: Callable[..., None], addresses: tuple[int, ...], nbytes: int) -> None:
        """Make a product by one of two functions that give the same but for the threads they use.

        Args:
            key: what the product is like.
            size: its multiplications.
            alone, together: the functions; `alone` is called while the caller has one thread.
            addresses: their arguments, the last of what they write (and may read).
            nbytes: how much that is.
        """
        usual = self._read() if size <= tuning.TEAM_LARGEST and blas.may_try() else 1
        if usual < 2:
            together(*addresses)
            return
        trial = self._trials.get(key)
        if trial is None:
            if len(self._trials) >= tuning.TEAM_MOST_SHAPES:
                self._trials.clear()
            trial = self._trials.setdefault(key, Trial())
        now = time.perf_counter()
        if trial.wants_to_begin(now):
            if self._same_bits(alone, together, addresses, nbytes):
                trial.begin(time.perf_counter())
            else:
                trial.refuse()
        elif trial.is_second(now):
            together(*addresses)
        else:
            self.alone(alone, addresses, usual)

    def alone(self, function: Callable[..., Any], addresses: tuple[int, ...],
              usual: int = 0) -> None:
        """Call `function` while the caller has one thread, of `usual` ones."""
        usual = usual or self._read()
        self._write(1)
        try:
            function(*addresses)
        finally:
            self._write(usual)

    def _same_bits(self, alone: Callable, together: Callable, addresses: tuple[int, ...],
                   nbytes: int) -> bool:
        """Make the product in both ways; what one thread made stays if they differ."""
        made = addresses[-1], nbytes
        before = ctypes.string_at(*made)
        together(*addresses)
        other = ctypes.string_at(*made)
        ctypes.memmove(made[0], before, made[1])
        self.alone(alone, addresses)
        return other == ctypes.string_at(*made)
