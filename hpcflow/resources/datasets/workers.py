"""Threads for the work of data sets: as many as there is work that waits, gone soon after it.

Work of one pass may wait for other work of the same pass (a batch for the elements that are
computed ahead), so a pool of a fixed size could block itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from hpcflow.host.tuning import files as tuning

_lock = threading.Lock()
_free: list[_Worker] = []
_count = 0


class _Worker:
    """A thread, and what it is to do next."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.wake = threading.Condition(_lock)
        self.work: deque[Callable[[], None]] = deque([work])

    def serve(self) -> None:
        np.seterr(all="ignore")  # as in the thread that runs a step
        while True:
            with _lock:
                if not self.work:
                    _free.append(self)
                    self.wake.wait(tuning.WORKER_IDLE_SECONDS)
                    if not self.work:
                        _free.remove(self)
                        return
                work = self.work.popleft()
            work()
            del work


def start(work: Callable[[], None]) -> None:
    """Call `work`, which reports its own failures, in another thread."""
    global _count
    with _lock:
        if _free:
            worker = _free.pop()
            worker.work.append(work)
            worker.wake.notify()
            return
        _count += 1
        name = f"hpcflow-data-{_count}"
    threading.Thread(target=_Worker(work).serve, daemon=True, name=name).start()
