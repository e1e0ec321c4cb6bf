"""``bench elementwise``: formulas written out of plain ops, and every element-wise op by itself.

A peer with the same graph API runs the very same file (`programs.elementwise`); the formulas also
run as the same statements in NumPy (`plain_formulas`). The slowest case beside the faster other
program comes first.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import hpcflow
from hpcflow.tools.bench import plain_formulas
from hpcflow.tools.bench.contestants import Contestant, Local, Peer, core_count
from hpcflow.tools.bench.kernels import FASTER, row_of
from hpcflow.tools.bench.programs import elementwise as program
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, until_compiled
from hpcflow.tools.table import Row

LARGE, SMALL = 2_000_000, 1_000
_COMMON = ("Add", "Sub", "Mul", "Maximum", "Minimum", "Neg", "Abs", "Square", "Less", "Equal",
           "Cast", "Select", "AddN")
_FLOATING = ("Div", "Exp", "Log", "Tanh", "Sigmoid", "Sqrt", "Rsqrt", "Relu", "Elu", "Softplus")
_INTEGER = ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Sign", "Invert", "BitwiseAnd",
            "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
_LOGICAL = ("LogicalAnd", "LogicalOr", "LogicalNot")
# The types that have forms of one dtype only.
_NOT_FLOATS = {*_INTEGER, *_LOGICAL} - {"FloorDiv", "FloorMod", "Sign"}


class Case(NamedTuple):
    """A line of the table: options of `programs.elementwise`."""

    title: str
    options: dict[str, Any]


def _cases() -> list[Case]:
    cases = [Case(f"formula {name}", {"formula": name}) for name in program.FORMULAS]
    floats = [op for op in program.SIGNATURES if op not in _NOT_FLOATS]
    ops = [(op, "float32") for op in (*floats, "Cast", "Select", "SelectV2", "AddN")]
    ops += [(op, "int32") for op in (*_COMMON, *_INTEGER)]
    ops += [(op, dtype) for dtype in ("float64", "float16") for op in (*_COMMON, *_FLOATING)]
    ops += [(op, "bool") for op in (*_LOGICAL, "Equal", "Cast", "Select")]
    cases += [Case(f"{op} {dtype} {size:,}", {"op": op, "dtype": dtype, "size": size})
              for size in (LARGE, SMALL) for op, dtype in ops if op != "Cast" or dtype != "bool"]
    return cases


CASES = tuple(_cases())
_QUICK = 20  # every so many cases serve to show that everything works


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow, NumPy and the peers; the largest ratio first."""
    plan = replace(plan_of(options), rounds=5, block_seconds=0.04) if not options.quick else (
        plan_of(options))
    cases = with_title(CASES[::_QUICK] if options.quick else CASES, options)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(name, python, "elementwise"))
                 for name, python in options.peers.items()]
        rows = [measure_case(case, peers, plan) for case in cases]
    return sorted(rows, key=lambda row: -(row[FASTER] or 0))


def measure_case(case: Case, peers: list[Peer], plan: Plan) -> Row:
    """The line of one case."""
    options = case.options | {"threads": core_count()}
    ours = Local(OURS, *program.open_case(hpcflow, case.title, options))
    until_compiled(ours, plan)
    contestants: list[Contestant] = [ours]
    if "formula" in options:
        contestants.append(Local("numpy", plain_formulas.STEPS[options["formula"]]()))
    contestants += [peer.open(case.title, options) for peer in peers]
    try:
        return row_of(case.title, alternate(contestants, plan))
    finally:
        ours.close()
        for peer in peers:
            peer.close_case()
