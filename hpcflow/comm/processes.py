"""Processes of this node: which one a rank is, whether it still runs, and what it does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process: its id, when it started (clock ticks), and the namespace that the id is of."""

    pid: int
    started: int
    namespace: int


def this_process() -> Process:
    """The process that asks."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """The process that has this id now in the namespace of the one that asks."""
    state = _state_of(pid)
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return Process(pid, state.started if state else 0, namespace)


def is_running(process: Process) -> bool:
    """True if a process of this node and namespace has not ended; where the system does not tell
    more, if there is one with its id."""
    state = _state_of(process.pid)
    if state is None:
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return True
    return state.letter not in "ZXx" and state.started == process.started


def is_stopped(process: Process) -> bool:
    """True if a signal has stopped the process."""
    state = _state_of(process.pid)
    return state is not None and state.letter == "T"


def is_traced(process: Process) -> bool:
    """True if a debugger has stopped the process."""
    state = _state_of(process.pid)
    return state is not None and state.letter == "t"


def used_ticks(process: Process) -> int:
    """The time that all threads of the process have spent on cores, in clock ticks; 0 where the
    system does not tell."""
    state = _state_of(process.pid)
    return 0 if state is None else state.used


def end(process: Process) -> None:
    """Kill a process of this node and namespace, if it is still there."""
    if is_running(process):
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)


_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGTERM) -> Callable[[], None] | None:
    """Return a function that a child of this process has to call to get a signal when this process,
    or the thread that started the child, ends; None where the system cannot do that."""
    if sys.platform != "linux":
        return None
    parent, library = os.getpid(), ctypes.CDLL(None)

    def call() -> None:
        library.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os.kill(os.getpid(), number)

    return call


def end_after_parent() -> None:
    """Let this process be killed when its parent, or the thread that started it, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class _State(NamedTuple):
    """The facts that the system reports of a process: its state, when it started, and the time it
    has used."""

    letter: str
    started: int
    used: int


def _state_of(pid: int) -> _State | None:
    """Return the state of a process; None where the system does not tell it."""
    try:
        # The name, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return _State(fields[0], int(fields[19]), int(fields[11]) + int(fields[12]))
    except (OSError, IndexError, ValueError):
        return None
