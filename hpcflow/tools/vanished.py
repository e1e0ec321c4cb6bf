"""Ranks of this node that end without a word, and that the launcher does not notice."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from hpcflow.comm.processes import Process, is_running
from hpcflow.host.tuning import programs as tuning


class Vanished:
    """A look now and then at the processes of ranks that run on this node.

    A launcher whose own helper on the node was killed with the ranks waits for ever; those of other
    nodes are watched by each other.

    Args:
        ranks: how many there are.
        note: what a rank has left.

    Attributes:
        rank: one that has been gone for a while.
    """

    def __init__(self, ranks: int, note: Callable[[int], Mapping[str, Any]]) -> None:
        self.rank: int | None = None
        self._ranks, self._note = ranks, note
        self._here: dict[int, Process] | None = None
        self._next_look = time.monotonic() + tuning.RUN_LOOK_SECONDS
        self._since: dict[int, float] = {}

    def look(self) -> bool:
        """True once a rank is known to be gone."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + tuning.RUN_LOOK_SECONDS
            self._look(now)
        return self.rank is not None

    def _look(self, now: float) -> None:
        if self._here is None:
            self._find()
            return
        gone = [r for r, process in self._here.items() if not is_running(process)
                and not self._note(r).get("ended")]
        self._since = {r: self._since.get(r, now) for r in gone}
        late = [r for r, since in self._since.items()
                if now - since >= tuning.RUN_VANISHED_SECONDS]
        self.rank = late[0] if late else None

    def _find(self) -> None:
        """Once all ranks have begun: those of this node."""
        notes = [self._note(r) for r in range(self._ranks)]
        if all(notes):
            self._here = {r: Process(*note["process"]) for r, note in enumerate(notes)
                          if note["host"] == socket.gethostname()}
