"""Several endpoints in one process, with the rules of the MPI transport.

For programs without MPI and for tests; one thread may serve all endpoints by polling each.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from hpcflow import errors
from hpcflow.comm import buffers
from hpcflow.comm.matching import Exchange, Half, LocalSlot, Ready
from hpcflow.comm.transport import (
    Handler,
    ReceiveDone,
    SendDone,
    Slot,
    Transport,
    closed_error,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class LoopbackNetwork:
    """`size` endpoints that reach each other; `network.endpoints[rank]` is a `Transport`.

    `tag_limit` may be set low, to exercise what happens when tags run short.
    """

    def __init__(self, size: int, tag_limit: int = 2**31 - 1) -> None:
        if size < 1:
            raise errors.InvalidArgumentError(
                None, None, f"loopback network of {size} ranks: expected at least 1"
            )
        self.size = size
        self.tag_limit = tag_limit
        self.exchange = Exchange(buffers.chunk_bytes())
        self.endpoints = [LoopbackTransport(self, rank) for rank in range(size)]

    def add(self) -> LoopbackTransport:
        """One more endpoint, with the next rank."""
        endpoint = LoopbackTransport(self, self.size)
        self.endpoints.append(endpoint)
        self.size += 1
        return endpoint

    def close(self) -> None:
        """Close every endpoint."""
        for endpoint in self.endpoints:
            endpoint.close()


class LoopbackTransport(Transport):
    """One endpoint of a `LoopbackNetwork`."""

    def __init__(self, network: LoopbackNetwork, rank: int) -> None:
        self.rank = rank
        self.tag_limit = network.tag_limit
        self.description = f"loopback, rank {rank} in one process"
        self._network = network
        self._exchange = network.exchange
        self._ready: Ready = deque()
        self._polling = threading.Lock()
        self._handler: Handler | None = None
        # Messages wait here until there is a handler.
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._closed = False

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of endpoints of the network."""
        return self._network.size

    def poll(self) -> bool:
        """Run what has completed; True if anything has."""
        ready, inbox, handler = self._ready, self._inbox, self._handler
        if not ready and not (inbox and handler) or not self._polling.acquire(False):
            return False
        try:
            # What callbacks add is left to the next poll, so that this one ends.
            for _ in range(len(ready)):
                function, arguments = ready.popleft()
                function(*arguments)
            for _ in range(len(inbox) if handler else 0):
                handler(*inbox.popleft())  # type: ignore[misc]
            return True
        finally:
            self._polling.release()

    def pending(self) -> int:
        """The number of transfers posted here that are not matched."""
        return self._exchange.pending(self.rank)

    def send_message(self, dest: int, payload: bytes) -> None:
        """Send a control message."""
        self._check(dest)
        target = self._network.endpoints[dest]
        if not target._closed:
            target._inbox.append((self.rank, bytes(payload)))

    def set_handler(self, handler: Handler) -> None:
        """Give control messages to `handler`, those that came before too."""
        self._handler = handler

    def post_send(self, buffer: Any, dest: int, tag: int, done: SendDone | None = None) -> None:
        """Send a buffer."""
        self._check(dest, tag)
        buffers.byte_length(buffer)
        half = Half(buffers.byte_view(buffer), done, self._ready)
        self._exchange.post_send((self.rank, dest, tag), half)

    def post_recv(self, buffer: Any, source: int, tag: int, done: ReceiveDone) -> None:
        """Receive into a buffer."""
        self._check(source, tag)
        buffers.writable_length(buffer)
        half = Half(buffers.byte_view(buffer), done, self._ready)
        self._exchange.post_receive((source, self.rank, tag), half)

    def send_slot(self, buffer: TensorLike, dest: int, tag: int) -> Slot:
        """A persistent send."""
        self._check(dest, tag)
        buffers.byte_length(buffer)
        post = self._exchange.post_send
        return LocalSlot(post, (self.rank, dest, tag), buffer, self._ready, self._check_open)

    def recv_slot(self, buffer: Any, source: int, tag: int) -> Slot:
        """A persistent receive."""
        self._check(source, tag)
        buffers.writable_length(buffer)
        post = self._exchange.post_receive
        return LocalSlot(post, (source, self.rank, tag), buffer, self._ready, self._check_open)

    def close(self) -> None:
        """Forget what is unmatched; messages to this endpoint are dropped from now on."""
        self._closed = True
        self._exchange.forget(self.rank)

    def is_gone(self, peer: int) -> bool:
        """True if that endpoint is closed."""
        return self._network.endpoints[peer]._closed

    def abort(self, code: int, message: str) -> NoReturn:
        """Raise AbortedError: the endpoints share a process, and their callers end it."""
        raise errors.AbortedError(None, None, f"rank {self.rank}: {message} (status {code})")

    def _check(self, peer: int, tag: int = 0) -> None:
        self._check_open()
        self.check_peer(peer, tag)

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error(self.description)
