"""``python -m hpcflow bench NAME``: options, launching, and output."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from hpcflow.comm.launch import launch
from hpcflow.tools import table
from hpcflow.tools.bench.registry import BENCHMARKS, Benchmark, Options
from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    command_parser,
    output_file,
    unknown,
    whole,
)
from hpcflow.tools.launchers import find_mpirun, mpirun_options, run_to_end
from hpcflow.tools.table import Row

NOTES = {
    "hpcflow/it": "hpcflow/it: hpcflow's time over this program's, the median over rounds in which "
    "they alternate.",
    "least us": "least us: the least of all samples; least/it: hpcflow's over this program's.",
    "busy us": "busy us: the least time of processors that a step takes in all threads, waiting in "
    "a loop included; busy/it: hpcflow's over this program's.",
    "worker_MB": "worker_MB: the most memory that the session and its steps hold in the worker: "
    "what it receives (once for each compiled step), and the updates that it sends.",
    "hpcflow/graphs": "hpcflow/torch, hpcflow/graphs: hpcflow's time over that of PyTorch, eager "
    "and as a CUDA graph, the median over rounds in which all alternate. MiB: the memory of the "
    "GPU that each has taken.",
    "hpcflow/faster": "hpcflow/faster: hpcflow's time over the faster peer's, the median over "
    "rounds in which all alternate.",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark, or all of them."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parse(arguments)
    if options.list:
        print(listing())
        return 0
    if options.json is not None:
        results_in(options.json)
    if options.name is None:
        raise CommandError(f"which benchmark? There are: {', '.join([*BENCHMARKS, 'all'])}")
    if options.without_avx512:
        start_without_avx512(arguments)
    if options.name == "all":
        return run_all(options)
    benchmark = find(options.name)
    refuse_unknown_peers(benchmark, options.peer)
    return run_one(benchmark, options)


def parser() -> CommandParser:
    """The options of this command."""
    made = command_parser("bench", "Run a benchmark and print its table.")
    made.add_argument("name", nargs="?", metavar="NAME", help="one of --list, or all")
    made.add_argument("--list", action="store_true", help="list the benchmarks")
    made.add_argument(
        "--peer",
        action="append",
        default=[],
        type=peer,
        metavar="NAME=PYTHON",
        help="run the same program in another library too, in a Python that has it "
        "(tensorflow=/opt/tf/bin/python)",
    )
    made.add_argument(
        "--json", type=output_file, metavar="FILE", help="add the rows to this file, by benchmark"
    )
    made.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    made.add_argument(
        "--ps", type=whole(1), default=1, metavar="N", help="parameter-server ranks of null_step"
    )
    made.add_argument(
        "--case", default="", metavar="TEXT",
        help="only cases of kernels, arrays, convnets, control_flow, forward, input, warmup and "
        "gpu with this in their titles ('VGG', 'training')",
    )
    made.add_argument("--without-avx512", action="store_true",
                      help="as on a processor without AVX-512, the peers too")
    made.add_argument("--lines", type=output_file, metavar="FILE",
                      help="gpu: add each row to this file when measured, as a line of JSON")
    made.add_argument("--stand-in", type=Path, metavar="FOLDER",
                      help="gpu: on what stands in for a GPU in the tests of the project's FOLDER")
    return made


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; ends the program for ``--help`` and wrong ones."""
    options = parser().parse_args(argv)
    options.peer = dict(options.peer)
    return options


# What limits the libraries to AVX2: hpcflow's loops, NumPy and its OpenBLAS, oneDNN and PyTorch.
AVX2 = {"HPCFLOW_AVX512": "0", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Haswell", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def start_without_avx512(argv: Sequence[str]) -> NoReturn:
    """Begin this command again where libraries are told to do without AVX-512 when they load."""
    words = [word for word in argv if word != "--without-avx512"]
    os.execve(sys.executable, [sys.executable, "-m", "hpcflow", "bench", *words],
              dict(os.environ) | AVX2)


def peer(text: str) -> tuple[str, str]:
    """``tensorflow=/path/python`` in its two parts."""
    name, _, python = text.partition("=")
    if not (name and python):
        raise argparse.ArgumentTypeError(f"expected NAME=PYTHON, got '{text}'")
    if shutil.which(python) is None:
        raise argparse.ArgumentTypeError(f"no such program: '{python}'")
    return name, python


def listing() -> str:
    """The registered benchmarks."""
    width = max(map(len, BENCHMARKS))
    return "\n".join(f"{b.name:{width}}  {b.summary}" for b in BENCHMARKS.values())


def find(name: str) -> Benchmark:
    """The benchmark of this name."""
    if name not in BENCHMARKS:
        raise CommandError(unknown("benchmark", name, BENCHMARKS))
    return BENCHMARKS[name]


def refuse_unknown_peers(benchmark: Benchmark, peers: dict[str, str]) -> None:
    """CommandError for a peer that the benchmark has no program for."""
    for name in peers:
        if name not in benchmark.peers:
            known = ", ".join(benchmark.peers) or "none"
            raise CommandError(
                f"{benchmark.name} has no program for the peer '{name}'; it has: {known}"
            )


def run_all(options: argparse.Namespace) -> int:
    """Every benchmark, each with the peers that it knows; the worst of their statuses."""
    worst = 0
    for number, benchmark in enumerate(BENCHMARKS.values()):
        if number:
            print()
        reason = benchmark.why_not(options_of(options))
        if reason:
            print(f"{benchmark.name} is left out: {reason}")
            continue
        known = {n: p for n, p in options.peer.items() if n in benchmark.peers}
        status = run_one(benchmark, argparse.Namespace(**{**vars(options), "peer": known}))
        worst = max(worst, status)
    return worst


def options_of(arguments: argparse.Namespace) -> Options:
    """What a benchmark is told of the command line."""
    return Options(arguments.peer, arguments.quick, arguments.ps, arguments.case, arguments.lines,
                   arguments.stand_in and arguments.stand_in.resolve())


def run_one(benchmark: Benchmark, arguments: argparse.Namespace) -> int:
    """Run in this process or job where it has the ranks, else in an MPI job of its own."""
    options = options_of(arguments)
    needed = benchmark.ranks(options) if benchmark.ranks else 1
    started = launch()
    if started is None and needed > 1:
        return start_job(benchmark, needed, arguments)
    size = started.size if started is not None and started.size is not None else 1
    if size != needed:
        raise CommandError(f"{benchmark.name} needs {needed} ranks; this job has {size}")
    rows = benchmark.run(options)
    if rows:
        report(benchmark, rows, arguments.json)
    return 0


def start_job(benchmark: Benchmark, ranks: int, arguments: argparse.Namespace) -> int:
    """Run the benchmark under mpirun; its exit status."""
    mpirun = find_mpirun()
    command = [mpirun, *mpirun_options(mpirun), "-n", str(ranks)]
    command += [sys.executable, "-m", "hpcflow", "bench", *rank_arguments(benchmark, arguments)]
    sys.stdout.flush()
    return run_to_end(command, job_environment() | benchmark.environment).returncode


def rank_arguments(benchmark: Benchmark, arguments: argparse.Namespace) -> list[str]:
    """The command line of each rank."""
    words = [benchmark.name, "--ps", str(arguments.ps)]
    for name, python in arguments.peer.items():
        words += ["--peer", f"{name}={python}"]
    if arguments.json:
        words += ["--json", str(arguments.json)]
    return [*words, "--quick"] if arguments.quick else words


def job_environment() -> dict[str, str]:
    """The environment of mpirun: a root user has asked for this job, so it may run."""
    env = dict(os.environ)
    if os.geteuid() == 0:
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env


def report(benchmark: Benchmark, rows: list[Row], path: Path | None) -> None:
    """Print the table, and add the rows to the file of results."""
    notes = [text for column, text in NOTES.items() if any(column in row for row in rows)]
    print(table.render(f"{benchmark.name}: {benchmark.summary}", rows, notes), flush=True)
    if path is not None:
        save(path, benchmark.name, rows)


def save(path: Path, name: str, rows: list[Row]) -> None:
    """Set ``name`` in the JSON object in `path`, making the file if there is none."""
    results = results_in(path) | {name: rows}
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)


def results_in(path: Path) -> dict[str, Any]:
    """The rows by benchmark in a file, none if there is no file; CommandError for other files."""
    if not path.exists():
        return {}
    try:
        results = json.loads(path.read_text())
    except ValueError:
        results = None
    if not isinstance(results, dict):
        raise CommandError(f"--json {path}: not a file of benchmark results")
    return results
