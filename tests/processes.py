"""Run a command with a hard time limit, leaving nothing of it behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from speed import CLOCK_FACTOR, slowness

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.5
STACKS_GRACE_SECONDS = 2.0
TERM_GRACE_SECONDS = 5.0

#: The setting that says where Open MPI's launcher makes the folder of its session. It names that
#: after its process id, and where one that was killed has left a folder of that name, it says that
#: "the PMIx server's listener thread failed to start". So each job of a test has its own place.
SESSION_FOLDER = "PRTE_MCA_prte_tmpdir_base"


def run_limited(
    command: Sequence[str], log: Path, limit: float, env: Mapping[str, str] | None = None
) -> int | None:
    """Run `command` with its output in `log`; return its status, or None if it exceeded `limit`.

    The limit is in processor seconds of all processes of the command, on the machine of
    :mod:`speed`; the clock may show eight times as many. The command gets a session of its own. At
    the limit its processes are first asked for their stacks (SIGUSR1, which mpirun hands on to
    the ranks), then ended with every process of that session: MPI launchers put the ranks into
    other process groups, but not into other sessions.
    """
    limit *= slowness()
    deadline = time.monotonic() + CLOCK_FACTOR * limit
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        try:
            while time.monotonic() < deadline and session_seconds(process.pid) < limit:
                try:
                    return process.wait(LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
            ask_for_stacks(process.pid)
            time.sleep(STACKS_GRACE_SECONDS)
            return None
        finally:
            end_session(process.pid)
            process.wait()


def ask_for_stacks(session: int) -> None:
    """Send SIGUSR1 to every process of `session` that handles it."""
    for pid in session_members(session):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:  # it ended meanwhile
            continue
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        if caught >> (signal.SIGUSR1 - 1) & 1:
            _signal_all([pid], signal.SIGUSR1)


def end_session(session: int) -> None:
    """End every process of `session`: by SIGTERM, and by SIGKILL what is left after a while."""
    _signal_all(session_members(session), signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_SECONDS
    while session_members(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    while members := session_members(session):  # on a busy machine they take a moment to go
        _signal_all(members, signal.SIGKILL)
        time.sleep(0.05)


def session_members(session: int) -> list[int]:
    """The process ids of `session` that still run (zombies do not)."""
    return [pid for pid, state, _seconds in _processes(session) if state not in "ZX"]


def session_seconds(session: int) -> float:
    """Processor seconds of the processes of `session` and of their children that have ended."""
    return sum(seconds for _pid, _state, seconds in _processes(session))


def _processes(session: int) -> Iterator[tuple[int, str, float]]:
    """Process id, state and processor seconds of each process of `session`."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        # "pid (command) state ppid pgrp session ...": the command may hold blanks and brackets.
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == session:
            yield int(entry.name), fields[0], sum(map(int, fields[11:15])) / CLOCK_TICKS


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
