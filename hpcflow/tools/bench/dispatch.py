"""``bench dispatch``: what a session adds to the arithmetic of small steps, in one process.

Four steps: nothing at all; one scalar fed, added to and fetched; a chain of additions; and a
training step of the multi-layer perceptron of Figure 1 in the OSDI paper on TensorFlow. The last
two run also as the same statements in plain NumPy.
"""

from __future__ import annotations

import contextlib

import hpcflow
from hpcflow.tools.bench import plain_numpy
from hpcflow.tools.bench.contestants import Contestant, Local, Peer
from hpcflow.tools.bench.programs import dispatch as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, measured, plan_of, rows_of
from hpcflow.tools.table import Row


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow, NumPy and the peers in alternation."""
    plan = plan_of(options)
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(Peer(name, python, "dispatch"))
            for name, python in options.peers.items()
        ]
        return [row for case in program.CASES for row in measure_case(case, peers, plan)]


def measure_case(case: str, peers: list[Peer], plan: Plan) -> list[Row]:
    """The rows of one case."""
    ours = Local(OURS, *program.open_case(hpcflow, case, {}))
    others: list[Contestant] = []
    if case in plain_numpy.STEPS:
        others.append(Local("numpy", plain_numpy.STEPS[case]()))
    others += [peer.open(case) for peer in peers]
    return rows_of(case, measured(ours, others, peers, plan))
