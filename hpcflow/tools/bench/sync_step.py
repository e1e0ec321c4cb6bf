"""``bench sync_step``: a step of two synchronous replicas over a parameter server.

Both workers train the Figure-1 network with SyncReplicasOptimizer; a step lasts until the gradients
of both have been applied. Rank 0 is the server. Rank 1 measures; rank 2 runs steps all the time,
and so waits wherever rank 1 does.
"""

from __future__ import annotations

import contextlib

import hpcflow
from hpcflow.comm.launch import launch
from hpcflow.tools.bench import child
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import sync_step as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, alternate, plan_of, rows_of
from hpcflow.tools.table import Row

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
        if task.job == "ps":
            server.join()
            return []
        step, close = program.open_worker(hpcflow, server.target, task.index)
        if task.index:
            take_part(step)
            return []
        try:
            return measure(Local(OURS, step), peers, options)
        finally:
            close()


def measure(ours: Local, peers: list[Peer], options: Options) -> list[Row]:
    """The rows of the only case."""
    (case,) = program.CASES
    opened = [peer.open(case) for peer in peers]
    return rows_of(case, alternate([ours, *opened], plan_of(options)))


def take_part(step: child.Step) -> None:
    """Another worker: run steps until the first one closes the queue of tokens."""
    with contextlib.suppress(hpcflow.errors.OutOfRangeError):
        while True:
            step()
