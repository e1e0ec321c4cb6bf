"""``bench input``: batches of single examples, by queue runners and data sets, beside the peers.

Every program runs in a process of its own, hpcflow too: its threads take time between steps.
"""

from __future__ import annotations

import contextlib
import sys
from typing import NamedTuple

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import Peer
from hpcflow.tools.bench.programs import input as program
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, rows_of, with_busy
from hpcflow.tools.table import Row

# Turns are longer than the queues are full.
_PLAN = Plan(rounds=7, block_seconds=0.5, sample_seconds=0.05)


class Case(NamedTuple):
    """One of the programs."""

    title: str


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow and the peers in alternation.

    Raises CommandError if no case has the text that `options` ask for in its title.
    """
    plan = plan_of(options) if options.quick else _PLAN
    cases = with_title(map(Case, program.CASES), options)
    return [row for case in (cases[:1] if options.quick else cases)
            for row in measure(case.title, options, plan)]


def measure(case: str, options: Options, plan: Plan) -> list[Row]:
    """One row per program."""
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Peer(name, python, "input")).open(case)
                    for name, python in {OURS: sys.executable, **options.peers}.items()]
        for each in programs:
            each.warm(0.0 if options.quick else tuning.BENCH_WARMING_SECONDS)
        return with_busy(rows_of(case, alternate(programs, plan)), programs)
