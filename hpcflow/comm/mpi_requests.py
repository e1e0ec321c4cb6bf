"""Requests in flight over MPI, and long transfers as sequences of them.

An *entry* is what the transport polls: it has an MPI `request`, its bound `test`, and `finish`,
which is called under the transport's lock when the request has completed and either queues the
user's callback or goes on with a long transfer. `outgoing` tells sends from receives; `where`,
of receives, is the (source, tag) that messages about failures name.

A *pipe* keeps the order of the transfers of one direction, peer and tag while a long one among
them has messages to post: what comes later waits, because MPI matches in posting order. A pipe
exists only during that time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.comm.buffers import check_received
from hpcflow.comm.matching import Ready
from hpcflow.comm.transport import ReceiveDone, SendDone
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpcflow.comm.mpi_transport import MpiTransport


#: (peer, tag)
PipeKey = tuple[int, int]


class SendEntry:
    """A single send."""

    __slots__ = ("done", "ready", "request", "test")
    outgoing = True

    def __init__(self, request: MPI.Request, done: SendDone | None, ready: Ready) -> None:
        self.request = request
        self.test = request.Test
        self.done = done
        self.ready = ready

    def finish(self, status: MPI.Status) -> None:
        """Queue the callback."""
        if self.done is not None:
            self.ready.append((self.done, ()))


class ReceiveEntry:
    """A single receive."""

    __slots__ = ("done", "ready", "request", "test", "where")
    outgoing = False

    def __init__(self, request: MPI.Request, done: ReceiveDone, ready: Ready,
                 where: PipeKey) -> None:
        self.request = request
        self.where = where
        self.test = request.Test
        self.done = done
        self.ready = ready

    def finish(self, status: MPI.Status) -> None:
        """Queue the callback."""
        self.ready.append((self.done, (status.Get_count(),)))


class PieceEntry:
    """One message of a long transfer."""

    __slots__ = ("finish", "outgoing", "request", "test", "where")

    def __init__(
        self, request: MPI.Request, finish: Callable[[Any], None], outgoing: bool, where: PipeKey
    ) -> None:
        self.request = request
        self.outgoing = outgoing
        self.where = where
        self.test = request.Test
        self.finish = finish


class Transfer(ABC):
    """Something that a pipe posts in its turn."""

    @abstractmethod
    def post(self) -> bool:
        """Post as many messages as may be in flight; True if none is left to post."""


class PlainTransfer(Transfer):
    """A transfer of one message that waits for its turn."""

    def __init__(self, action: Callable[..., None], *arguments: Any) -> None:
        self._action = action
        self._arguments = arguments

    def post(self) -> bool:
        """Post the message."""
        self._action(*self._arguments)
        return True


class Pipe:
    """The transfers of one key, in order; removes itself from `table` when all are posted."""

    def __init__(self, table: dict[PipeKey, Pipe], key: PipeKey) -> None:
        self._table = table
        self._key = key
        self._queue: deque[Transfer] = deque()
        table[key] = self

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, transfer: Transfer) -> None:
        """Put a transfer behind the others."""
        self._queue.append(transfer)
        if len(self._queue) == 1:
            self.advance()

    def advance(self) -> None:
        """Post what may be posted now."""
        while self._queue:
            if not self._queue[0].post():
                return
            self._queue.popleft()
        del self._table[self._key]


class LongTransfer(Transfer):
    """Common part of long sends and receives: a flat byte view cut into chunks."""

    def __init__(self, transport: MpiTransport, view: Any, peer: int, tag: int, pipe: Pipe) -> None:
        self._transport = transport
        self._view = view
        self._where = (peer, tag)
        self._pipe = pipe
        self._chunk = transport.chunk_bytes
        self._offset = 0
        self._in_flight = 0

    def _next_piece(self) -> Any:
        piece = self._view[self._offset : self._offset + self._chunk]
        self._offset += len(piece)
        self._in_flight += 1
        return piece


class LongSend(LongTransfer):
    """A send of more than a chunk."""

    def __init__(
        self,
        transport: MpiTransport,
        view: Any,
        dest: int,
        tag: int,
        pipe: Pipe,
        done: SendDone | None,
    ) -> None:
        super().__init__(transport, view, dest, tag, pipe)
        self._done = done

    def post(self) -> bool:
        """Post messages up to the window."""
        transport = self._transport
        while self._offset < len(self._view) and self._in_flight < tuning.TRANSFER_WINDOW:
            request = transport.start_send(self._next_piece(), *self._where)
            transport.watch(PieceEntry(request, self._piece_sent, True, self._where))
        return self._offset == len(self._view)

    def _piece_sent(self, status: MPI.Status) -> None:
        self._in_flight -= 1
        if self._offset < len(self._view):
            self._pipe.advance()
        elif not self._in_flight and self._done is not None:
            self._transport.ready.append((self._done, ()))


class LongReceive(LongTransfer):
    """A receive of more than a chunk: one message is posted, and the others once it has come.

    That the first message is shorter than a chunk means that it is the whole transfer.
    """

    def __init__(
        self,
        transport: MpiTransport,
        view: Any,
        source: int,
        tag: int,
        pipe: Pipe,
        done: ReceiveDone,
    ) -> None:
        super().__init__(transport, view, source, tag, pipe)
        self._done = done
        self._window = 1
        self._end = len(view)

    def post(self) -> bool:
        """Post receives up to the window."""
        transport = self._transport
        while self._offset < self._end and self._in_flight < self._window:
            piece = self._next_piece()
            request = transport.start_receive(piece, *self._where)
            came = partial(self._came, self._window == 1, len(piece))
            transport.watch(PieceEntry(request, came, False, self._where))
        return self._offset == self._end

    def _came(self, first: bool, expected: int, status: MPI.Status) -> None:
        self._in_flight -= 1
        count = status.Get_count()
        if first:
            self._window = tuning.TRANSFER_WINDOW
            if count < expected:
                self._end = self._offset = count
        elif count != expected:
            # What was posted behind would take the messages of the next transfer.
            received = self._offset - expected + count
            check_received(received, self._end, self._chunk, describe(*self._where))
        complete = self._in_flight == 0 and self._offset == self._end
        if first or self._offset < self._end:
            self._pipe.advance()
        if complete:
            self._transport.ready.append((self._done, (self._end,)))


def describe(source: int, tag: int) -> str:
    """Return the name of a receive in messages."""
    return f"receive from rank {source}, tag {tag}"


def mpi_failure(error: Exception, what: str) -> errors.InternalError:
    """An MPI error as one of ours."""
    text = getattr(error, "Get_error_string", lambda: str(error))()
    return errors.InternalError(None, None, f"{what}: MPI failed: {text}")
