"""``python -m hpcflow simulate``: the step time of a graph on a cluster that is described."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpcflow import kernels
from hpcflow.compiler.distribute.costs import MeasuredCosts
from hpcflow.errors import OpError
from hpcflow.graph.graph import Graph
from hpcflow.simulator.cluster import Cluster, Job
from hpcflow.simulator.engine import Result, Simulation
from hpcflow.simulator.measure import link_from_pingpong, measure_rates
from hpcflow.simulator.program import Program, compile_program
from hpcflow.tools import table
from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    at_least_zero,
    command_parser,
    first_line,
    output_file,
    whole,
)
from hpcflow.tools.gpu_check.rates import load as load_rates
from hpcflow.tools.graph_files import read_graph, read_run_metadata, step_of


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, or measure what a simulation needs; returns the exit status."""
    options = parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    if options.measure is not None:
        return _measure(options)
    if options.graph is None or options.cluster is None:
        raise CommandError("name a graph and --cluster FILE (--measure FILE makes one)")
    try:
        cluster = _resized(Cluster.load(options.cluster), options.tasks)
        kernels.load()
        graph, fetches, feeds = _read(options)
        sizes = options.sweep or [None]
        rows = [_row(options, graph, fetches, feeds, cluster, size) for size in sizes]
    except (OSError, ValueError, KeyError, OpError) as error:
        raise CommandError(first_line(error)) from error
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table.render("A step by simulation", rows, _NOTES))
    return 0


_NOTES = ["load: share of the time that the busiest rank of a job computes, sends, receives.",
          "bottleneck: what would have to be faster first."]


def parser() -> CommandParser:
    """The options."""
    made = command_parser(
        "simulate", "Predict the time of a step, the load of the ranks and the bottleneck.")
    made.add_argument("graph", nargs="?", type=Path, metavar="GRAPH",
                      help="a GraphDef (.pb, .pbtxt) or MetaGraph (.meta) of one replica")
    made.add_argument("--cluster", type=Path, metavar="FILE", help="its description, as JSON")
    made.add_argument("--fetch", action="append", default=[], metavar="NAME",
                      help="what a step runs; the MetaGraph's train_op by default")
    made.add_argument("--master", metavar="TASK",
                      help="the task of the replica (/job:worker/task:0 if there is such a job)")
    made.add_argument("--tasks", action="append", default=[], metavar="JOB=N", type=_job_size,
                      help="another number of tasks than the description's")
    made.add_argument("--sweep", type=_job_sizes, metavar="JOB=N,N,...",
                      help="a row for every number of tasks of a job")
    made.add_argument("--replicas", type=whole(1), metavar="N",
                      help="tasks of the master's job that run steps; all by default")
    made.add_argument("--sync", action="store_true", help="replicas wait for each other")
    made.add_argument("--backup", type=whole(0), default=0, metavar="N",
                      help="replicas of a synchronous step that are not waited for")
    made.add_argument("--straggle", type=at_least_zero, default=0.0, metavar="SIGMA",
                      help="spread of the compute time: a lognormal factor with this sigma")
    made.add_argument("--steps", type=whole(1), default=3, metavar="N", help="steps per replica")
    made.add_argument("--trace", action="append", default=[], type=Path, metavar="FILE",
                      help="a RunMetadata of a traced step: its times replace estimates")
    made.add_argument("--json", type=output_file, metavar="FILE",
                      help="write the rows to this file")
    made.add_argument("--measure", type=output_file, metavar="FILE",
                      help="measure this machine and write the description of a cluster of it")
    made.add_argument("--pingpong", type=Path, metavar="FILE",
                      help="with --measure: take the link from 'bench pingpong --json FILE'")
    made.add_argument("--gpu", type=Path, metavar="FILE",
                      help="with --measure: workers have a GPU of the rates that 'gpu-check' wrote")
    return made


def _job_size(text: str) -> tuple[str, int]:
    job, _, number = text.partition("=")
    if not job or not number.isdigit():
        raise argparse.ArgumentTypeError(f"expected JOB=N, got {text!r}")
    return job, whole(1)(number)


def _job_sizes(text: str) -> list[tuple[str, int]]:
    job, _, numbers = text.partition("=")
    return [_job_size(f"{job}={n}") for n in numbers.split(",")]


def _resized(cluster: Cluster, tasks: list[tuple[str, int]]) -> Cluster:
    for job, _ in tasks:
        if job not in cluster.first:
            raise ValueError(f"The cluster has no job {job!r}; its jobs are "
                             f"{', '.join(cluster.first)}")
    return cluster.resized(**dict(tasks))


# ---------------------------------------------------------------- input


def _read(options: argparse.Namespace) -> tuple[Graph, list, list]:
    """(graph, fetches, feeds): what is fed are the placeholders that the fetches need."""
    graph = read_graph(options.graph)
    return graph, *step_of(graph, options.fetch)


def _measured(paths: list[Path]) -> MeasuredCosts | None:
    return MeasuredCosts([read_run_metadata(p).step_stats for p in paths]) if paths else None


# ---------------------------------------------------------------- output


def _row(options: argparse.Namespace, graph: Graph, fetches: list, feeds: list, cluster: Cluster,
         size: tuple[str, int] | None) -> dict[str, Any]:
    if size is not None:
        cluster = _resized(cluster, [size])
    with graph.as_default():
        program = compile_program(fetches, feeds, cluster, _master(options.master, cluster),
                                  _measured(options.trace))
    result = Simulation(program, cluster, options.replicas, options.sync, options.backup,
                        _lognormal(options.straggle)).run(options.steps)
    row: dict[str, Any] = {f"{j.name}s": j.tasks for j in cluster.jobs}
    row |= {"step_ms": result.step_time * 1e3, "p90_ms": result.percentile(0.9) * 1e3,
            "steps/s": result.steps_per_second, "MB/step": result.bytes_per_step / 1e6}
    loads = _loads(result, cluster)
    row |= {f"{name} load": "/".join(f"{100 * x:.0f}" for x in load) + " %"
            for name, load in loads.items()}
    row["bottleneck"] = bottleneck(loads, program)
    return row


def _master(name: str | None, cluster: Cluster) -> str:
    names = [j.name for j in cluster.jobs]
    if name is None:
        job = "worker" if "worker" in names else names[-1]
        return f"/job:{job}/replica:0/task:0"
    cluster.rank_of(name)
    job, _, task = name.strip("/").partition("/task:")
    return f"/{job.partition('/')[0]}/replica:0/task:{task or 0}"


def _lognormal(sigma: float) -> Callable[[random.Random], float] | None:
    return (lambda rng: rng.lognormvariate(0.0, sigma)) if sigma else None


def _loads(result: Result, cluster: Cluster) -> dict[str, tuple[float, float, float]]:
    """Job -> the largest shares (compute, sending, receiving) among its ranks."""
    found = {}
    for job in cluster.jobs:
        first = cluster.first[job.name]
        ranks = [result.loads[r] for r in range(first, first + job.tasks)]
        found[job.name] = (max(r.compute for r in ranks), max(r.sending for r in ranks),
                           max(r.receiving for r in ranks))
    return found


def bottleneck(loads: dict[str, tuple[float, float, float]], program: Program) -> str:
    """Name the limit of the step time: the busiest resource, or waiting if none is busy."""
    names = ("compute", "sending", "receiving")
    share, text = max((x, f"{job} {name}") for job, load in loads.items()
                      for name, x in zip(names, load, strict=True))
    return text if share > 0.5 else "waiting (latency, dependencies)"


def _measure(options: argparse.Namespace) -> int:
    within = None
    if options.pingpong is not None:
        try:
            data = json.loads(options.pingpong.read_text())
            within = link_from_pingpong(data.get("pingpong", []))
        except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
            raise CommandError(f"{options.pingpong} does not hold the rows of 'bench pingpong "
                               f"--json': {first_line(error)}") from error
    kinds = {"cpu": measure_rates()}
    if options.gpu is not None:
        try:
            kinds["gpu"] = load_rates(options.gpu)
        except (OSError, ValueError) as error:
            raise CommandError(first_line(error)) from error
    cluster = Cluster([Job("ps", 1), Job("worker", 1, tuple(kinds))], kinds, within)
    cluster.save(options.measure)
    print(f"wrote {options.measure}: set the tasks of its jobs, the links and the ranks per node")
    return 0
