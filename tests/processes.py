"""Run a command with a hard time limit, leaving nothing of it behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STACKS_GRACE_SECONDS = 2.0
TERM_GRACE_SECONDS = 5.0


def run_limited(
    command: Sequence[str], log: Path, limit: float, env: Mapping[str, str] | None = None
) -> int | None:
    """Run `command` with its output in `log`; return its status, or None if it exceeded `limit`.

    The command gets a session of its own. At the limit it is first asked for its stacks (SIGUSR1,
    which mpirun hands on to the ranks), then ended with every process of that session: MPI
    launchers put the ranks into other process groups, but not into other sessions.
    """
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
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(STACKS_GRACE_SECONDS)
            return None
        finally:
            end_session(process.pid)
            process.wait()


def end_session(session: int) -> None:
    """End every process of `session`: by SIGTERM, and by SIGKILL what is left after a while."""
    _signal_all(session_members(session), signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_SECONDS
    while session_members(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal_all(session_members(session), signal.SIGKILL)


def session_members(session: int) -> list[int]:
    """The process ids of `session` that still run (zombies do not)."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        # "pid (command) state ppid pgrp session ...": the command may hold blanks and brackets.
        state, _parent, _group, owner = text.rpartition(")")[2].split()[:4]
        if int(owner) == session and state not in "ZX":
            members.append(int(entry.name))
    return members


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
