"""Two ranks that exchange a tensor between their GPUs: ``mpirun -n 2 python exchange.py N``.

Each run sends N floats, computed on the GPU of rank 1, to the GPU of rank 0. Rank 0 prints the time
and exits with 1 if the sum is wrong.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import hpcflow as hf


def main(size: int) -> int:
    """Exchange `size` floats a number of times."""
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    failed = 0
    if task.index == 0:
        with hf.Graph().as_default():
            factor = hf.placeholder(hf.float32, [])
            with hf.device("/job:worker/task:1/gpu:0"):
                there = hf.Variable(hf.ones([size]))
                sent = there * factor
            with hf.device("/job:worker/task:0/gpu:0"):
                total = hf.reduce_sum(sent + 1.0)
            with hf.Session(server.target) as session:
                session.run(hf.global_variables_initializer())
                times = []
                for i in range(12):
                    began = time.perf_counter()
                    found = float(session.run(total, {factor: np.float32(i)}))
                    times.append(time.perf_counter() - began)
                    failed |= abs(found / ((i + 1.0) * size) - 1) > 1e-3
        median = sorted(times[2:])[len(times[2:]) // 2]
        print(f"{4e-6 * size:.1f} MB from GPU to GPU in {1e3 * median:.2f} ms, "
              f"{4e-9 * size / median:.2f} GB/s; the sums are {'wrong' if failed else 'right'}")
    server.join()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
