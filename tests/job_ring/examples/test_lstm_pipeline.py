"""The pipelined LSTM example as a user runs it: alone, and with its layers on several ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from jobs import launcher

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/lstm_pipeline.py"
SMALL = ["--steps", "20", "--units", "16", "--batch", "8", "--unroll", "8", "--layers", "3"]


def losses(ranks):
    """What the example prints of its losses, behind a line about the ranks."""
    command = [*launcher(), str(ranks)] if ranks > 1 else []
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PYTHONPATH": str(EXAMPLE.parents[1])}
    done = subprocess.run([*command, sys.executable, str(EXAMPLE), *SMALL], capture_output=True,
                          text=True, env=env, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == (f"3 layers on {ranks} ranks" if ranks > 1 else "one process")
    return re.findall(r"loss:? (\d\.\d{3})", "\n".join(lines))


def test_layers_on_ranks_learn_what_one_process_learns():
    alone = losses(1)
    assert len(alone) == 6 and float(alone[-1]) < float(alone[0])
    assert losses(2) == alone
