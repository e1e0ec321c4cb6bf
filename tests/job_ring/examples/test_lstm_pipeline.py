"""The pipelined LSTM example as a user runs it: alone, and with its layers on several ranks."""

from __future__ import annotations

import re
from pathlib import Path

from jobs import run_example

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/lstm_pipeline.py"
SMALL = ["--steps", "20", "--units", "16", "--batch", "8", "--unroll", "8", "--layers", "3"]


def losses(ranks):
    """What the example prints of its losses, behind a line about the ranks."""
    first, *lines = run_example([EXAMPLE, *SMALL], ranks)
    assert first == (f"3 layers on {ranks} ranks" if ranks > 1 else "one process")
    return re.findall(r"loss:? (\d\.\d{3})", "\n".join(lines))


def test_layers_on_ranks_learn_what_one_process_learns():
    alone = losses(1)
    assert len(alone) == 6 and float(alone[-1]) < float(alone[0])
    assert losses(2) == alone
