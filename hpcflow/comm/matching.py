"""Matching of sends and receives inside one process.

Serves the loopback transport, and the sends of a rank to itself over MPI.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.comm import buffers
from hpcflow.comm.transport import Slot, busy_error, closed_error

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

#: A callback and its arguments.
Task = tuple[Callable[..., None], tuple[Any, ...]]
#: The callbacks that the next poll of an endpoint runs.
Ready = deque[Task]
#: (source, destination, tag)
Key = tuple[int, int, int]


class Half:
    """A send or a receive that waits for its other half."""

    __slots__ = ("done", "ready", "view")

    def __init__(self, view: np.ndarray, done: Callable[..., None] | None, ready: Ready) -> None:
        self.view = view
        self.done = done
        self.ready = ready


class Exchange:
    """Pairs sends with receives of the same key in posting order, and copies the bytes.

    Thread-safe. The data are copied when the second half is posted, by the thread that posts it.
    """

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._lock = threading.Lock()
        self._sends: dict[Key, deque[Half]] = {}
        self._receives: dict[Key, deque[Half]] = {}

    def post_send(self, key: Key, send: Half) -> None:
        """Post a send."""
        receive = self._match(key, send, self._sends, self._receives)
        if receive is not None:
            self._transfer(key, send, receive)

    def post_receive(self, key: Key, receive: Half) -> None:
        """Post a receive."""
        send = self._match(key, receive, self._receives, self._sends)
        if send is not None:
            self._transfer(key, send, receive)

    def pending(self, rank: int) -> int:
        """The number of unmatched transfers that `rank` has posted."""
        with self._lock:
            sends = sum(len(queue) for key, queue in self._sends.items() if key[0] == rank)
            receives = sum(len(queue) for key, queue in self._receives.items() if key[1] == rank)
        return sends + receives

    def forget(self, rank: int) -> None:
        """Drop what `rank` has posted and nobody matched."""
        with self._lock:
            for table, side in ((self._sends, 0), (self._receives, 1)):
                for key in [key for key in table if key[side] == rank]:
                    del table[key]

    def _match(
        self,
        key: Key,
        half: Half,
        own: dict[Key, deque[Half]],
        others: dict[Key, deque[Half]],
    ) -> Half | None:
        """Take the oldest other half of `key`; without one, queue `half` and return None."""
        with self._lock:
            queue = others.get(key)
            if queue is None:
                own.setdefault(key, deque()).append(half)
                return None
            other = queue.popleft()
            if not queue:  # no empty queues: tags come and go
                del others[key]
            return other

    def _transfer(self, key: Key, send: Half, receive: Half) -> None:
        sent, room = len(send.view), len(receive.view)
        fits = sent <= room and not self._chunk <= sent < room
        if fits:
            np.copyto(receive.view[:sent], send.view)
        # The sender may change its buffer from here on. Before the receive is told, so that a
        # callback of the receive finds the send's slot free.
        if send.done is not None:
            send.ready.append((send.done, ()))
        if fits:
            receive.ready.append((receive.done, (sent,)))  # type: ignore[arg-type]
        else:
            where = f"receive on rank {key[1]} from rank {key[0]}, tag {key[2]}"
            receive.ready.append((buffers.check_received, (sent, room, self._chunk, where)))


class LocalSlot(Slot):
    """A persistent transfer inside the process.

    `post` is a bound method of an `Exchange`; `check_open` raises if the transport is closed.
    """

    def __init__(
        self,
        post: Callable[[Key, Half], None],
        key: Key,
        buffer: TensorLike,
        ready: Ready,
        check_open: Callable[[], None],
    ) -> None:
        self._post: Callable[[Key, Half], None] | None = post
        self._key = key
        self._view = buffers.byte_view(buffer)
        self._ready = ready
        self._check_open = check_open
        self.busy = False
        self._done: Callable[..., None] | None = None

    def __repr__(self) -> str:
        source, dest, tag = self._key
        return f"slot from rank {source} to rank {dest}, tag {tag}"

    def start(self, done: Callable[..., None] | None = None) -> None:
        """Begin one transfer."""
        if self._post is None:
            raise closed_error(repr(self))
        self._check_open()
        if self.busy:
            raise busy_error(repr(self))
        self.busy = True
        self._done = done
        self._post(self._key, Half(self._view, self._finish, self._ready))

    def _finish(self, *counts: int) -> None:
        self.busy = False
        if self._done is not None:
            self._done(*counts)

    def close(self) -> None:
        """Give the slot up."""
        if self.busy:
            raise busy_error(repr(self))
        self._post = None
