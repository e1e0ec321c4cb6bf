"""The list of benchmarks, and the options that each is given."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from hpcflow.tools.cli import CommandError
from hpcflow.tools.table import Row


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Attributes:
        peers: name -> the Python that has this peer.
        quick: only show that everything runs: a few steps, meaningless figures.
        ps: the number of parameter-server ranks.
        case: only the cases whose titles contain this, of benchmarks that have titled ones.
        lines: a file that gets each row as a line of JSON when it is measured, of benchmarks that
            take long.
        stand_in: the project's folder, whose tests have a stand-in for a GPU; where there is one.
    """

    peers: dict[str, str] = field(default_factory=dict)
    quick: bool = False
    ps: int = 1
    case: str = ""
    lines: Path | None = None
    stand_in: Path | None = None


class Titled(Protocol):
    """A case of a benchmark."""

    @property
    def title(self) -> str:
        """The title of its line in the table."""


AnyCase = TypeVar("AnyCase", bound=Titled)


def with_title(cases: Iterable[AnyCase], options: Options) -> list[AnyCase]:
    """The cases that `options` ask for; CommandError if there is none."""
    chosen = [case for case in cases if options.case in case.title]
    if not chosen:
        raise CommandError(f"no case has '{options.case}' in its title")
    return chosen


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark.

    Attributes:
        name: the name of the command, and of the module with its ``run``.
        summary: what its table shows, in one line.
        peers: the peers it has a program for.
        ranks: how many MPI ranks it needs; None for one process without MPI.
        environment: variables of the job that it starts.
    """

    name: str
    summary: str
    peers: tuple[str, ...] = ()
    ranks: Callable[[Options], int] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def why_not(self, options: Options) -> str:
        """Why this machine cannot run it; empty if it can."""
        module = importlib.import_module(f"{__package__}.{self.name}")
        return getattr(module, "why_not", lambda options: "")(options)

    def run(self, options: Options) -> list[Row]:
        """Measure. With several ranks each calls this, and one of them gets the rows."""
        return importlib.import_module(f"{__package__}.{self.name}").run(options)


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "dispatch",
            "steps whose arithmetic is small: what a session adds to it, in one process",
            peers=("tensorflow",),
        ),
        Benchmark(
            "control_flow",
            "loops, branches, updates, queues, threads and memory, in one process",
            peers=("tensorflow",),
        ),
        Benchmark(
            "kernels",
            "40 single ops, in one process each",
            peers=("torch", "tensorflow"),
        ),
        Benchmark(
            "arrays",
            "single ops that move, index, sort and reduce arrays",
            peers=("tensorflow",),
        ),
        Benchmark(
            "datasets",
            "elements of data sets: functions, shuffling, batches, a generator",
            peers=("tensorflow",),
        ),
        Benchmark(
            "input",
            "batches of single examples, by queue runners and data sets",
            peers=("tensorflow",),
        ),
        Benchmark(
            "forward",
            "models of a few layers whose values are fetched, forward and training",
            peers=("torch", "tensorflow"),
        ),
        Benchmark(
            "checkpoints",
            "saving and restoring 400 MB: what a step sees of it, until it is on disk, and back",
            peers=("tensorflow",),
        ),
        Benchmark(
            "elementwise",
            "formulas written out of plain ops, and every element-wise op, in one process each",
            peers=("tensorflow",),
        ),
        Benchmark(
            "convnets",
            "networks of images, forward and training steps, and the memory they take",
            peers=("torch", "tensorflow"),
        ),
        Benchmark(
            "training",
            "13 typical programs: their first five seconds, warm steps, and the memory they take",
            peers=("tensorflow",),
        ),
        Benchmark(
            "warmup",
            "how soon steps are as fast as later ones, with an empty loop cache and a full one",
        ),
        Benchmark(
            "gpu",
            "kernels and training steps on a GPU, and the memory of the GPU that they take",
            peers=("torch",),
        ),
        Benchmark(
            "pingpong",
            "latency and bandwidth between two ranks",
            ranks=lambda options: 2,
        ),
        Benchmark(
            "prediction",
            "step times of replicas, over servers and averaged, measured and by the simulator",
        ),
        Benchmark(
            "allreduce",
            "a step that reduces a tensor over two ranks: latency and bandwidth",
            ranks=lambda options: 2,
            environment={"OMP_NUM_THREADS": "1"},
        ),
        Benchmark(
            "data_parallel",
            "training steps of two ranks that average their gradients",
            peers=("torch",),
            ranks=lambda options: 2,
            environment={"OMP_NUM_THREADS": "1"},
        ),
        Benchmark(
            "overlap",
            "how much of the reduction of gradients hides behind the backward pass",
            ranks=lambda options: 2,
            environment={"OMP_NUM_THREADS": "1"},
        ),
        Benchmark(
            "null_step",
            "a worker fetches parameters from servers and sends updates: the cost of a step",
            peers=("tensorflow",),
            ranks=lambda options: options.ps + 1,
        ),
        Benchmark(
            "sync_step",
            "a step of synchronous replicas: two workers and a parameter server",
            peers=("tensorflow",),
            ranks=lambda options: 3,
            environment={"OMP_NUM_THREADS": "1"},
        ),
        Benchmark(
            "language_model",
            "words per second of an LSTM with its softmax on 1 and 2 servers, and predicted for "
            "more",
        ),
        Benchmark(
            "serving",
            "a rank that only serves: how soon it answers after a pause, what it uses when idle",
            ranks=lambda options: 2,
        ),
        Benchmark(
            "distributed_loop",
            "an iteration of a while loop over 1, 2 and 4 ranks, with 1 and 10 iterations under "
            "way",
            ranks=lambda options: 4,
            environment={"OMP_NUM_THREADS": "1"},
        ),
    )
}
