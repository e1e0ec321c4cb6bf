"""``bench allreduce``: a step that reduces a tensor over the ranks, by size.

Beside it, in turns, a bare mpi4py program calls ``Allreduce`` on buffers of its own. The columns
are those of the OSU benchmarks: the latency of one operation, and the bytes of the tensor over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow
from hpcflow.comm.world import world
from hpcflow.tools.bench.contestants import Local
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, alternate, plan_of, rows_of
from hpcflow.tools.bench.together import Team
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from mpi4py import MPI

BARE = "bare mpi4py"
SIZES = {
    "4 B": 4, "1 KB": 1 << 10, "16 KB": 1 << 14, "256 KB": 1 << 18, "1 MB": 1 << 20,
    "4 MB": 1 << 22, "16 MB": 1 << 24, "64 MB": 1 << 26,
}  # fmt: skip


def run(options: Options) -> list[Row]:
    """Measure every size; rank 0 returns rows."""
    comm = world().comm.Dup()
    return [row for title, size in SIZES.items() for row in measure(comm, title, size, options)]


def measure(comm: MPI.Comm, title: str, size: int, options: Options) -> list[Row]:
    """The rows of one size."""
    count = size // 4
    session, step = open_session(comm, count)
    source, target = np.ones(count, np.float32), np.empty(count, np.float32)
    team = Team(comm, [Local(OURS, step), Local(BARE, lambda: comm.Allreduce(source, target))])
    try:
        if comm.rank:
            team.follow()
            return []
        rows = rows_of(title, alternate(team.turns, plan_of(options)))
        team.end()
        return [{**row, "MB/s": size / row["median_us"]} for row in rows]
    finally:
        session.close()


def open_session(comm: MPI.Comm, count: int) -> tuple[Any, Any]:
    """A session, and a step that reduces a variable; fails if the result is wrong."""
    with hpcflow.Graph().as_default():
        tensor = hpcflow.Variable(np.ones(count, np.float32))
        total = hpcflow.mpi.allreduce(tensor.value())
        session = hpcflow.Session()
        session.run(tensor.initializer)
        np.testing.assert_array_equal(session.run(total), np.full(count, comm.size, np.float32))
    return session, lambda: session.run(total.op)
