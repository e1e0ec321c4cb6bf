"""Ranks of this node that end without a word or stay frozen, and that the launcher does not notice.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from hpcflow import config
from hpcflow.comm.processes import Process, end, is_running, is_stopped
from hpcflow.host.tuning import programs as tuning

_GONE, _FROZEN = "is gone", "is frozen"


class Vanished:
    """A look now and then at the processes of ranks that run on this node.

    A launcher whose own helper on the node was killed with the ranks waits for ever; those of other
    nodes are watched by each other. When its program has ended nobody else sees that a rank is
    stopped. Where all are, somebody has suspended the job.

    Args:
        ranks: how many there are.
        note: what a rank has left.
        goes_on: True if the others do without one that is lost; a frozen one is then killed when
            they have ended.

    Attributes:
        rank: one that has been gone for a while, or frozen for longer than the others wait for it.
        why: in which of these ways it is lost.
    """

    def __init__(self, ranks: int, note: Callable[[int], Mapping[str, Any]],
                 goes_on: bool = False) -> None:
        self.rank: int | None = None
        self.why = ""
        self._ranks, self._note, self._goes_on = ranks, note, goes_on
        self._here: dict[int, Process] | None = None
        self._next_look = time.monotonic() + tuning.RUN_LOOK_SECONDS
        self._since: dict[tuple[int, str], float] = {}

    def look(self) -> bool:
        """True once a rank is known to be lost that the others cannot do without."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + tuning.RUN_LOOK_SECONDS
            self._look(now)
        return self.rank is not None

    def _look(self, now: float) -> None:
        if self._here is None:
            self._find()
            return
        states = {r: self._state(r, process) for r, process in self._here.items()}
        if all(why == _FROZEN for why in states.values()):
            states = {}
        self._since = {(r, why): self._since.get((r, why), now)
                       for r, why in states.items() if why}
        for (rank, why), since in self._since.items():
            if now - since < _patience(why):
                continue
            if not self._goes_on:
                self.rank, self.why = rank, why
            elif why == _FROZEN and all(states[r] is None for r in states if r != rank):
                end(self._here[rank])

    def _state(self, rank: int, process: Process) -> str | None:
        """In which way the process may be lost; None if it has ended as it should."""
        if not is_running(process):
            return None if self._note(rank).get("ended") else _GONE
        return _FROZEN if is_stopped(process) else ""

    def _find(self) -> None:
        """Once all ranks have begun: those of this node."""
        notes = [self._note(r) for r in range(self._ranks)]
        if all(notes):
            self._here = {r: Process(*note["process"]) for r, note in enumerate(notes)
                          if note["host"] == socket.gethostname()}


def _patience(why: str) -> float:
    if why == _GONE:
        return tuning.RUN_VANISHED_SECONDS
    return (config.flags.health_timeout or math.inf) + tuning.RUN_VANISHED_SECONDS
