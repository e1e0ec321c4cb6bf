"""``bench prediction``: the simulator's step times beside those of real ranks.

The Figure-1 network with its variables on parameter servers, asynchronous and synchronous replicas;
without servers, where every replica has variables of its own and the gradients are averaged; and
null steps, which only move parameters. The simulator gets the graph, rates measured in this
process, and the link measured by ``bench pingpong``; all ranks of this machine share its cores.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import hpcflow
from hpcflow import kernels
from hpcflow.compiler.distribute.costs import Rates
from hpcflow.host.tuning import programs as tuning
from hpcflow.simulator.cluster import Cluster, Job, Link
from hpcflow.simulator.engine import Simulation
from hpcflow.simulator.measure import link_from_pingpong
from hpcflow.simulator.program import compile_program
from hpcflow.tools.bench.command import job_environment
from hpcflow.tools.bench.programs import replicas, sweeps
from hpcflow.tools.bench.programs.sweeps import Point
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.launchers import find_mpirun, mpirun_options, run_to_end
from hpcflow.tools.table import Row

MASTER = "/job:worker/replica:0/task:0"
SIZES = ((1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (0, 1), (0, 2), (0, 4))
#: By their titles, other steps than those of asynchronous replicas.
POINTS = {
    "sync step": (Point("mlp", 1, 2, synchronous=True), Point("mlp", 1, 3, synchronous=True)),
    "null step, scalar": (Point("null", 1, 1), Point("null", 2, 1)),
    "null step, 1 MB": (Point("null", 1, 1, nbytes=10**6), Point("null", 1, 2, nbytes=10**6)),
    "null step, 100 MB": (Point("null", 1, 1, nbytes=10**8), Point("null", 2, 1, nbytes=10**8)),
    "null step, 32 rows of 100 MB": (Point("null", 1, 1, nbytes=10**8, sparse=True),
                                     Point("null", 2, 1, nbytes=10**8, sparse=True)),
}


def run(options: Options) -> list[Row]:
    """A row per step and cluster: measured and predicted step time, and their ratio."""
    steps = 5 if options.quick else 60
    sizes = SIZES[:2] if options.quick else SIZES
    link, rates = measured_link(options.quick), one_thread()
    rows = []
    for servers, workers in sizes:
        title = "replicas" if servers else "averaged gradients"
        rows.append(_row(title, servers, workers, real_step(servers, workers, steps),
                         predicted_step(servers, workers, rates, link)))
    for title, points in POINTS.items():
        for point in points[: 1 if options.quick else None]:
            times = real_steps(replace(point, steps=steps))
            rows.append(_row(title, point.servers, point.workers, statistics.median(times),
                             predicted_point(point, rates, link)))
    return rows


def _row(title: str, servers: int, workers: int, measured: float, predicted: float) -> Row:
    return {"case": title, "ps": servers, "workers": workers, "measured_us": measured * 1e6,
            "predicted_us": predicted * 1e6, "predicted/measured": predicted / measured}


def one_thread() -> Rates:
    """The rates of one core: the ranks run with one thread each."""
    code = ("import json; from hpcflow.simulator.measure import measure_rates; "
            "print(json.dumps(measure_rates()._asdict()))")
    out = subprocess.run([sys.executable, "-c", code], env=_environment(), check=True,
                         capture_output=True, text=True).stdout
    return Rates(**json.loads(out))


def measured_link(quick: bool) -> Link:
    """The link between two ranks here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pingpong.json"
        command = [sys.executable, "-m", "hpcflow", "bench", "pingpong", "--json", str(path)]
        run_to_end(command + ["--quick"] * quick, _environment(),
                   stdout=subprocess.DEVNULL).check_returncode()
        return link_from_pingpong(json.loads(path.read_text())["pingpong"])


def real_step(servers: int, workers: int, steps: int) -> float:
    """Seconds of a step of the first worker, the median over `steps`."""
    mpirun = find_mpirun()
    command = [mpirun, *mpirun_options(mpirun), "-n", str(servers + workers), sys.executable, "-m",
               replicas.__name__, str(servers), str(steps)]
    out = _output_of(command, 300)
    return next(float(line.split()[1]) for line in out.splitlines() if line.startswith("median"))


def _output_of(command: list[str], seconds: float) -> str:
    ended = run_to_end(command, _environment(), seconds, stdout=subprocess.PIPE,
                       stdin=subprocess.DEVNULL)
    ended.check_returncode()
    return ended.stdout


def real_steps(point: Point) -> list[float]:
    """Seconds of the steps of the first worker of `point`, on ranks of their own."""
    mpirun = find_mpirun()
    command = [mpirun, *mpirun_options(mpirun), "-n", str(point.servers + point.workers),
               sys.executable, "-m", sweeps.__name__, sweeps.arguments_of(point)]
    out = _output_of(command, tuning.BENCH_PREDICTION_SECONDS)
    line = next(line for line in out.splitlines() if line.startswith("times "))
    return json.loads(line.removeprefix("times "))


def predicted_point(point: Point, rates: Rates, link: Link) -> float:
    """Seconds of a step of `point` by simulation. What synchronous replicas wait for is the
    simulator's own affair: it gets the graph of one that is asynchronous."""
    kernels.load()
    cluster = _this_machine(point.servers, point.workers, rates, link)
    with hpcflow.Graph().as_default():
        train, feeds, _ = sweeps.build(replace(point, synchronous=False))
        program = compile_program([train], list(feeds), cluster, MASTER)
    simulation = Simulation(program, cluster, None, point.synchronous, point.backup)
    return simulation.run(20, 5).step_time


def predicted_step(servers: int, workers: int, rates: Rates, link: Link) -> float:
    """Seconds of a step by simulation."""
    kernels.load()
    cluster = _this_machine(servers, workers, rates, link)
    with hpcflow.Graph().as_default():
        x, y, train = replicas.build(servers)
        program = compile_program([train], [x, y], cluster, MASTER)
    return Simulation(program, cluster).run(20, 5).step_time


def _this_machine(servers: int, workers: int, rates: Rates, link: Link) -> Cluster:
    return Cluster([Job("ps", servers), Job("worker", workers)], {"cpu": rates}, link, link,
                   ranks_per_node=0, cores_per_node=len(os.sched_getaffinity(0)))


def _environment() -> dict[str, str]:
    return job_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

