"""``bench forward``: models whose values are fetched, forward and training, beside the peers.

Every program runs in a process of its own, hpcflow too. Where most of a model is products, their
time in NumPy is its floor.
"""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import Peer, core_count
from hpcflow.tools.bench.convnets import NETWORKS
from hpcflow.tools.bench.programs import control_flow, forward_numpy
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, rows_of, with_busy
from hpcflow.tools.table import Row

FLOOR = "numpy"
#: The program of each contestant.
PROGRAMS = {OURS: "forward", "torch": "forward_torch", "tensorflow": "forward",
            FLOOR: "forward_numpy"}

_PLAN = Plan(rounds=7, block_seconds=0.3, min_samples=1)


class Case(NamedTuple):
    """A line of the table: the kind of a program, and what it is told."""

    title: str
    kind: str
    details: dict[str, Any]

    @property
    def has_floor(self) -> bool:
        """Whether most of it is products."""
        return (self.details.get("plain") or self.kind) in forward_numpy.PRODUCTS


def _model(title: str, kind: str) -> list[Case]:
    return [Case(f"{title}, {what}", kind, {"training": training})
            for what, training in (("forward", False), ("training", True))]


def _alexnet() -> Case:
    network = NETWORKS[0]
    return Case(f"{network.name} ({network.batch}), forward", "convnets", {
        "batch": network.batch, "image": [network.image] * 2, "layers": network.layers,
        "training": False})


CASES = [
    *_model("Figure-1 MLP (64)", "perceptron"),
    *_model("LSTM 512-512 language model, sampled softmax", "language_model"),
    *_model("LSTM by while_loop (64 x 28 x 128)", "looped_lstm"),
    *_model("ResNet-20 (64)", "residual_network"),
    _alexnet(),
    *_model("wide & deep (256)", "wide_and_deep"),
    Case(control_flow.BRANCHES, "control_flow", {"plain": "branches"}),
    Case(control_flow.MATMUL_LOOP, "control_flow", {"plain": "loop"}),
]


def run(options: Options) -> list[Row]:
    """Measure the cases with hpcflow, their floors and the peers in alternation.

    Raises CommandError if no case has the text that `options` ask for in its title.
    """
    plan = plan_of(options) if options.quick else _PLAN
    cases = with_title(CASES, options)
    return [row for case in (cases[:1] if options.quick else cases)
            for row in measure(case, options, plan)]


def measure(case: Case, options: Options, plan: Plan) -> list[Row]:
    """One row per program, of steps after what they compile in the background is compiled."""
    details = {**case.details, "kind": case.kind, "case": case.title, "threads": core_count()}
    pythons = {OURS: sys.executable, **({FLOOR: sys.executable} if case.has_floor else {}),
               **options.peers}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Peer(name, python, PROGRAMS[name]))
                    for name, python in pythons.items()]
        with ThreadPoolExecutor() as starters:
            list(starters.map(lambda program: program.open(case.title, details), programs))
        for program in programs:
            program.warm(0.0 if options.quick else tuning.BENCH_WARMING_SECONDS)
        return with_busy(rows_of(case.title, alternate(programs, plan)), programs)
