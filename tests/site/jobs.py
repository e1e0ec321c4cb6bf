"""Batch jobs: submit a script, wait for it with a limit, read what it printed."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import SlurmCluster

ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}


@dataclass(frozen=True)
class JobResult:
    """How a job ended: Slurm's state (``COMPLETED``), its exit status, and its output."""

    state: str
    status: int
    output: str


class Job:
    """A submitted script; its output goes to `output`."""

    def __init__(
        self,
        cluster: SlurmCluster,
        script: Path,
        output: Path,
        arguments: Sequence[str] = (),
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.output = output
        export = ",".join(["ALL", *(f"{key}={value}" for key, value in (variables or {}).items())])
        submit = ["sbatch", "--parsable", f"--output={output}", f"--export={export}", *options]
        self.id = cluster.command(*submit, str(script), *arguments).strip().partition(";")[0]

    def state(self) -> tuple[str, int]:
        """Slurm's state of the job and its exit status (128 + N after signal N)."""
        text = self.cluster.command("scontrol", "show", "job", self.id, "--oneliner")
        state = re.search(r" JobState=(\w+)", text)
        code = re.search(r" ExitCode=(\d+):(\d+)", text)
        if not state or not code:
            raise RuntimeError(f"job {self.id}: scontrol says {text!r}")
        status, signal = map(int, code.groups())
        return state[1], status or (128 + signal if signal else 0)

    def wait(self, limit: float) -> JobResult:
        """Wait for the end. Past `limit` seconds the job is cancelled: its state is TIMEOUT."""
        deadline = time.monotonic() + limit
        state, status = self.state()
        while state not in ENDED:
            if time.monotonic() > deadline:
                self.cluster.command("scancel", self.id)
                state, status = "TIMEOUT", 1
                break
            time.sleep(0.2)
            state, status = self.state()
        return JobResult(state, status, self.text())

    def wait_for_output(self, pattern: str, limit: float) -> bool:
        """Wait until the output holds `pattern`; False if it does not within `limit` seconds."""
        deadline = time.monotonic() + limit
        while not re.search(pattern, self.text()):
            if time.monotonic() > deadline or self.state()[0] in ENDED:
                return bool(re.search(pattern, self.text()))
            time.sleep(0.2)
        return True

    def signal(self, name: str) -> None:
        """Send a signal to the batch shell alone, as Slurm does before a job's time limit."""
        self.cluster.command("scancel", "--batch", f"--signal={name}", self.id)

    def text(self) -> str:
        """What the job has printed so far."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""
