"""Processes of this node: which one a rank is, and whether it still runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process: its id, when it started (clock ticks), and the namespace that the id is of."""

    pid: int
    started: int
    namespace: int


def this_process() -> Process:
    """The process that asks."""
    state = _state_of(os.getpid())
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return Process(os.getpid(), state[1] if state else 0, namespace)


def is_running(process: Process) -> bool:
    """Whether a process of this node and namespace has not ended; where the system does not tell
    more, whether there is one with its id."""
    state = _state_of(process.pid)
    if state is None:
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return True
    return state[0] not in "ZXx" and state[1] == process.started


def _state_of(pid: int) -> tuple[str, int] | None:
    """(state, start time) of a process, None where there is no such file."""
    try:
        # The name, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
