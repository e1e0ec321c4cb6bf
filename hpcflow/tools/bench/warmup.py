"""``bench warmup``: how soon steps are as fast as later ones, with an empty loop cache and a full
one.

A step's loops are compiled in the background while it runs without them. Each case is run twice in
processes of its own: the first finds no machine code (*cold*), the second what the first has kept
(*warm*).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from typing import NamedTuple

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import Peer, core_count
from hpcflow.tools.bench.convnets import NETWORKS
from hpcflow.tools.bench.forward import CASES as MODELS
from hpcflow.tools.bench.forward import Case
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS
from hpcflow.tools.table import Row


def _googlenet() -> Case:
    network = next(n for n in NETWORKS if n.name.startswith("GoogLeNet"))
    return Case(f"{network.name} ({network.batch}), training", "convnets", {
        "batch": network.batch, "image": [network.image] * 2, "layers": network.layers,
        "training": True})


CASES = [_googlenet(), *(case for case in MODELS if case.title.endswith(", training"))]


class Step(NamedTuple):
    """A step: when it ended, in seconds after the end of the first one, and how long it took."""

    ended: float
    seconds: float


def run(options: Options) -> list[Row]:
    """Measure the cases; CommandError if none has the text that `options` ask for in its title."""
    cases = with_title(CASES, options)
    return [row for case in (cases[:1] if options.quick else cases)
            for row in measure(case, options.quick)]


def measure(case: Case, quick: bool) -> list[Row]:
    """A row for the cold run and one for the warm run."""
    with tempfile.TemporaryDirectory() as cache:
        return [row_of(case.title, kind, *steps_of(case, cache, 1.0 if quick else seconds))
                for kind, seconds in (("cold", tuning.BENCH_COLD_SECONDS),
                                      ("warm", tuning.BENCH_WARM_SECONDS))]


def steps_of(case: Case, cache: str, seconds: float) -> tuple[float, list[Step]]:
    """The seconds of the first step, and the steps for so long after it."""
    details = {**case.details, "kind": case.kind, "case": case.title, "threads": core_count()}
    program = "convnets" if case.kind == "convnets" else "forward"
    with Peer(OURS, sys.executable, program, {"HPCFLOW_LOOP_CACHE": cache}) as process:
        process.open(case.title, details)
        [first] = process.block(1, 1)
        steps: list[Step] = []
        began = time.perf_counter()
        while not steps or steps[-1].ended < seconds:
            [took] = process.block(1, 1)
            steps.append(Step(time.perf_counter() - began, took))
    return first, steps


def row_of(title: str, kind: str, first: float, steps: list[Step]) -> Row:
    """The figures of one run.

    The later speed is the median of the last third. It is reached with the first step from which on
    the median of as many steps as make up a twentieth of the run is within a tenth of it.
    """
    later = statistics.median(s.seconds for s in steps[-max(1, len(steps) // 3):])
    window = max(1, len(steps) // 20)
    reached = next((steps[i].ended for i in range(len(steps)) if statistics.median(
        s.seconds for s in steps[i : i + window]) <= 1.1 * later), steps[-1].ended)
    slowest = max(s.seconds for s in steps)
    return {"case": title, "cache": kind, "first_ms": 1e3 * first, "later_ms": 1e3 * later,
            "reached_s": reached, "slowest/later": slowest / later, "steps": len(steps)}
