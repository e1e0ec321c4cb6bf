"""``bench sync_step``: a step of two synchronous replicas over a parameter server.

Both workers train the Figure-1 network with SyncReplicasOptimizer; a step lasts until the gradients
of both have been applied. Rank 0 is the server. Rank 1 measures, and tells rank 2 how many steps
follow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow
from hpcflow.comm.launch import launch
from hpcflow.comm.world import world
from hpcflow.runtime.loop import event_loop
from hpcflow.tools.bench import child
from hpcflow.tools.bench.contestants import Peer
from hpcflow.tools.bench.programs import sync_step as program
from hpcflow.tools.bench.registry import Options, Row
from hpcflow.tools.bench.sampling import OURS, alternate, plan_of, rows_of

_COMMAND_TAG = 9
_CHIEF = 1


def run(options: Options) -> list[Row]:
    """Serve, take part, or measure; only the first worker returns rows."""
    started = launch()
    with contextlib.ExitStack() as stack:
        peers: list[Peer] = []
        if started is not None and started.rank == _CHIEF:  # before MPI starts
            for name, python in options.peers.items():
                peers.append(stack.enter_context(Peer(name, python, "sync_step")))
        task = hpcflow.mpi.task(jobs={"ps": 1})
        server = hpcflow.train.Server(task.cluster, task.job, task.index)
        comm = world().comm.Dup()
        if task.job == "ps":
            server.join()
            return []
        step, close = program.open_worker(hpcflow, server.target, task.index)
        if task.index:
            obey(comm, step)
            return []
        ours = Chief(comm, step)
        try:
            rows = measure(ours, peers, options)
        finally:
            ours.tell(0)
            close()
        return rows


def measure(ours: Chief, peers: list[Peer], options: Options) -> list[Row]:
    """The rows of the only case."""
    (case,) = program.CASES
    opened = [peer.open(case) for peer in peers]
    return rows_of(case, alternate([ours, *opened], plan_of(options)))


class Chief:
    """The worker that measures, as a contestant."""

    name = OURS

    def __init__(self, comm: Any, step: child.Step) -> None:
        self.comm = comm
        self.step = step

    def block(self, samples: int, batch: int) -> list[float]:
        """Let the other workers join in, and run steps."""
        self.tell(samples * batch)
        return child.measure(self.step, samples, batch)

    def tell(self, steps: int) -> None:
        """How many steps follow; 0 is the end."""
        for worker in range(_CHIEF + 1, _CHIEF + program.WORKERS):
            self.comm.Send(np.array([steps], np.int64), worker, _COMMAND_TAG)


def obey(comm: Any, step: Callable[[], object]) -> None:
    """Another worker: run as many steps as the first one says."""
    command = np.zeros(1, np.int64)
    while True:
        request = comm.Irecv(command, _CHIEF, _COMMAND_TAG)
        event_loop().run_until(request.Test)
        if not command[0]:
            return
        # The first worker may have taken both tokens of an update, and be done with its steps
        # while this one waits for a token that does not come; it closes their queue then.
        with contextlib.suppress(hpcflow.errors.OutOfRangeError):
            for _ in range(int(command[0])):
                step()
