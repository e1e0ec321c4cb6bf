"""Replicas of the Figure-1 network over parameter servers, or, without servers, with averaged
gradients: what ``bench prediction`` measures.

``mpirun -n P+W python -m hpcflow.tools.bench.programs.replicas P STEPS``; rank P, the first worker,
prints the median time of its steps in seconds.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import hpcflow

BATCH = 64


def build(servers: int, index: int = 0) -> tuple[Any, Any, Any]:
    """The replica of worker `index`: (inputs, labels, training op), its variables on the servers
    in turn, or its own where there are none."""
    worker = f"/job:worker/task:{index}"
    setter = hpcflow.train.replica_device_setter(servers, worker_device=worker)
    with hpcflow.device(setter if servers else worker):
        x = hpcflow.placeholder(hpcflow.float32, [BATCH, 784], name="x")
        y = hpcflow.placeholder(hpcflow.int64, [BATCH], name="y")
        w1 = hpcflow.get_variable("w1", [784, 1000])
        w2 = hpcflow.get_variable("w2", [1000, 10])
        hidden = hpcflow.nn.relu(hpcflow.matmul(x, w1))
        loss = hpcflow.reduce_mean(hpcflow.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=hpcflow.matmul(hidden, w2)))
        optimizer = hpcflow.train.GradientDescentOptimizer(0.01)
        if not servers:
            optimizer = hpcflow.mpi.DistributedOptimizer(optimizer)
        return x, y, optimizer.minimize(loss)


def main(servers: int, steps: int) -> None:
    """A rank: serve, or run steps."""
    task = hpcflow.mpi.task(jobs={"ps": servers})
    server = hpcflow.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    x, y, train = build(servers, task.index)
    with hpcflow.Session(server.target) as session:
        if task.index == 0 or not servers:
            session.run(hpcflow.global_variables_initializer())
        else:
            while session.run(hpcflow.report_uninitialized_variables()).size:
                time.sleep(0.01)
        feeds = {x: np.ones((BATCH, 784), np.float32), y: np.zeros(BATCH, np.int64)}
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            session.run(train, feeds)
            times.append(time.perf_counter() - start)
    if task.index == 0:
        print(f"median {sorted(times)[len(times) // 2]!r}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
