"""A link that is slower than the real one: messages take their time, but no processor.

For measurements of what overlaps with what, on machines that have no network.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hpcflow.comm.transport import ReceiveDone, SendDone


class SimulatedLink:
    """A transport over which data arrive `latency` seconds and their length over `bandwidth`
    (bytes per second) later; one after the other from each source. All else is as of `inner`, and
    so are data while `bandwidth` is None.

    A message is on its way from when both sides have posted it, whenever a rank comes to poll: a
    message before it tells when it was sent. So the ranks are on one node, and set `bandwidth`
    while nothing is under way. It has to be polled besides `inner`.

    What ranks of one node write to memory that they share needs no message that carries it. It
    takes its time all the same: the message that tells of it comes as late as the data would.
    """

    def __init__(self, inner: Any, latency: float = 0.0, bandwidth: float | None = None) -> None:
        self._inner = inner
        self.latency = latency
        self.bandwidth = bandwidth
        self._busy_until: dict[int, float] = {}
        self._due: list[tuple[float, int, Callable[[], Any]]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def shares_memory(self) -> bool:
        """True if ranks of one node share memory, which stands for what is sent and received."""
        return self._inner.shares_memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def post_send(self, buffer: Any, dest: int, tag: int, done: SendDone | None = None) -> None:
        """Send a buffer, and before it the time."""
        if self.bandwidth is not None:
            self._inner.post_send(np.array([time.monotonic()]), dest, tag)
        self._inner.post_send(buffer, dest, tag, done)

    def post_recv(self, buffer: Any, source: int, tag: int, done: ReceiveDone) -> None:
        """Receive into a buffer; ``done(nbytes)`` comes late."""
        self.post_sign(buffer, source, tag, done, 0)

    def post_sign(self, buffer: Any, source: int, tag: int, done: ReceiveDone, nbytes: int) -> None:
        """Receive a message that tells of `nbytes` in shared memory: it comes as late as these
        would."""
        if self.bandwidth is not None:
            sent = np.empty(1)
            self._inner.post_recv(sent, source, tag, _nothing)
            done = partial(self._came, source, time.monotonic(), sent, done, nbytes)
        self._inner.post_recv(buffer, source, tag, done)

    def _came(self, source: int, posted: float, sent: Any, done: ReceiveDone, told: int,
              nbytes: int) -> None:
        carried = max(told, nbytes) if nbytes else 0
        with self._lock:
            start = max(posted, float(sent[0]), self._busy_until.get(source, 0.0))
            end = self._busy_until[source] = start + carried / (self.bandwidth or float("inf"))
            action: Callable[[], Any] = partial(done, nbytes)
            heapq.heappush(self._due, (end + self.latency, next(self._numbers), action))

    def poll(self) -> bool:
        """Deliver what is due; True if anything was."""
        came = False
        while self._due and self._due[0][0] <= time.monotonic():
            with self._lock:
                if not self._due or self._due[0][0] > time.monotonic():
                    break
                _, _, action = heapq.heappop(self._due)
            action()
            came = True
        return came

    def pending(self) -> int:
        """Return the number of messages that are under way."""
        return len(self._due)


def _nothing(nbytes: int) -> None:
    """Do nothing when the time has come: the data tell more."""
