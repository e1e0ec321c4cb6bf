"""Ranks of this node that a signal has stopped while others wait for them in MPI."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpcflow import config
from hpcflow.comm.processes import Process, end, is_stopped
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from hpcflow.comm.world import PrivateComms


@contextlib.contextmanager
def ending_frozen(comms: PrivateComms) -> Iterator[None]:
    """End the ranks of this node that stay stopped for HPCFLOW_HEALTH_TIMEOUT meanwhile: no message
    gets through that could ask them, and MPI only leaves out processes that are gone."""
    over = threading.Event()
    limit = config.flags.health_timeout
    watch = threading.Thread(target=_watch, args=(_others_here(comms), limit, over), daemon=True,
                             name="hpcflow-frozen")
    if limit:
        watch.start()
    try:
        yield
    finally:
        over.set()
        if limit:
            watch.join()


def _others_here(comms: PrivateComms) -> list[Process]:
    me = comms.control.rank
    found = [comms.processes[rank] for rank in comms.local_ranks if rank != me]
    return [process for process in found if process.namespace == comms.processes[me].namespace]


def _watch(processes: list[Process], limit: float, over: threading.Event) -> None:
    interval = min(limit / 4, tuning.FROZEN_LOOK_SECONDS)
    stopped = dict.fromkeys(processes, 0.0)
    last = time.monotonic()
    while not over.wait(interval):
        now = time.monotonic()
        # While this rank was stopped too, nobody held the others up.
        passed, last = min(now - last, 2 * interval), now
        for process in processes:
            stopped[process] = stopped[process] + passed if is_stopped(process) else 0.0
            if stopped[process] >= limit:
                end(process)
