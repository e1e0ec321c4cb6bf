"""Health: every rank watches the next one, and all learn when a rank is lost.

The ranks of an endpoint's transport form a ring. Every HPCFLOW_HEALTH_SECONDS a rank looks at the
one behind it: on the same node whether its process still is there, on another node by a message
that the other's event loop answers. So a job of any size costs each rank one look, and a rank that
only computes for long is not taken for a lost one. Who finds the next rank lost tells all others
and watches the one behind that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hpcflow import config
from hpcflow.comm.processes import is_running
from hpcflow.runtime.wire import wire

_PING, _PONG, _LOST = range(3)


class Health:
    """The look at the next rank of a transport; ``on_lost(rank, why)`` is called once for each."""

    def __init__(self, transport: Any, on_lost: Callable[[int, str], None]) -> None:
        self._transport = transport
        self._on_lost = on_lost
        self._comms: Any = getattr(transport, "comms", None)  # only ranks of MPI can be lost
        self.lost: dict[int, str] = {}
        self._next_look = time.monotonic() + config.flags.health_seconds
        self._missed = 0  # looks in a row at which the process was not there
        self._heard: float | None = None  # since when an answer is owed, on another node

    def tick(self) -> None:
        """Look, if it is time; called a few times a second."""
        now = time.monotonic()
        interval = config.flags.health_seconds
        if self._comms is None or not interval or now < self._next_look:
            return
        self._next_look = now + interval
        target = self._target()
        if target is None:
            return
        why = self._look_here(target) if self._is_here(target) else self._look_there(target, now)
        if why:
            self._tell(target, why)

    def _target(self) -> int | None:
        """The next rank in the ring that is not lost."""
        rank, size = self._transport.rank, self._transport.size
        ring = ((rank + i) % size for i in range(1, size))
        return next((r for r in ring if r not in self.lost), None)

    def _is_here(self, rank: int) -> bool:
        comms, me = self._comms, self._transport.rank
        return (rank in comms.local_ranks
                and comms.processes[rank].namespace == comms.processes[me].namespace)

    def _look_here(self, rank: int) -> str:
        process = self._comms.processes[rank]
        if is_running(process):
            self._missed = 0
            return ""
        # At the end of a job processes go at any time; by the second look its end is known here.
        self._missed += 1
        return f"its process {process.pid} has ended" if self._missed > 1 else ""

    def _look_there(self, rank: int, now: float) -> str:
        limit = config.flags.health_timeout
        if self._heard is not None:
            silent = now - self._heard
            return f"it has not answered for {silent:.0f} s" if limit and silent > limit else ""
        self._heard = now
        self._transport.send_message(rank, wire.pack(wire.HEALTH, flags=_PING))
        return ""

    def _tell(self, rank: int, why: str) -> None:
        self._missed, self._heard = 0, None
        for other in range(self._transport.size):
            if other not in (rank, *self.lost):
                self._transport.send_message(other, wire.pack(
                    wire.HEALTH, flags=_LOST, body={"rank": rank, "why": why}))

    def on_message(self, source: int, payload: bytes) -> None:
        """A question, an answer, or word of a rank that is lost."""
        kind = wire.unpack(payload)[1]
        if kind == _PING:
            self._transport.send_message(source, wire.pack(wire.HEALTH, flags=_PONG))
        elif kind == _PONG:
            self._heard = None
        else:
            body, _ = wire.parts_of(payload)
            if body["rank"] not in self.lost:
                self.lost[body["rank"]] = body["why"]
                self._on_lost(body["rank"], body["why"])
