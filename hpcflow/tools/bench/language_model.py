"""``bench language_model``: words per second of an LSTM whose softmax is on parameter servers.

An LSTM of 512 units reads and predicts 40,000 words; embedding and softmax weights are sharded
over the servers, which compute the scores and gradients of their own words. The sampled softmax
needs 512 words a step instead of all: ``gain/FLOPs`` says how much of what it saves in arithmetic
it saves in time. Every rank has one thread. More servers are predicted by the simulator.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import hpcflow
from hpcflow import kernels
from hpcflow.compiler.distribute.costs import Rates
from hpcflow.simulator.cluster import Cluster, Job, Link
from hpcflow.simulator.engine import Simulation
from hpcflow.simulator.program import compile_program
from hpcflow.tools.bench.prediction import MASTER, measured_link, one_thread, real_steps
from hpcflow.tools.bench.programs import sweeps
from hpcflow.tools.bench.programs.sweeps import Point
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.table import Row

SERVERS = (1, 2)  # measured
MORE = (4, 8, 16)  # predicted only
ROUNDS = 3


def run(options: Options) -> list[Row]:
    """A row for the full and the sampled softmax on each number of servers."""
    base = Point("lstm", steps=6, batch=32)
    if options.quick:
        base = replace(base, steps=2, batch=4, words=1000, hidden=32, unroll=4)
    points = {case: replace(base, sampled=count)
              for case, count in (("full", 0), ("sampled", 16 if options.quick else 512))}
    times = measure(points, 1 if options.quick else ROUNDS)
    link, rates = measured_link(options.quick), one_thread()
    words = base.batch * base.unroll
    flops = {case: arithmetic(point) for case, point in points.items()}
    rows: list[Row] = []
    for case, point in points.items():
        for servers in (*SERVERS, *MORE):
            seconds = times.get((case, servers))
            expected = predict(replace(point, servers=servers), rates, link)
            row: Row = {"case": f"{case}, {servers} PS", "GFLOP": flops[case] / 1e9,
                        "words/s": None, "predicted": words / expected,
                        "over 1 PS": None, "gain/FLOPs": None}
            if seconds is not None:
                row["words/s"] = words / statistics.median(seconds)
                row["over 1 PS"] = _ratio(times[case, 1], seconds)
            if seconds is not None and case == "sampled":
                gain = _ratio(times["full", servers], seconds)
                row["gain/FLOPs"] = gain / (flops["full"] / flops["sampled"])
            rows.append(row)
    return rows


def measure(points: dict[str, Point], rounds: int) -> dict[tuple[str, int], list[float]]:
    """Seconds of a step, a median for each round; all points take part in each round."""
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for case, point in points.items():
            for servers in SERVERS:
                seconds = real_steps(replace(point, servers=servers))
                found.setdefault((case, servers), []).append(statistics.median(seconds))
    return found


def predict(point: Point, rates: Rates, link: Link) -> float:
    """Seconds of a step by simulation, with a core for every rank."""
    cluster = Cluster([Job("ps", point.servers), Job("worker", point.workers)], {"cpu": rates},
                      link, link, ranks_per_node=0)
    kernels.load()
    with hpcflow.Graph().as_default():
        train, feeds, _ = sweeps.build(point)
        program = compile_program([train], list(feeds), cluster, MASTER)
    return Simulation(program, cluster).run(10, 3).step_time


def arithmetic(point: Point) -> float:
    """Operations of the products of a step: forward, and twice as many backward."""
    tokens = point.batch * point.unroll
    cell = 2 * point.hidden * 4 * point.hidden
    classes = point.sampled or point.words
    return 3 * 2.0 * tokens * (cell + point.hidden * classes)


def _ratio(times: list[float], others: list[float]) -> float:
    """The median over the rounds of one time over the other."""
    return statistics.median(a / b for a, b in zip(times, others, strict=True))
