"""``bench prediction``: the simulator's step times beside those of real ranks.

The Figure-1 network with its variables on parameter servers, asynchronous replicas; and without
servers, where every replica has variables of its own and the gradients are averaged. The simulator
gets the graph, rates measured in this process, and the link measured by ``bench pingpong``; all
ranks of this machine share its cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hpcflow
from hpcflow import kernels
from hpcflow.compiler.costs import Rates
from hpcflow.simulator.cluster import Cluster, Job, Link
from hpcflow.simulator.engine import Simulation
from hpcflow.simulator.measure import link_from_pingpong
from hpcflow.simulator.program import compile_program
from hpcflow.tools.bench.command import find_mpirun, job_environment, mpirun_options
from hpcflow.tools.bench.programs import replicas
from hpcflow.tools.bench.registry import Options, Row

SIZES = ((1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (0, 1), (0, 2), (0, 4))


def run(options: Options) -> list[Row]:
    """A row per cluster: measured and predicted step time, and their ratio."""
    steps = 5 if options.quick else 60
    sizes = SIZES[:2] if options.quick else SIZES
    link, rates = measured_link(options.quick), one_thread()
    rows = []
    for servers, workers in sizes:
        measured = real_step(servers, workers, steps)
        predicted = predicted_step(servers, workers, rates, link)
        rows.append({"ps": servers, "workers": workers, "measured_us": measured * 1e6,
                     "predicted_us": predicted * 1e6, "predicted/measured": predicted / measured})
    return rows


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
        subprocess.run(command + ["--quick"] * quick, check=True, env=_environment(),
                       stdout=subprocess.DEVNULL)
        return link_from_pingpong(json.loads(path.read_text())["pingpong"])


def real_step(servers: int, workers: int, steps: int) -> float:
    """Seconds of a step of the first worker, the median over `steps`."""
    mpirun = find_mpirun()
    command = [mpirun, *mpirun_options(mpirun), "-n", str(servers + workers), sys.executable, "-m",
               replicas.__name__, str(servers), str(steps)]
    out = subprocess.run(command, env=_environment(), check=True, stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL, text=True, timeout=300).stdout
    return next(float(line.split()[1]) for line in out.splitlines() if line.startswith("median"))


def predicted_step(servers: int, workers: int, rates: Rates, link: Link) -> float:
    """Seconds of a step by simulation."""
    kernels.load()
    cluster = Cluster([Job("ps", servers), Job("worker", workers)], {"cpu": rates}, link, link,
                      ranks_per_node=0, cores_per_node=os.cpu_count() or 1)
    with hpcflow.Graph().as_default():
        x, y, train = replicas.build(servers)
        program = compile_program([train], [x, y], cluster, "/job:worker/replica:0/task:0")
    return Simulation(program, cluster).run(20, 5).step_time


def _environment() -> dict[str, str]:
    return job_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

