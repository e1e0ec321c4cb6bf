"""``bench training``: typical training programs from their first second on, beside the peers.

Every program runs in a process of its own, hpcflow too. What it does in the first seconds, from the
building of its graph on, is measured first; then it runs until what it compiles in the background
is compiled, and steps are timed in alternation.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import Peer, core_count
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, ratio_of
from hpcflow.tools.table import Row

#: What there is a program of, in ``programs/training.py``.
TITLES = (
    "logistic regression", "digits, convolutions and dropout",
    "small ResNet, batch normalization", "DCGAN", "variational autoencoder", "LSTM, lengths", "GRU",
    "PTB LSTM, unrolled", "skip-gram, NCE", "transformer block", "text CNN", "policy gradient",
    "beam search")  # fmt: skip

_PLAN = Plan(rounds=7, block_seconds=0.3, min_samples=1)


class Case(NamedTuple):
    """One of the programs."""

    title: str


def run(options: Options) -> list[Row]:
    """Measure every program with hpcflow and the peers."""
    plan = plan_of(options) if options.quick else _PLAN
    seconds = 0.0 if options.quick else tuning.BENCH_FIRST_SECONDS
    cases = with_title(map(Case, TITLES), options)
    return [row for case in (cases[:1] if options.quick else cases)
            for row in measure(case, options, plan, seconds)]


def measure(case: Case, options: Options, plan: Plan, seconds: float) -> list[Row]:
    """One row per contestant; their first `seconds` come one after the other."""
    details = {"threads": core_count()}
    pythons = {OURS: sys.executable, **options.peers}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Peer(name, python, "training"))
                    for name, python in pythons.items()]
        for program in programs:
            program.ready()  # the imports are not part of the first seconds
        firsts = {p.name: p.first(case.title, details, seconds) for p in programs}
        for program in programs:
            program.warm(seconds / 5)
        return rows_of(case.title, programs, firsts, alternate(programs, plan))


def rows_of(title: str, programs: Sequence[Peer], firsts: dict[str, dict[str, Any]],
            rounds: dict) -> list[Row]:
    """Times and memory; the ratios are those of hpcflow's time to the contestant's."""
    rows: list[Row] = []
    ours = firsts[OURS]["steps"]
    for program in programs:
        times, first = 1e3 * np.concatenate(rounds[program.name]), firsts[program.name]
        rows.append({
            "case": title, "program": program.name, "first step s": first["first"],
            "steps in 5 s": first["steps"], "warm ms": float(np.median(times)),
            "peak MiB": program.peak_bytes() / 2**20,
            "first/it": None if program.name == OURS else first["steps"] / max(ours, 1),
            "warm/it": None if program.name == OURS else ratio_of(rounds[OURS],
                                                                  rounds[program.name])})
    return rows
