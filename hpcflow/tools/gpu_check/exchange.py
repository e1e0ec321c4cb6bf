"""Ranks that exchange values of their GPUs: ``mpirun -n 2 python exchange.py N [FOLDER]``.

An edge: N floats that are computed on the GPU of rank 1 go to the GPU of rank 0. A reduction: N
floats of the GPUs of all ranks are summed. The collective operations: each once, of halves. Each
rank prints one JSON line for each, with the times, the way of a collective operation, and `failed`
if values are wrong, and one with the routes of what it has sent and the ways of what it has
reduced; the status is 1 if anything failed. FOLDER is the project's, for the stand-in of the
tests in the place of the GPU, and a number after it says how many of these there are.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.runtime.cluster.gpu_edges import ROUTES
from hpcflow.runtime.collective.collective_device import WAYS

_TIMES = 12


def main(arguments: list[str]) -> int:
    """Exchange, and reduce; 1 if a value is wrong."""
    size, *folder = arguments
    if folder:
        from hpcflow.tools.gpu_check.rehearsal import stand_in

        stand_in(Path(folder[0]), int((folder[1:] or ["1"])[0]))
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    failed = 0
    for name, program in (("edge", _edge), ("all-reduce", _reduce), ("collectives", _collectives)):
        before = Counter(WAYS)
        try:
            row = program(server, task, int(size))
        except Exception:  # noqa: BLE001  (a failure is a result)
            row = {"failed": traceback.format_exc()[-1500:]}
        failed |= bool(row.get("failed"))
        ways = {"way": " and ".join(WAYS - before)} if WAYS - before else {}
        print(json.dumps({"name": name, "rank": task.index, "MB": 4e-6 * int(size), **ways, **row}),
              flush=True)
    server.join()
    print(json.dumps({"rank": task.index, "sent": dict(ROUTES), "reduced": dict(WAYS)}), flush=True)
    return int(failed)


def _timed(call: Callable[[int], float], expected: Callable[[int], float],
           size: int) -> dict[str, Any]:
    """The median of the times of ``call(i)``, and its first wrong value."""
    times, wrong = [], []
    for i in range(_TIMES):
        began = time.perf_counter()
        found = call(i)
        times.append(time.perf_counter() - began)
        if not abs(found / expected(i) - 1) < 1e-3:
            wrong.append(f"step {i} gave {found}, expected {expected(i)}")
    median = sorted(times[2:])[len(times[2:]) // 2]
    return {"ms": 1e3 * median, "GB_per_s": 4e-9 * size / median,
            "failed": "; ".join(wrong[:3]) or None}


def _edge(server: Any, task: Any, size: int) -> dict[str, Any]:
    """Rank 0 drives it; the others serve."""
    if task.index:
        return {}
    with hf.Graph().as_default():
        factor = hf.placeholder(hf.float32, [])
        with hf.device("/job:worker/task:1/gpu:0"):
            there = hf.Variable(hf.ones([size]), name="there")
            sent = there * factor
        with hf.device("/job:worker/task:0/gpu:0"):
            total = hf.reduce_sum(sent + 1.0)
        with hf.Session(server.target) as session:
            session.run(hf.global_variables_initializer())
            return _timed(lambda i: float(session.run(total, {factor: np.float32(i)})),
                          lambda i: (i + 1.0) * size, size)


def _reduce(server: Any, task: Any, size: int) -> dict[str, Any]:
    """All ranks do the same."""
    ranks = hf.mpi.size()
    with hf.Graph().as_default(), hf.device(f"/job:worker/task:{task.index}/gpu:0"):
        factor = hf.placeholder(hf.float32, [])
        mine = hf.Variable(hf.fill([size], float(task.index + 1)), name="mine")
        total = hf.reduce_sum(hf.mpi.allreduce(mine * factor, "sum")) / float(size)
        with hf.Session(server.target) as session:
            session.run(mine.initializer)
            every = ranks * (ranks + 1) / 2
            return _timed(lambda i: float(session.run(total, {factor: np.float32(i + 1)})),
                          lambda i: (i + 1.0) * every, size)


def _collectives(server: Any, task: Any, size: int) -> dict[str, Any]:
    """All ranks do the same, with values that are not the same."""
    ranks, me = hf.mpi.size(), task.index
    given = [(np.arange(4 * ranks) % 5 + k).astype(np.float16) for k in range(ranks)]
    holes = [np.where(np.arange(4 * ranks) == k, np.float16(np.nan), v)
             for k, v in enumerate(given)]
    expected = {
        "mean": np.mean(given, 0, np.float32).astype(np.float16), "max": np.max(holes, 0),
        "broadcast": given[-1], "gather": np.concatenate([v[: k + 1] for k, v in enumerate(given)]),
        "scatter": np.sum(given, 0).reshape(ranks, -1)[me],
        "all to all": np.concatenate([v.reshape(ranks, -1)[me] for v in given]),
    }
    with hf.Graph().as_default(), hf.device(f"/job:worker/task:{me}/gpu:0"):
        mine, hole = hf.constant(given[me]), hf.constant(holes[me])
        found = {
            "mean": hf.mpi.allreduce(mine, "mean"), "max": hf.mpi.allreduce(hole, "max"),
            "broadcast": hf.mpi.broadcast(mine, ranks - 1),
            "gather": hf.mpi.allgather(mine[: me + 1]), "scatter": hf.mpi.reduce_scatter(mine),
            "all to all": hf.mpi.alltoall(mine),
        }
        with hf.Session(server.target) as session:
            values = session.run(found)
    wrong = [f"{name}: {values[name].tolist()}, expected {known.tolist()}"
             for name, known in expected.items()
             if not np.array_equal(values[name], known, equal_nan=True)]
    return {"failed": "; ".join(wrong) or None}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
