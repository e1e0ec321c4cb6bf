"""Health: every rank watches the next one, and all learn when a rank is lost.

The ranks of an endpoint's transport form a ring. Every HPCFLOW_HEALTH_SECONDS a rank asks the one
behind it, whose event loop answers, in its background thread if need be: so a job of any size costs
each rank one look, and a rank that only computes for long is not taken for a lost one. A rank that
does not answer for HPCFLOW_HEALTH_TIMEOUT is lost. On the same node more is seen: a process that
has ended is lost at once; one that uses its cores, or is in a debugger, may take its time (a kernel
that never lets the interpreter go keeps its event loop from answering). While the next rank owes an
answer, the one behind it is asked as well, and so on: nobody else may be watching it. Who finds a
rank lost tells all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.comm import abort, survivors
from hpcflow.comm.processes import Process, end, is_running, is_stopped, is_traced, used_ticks
from hpcflow.errors import UnavailableError
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.wire import wire

if TYPE_CHECKING:
    from hpcflow.comm.loopback import LoopbackTransport

_PING, _PONG, _LOST = range(3)


class _Watch:
    """The facts that one rank knows of another that it looks after."""

    def __init__(self) -> None:
        self.missed = 0  # looks in a row at which the process was not there
        self.owed = False  # an answer
        self.silent = 0.0  # seconds for which it has been
        self.used = 0  # the time on cores that the process had used at the last look

    def look(self, process: Process | None) -> str:
        """Why a rank is lost if its process is not there."""
        if process is None or is_running(process):
            self.missed = 0
            return ""
        # At the end of a job processes go at any time; by the second look its end is known here.
        self.missed += 1
        return f"its process {process.pid} has ended" if self.missed > 1 else ""

    def wait(self, process: Process | None, passed: float) -> str:
        """Why a rank that owes an answer is lost; `passed` is the time since the last look."""
        if process is not None:
            before, self.used = self.used, used_ticks(process)
            if self.used != before or is_traced(process):
                self.silent = 0.0
                return ""
        self.silent += passed
        limit = config.flags.health_timeout
        if not limit or self.silent < limit:
            return ""
        why = f"it has not answered for {self.silent:.0f} s"
        return f"{why}, its process {process.pid} is stopped" if (
            process is not None and is_stopped(process)) else why


class Health:
    """The look at the next ranks of a transport; ``on_lost(rank, why)`` is called once for each."""

    def __init__(self, transport: LoopbackTransport, on_lost: Callable[[int, str], None]) -> None:
        self._transport = transport
        self._on_lost = on_lost
        self._comms: Any = getattr(transport, "comms", None)  # only ranks of MPI can be lost
        self.lost: dict[int, str] = {}
        self._last_look = time.monotonic()
        self._watches: dict[int, _Watch] = {}

    def tick(self) -> None:
        """Look, if it is time; called a few times a second."""
        now = time.monotonic()
        interval = config.flags.health_seconds
        if self._comms is None or not interval or now < self._last_look + interval:
            return
        # While this rank itself was stopped, or computed, nobody was silent.
        passed = min(now - self._last_look, 2 * interval + tuning.HEALTH_AWAY_SECONDS)
        self._last_look = now
        for rank in self._ring():
            watch = self._watches.setdefault(rank, _Watch())
            process = self._comms.processes[rank] if self._is_here(rank) else None
            owed = watch.owed
            why = watch.look(process) or (watch.wait(process, passed) if owed else "")
            if why:
                self._tell(rank, why)
            elif not owed:  # it has answered since the last look: it watches those behind it
                self._ask(rank, watch)
                break

    def _ring(self) -> Iterator[int]:
        """The ranks behind this one that are not lost, in the order of the ring."""
        rank, size = self._transport.rank, self._transport.size
        ring = ((rank + i) % size for i in range(1, size))
        return (r for r in ring if r not in self.lost)

    def _is_here(self, rank: int) -> bool:
        comms, me = self._comms, self._transport.rank
        return (rank in comms.local_ranks
                and comms.processes[rank].namespace == comms.processes[me].namespace)

    def _ask(self, rank: int, watch: _Watch) -> None:
        watch.owed, watch.silent = True, 0.0
        self._transport.send_message(rank, wire.pack(wire.HEALTH, flags=_PING))

    def _tell(self, rank: int, why: str) -> None:
        del self._watches[rank]
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
            self._watches.setdefault(source, _Watch()).owed = False
        else:
            body, _ = wire.parts_of(payload)
            if body["rank"] not in self.lost:
                self.lost[body["rank"]] = abort.lost[body["rank"]] = body["why"]
                self._on_lost(body["rank"], body["why"])
                if survivors.wanted() and self._is_here(body["rank"]):
                    # It must not come back beside those that go on, nor do they wait for it then.
                    end(self._comms.processes[body["rank"]])

    def give_up_all(self) -> UnavailableError:
        """The ranks that are left are to go on without those that are lost: none can be reached
        until they have come together. Returns the error that says so."""
        known = survivors.lost_ranks(self._comms) or sorted(self.lost)
        for rank in known:
            abort.lost[rank] = "its process has failed"
        for rank in range(self._transport.size):
            self.lost.setdefault(rank, "")
        names = ", ".join(str(self._comms.origins[rank]) for rank in known)
        which = {0: "A rank is", 1: f"Rank {names} is"}.get(len(known), f"Ranks {names} are")
        return UnavailableError(None, None, f"{which} lost; those that are left go on when all of "
                                "them have come together")
