"""Meetings: kernels of one step, on several ranks, that enter a collective operation together.

A collective call cannot be cancelled, so no rank may enter it before all others surely will. Each
rank first tells the first rank of the group that it has come; when all have, that rank lets them
go, one meeting of a group at a time, so that collectives keep one order. A rank whose step fails
does not come, and the others, whose steps are then cancelled, take back that they have come. Then
they are not waited for, unless all had come before: who was let go enters, cancelled or not.

The functions that wait are for background threads; the event loop carries the messages.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from hpcflow.errors import CancelledError
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.wire import wire


class _Coming:
    """A meeting as one rank sees it that waits for the others."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.answered = threading.Event()  # whether it may take back that it has come
        self.released = False


class Meetings:
    """The meetings of one endpoint: those it takes part in, and those it leads."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        comms = getattr(transport, "comms", None)
        # Background threads will call MPI beside the event loop.
        self.possible = comms is not None and comms.any_thread
        self._coming: dict[str, _Coming] = {}
        # Led: key -> ranks that have come, or left once all had (-1 each).
        self._come: dict[str, list[int]] = {}
        self._queues: dict[tuple[int, ...], deque[str]] = {}  # led: complete, in order
        self._comms: dict[tuple[int, ...], Any] = {}
        self._lock = threading.Lock()

    def hold(self, key: str, ranks: list[int], cancelled: Callable[[], bool],
             work: Callable[[Any], Any]) -> Any:
        """Wait for all `ranks`, run ``work(communicator of ranks)``, return its result.

        Raises ``CancelledError`` when ``cancelled()`` becomes true before all have come.
        """
        coming = _Coming()
        with self._lock:
            self._coming[key] = coming
        self._send(ranks[0], "come", key, ranks)
        try:
            while not coming.let_go.wait(tuning.MEETING_LOOK_SECONDS):
                if cancelled() and not coming.answered.is_set():
                    self._send(ranks[0], "back", key, ranks)
                    # Who answers may be the rank that is lost.
                    if not coming.answered.wait(tuning.MEETING_GRACE_SECONDS) or coming.released:
                        raise CancelledError(None, None, "The step was cancelled before all ranks "
                                             "had come to a collective operation")
            return work(self._communicator(tuple(ranks)))
        finally:
            with self._lock:
                del self._coming[key]
            if coming.let_go.is_set():
                self._send(ranks[0], "left", key, ranks)

    def _communicator(self, ranks: tuple[int, ...]) -> Any:
        """A communicator of `ranks`, made at their first meeting; all of them are here now."""
        comm = self._comms.get(ranks)
        if comm is None:
            from hpcflow.comm.groups import subgroup

            comm = self._comms[ranks] = subgroup(self._transport.comms.collectives, ranks)
        return comm

    def _send(self, rank: int, what: str, key: str, ranks: list[int]) -> None:
        self._transport.send_message(rank, wire.pack(
            wire.MEETING, body={"what": what, "key": key, "ranks": ranks}))

    # ------------------------------------------------------------ in the event loop

    def on_message(self, source: int, payload: bytes) -> None:
        """A message about a meeting."""
        body, _ = wire.parts_of(payload)
        key, ranks = body["key"], body["ranks"]
        if body["what"] in ("go", "released", "kept"):
            with self._lock:
                coming = self._coming.get(key)
            if coming is not None:
                coming.released = body["what"] == "released"
                (coming.let_go if body["what"] == "go" else coming.answered).set()
        elif body["what"] == "come":
            self._came(source, key, ranks)
        elif body["what"] == "back":
            self._took_back(source, key, ranks)
        else:
            self._left(key, ranks)

    def _came(self, source: int, key: str, ranks: list[int]) -> None:
        come = self._come.setdefault(key, [])
        come.append(source)
        if len(come) == len(ranks):
            queue = self._queues.setdefault(tuple(ranks), deque())
            queue.append(key)
            come.clear()
            if len(queue) == 1:
                self._open(key, ranks)

    def _took_back(self, source: int, key: str, ranks: list[int]) -> None:
        """A rank does not want to wait any more; it has to if all have come."""
        come = self._come.get(key, [])
        if source not in come:
            self._send(source, "kept", key, ranks)
            return
        come.remove(source)
        if not come:
            del self._come[key]
        self._send(source, "released", key, ranks)

    def _open(self, key: str, ranks: list[int]) -> None:
        for rank in ranks:
            self._send(rank, "go", key, ranks)

    def _left(self, key: str, ranks: list[int]) -> None:
        come = self._come[key]
        come.append(-1)
        if len(come) == len(ranks):
            del self._come[key]
            queue = self._queues[tuple(ranks)]
            queue.popleft()
            if queue:
                self._open(queue[0], ranks)
