"""Draw how hpcflow scales: ``python benchmarks/figures.py FIGURE [--out FOLDER]``.

    null_steps   steps that only move parameters, over the number of workers
    backup       synchronous and asynchronous steps with stragglers, and backup workers
    softmax      words per second of a language model, full and sampled softmax
    scaling      strong and weak scaling of a small network, with efficiencies per core-second
    latency      latency and bandwidth between two ranks, by message size

Every figure has measured points, for the ranks that this machine or the Slurm allocation holds, and
points that the simulator predicts, for a cluster of nodes with one rank each. They are rows of the
table and of the JSON file, and marks of different form in the picture (which needs matplotlib:
``pip install matplotlib``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hpcflow as hf
from hpcflow import kernels
from hpcflow.simulator.cluster import Cluster, Job
from hpcflow.simulator.engine import Simulation
from hpcflow.simulator.program import compile_program
from hpcflow.tools import facts, table
from hpcflow.tools.bench.command import job_environment
from hpcflow.tools.bench.prediction import one_thread
from hpcflow.tools.bench.programs import sweeps
from hpcflow.tools.bench.programs.sweeps import Point
from hpcflow.tools.restarts import Place
from hpcflow.tools.run import choose_launcher, launcher_command

MEASURED, PREDICTED = "measured", "predicted"
Row = dict[str, Any]
WORKERS = (1, 2, 5, 10, 25, 50, 100, 200)
NULL_CASES = {"scalar": (4, False), "dense 100 MB": (100_000_000, False),
              "dense 1 GB": (1_000_000_000, False), "sparse 1 GB": (1_000_000_000, True),
              "sparse 16 GB": (16_000_000_000, True)}


class Study:
    """The points of a figure: measures them on ranks, or asks the simulator."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.quick = options.quick
        self.ranks = options.ranks
        self.launcher = choose_launcher("auto", os.environ) if self.ranks > 1 else ""
        if options.cluster is not None:
            self.cluster = Cluster.load(options.cluster)
        else:
            self.cluster = Cluster([Job("ps", 1), Job("worker", 1)], {"cpu": one_thread()})

    def measure(self, point: Point) -> list[float]:
        """Seconds of the first worker's steps; empty if there are not enough ranks."""
        ranks = point.servers + point.workers
        if ranks > self.ranks:
            return []
        command = [*_launched(self.launcher, ranks), sys.executable, "-m", sweeps.__name__,
                   sweeps.arguments_of(point)]
        env = job_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True,
                             stdin=subprocess.DEVNULL, timeout=self.options.limit).stdout
        line = next(line for line in out.splitlines() if line.startswith("times "))
        return json.loads(line.removeprefix("times "))

    def predict(self, point: Point) -> list[float]:
        """Seconds of all workers' steps, by simulation."""
        cluster = self.cluster.resized(ps=point.servers, worker=point.workers)
        with hf.Graph().as_default():
            # What synchronous replicas wait for is the simulator's own affair.
            train, feeds, _ = sweeps.build(replace(point, synchronous=False))
            program = compile_program([train], list(feeds), cluster,
                                      "/job:worker/replica:0/task:0")
        straggle = None
        if point.straggle:
            work = sum(w.seconds for w in program.work if w.task == program.master)
            straggle = _slower(point, work)
        simulation = Simulation(program, cluster, None, point.synchronous, point.backup, straggle)
        return simulation.run(max(3, 200 // point.workers)).step_times

    def both(self, points: Iterable[tuple[Row, Point]], measured: Callable[[Point], Point],
             ) -> list[Row]:
        """A row for each point that was measured or predicted; `measured` is how a point looks on
        the ranks here."""
        rows = []
        for labels, point in points:
            here = measured(point)
            for kind, at, times in ((MEASURED, here, self.measure(here)),
                                    (PREDICTED, point, self.predict(point))):
                if times:
                    rows.append(labels | {"ps": at.servers, "workers": at.workers, "kind": kind,
                                          "median_ms": _share(times, 0.5) * 1e3,
                                          "p90_ms": _share(times, 0.9) * 1e3})
                    print(".", end="", file=sys.stderr, flush=True)
        return rows


def _slower(point: Point, work: float) -> Callable[[Any], float]:
    """The factor of a worker's compute that makes it longer by the straggler's pause."""
    return lambda rng: 1.0 + point.pause * rng.lognormvariate(0.0, point.straggle) / work


def _share(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# ---------------------------------------------------------------- the figures


def null_steps(study: Study) -> list[Row]:
    """Steps that only move parameters."""
    cases = {"scalar": NULL_CASES["scalar"], "dense 1 MB": (1_000_000, False),
             "sparse 10 MB": (10_000_000, True)} if study.quick else NULL_CASES
    workers = (1, 2, 5) if study.quick else WORKERS
    steps = 5 if study.quick else 50
    points = [({"case": case}, Point("null", 16, n, steps, nbytes, sparse))
              for case, (nbytes, sparse) in cases.items() for n in workers]
    # Here there is one server; what does not fit into memory is only predicted.
    fits = study.options.memory * 1e9

    def here(point: Point) -> Point:
        servers = 1 if point.nbytes * (1 if point.sparse else 3) <= fits else study.ranks + 1
        return replace(point, servers=servers)

    return study.both(points, here)


def backup(study: Study) -> list[Row]:
    """Synchronous and asynchronous steps, and backup workers."""
    aggregated = 50
    sigma, pause = study.options.straggle, 0.02 if study.quick else 0.2
    steps = 5 if study.quick else 40
    base = Point("mlp", 16, steps=steps, straggle=sigma, pause=pause)
    workers = (5, 10) if study.quick else (25, 50, 100, 200)
    small = [n for n in (1, 2, 3) if n + 1 <= study.ranks]
    rows = study.both([({"case": "asynchronous"}, replace(base, workers=n)) for n in workers]
                      + [({"case": "synchronous"}, replace(base, workers=n, synchronous=True))
                         for n in workers], lambda p: replace(p, servers=study.ranks + 1))
    for n in small:
        for name, sync in (("asynchronous", False), ("synchronous", True)):
            rows += _row(study, {"case": name}, replace(base, servers=1, workers=n,
                                                        synchronous=sync), MEASURED)
    sync = replace(base, synchronous=True)
    for b in range(6):
        rows += _row(study, {"case": "backup", "backup": b},
                     replace(sync, workers=aggregated + b, backup=b), PREDICTED)
        rows += _row(study, {"case": "backup", "backup": b},
                     replace(sync, servers=1, workers=2 + b, backup=b), MEASURED)
    return with_speedups(rows)


def _row(study: Study, labels: Row, point: Point, kind: str) -> list[Row]:
    times = study.measure(point) if kind == MEASURED else study.predict(point)
    return [labels | {"ps": point.servers, "workers": point.workers, "kind": kind,
                      "median_ms": _share(times, 0.5) * 1e3,
                      "p90_ms": _share(times, 0.9) * 1e3}] if times else []


def with_speedups(rows: list[Row]) -> list[Row]:
    """Add to rows of b backup workers beside n: t(b=0)/t(b) x n/(n+b), what their cores gain."""
    for row in rows:
        if row["case"] == "backup":
            first = next(r for r in rows if r["case"] == "backup" and r["kind"] == row["kind"]
                         and r["backup"] == 0)
            row["speedup"] = first["median_ms"] / row["median_ms"]
            row["normalized"] = row["speedup"] * first["workers"] / row["workers"]
    return rows


def softmax(study: Study) -> list[Row]:
    """Words per second of a language model."""
    base = Point("lstm", steps=3 if study.quick else 8, batch=4 if study.quick else 32)
    if study.quick:
        base = replace(base, words=1000, hidden=32, unroll=4)
    sampled = {"full": 0, "sampled": 64 if study.quick else 512}
    servers = (1, 2) if study.quick else (1, 2, 4, 8, 16, 32)
    workers = (1, 4) if study.quick else (4, 32, 200)
    points = [({"case": case}, replace(base, servers=p, workers=n, sampled=s))
              for case, s in sampled.items() for n in dict.fromkeys((1, 2, *workers))
              for p in servers]
    rows = study.both(points, lambda p: p)
    words = base.batch * base.unroll
    for row in rows:
        row["words/s"] = words * row["workers"] / (row["median_ms"] * 1e-3)
    return rows


def scaling(study: Study) -> list[Row]:
    """Strong scaling: a batch is shared; weak: every worker has one of its own."""
    batch, steps = (64, 5) if study.quick else (512, 40)
    workers = (1, 2, 4) if study.quick else (1, 2, 4, 8, 16, 32, 64)
    points = []
    for case in ("strong", "weak"):
        for n in workers:
            each = batch // n if case == "strong" else batch
            points.append(({"case": case, "batch": each * n},
                           Point("mlp", 1, n, steps, batch=each)))
    rows = study.both(points, lambda p: p)
    cores = os.cpu_count() or 1
    for row in rows:
        ranks = row["ps"] + row["workers"]
        used = min(ranks, cores) if row["kind"] == MEASURED else ranks
        row["examples/s"] = row["batch"] / (row["median_ms"] * 1e-3)
        row["per core-second"] = row["examples/s"] / used
    for row in rows:
        first = next(r for r in rows if r["case"] == row["case"] and r["kind"] == row["kind"])
        row["efficiency"] = row["per core-second"] / first["per core-second"]
    return rows


def latency(study: Study) -> list[Row]:
    """The rows of ``bench pingpong``: half a round trip, and bytes over it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pingpong.json"
        command = [sys.executable, "-m", "hpcflow", "bench", "pingpong", "--json", str(path)]
        if Path(study.launcher).name == "srun":
            command = [*_launched(study.launcher, 2), *command]
        subprocess.run([*command, *["--quick"] * study.quick], check=True,
                       stdout=subprocess.DEVNULL, env=job_environment())
        found = json.loads(path.read_text())["pingpong"]
    rows = []
    for row in found:
        if not row["case"].startswith("round trip, "):
            continue
        nbytes = bytes_of(row["case"].removeprefix("round trip, "))
        one_way = row["median_us"] / 2
        rows.append({"case": row["program"], "bytes": nbytes, "kind": MEASURED,
                     "latency_us": one_way, "MB/s": nbytes / one_way})
    return rows


def bytes_of(text: str) -> int:
    """``8 MB`` as a number of bytes; prefixes are powers of 1,024."""
    number, unit = text.split()
    return int(number) << {"B": 0, "KB": 10, "kB": 10, "KiB": 10, "MB": 20, "MiB": 20}[unit]


FIGURES: dict[str, tuple[Callable[[Study], list[Row]], str, str]] = {
    # Name -> (its function, the abscissa, the ordinate).
    "null_steps": (null_steps, "workers", "median_ms"),
    "backup": (backup, "workers", "median_ms"),
    "softmax": (softmax, "ps", "words/s"),
    "scaling": (scaling, "workers", "efficiency"),
    "latency": (latency, "bytes", "latency_us"),
}


# ---------------------------------------------------------------- output


def draw(rows: list[Row], x: str, y: str, path: Path, title: str) -> None:
    """One line for each case and kind: measured points are filled, predicted ones are hollow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [(rows, x, y)]
    if any("backup" in r for r in rows):
        with_backup = [r for r in rows if "backup" in r]
        panels = [([r for r in rows if "backup" not in r], x, y),
                  ([r for r in rows if "backup" not in r], x, "p90_ms"),
                  (with_backup, "backup", "median_ms"), (with_backup, "backup", "normalized")]
    side = 1 if len(panels) == 1 else 2
    figure, axes = pyplot.subplots(side, side, figsize=(6 * side, 4.5 * side), squeeze=False)
    for axis, (part, across, up) in zip(axes.flat, panels, strict=True):
        _draw_panel(axis, part, across, up)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _draw_panel(axis: Any, rows: list[Row], x: str, y: str) -> None:
    cases = list(dict.fromkeys((r["case"], r["workers"] if x == "ps" else None) for r in rows))
    for number, (case, workers) in enumerate(cases):
        for kind in (MEASURED, PREDICTED):
            line = sorted((r[x], r[y]) for r in rows if r["case"] == case and r["kind"] == kind
                          and workers in (None, r.get("workers")))
            if line:
                label = f"{case}{f', {workers} workers' if workers else ''} ({kind})"
                filled = kind == MEASURED
                axis.plot(*zip(*line, strict=True), color=f"C{number % 10}", label=label,
                          marker="o" if filled else "s", linestyle="-" if filled else "--",
                          fillstyle="full" if filled else "none")
    axis.set(xlabel=x, ylabel=y.replace("_", " "))
    if x not in ("backup",):
        axis.set_xscale("log")
    if max((r[y] for r in rows), default=1) > 20 * min((r[y] for r in rows), default=1):
        axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=6)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=__doc__.partition("\n\n")[2])
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="FOLDER")
    parser.add_argument("--from", dest="rows", type=Path, metavar="FILE",
                        help="draw the rows of this JSON file again")
    parser.add_argument("--ranks", type=int, metavar="N", default=_ranks_here(),
                        help="the most ranks of a measured point (the allocation's tasks, or 4); "
                        "0 only predicts")
    parser.add_argument("--cluster", type=Path, metavar="FILE", help="the cluster to predict for, "
                        "with jobs ps and worker (python -m hpcflow simulate --measure FILE)")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB",
                        help="null_steps: larger parameters are only predicted")
    parser.add_argument("--straggle", type=float, default=0.5, metavar="SIGMA",
                        help="backup: the spread of the stragglers' pauses")
    parser.add_argument("--limit", type=float, default=900.0, metavar="SECONDS",
                        help="the longest time of a measured point")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="of the picture")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--no-picture", action="store_true", help="only the table and the file")
    return parser.parse_args(argv)


def machine_name() -> str:
    """Processor, cores and ranks' threads, in a few words."""
    found = facts.machine()
    return f"{found['processor']}, {found['cores']} cores, one thread a rank"


def commit() -> str:
    """The version, and the commit of the tree where it is one."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent,
                           capture_output=True, text=True, check=False)
    return f"{hf.hpcflow_version} {asked.stdout.strip()}".strip()


def _launched(launcher: str, ranks: int) -> list[str]:
    """What starts a program on so many ranks."""
    return launcher_command(launcher, Place(ranks, 0, 0, frozenset(), {}, Path()))


def _ranks_here() -> int:
    return int(os.environ.get("SLURM_NTASKS", 4))


def main(argv: list[str] | None = None) -> int:
    """Compute, print, write and draw a figure."""
    options = parse(argv)
    compute, x, y = FIGURES[options.figure]
    options.out.mkdir(parents=True, exist_ok=True)
    if options.rows is not None:
        made = json.loads(options.rows.read_text())
        rows = made["rows"]
    else:
        kernels.load()
        rows = compute(Study(options))
        print(file=sys.stderr)
        made = {"machine": machine_name(), "commit": commit(), "rows": rows}
        (options.out / f"{options.figure}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(table.render(options.figure, rows))
    if not options.no_picture:
        try:
            draw(rows, x, y, options.out / f"{options.figure}.{options.format}",
                 f"{options.figure}: {made['machine']}, hpcflow {made['commit']}")
        except ImportError:
            print("no picture: that needs matplotlib: pip install matplotlib", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
