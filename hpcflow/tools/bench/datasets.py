"""``bench datasets``: elements of data sets, a batch in each step, in turns with the peers."""

from __future__ import annotations

import contextlib

import hpcflow
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import datasets as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, rows_of
from hpcflow.tools.cli import CommandError
from hpcflow.tools.table import Row


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow and the peers in alternation.

    Raises CommandError if no case has the text that `options` ask for in its title.
    """
    plan = plan_of(options)
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(peer, python, "datasets"))
                 for peer, python in options.peers.items()]
        for case in program.CASES:
            if options.case in case:
                rows += measure_case(case, peers, plan)
    if not rows:
        raise CommandError(f"no case has '{options.case}' in its title")
    return rows


def measure_case(case: str, peers: list[Peer], plan: Plan) -> list[Row]:
    """The rows of one case."""
    ours = Local(OURS, *program.open_case(hpcflow, case, {}))
    try:
        return rows_of(case, alternate([ours, *[peer.open(case) for peer in peers]], plan))
    finally:
        ours.close()
        for peer in peers:
            peer.close_case()
