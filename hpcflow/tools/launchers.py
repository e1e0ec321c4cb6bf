"""The launchers of jobs on this machine, and the options that they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from hpcflow.tools.cli import CommandError


def find_mpirun() -> str:
    """The mpirun of this environment, or the machine's; CommandError if there is none."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise CommandError("this benchmark needs several ranks, and no mpirun is found")
    return mpirun


def mpirun_options(mpirun: str) -> list[str]:
    """More ranks than cores, and no binding, by the options of Open MPI; others need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    return ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in text else []
