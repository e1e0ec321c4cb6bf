"""``bench sync_step``: a step of two synchronous replicas over a parameter server.

Both workers train the Figure-1 network with SyncReplicasOptimizer; a step lasts until the gradients
of both have been applied. Beside it, on the same ranks and in turns with it, a bare mpi4py program
does the same. Rank 0 is the server. Rank 1 measures, and tells the others whose turn it is; rank 2
runs as many steps, and so waits wherever rank 1 does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import hpcflow
from hpcflow.comm.launch import launch
from hpcflow.comm.world import world
from hpcflow.tools.bench import bare_sync, child, turns
from hpcflow.tools.bench.contestants import Peer
from hpcflow.tools.bench.programs import sync_step as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, alternate, plan_of, rows_of
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from mpi4py import MPI

_CHIEF = 1
_BARE = "bare mpi4py"


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
            bare = bare_sync.Server(comm)
            take_turns(comm, lambda steps, is_bare: bare.serve(steps) if is_bare else None)
            return []
        step, close = program.open_worker(hpcflow, server.target, task.index)
        steps = {OURS: step, _BARE: bare_sync.Worker(comm).step}
        if task.index:
            take_turns(comm, lambda count, is_bare: repeat(
                steps[_BARE if is_bare else OURS], count))
            return []
        try:
            return measure([Together(comm, name, steps[name]) for name in steps], peers, options)
        finally:
            turns.tell(comm, _others(comm), 0, 0)
            close()


def measure(ours: list[Together], peers: list[Peer], options: Options) -> list[Row]:
    """The rows of the only case."""
    (case,) = program.CASES
    opened = [peer.open(case) for peer in peers]
    return rows_of(case, alternate([*ours, *opened], plan_of(options)))


class Together:
    """The first worker's side of a program in which all ranks take part, as a contestant."""

    def __init__(self, comm: MPI.Comm, name: str, step: child.Step) -> None:
        self.comm = comm
        self.name = name
        self.step = step

    def block(self, samples: int, batch: int) -> list[float]:
        """Let the others join in, and run steps."""
        turns.tell(self.comm, _others(self.comm), samples * batch, self.name == _BARE)
        return child.measure(self.step, samples, batch)


def _others(comm: MPI.Comm) -> list[int]:
    return [rank for rank in range(comm.size) if rank != _CHIEF]


def take_turns(comm: MPI.Comm, take_part: Callable[[int, bool], None]) -> None:
    """Another rank: ``take_part(steps, is_bare)`` whenever the first worker says so, until it
    says that there are no more."""
    while True:
        steps, is_bare = turns.next_turn(comm, _CHIEF, 2)
        if not steps:
            return
        take_part(steps, bool(is_bare))


def repeat(step: child.Step, count: int) -> None:
    """Run `count` steps."""
    for _ in range(count):
        step()
