"""Every gradient function is gone through by some gradient check of the process ring.

A function that serves several op types (older forms of an op) counts for all of them.

The checks note what they go through while they run, in a folder where they run in processes of
their own. So this comes after the process ring, and is skipped unless all of that has run.
"""

from __future__ import annotations

from pathlib import Path

import gradcheck
import pytest

import hpcflow as hf
from hpcflow.graph import opdef

# Op types whose gradient cannot be held against difference quotients, and why.
EXCEPTIONS = {
    "PreventGradient": "raises by definition",
    "Print": "the identity, with output",
    "ReadVariableOp": "the identity of a variable's value, which cannot be fed",
    "ResourceGather": "of a variable's value, which cannot be fed; tested in test_raw_ops_parts",
    "ResourceGatherNd": "of a variable's value, which cannot be fed; tested in test_raw_ops_parts",
    **dict.fromkeys(("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3",
                     "QuantizeAndDequantizeV4"),
                    "passes through what is a staircase; tested with the op"),
    **dict.fromkeys(("RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3"),
                    "of random numbers; held against the quantile function in test_random"),
    "CheckNumerics": "the identity; its check of the gradient is tested with the op",
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2", "GRUBlockCell", "LSTMBlockCell"),
                    "has no double precision; held against small ops in test_recurrent_blocks"),
}


def test_every_gradient_is_checked(request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parents[1] / "process_ring"
    checking = {str(p) for p in folder.rglob("test_*.py") if "check_gradient" in p.read_text()}
    ran, types = gradcheck.gathered()
    ran |= {str(item.path) for item in request.session.items}
    if not checking <= ran:
        pytest.skip(f"needs the whole process ring; without {len(checking - ran)} of its files")
    assert hf.Graph  # importing the package registers every op
    registered = {t for t in opdef.registered_ops()
                  if opdef.has_gradient(t) and not t.startswith("Test")}  # of tests
    checked = {opdef.get_gradient(t) for t in registered & types}
    missing = sorted(t for t in registered - set(EXCEPTIONS)
                     if opdef.get_gradient(t) not in checked)
    assert not missing, f"no gradient check goes through {', '.join(missing)}"
    stale = sorted(set(EXCEPTIONS) - registered | set(EXCEPTIONS) & types)
    assert not stale, f"no exception is needed for {', '.join(stale)}"
