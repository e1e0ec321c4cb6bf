"""Jobs of several ranks, started with mpirun by a test, under a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import run_limited

import hpcflow
from hpcflow.comm.launch import without_launcher

LIMIT_SECONDS = 60.0
PACKAGE_PARENT = str(Path(hpcflow.__file__).parent.parent)


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    status: int
    output: str
    seconds: float

    def lines_of(self, rank: int) -> list[str]:
        """What the rank printed behind its prefix."""
        prefix = f"[rank {rank}] "
        lines = self.output.splitlines()
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


#: What Open MPI's launcher says, now and then, where several start at the same time on a busy
#: machine, before it starts a rank; and the attempts until that is a failure.
NOT_STARTED, LAUNCHES = "listener thread failed to start", 3


def launcher() -> list[str]:
    """The command that starts ranks: of this environment, else of the machine."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun")
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    options = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in version.stdout else []
    return [mpirun, *options, "-n"]


def run_job(tmp_path: Path, parts: Sequence[str], ranks: int = 2, **variables: str) -> Ended:
    """Run the program made of `parts` on some ranks."""
    script = tmp_path / "program.py"
    script.write_text("".join(textwrap.dedent(part) for part in parts))
    env = without_launcher(os.environ) | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONPATH": PACKAGE_PARENT,
        **variables,
    }
    command = [*launcher(), str(ranks), sys.executable, str(script)]
    log = tmp_path / "job.log"
    start = time.monotonic()
    for _ in range(LAUNCHES):
        status = run_limited(command, log, LIMIT_SECONDS, env)
        seconds = time.monotonic() - start
        # Open MPI's launcher puts a NUL behind its own messages.
        output = log.read_text(errors="replace").replace("\0", "")
        if NOT_STARTED not in output:
            break
    assert status is not None, f"the job hung:\n{output}"
    return Ended(status, output, seconds)
