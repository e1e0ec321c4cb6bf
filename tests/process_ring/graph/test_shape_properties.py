"""Whatever a shape function claims to know, holds in the step: for every op type with cases.

The cases are those that are compared with the reference runtime; hypothesis chooses among them,
and what of the input shapes and values the graph knows.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hpcflow as hf

sys.path.append(str(Path(__file__).resolve().parents[2] / "oracle"))

import families  # noqa: F401 - fills the table
from case import Case, encode
from table import Table
from worker import Evaluation, describe

SEED = 11
EXAMPLES = 5
LARGEST = 5000  # elements of an input
# What the graph knows of an input: its value, all, some or none of its dimensions.
KNOWLEDGE = ("constant", "static", "partial", "rank", "nothing")


def _cases() -> dict[str, list[Case]]:
    found = defaultdict(list)
    for case in Table(describe(), SEED, every=False).fill():
        arrays: list = []
        encode(case, arrays)
        if not case.bad and max((a.size for a in arrays), default=0) <= LARGEST:
            found[case.op].append(case)
    return found


CASES = _cases()


class Partial(Evaluation):
    """A case of which the graph knows what `data` draws."""

    def __init__(self, case: Case, data: Any) -> None:
        arrays: list = []
        encoded = encode(case, arrays)
        super().__init__(hf, None, encoded, arrays)
        self.draw_from = data

    def input(self, spec: Any) -> Any:
        if not isinstance(spec, list) and "variable" not in spec:
            self.case["form"] = self.draw_from(st.sampled_from(KNOWLEDGE))
        return super().input(spec)

    def declared(self, value: np.ndarray) -> Any:
        form = self.case["form"]
        if form == "nothing":
            return None
        if form == "partial":
            return [n if self.draw_from(st.booleans()) else None for n in value.shape]
        return value.shape if form == "static" else [None] * value.ndim


@pytest.mark.parametrize("op", sorted(CASES))
def test_static_shapes_hold(op: str) -> None:
    held = []

    @settings(max_examples=EXAMPLES, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: Any) -> None:
        case = data.draw(st.sampled_from(CASES[op]), label="case")
        held.append(_check(case, data.draw))

    check()
    assert any(held), f"{op}: no case ran: {held}"


def _check(case: Case, draw: Any) -> bool:
    """Run `case`; True if it ran and had outputs to compare."""
    evaluation = Partial(case, draw)
    evaluation.case["gradient"] = 0
    evaluation.run()
    values, record = evaluation.results.get("output"), evaluation.record
    if values is None:
        # A case may be refused where the reference refuses it too, but says so properly.
        assert record["error"][0] in [*dir(hf.errors), "ValueError", "TypeError"], record
        return False
    for dims, value in zip(record["static"], values):
        known = None if dims is None else list(dims)
        shape = np.shape(value)
        assert known is None or (len(known) == len(shape) and all(
            k is None or k == n for k, n in zip(known, shape))), (
            f"{case.title}: said to be {known}, is {list(shape)}")
    return True
