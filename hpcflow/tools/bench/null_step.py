"""``bench null_step``: what a step over parameter servers costs beside its bytes and arithmetic.

The null step of the OSDI paper on TensorFlow: a worker fetches the parameters of P servers, does a
trivial computation, and sends updates. Beside it, on the same ranks and in turns with it, a bare
mpi4py program exchanges the same messages and does the same arithmetic. The servers are ranks 0 to
P-1, the worker is rank P; it times, and tells the servers when it is the bare program's turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow
from hpcflow.comm.launch import launch
from hpcflow.comm.world import world
from hpcflow.tools import table
from hpcflow.tools.bench import bare_exchange, child, turns
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import null_step as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, rows_of
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from mpi4py import MPI


def run(options: Options) -> list[Row]:
    """Serve, or measure every case; only the worker returns rows."""
    if options.quick:  # as many rows of a smaller table: they are not what takes the time
        program.CASES[program.SPARSE] = 16_000_000
    started = launch()
    is_worker = started is not None and started.rank == options.ps
    with contextlib.ExitStack() as stack:
        peers: list[Peer] = []
        if is_worker:  # before MPI starts: a process should not fork once it uses MPI
            for name, python in options.peers.items():
                peers.append(stack.enter_context(Peer(name, python, "null_step")))
        task = hpcflow.mpi.task(jobs={"ps": options.ps})
        server = hpcflow.train.Server(task.cluster, task.job, task.index)
        comm = world().comm.Dup()
        if not is_worker:
            obey(comm, worker=options.ps)
            return []
        bare = BareProgram(comm, options.ps)
        stack.callback(bare.end)
        return [
            row
            for case in program.CASES
            for row in measure_case(case, server.target, bare, peers, plan_of(options))
        ]


def measure_case(
    case: str, target: str, bare: BareProgram, peers: list[Peer], plan: Plan
) -> list[Row]:
    """The rows of one case."""
    child.forget_peak()
    held = child.peak_bytes()
    read, step, close = program.open_session(hpcflow, target, case, bare.servers)
    check_step(read, step)
    peak = peak_of(step) - held
    bare.open(case)
    opened = [peer.open(case, {"servers": bare.servers}) for peer in peers]
    try:
        rows = rows_of(case, alternate([Local(OURS, step), bare, *opened], plan))
    finally:
        close()
        for peer in peers:
            peer.close_case()
    rows[0]["worker_MB"] = peak / 1e6
    table.tell(rows)
    return rows


def peak_of(step: child.Step) -> int:
    """The most bytes that this process holds while steps run."""
    step()
    child.forget_peak()
    for _ in range(3):
        step()
    return child.peak_bytes()


def check_step(read: Callable[[], list[Any]], step: child.Step) -> None:
    """Fail unless a step turns the sign of all that `read` returns."""
    before = read()
    step()
    for old, new in zip(before, read()):
        np.testing.assert_array_equal(new, -old)


class BareProgram:
    """The worker's side of the bare program, as a contestant."""

    name = "bare mpi4py"

    def __init__(self, comm: MPI.Comm, servers: int) -> None:
        self.comm = comm
        self.servers = servers
        self.elements = 0

    def open(self, case: str) -> None:
        """Prepare buffers."""
        self.elements = int(np.prod(program.shape_of(case, self.servers)))
        self.rows = program.rows_of_step(self.servers) if case == program.SPARSE else None
        moved = self.elements if self.rows is None else self.rows.size * program.COLUMNS
        self.worker = bare_exchange.Worker(self.comm, self.servers, moved, self.rows)

    def block(self, samples: int, batch: int) -> list[float]:
        """Let the servers join in, and run steps."""
        self._command(samples * batch, self.elements, self.rows is not None)
        return child.measure(self.worker.step, samples, batch)

    def end(self) -> None:
        """Nothing more will come."""
        self._command(0, 0)

    def _command(self, steps: int, elements: int, sparse: bool = False) -> None:
        """Tell the servers how many bare steps follow (0: the end), on how many float32, and
        whether only on some rows of them."""
        turns.tell(self.comm, range(self.servers), steps, elements, sparse)


def obey(comm: MPI.Comm, worker: int) -> None:
    """A server: serve sessions, and take part in the bare program when the worker says so."""
    parameter = np.ones(0, np.float32)
    while True:
        steps, elements, sparse = turns.next_turn(comm, worker, 3)
        if not steps:
            return
        if parameter.size != elements:
            parameter = np.ones(elements, np.float32)
        serve = bare_exchange.serve_rows if sparse else bare_exchange.serve
        serve(comm, worker, parameter, steps)
