"""Whatever is read may be damaged at random: a sample of `python tests/faults/fuzz.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from faults import fuzz

SEED = 5
CASES = 40


@pytest.mark.parametrize("part", range(3))
def test_every_format_at_random(part):
    names = list(fuzz.FORMATS)[part::3]
    done = subprocess.run(
        [sys.executable, fuzz.__file__, *names, "--work", "--cases", str(CASES), "--seed",
         str(SEED)], capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if not line.startswith("at ")]
    assert done.returncode == 0, f"{said[-1:]} {done.stderr[-3000:]}"
    assert [line.partition(":")[0] for line in said] == [f"counts of {n}" for n in names], said
