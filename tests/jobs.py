"""Jobs of several ranks, started with mpirun by a test, under a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import SESSION_FOLDER, run_limited

import hpcflow
from hpcflow.comm.launch import without_launcher

LIMIT_SECONDS = 60.0
PACKAGE_PARENT = str(Path(hpcflow.__file__).parent.parent)


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    status: int
    output: str

    def lines_of(self, rank: int) -> list[str]:
        """What the rank printed behind its prefix."""
        prefix = f"[rank {rank}] "
        lines = self.output.splitlines()
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


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
    status, output = run_ranks([script], ranks, tmp_path / "job.log", LIMIT_SECONDS, **variables)
    assert status is not None, f"the job hung:\n{output}"
    return Ended(status, output)


def run_ranks(program: Sequence[str | Path], ranks: int, log: Path, limit: float, **variables: str
              ) -> tuple[int | None, str]:
    """(status or None if it hung, output) of some ranks of a Python program."""
    command = [*launcher(), str(ranks), sys.executable, *map(str, program)]
    variables = {SESSION_FOLDER: str(log.parent / "session"), **variables}
    status = run_limited(command, log, limit, environment(**variables))
    # Open MPI's launcher puts a NUL behind its own messages.
    return status, log.read_text(errors="replace").replace("\0", "")


def run_example(program: Sequence[str | Path], ranks: int = 1) -> list[str]:
    """The lines that a Python program prints, alone or on some ranks; it must end well."""
    start = [*launcher(), str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, sys.executable, *map(str, program)], capture_output=True,
                          text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def environment(**variables: str) -> dict[str, str]:
    """That of the ranks of a job."""
    return without_launcher(os.environ) | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONPATH": PACKAGE_PARENT,
        **variables,
    }
