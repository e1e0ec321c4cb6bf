"""``bench serving``: a rank that only serves, between busy and idle.

Rank 1 runs steps of one addition on rank 0, with pauses between them. The longer the pauses, the
less rank 0 polls: that costs it some latency, and saves its core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.opdef import register_op
from hpcflow.graph.shape_inference import scalar
from hpcflow.host.tuning import programs as tuning
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.table import Row

#: Seconds between two steps, and how many steps are timed.
PAUSES = ((0.0, 2000), (0.001, 500), (0.01, 100), (0.1, 20))
_SERVER = "/job:ps/task:0"


def run(options: Options) -> list[Row]:
    """Serve, or measure; only the worker returns rows."""
    task = hf.mpi.task(jobs={"ps": 1})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return []
    with hf.Session(server.target) as session:
        step, cpu_seconds = build(session)
        share = 20 if options.quick else 1
        rows = [measure(step, cpu_seconds, pause, max(count // share, 2))
                for pause, count in PAUSES]
        used, seconds = cpu_seconds(), tuning.BENCH_IDLE_SECONDS / share
        time.sleep(seconds)
        used = cpu_seconds() - used
        return [*rows, {"case": f"idle for {seconds:g} s", "core_%": 100 * used / seconds}]


def build(session: Any) -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of one addition, and what tells the time that the server has computed."""
    x = hf.placeholder(hf.float32, [])
    with hf.device(_SERVER):
        y = x + 1.0
        used = raw_ops.BenchCpuSeconds()
    step, cpu_seconds = session.make_callable(y, [x]), session.make_callable(used)
    if step(1.0) != 2.0:
        raise AssertionError("a step gave a wrong sum")
    return lambda: step(1.0), lambda: float(cpu_seconds())


def measure(step: Callable[[], Any], cpu_seconds: Callable[[], float], pause: float,
            count: int) -> Row:
    """Steps with pauses between them."""
    seconds = []
    used, begin = cpu_seconds(), time.perf_counter()
    for _ in range(count):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    elapsed = time.perf_counter() - begin
    used = cpu_seconds() - used
    p10, median, p90 = (float(p) for p in 1e6 * np.percentile(seconds, (10, 50, 90)))
    return {"case": f"{1000 * pause:g} ms between steps", "median_us": median, "p10_us": p10,
            "p90_us": p90, "core_%": 100 * used / elapsed}


register_op("BenchCpuSeconds", "", "seconds: double", stateful=True, shape=scalar)


@kernel("BenchCpuSeconds")
def _cpu_seconds(node: KernelNode) -> Callable[[], Any]:
    return lambda: np.float64(time.process_time())
