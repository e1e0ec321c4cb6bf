"""The core that a rank keeps to while its steps are short, where ranks share the cores of a node.

Ranks that wait yield their cores all the time, and the system moves them as it likes. Where steps
are shorter than its slices of time, two ranks that compute at the same time are often on one core,
one after the other, while others wait on the rest. So the ranks whose own steps are short share
the cores out among them, for the time of each step; ranks that only serve go where a core is given
away. Long steps are left to the system: it moves what computes to where nothing does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from hpcflow import config
from hpcflow.host.tuning import comm as tuning


class Core:
    """The core that a rank keeps to: `core` of the `cores` that this process may use."""

    def __init__(self, core: int, cores: frozenset[int]) -> None:
        self.core = frozenset([core])
        self.cores = cores
        self._short = 0  # steps in a row, lately
        self._last = 0.0  # when the last one began
        self._kept = 0.0  # when the last one that was kept began

    def keep(self) -> bool:
        """Begin a step in this thread: keep it on the core if steps are short; True if it is kept.

        Very short ones are not all kept: to ask the system takes microseconds, and it does not move
        a thread that soon. A thread that the program itself has put elsewhere stays there.
        """
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        if seconds > tuning.STEP_SHORT_SECONDS:
            self._short = 0
            return False
        if self._short < tuning.STEPS_TO_SETTLE:
            self._short += 1
            return False
        if now - self._kept < tuning.STEP_STAYS_SECONDS:
            return False
        self._kept = now
        try:
            if os.sched_getaffinity(0) != self.cores:
                return False
            os.sched_setaffinity(0, self.core)
        except OSError:
            return False
        return True

    def leave(self) -> None:
        """The step is over: the thread may run on all cores, and so may what it starts."""
        try:
            os.sched_setaffinity(0, self.cores)
        except OSError:  # they have been taken away
            pass


def own_core(rank: int, sharing: Sequence[int]) -> Core | None:
    """The core of `rank`, which is one of those that share the cores of a node, and are more than
    these. None if it may use one core only, or HPCFLOW_KEEP_CORE says so."""
    cores = frozenset(os.sched_getaffinity(0))
    if len(cores) < 2 or not config.flags.keep_core:
        return None
    return Core(sorted(cores)[sharing.index(rank) % len(cores)], cores)
