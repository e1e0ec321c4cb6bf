"""The launchers of jobs on this machine, and the options that they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcflow import config
from hpcflow.comm.processes import end_with_parent
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.cli import CommandError


def find_mpirun() -> str:
    """The mpirun of this environment, or the machine's; CommandError if there is none."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise CommandError("this benchmark needs several ranks, and no mpirun is found")
    return mpirun


def run_to_end(command: list[str], env: Mapping[str, str], timeout: float | None = None,
               **streams: Any) -> subprocess.CompletedProcess[str]:
    """Run a command that has children of its own, as mpirun does, and return how it ended.

    When this process ends before, or gives up waiting, the command is asked to end, which then ends
    its children. Raises ``subprocess.TimeoutExpired`` after `timeout` seconds.
    """
    with subprocess.Popen(command, env=env, text=True, preexec_fn=end_with_parent(),
                          **streams) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            try:
                process.wait(tuning.RUN_LAUNCHER_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def mpirun_options(mpirun: str) -> list[str]:
    """More ranks than cores, no binding, and ranks that may outlive others if they are to, by the
    options of Open MPI; others need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" not in text:
        return []
    tolerant = ["--with-ft", "ulfm"] if config.flags.fault_tolerance == "shrink" else []
    return ["--oversubscribe", "--bind-to", "none", *tolerant]
