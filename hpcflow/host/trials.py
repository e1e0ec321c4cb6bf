"""The choice between two ways to do what recurs, as of a product by one thread or by all: timing
decides.

Two threads rarely halve the time of a product of middle size: one of them may have to be woken,
what it reads and writes moves between the caches of the cores, and while it waits for more it is in
the way of others. What this costs shows outside of the product, so whole periods are compared: the
time from one product of a shape to the next, some periods in the one way and some in the other, in
turns. That is tried again from time to time. Both ways must give the same within the last bits.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Hashable

from hpcflow.host.tuning import host as tuning


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
        self._wait = tuning.TRIAL_WAIT_SECONDS
        self._turns: list[float] = []
        self._period = self._faults = 0.0  # of the second way

    def takes_second(self, now: float) -> bool:
        """Count a use at `now`; true if the second way is to be taken this time."""
        if Trial.running is self:
            with Trial.lock:
                return self._turn(now)
        if self.second:
            self._watch(now)
        self._last = now
        self._uses += 1
        if now >= self._retry and self._uses > tuning.TRIAL_WARM:
            self._begin(now)
        return self.second

    def _watch(self, now: float) -> None:
        """Leave the second way until the next trial, if it has come to be slow: a busy machine."""
        is_late = now - self._last > tuning.TRIAL_STUCK * self._period
        self._faults = self._faults + 1 if is_late else max(
            0.0, self._faults - tuning.TRIAL_FORGIVEN)
        if self._faults > tuning.TRIAL_FAULTS:
            self._decide(now, False, is_new=False)

    def _begin(self, now: float) -> None:
        """Start a trial of both ways with the next use, unless another one is under way."""
        with Trial.lock:
            other = Trial.running
            if other is None or now - other._last > tuning.TRIAL_GIVEN_UP_SECONDS:
                Trial.running = self
                self._turns, self._began, self._left = [], now, tuning.TRIAL_PERIODS

    def _turn(self, now: float) -> bool:
        """Count a use in the trial; true for a turn of the second way."""
        self._last = now
        is_second = len(self._turns) % 2 == 1
        if is_second and now - self._began > tuning.TRIAL_STUCK * self._turns[0]:
            self._decide(now, False)  # the machine has other work, and waits take their time
            return False
        if self._left <= 0:
            self._turns.append(now - self._began)
            self._began, self._left = now, tuning.TRIAL_PERIODS
            if len(self._turns) == 2 * tuning.TRIAL_TURNS:
                one, other = (statistics.median(self._turns[k::2]) for k in (0, 1))
                self._period = other / tuning.TRIAL_PERIODS
                self._decide(now, other < tuning.TRIAL_GAIN * one)
                return self.second
        self._left -= 1
        return len(self._turns) % 2 == 1

    def _decide(self, now: float, second: bool, is_new: bool = True) -> None:
        """End a trial; the next one is later and later, unless what was found is new."""
        before, self.second, self._faults = self.second, second, 0.0
        self._wait = (tuning.TRIAL_WAIT_SECONDS if is_new and before != second
                      else min(2 * self._wait, tuning.TRIAL_LONGEST_WAIT_SECONDS))
        self._retry = now + self._wait
        if Trial.running is self:
            Trial.running = None


class Trials:
    """The trials of things that are alike in all but a key."""

    def __init__(self) -> None:
        self._trials: dict[Hashable, Trial] = {}

    def take_second(self, key: Hashable) -> bool:
        """True if the second way is to be taken this time for what has this key."""
        trial = self._trials.get(key)
        if trial is None:
            if len(self._trials) >= tuning.TRIAL_MOST_KEYS:
                self._trials.clear()
            trial = self._trials.setdefault(key, Trial())
        return trial.takes_second(time.perf_counter())
