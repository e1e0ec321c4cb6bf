"""Values that go from GPU to GPU and back, in sessions that are opened and closed.

``mpirun -n 2 python exported.py``: each rank prints what it has exported at the end, and by which
routes it has sent.
"""

from __future__ import annotations

import logging
import sys
import time

import numpy as np
from gpu_ring.rank_program import stand_in
from speed import patience

import hpcflow as hf
from hpcflow.runtime.cluster.gpu_edges import ROUTES
from hpcflow.runtime.executor.gpu.ipc import exports

SIZE, STEPS, SESSIONS = 1 << 18, 4, 3


def _there_and_back(target: str) -> None:
    """Rank 1 keeps a value, rank 0 doubles it; a branch is not taken in every other step."""
    taken = hf.placeholder(hf.bool, [])
    with hf.device("/job:worker/task:1/gpu:0"):
        kept = hf.Variable(hf.ones([2, SIZE]), name="kept")
        sent = kept + 0.5
    with hf.device("/job:worker/task:0/gpu:0"):
        last = hf.Variable(hf.zeros([2, SIZE]), name="last", use_resource=False)
        seen = hf.assign(last, sent)  # a received value that outlives the step
        doubled = hf.cond(taken, lambda: 2.0 * seen, lambda: hf.zeros([2, SIZE]))
    with hf.device("/job:worker/task:1/gpu:0"):
        total = hf.assign_add(kept, doubled)
        result = hf.reduce_sum(total) / (2.0 * SIZE)
    with hf.Session(target) as session:
        session.run(hf.global_variables_initializer())
        value = 1.0
        for step in range(STEPS):
            before, value = value, value + (2 * (value + 0.5) if step % 2 == 0 else 0)
            found = session.run(result, {taken: step % 2 == 0})
            assert np.isclose(found, value), (step, found, value)
            assert np.all(session.run(last) == before + 0.5), step


def main() -> None:
    """Rank 0 drives."""
    logging.basicConfig(format="log: %(message)s", level=logging.INFO, stream=sys.stdout)
    stand_in(2)
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    if not task.index:
        for _ in range(SESSIONS):
            with hf.Graph().as_default():
                _there_and_back(server.target)
        with hf.Graph().as_default(), hf.Session(server.target) as session:
            until = time.monotonic() + patience()
            while exports.count() and time.monotonic() < until:  # the other closes, and says so
                session.run(hf.constant(1.0))
    server.join()
    print(f"rank {task.index}: {exports.count()} {dict(ROUTES)}", flush=True)


if __name__ == "__main__":
    main()
