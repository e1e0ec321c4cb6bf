"""``bench control_flow``: loops, branches, updates, queues and threads, in one process.

Everything that the execution core is judged by, in turns with the peers and with a floor: the same
arithmetic in bare NumPy, or one pass over the bytes of an update at the memory's speed. The small
steps are those of ``bench dispatch``. Peak memory is measured in processes of their own.
"""

from __future__ import annotations

import contextlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import hpcflow
from hpcflow.tools.bench import dispatch
from hpcflow.tools.bench.contestants import Contestant, Local, Peer
from hpcflow.tools.bench.programs import control_flow as program
from hpcflow.tools.bench.programs import dispatch as small_steps
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, measured, plan_of, rows_of
from hpcflow.tools.cli import CommandError
from hpcflow.tools.table import Row

PEAK = f"peak memory, {program.STACK}"


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow, its floor and the peers in alternation.

    Raises CommandError if no case has the text that `options` ask for in its title.
    """
    plan = plan_of(options)
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        for name, cases, measure in (("dispatch", small_steps.CASES, dispatch.measure_case),
                                     ("control_flow", program.CASES, measure_case)):
            peers = [stack.enter_context(Peer(peer, python, name))
                     for peer, python in options.peers.items()]
            for case in cases:
                if case not in (program.ONE_THREAD, program.STACK) and options.case in case:
                    rows += measure(case, peers, plan)
    if options.case in PEAK:
        rows += peak_rows(options)
    if not rows:
        raise CommandError(f"no case has '{options.case}' in its title")
    return rows


def measure_case(case: str, peers: list[Peer], plan: Plan) -> list[Row]:
    """The rows of one case."""
    ours = Local(OURS, *program.open_case(hpcflow, case, {}))
    others: list[Contestant] = [FLOORS[case]()] if case in FLOORS else []
    others += [peer.open(case) for peer in peers]
    return rows_of(case, measured(ours, others, peers, plan))


# ---------------------------------------------------------------- floors


def numpy_loop() -> Local:
    """The products of the loop as statements."""
    w = program.factor(program.SIZE, 0)

    def step() -> np.ndarray:
        y = w
        for _ in range(program.PRODUCTS):
            y = y @ w
        return y

    return Local("numpy", step)


def numpy_branches() -> Local:
    """The products of both branches, one after the other."""
    w, x = program.factor(program.BRANCH, 4), program.factor(program.BRANCH, 5)
    return Local("numpy", lambda: ((x @ w @ w).max(), (w @ x @ w).max()))


def one_pass() -> Local:
    """A floor of the time: the memory traffic of the update (4 reads, 3 writes) as plain copies."""
    size = program.PARAMETERS
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    count = len(os.sched_getaffinity(0))
    pool = ThreadPoolExecutor(count)
    bounds = np.linspace(0, size, count + 1).astype(int)

    def part(k: int) -> None:
        start, end = bounds[k], bounds[k + 1]
        for _ in range(3):
            np.copyto(target[start:end], source[start:end])
        middle = (start + end) // 2
        np.copyto(target[start:middle], source[start:middle])

    return Local("one pass over its bytes", lambda: list(pool.map(part, range(count))),
                 pool.shutdown)


def one_thread() -> Local:
    """A contestant with the same steps of hpcflow, one after the other."""
    return Local("hpcflow, one thread", *program.open_case(hpcflow, program.ONE_THREAD, {}))


FLOORS = {
    program.MATMUL_LOOP: numpy_loop,
    program.BRANCHES: numpy_branches,
    program.ADAM: one_pass,
    program.TWO_THREADS: one_thread,
}


# ---------------------------------------------------------------- memory


def peak_rows(options: Options) -> list[Row]:
    """Return the increase of the peak memory by a training step; the ratio is hpcflow's."""
    added = {}
    for name, python in {OURS: sys.executable, **options.peers}.items():
        with Peer(name, python, "control_flow") as process:
            process.open(program.COUNTER)
            process.block(1, 1)
            before = process.peak_bytes()
            process.close_case()
            process.open(program.STACK)
            process.block(1 if options.quick else 3, 1)
            added[name] = (process.peak_bytes() - before) / 2**20
    return [{"case": PEAK, "program": name, "added_MiB": mib,
             "hpcflow/it": None if name == OURS else added[OURS] / max(mib, 1.0)}
            for name, mib in added.items()]


