"""The threads over which large element-wise work is split: one pool per process.

Kernels that release the interpreter's lock run in parts, of which the calling thread does its
share. While the pool is busy with another step's work, a caller does all parts itself: then the
cores are used already.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from hpcflow import config
from hpcflow.host import fp_mode


class Job:
    """The parts of one piece of work; whoever is free takes the next."""

    def __init__(self, function: Callable[[int], None], count: int) -> None:
        self.function = function
        self.count = count
        self.left = count
        self.error: BaseException | None = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._done = threading.Event()

    def work(self) -> None:
        """Do parts until none is left."""
        while (number := next(self._numbers)) < self.count:
            try:
                self.function(number)
            except BaseException as e:  # noqa: BLE001  (raised by the caller of the pool)
                self.error = e
            with self._lock:
                self.left -= 1
                if not self.left:
                    self._done.set()

    def wait(self) -> None:
        """Until every part is done; raises what one of them raised."""
        self._done.wait()
        del self.function  # a thread that comes late must not keep the arrays
        if self.error is not None:
            raise self.error


class Pool:
    """``size - 1`` threads beside the one that calls."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._busy = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        for number in range(size - 1):
            threading.Thread(target=self._serve, daemon=True,
                             name=f"hpcflow-worker-{number}").start()

    def _serve(self) -> None:
        np.seterr(all="ignore")  # as in the thread that runs the step
        fp_mode.flush()
        while (job := self._jobs.get()) is not None:
            job.work()

    def run(self, function: Callable[[int], None], count: int) -> None:
        """Call ``function(0)`` to ``function(count - 1)``, in any order, and wait for them."""
        if self.size == 1 or count == 1 or not self._busy.acquire(blocking=False):
            for number in range(count):
                function(number)
            return
        try:
            job = Job(function, count)
            for _ in range(min(self.size, count) - 1):
                self._jobs.put(job)
            job.work()
            job.wait()
        finally:
            self._busy.release()

    def take(self) -> bool:
        """True if nobody else computes in all threads: until ``give_back()`` the caller may."""
        return self._busy.acquire(blocking=False)

    def give_back(self) -> None:
        """Give back the right that ``take()`` got."""
        self._busy.release()

    def close(self) -> None:
        """End the threads; what is run later is done by its caller."""
        for _ in range(self.size - 1):
            self._jobs.put(None)


# What launchers tell each rank of a job.
_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID")

_pool: Pool | None = None
_wide_pool: Pool | None = None
_most_at_once = 0  # what a session asked for; 0 is any number
_lock = threading.Lock()


def pool() -> Pool:
    """The pool of this process, made on first use."""
    global _pool
    found = _pool
    if found is None:
        with _lock:
            found = _pool = _pool or Pool(thread_count())
    return found


def thread_count() -> int:
    """HPCFLOW_THREADS; else OMP_NUM_THREADS, but no more than there are cores to run on."""
    if config.flags.threads:
        return config.flags.threads
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(_cores(), int(text)) if text.isdecimal() and int(text) else _cores()


@functools.cache  # the environment is slow to read
def is_rank() -> bool:
    """True in a job of several processes, as far as launchers tell."""
    return any(name in os.environ for name in _RANKS)


def at_once() -> int:
    """Return the number of kernels with threads of their own (of BLAS, of oneDNN) that fill the
    cores.

    One, unless OMP_NUM_THREADS gives them fewer threads than there are cores; in a job of several
    ranks, which share the cores; or if HPCFLOW_THREADS or a session says so.
    """
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if not text.isdecimal() or not int(text) or is_rank():
        return 1
    limits = [limit for limit in (config.flags.threads, _most_at_once) if limit]
    return max(1, min([_cores() // int(text), *limits]))


def has_idle_cores() -> bool:
    """True if there are threads beside the one that runs a step, for work that can be put off.

    In a job of several ranks the cores are theirs, unless HPCFLOW_THREADS says otherwise.
    """
    return (bool(config.flags.threads) or not is_rank()) and pool().size > 1


def may_spin() -> bool:
    """True if threads may wait busily for each other: they have cores of their own.

    Ranks that are not bound to cores, and of which nobody said how many threads they may use,
    compete for them.
    """
    return bool(config.flags.threads) or _has_own_cores()


@functools.cache  # the environment is slow to read
def _has_own_cores() -> bool:
    return (not is_rank() or "OMP_NUM_THREADS" in os.environ
            or _cores() < (os.cpu_count() or 1))


def limit_at_once(count: int) -> None:
    """Let no more than `count` kernels with threads of their own run at the same time."""
    global _most_at_once
    _most_at_once = count


def wide_pool() -> Pool:
    """The pool in which such kernels run, made on first use."""
    global _wide_pool
    found = _wide_pool
    if found is None:
        with _lock:
            found = _wide_pool = _wide_pool or Pool(at_once())
    return found


# Where users say how many threads they want.
_OF_USER = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def default_to_one() -> bool:
    """Use one thread from now on, also in what is loaded later and reads OMP_NUM_THREADS; False
    if the user has chosen a number."""
    if config.flags.threads or any(os.environ.get(name) for name in _OF_USER):
        return False
    os.environ["OMP_NUM_THREADS"] = "1"
    limit(1)
    return True


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit(count: int) -> None:
    """Use `count` threads from now on, or one per core if these are fewer."""
    global _pool
    count = min(count, _cores())
    with _lock:
        if _pool is None or _pool.size != count:
            old, _pool = _pool, Pool(count)
            if old is not None:
                old.close()


def _after_fork() -> None:
    global _pool, _wide_pool
    _pool = _wide_pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def bounds(size: int, parts: int, unit: int = 16) -> list[tuple[int, int]]:
    """`size` elements in about equal parts whose starts are multiples of `unit`."""
    step = -(-size // parts)
    step += -step % unit
    return [(start, min(start + step, size)) for start in range(0, size, step)]
