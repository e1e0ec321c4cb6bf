"""``bench distributed_loop``: the same loop over 1, 2 and 4 ranks, and what overlap gains.

Four stages follow each other in the body of a while loop; each has a variable of its own, so that
stage k of an iteration needs what stage k - 1 gave in it, and what stage k gave in the one before.
The stages are dealt out over the ranks in order. With ``parallel_iterations=1`` the ranks take
turns; with 10 the iterations follow each other through the ranks as through a pipeline.

Rank 0 runs the session and measures, the others serve.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.opdef import register_op
from hpcflow.graph.shape_inference import unchanged
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.tools.bench.contestants import Local
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import Plan, alternate, ratio_of
from hpcflow.tools.table import Row

RANKS = (1, 2, 4)
STAGES = 4
PARALLEL = (1, 10)
_WAIT = 0.001

Stage = Callable[[Any, Any], Any]


def run(options: Options) -> list[Row]:
    """Serve, or measure every case; only rank 0 returns rows."""
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.index:
        server.join()
        return []
    plan, count = (Plan(2, 0.01, 0, 2, 1), 5) if options.quick else (
        Plan(7, 0.3, 0, 20, 2), 40)
    return [row for case in CASES for ranks in RANKS
            for row in measure(case, ranks, server.target, plan, count)]


def measure(case: str, ranks: int, target: str, plan: Plan, count: int) -> list[Row]:
    """The rows of a case: microseconds per iteration, and the gain over one iteration at a time."""
    with contextlib.ExitStack() as stack:
        contestants = [Local(f"{p} iteration{'s' * (p > 1)}",
                             open_loop(stack, case, ranks, target, p, count)) for p in PARALLEL]
        rounds = alternate(contestants, plan)
    alone = contestants[0].name
    rows = []
    for name, blocks in rounds.items():
        pooled = 1e6 / count * np.concatenate(blocks)
        p10, median, p90 = (float(p) for p in np.percentile(pooled, (10, 50, 90)))
        gain = ratio_of(rounds[alone], blocks) if name != alone else None
        rows.append({"case": f"{case}, {ranks} rank{'s' * (ranks > 1)}", "under way": name,
                     "median_us": median, "p10_us": p10, "p90_us": p90, "gain": gain})
    return rows


def open_loop(stack: contextlib.ExitStack, case: str, ranks: int, target: str, parallel: int,
              count: int) -> Callable[[], Any]:
    """A step that runs the loop, on the first `ranks` ranks, checked once."""
    with hf.Graph().as_default() as graph:
        outputs = build(*CASES[case], ranks, parallel, count)
    session = stack.enter_context(hf.Session(target, graph=graph))
    step = session.make_callable(outputs)
    iterations = step()[0]
    if iterations != count:
        raise AssertionError(f"{iterations} iterations instead of {count}")
    return step


def build(stage: Stage, size: int, ranks: int, parallel: int, count: int) -> list:
    """The number of iterations, and a value of each stage's variable."""
    devices = [f"/job:worker/task:{k * ranks // STAGES}" for k in range(STAGES)]

    def body(i: Any, *variables: Any) -> list:
        value = variables[-1]
        following: list[Any] = []
        for device, own in zip(devices, variables, strict=True):
            with hf.device(device):
                value = stage(value if following else own, own)
            following.append(value)
        return [i + 1, *following]

    start = []
    for device in devices:
        with hf.device(device):
            start.append(hf.zeros([size, size]))
    with hf.device("/job:worker/task:0"):
        i, *values = hf.while_loop(lambda i, *_: i < count, body, [0, *start],
                                   parallel_iterations=parallel)
    return [i, *(v[0, 0] for v in values)]


# ---------------------------------------------------------------- what a stage does


def nothing(value: Any, own: Any) -> Any:
    """One number to the next stage, and one addition."""
    return own + value


def product(value: Any, own: Any) -> Any:
    """A matrix product, and a matrix to the next stage."""
    return hf.tanh(hf.matmul(value, own) + 0.5)


def wait(value: Any, own: Any) -> Any:
    """A millisecond in which the core is free, as while an accelerator works."""
    return own + raw_ops.BenchWait(x=value, seconds=_WAIT)


register_op("BenchWait", "x: T", "y: T", "T: type; seconds: float", shape=unchanged, stateful=True)


@kernel("BenchWait")
def _wait(node: KernelNode) -> Callable[[Any], Any]:
    seconds = node.attr("seconds")

    def run(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return run


# What a stage does, and the rows and columns of what it passes on.
CASES: dict[str, tuple[Stage, int]] = {
    "one addition per stage": (nothing, 1),
    "256 x 256 matrix products": (product, 256),
    "stages that wait 1 ms": (wait, 1),
}
