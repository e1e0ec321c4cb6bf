"""Starts programs under ``mpirun`` on the stand-in, each rank with a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpu_ring import fake_ipc
from speed import patience

from hpcflow.tools import facts

REPO = Path(__file__).resolve().parents[2]


def stand_in(gpus: int) -> None:
    """Let this process see so many GPUs of the stand-in."""
    from hpcflow.tools.gpu_check.rehearsal import stand_in as put

    put(REPO, gpus)


def run(program: str, ranks: int, *arguments: str, options: Sequence[str] = (),
        **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a file of this folder on several ranks, with `options` of mpirun; its output, and its
    status."""
    mpirun = facts.launchers()["mpirun"]
    if not mpirun:
        pytest.skip("no mpirun")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'tests'}", **variables}
    with tempfile.TemporaryDirectory(prefix="stand-in-", dir=fake_ipc.SHARED) as folder:
        return subprocess.run(
            [mpirun, *options, "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
             sys.executable, str(REPO / "tests" / "gpu_ring" / program), *arguments],
            capture_output=True, text=True, env=environment | {"STAND_IN_SHARED": folder},
            timeout=patience(), check=False)
