"""Steps beside a save in the background, and the memory that it takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import hpcflow
from hpcflow.tools.bench import child
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import checkpoints as program
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, rows_of
from hpcflow.tools.table import Row

SAVING, BESIDE = "the step that saves", "steps while it is written"
PEAK, PLAIN = "memory while it is written", "another step"


class Job(NamedTuple):
    """A job that trains: its parts as functions."""

    step: Callable[[], object]
    save: Callable[[], object]
    join: Callable[[], object]


@contextmanager
def training(size: int, folder: str) -> Iterator[Job]:
    """A job with so many megabytes of weights, whose loops are compiled."""
    step, save, join, close = program.open_job(hpcflow, size, folder)
    try:
        for _ in range(2):
            step()
            child.wait_for_compilation()
        yield Job(step, save, join)
    finally:
        join()
        close()


def rows(size: int, folder: str, plan: Plan) -> list[Row]:
    """The rows of a save of so many megabytes beside a training job."""
    with training(size, folder) as job:
        found = rows_of(f"{size} MB: {SAVING}", alternate(
            [_Saving(job), Local(PLAIN, job.step)], plan))
        found += rows_of(f"{size} MB: {BESIDE}", alternate(
            [_Beside(job), Local(PLAIN, job.step)], plan))
    return [*found, _peak_row(size, folder)]


class _Saving:
    """Steps that save; a save is complete, and the step after it over, before the next."""

    name = OURS

    def __init__(self, job: Job) -> None:
        self._job = job

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        return [self._one() for _ in range(samples * batch)]

    def _one(self) -> float:
        start = time.perf_counter()
        self._job.step()
        self._job.save()
        seconds = time.perf_counter() - start
        self._job.join()
        self._job.step()
        return seconds


class _Beside(_Saving):
    """Steps from a save until it is complete, two at least."""

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        self._job.save()
        saved = threading.Thread(target=self._job.join)
        saved.start()
        seconds: list[float] = []
        while saved.is_alive() or len(seconds) < 2:
            seconds += child.measure(self._job.step, 1, 1)
        return seconds


def _peak_row(size: int, folder: str) -> Row:
    """What saves in the background add to the most memory that a job takes."""
    peaks = []
    for case in (program.PLAIN_JOB, program.SAVING_JOB):
        with Peer(OURS, sys.executable, "checkpoints") as process:
            process.open(case, {"megabytes": size, "directory": folder})
            process.block(3, 1)
            peaks.append(process.peak_bytes() / 1e6)
    added = peaks[1] - peaks[0]
    return {"case": f"{size} MB: {PEAK}", "program": OURS, "added_MB": added,
            "copies": added / size}
