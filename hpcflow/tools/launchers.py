"""The launchers of jobs on this machine, and the options that they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from hpcflow import config
from hpcflow.tools.cli import CommandError


def find_mpirun() -> str:
    """The mpirun of this environment, or the machine's; CommandError if there is none."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise CommandError("this benchmark needs several ranks, and no mpirun is found")
    return mpirun


def mpirun_options(mpirun: str) -> list[str]:
    """More ranks than cores, no binding, and ranks that may outlive others if they are to, by the
    options of Open MPI; others need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" not in text:
        return []
    tolerant = ["--with-ft", "ulfm"] if config.flags.fault_tolerance == "shrink" else []
    return ["--oversubscribe", "--bind-to", "none", *tolerant]
