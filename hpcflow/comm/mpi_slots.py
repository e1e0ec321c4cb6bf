"""Persistent transfers over MPI: the static edges of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.comm import finalize
from hpcflow.comm.mpi_requests import PlainTransfer, mpi_failure
from hpcflow.comm.transport import ReceiveDone, SendDone, Slot, busy_error, closed_error

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpcflow.comm.mpi_requests import Pipe, PipeKey
    from hpcflow.comm.mpi_transport import MpiTransport


class PersistentSlot(Slot):
    """Common part: a persistent request, which is also the entry that the transport polls."""

    _direction = "transfer with"

    request: Any = None
    test: Any
    _start_request: Any

    def __init__(
        self,
        transport: MpiTransport,
        make_request: Callable[[Any, int, int], Any],
        message: Any,
        where: PipeKey,
        pipes: dict[PipeKey, Pipe],
    ) -> None:
        self.done: Callable[..., None] | None = None
        self.busy = False
        self.where = where
        self._closed = False
        self._transport = transport
        self._deferred = transport.deferred
        self._ready = transport.ready
        self._watch = transport.watch
        self._make_request = make_request
        self._message = message
        self._pipes = pipes

    def __repr__(self) -> str:
        return f"slot: {self._direction} rank {self.where[0]}, tag {self.where[1]}"

    def start(self, done: Callable[..., None] | None = None) -> None:
        """Begin one transfer."""
        if self.busy:
            raise closed_error(repr(self)) if self._closed else busy_error(repr(self))
        self.busy = True
        self.done = done
        # As `run_locked(self._begin)`, without its calls.
        transport = self._transport
        try:
            transport.lock()
        except IndexError:
            transport.defer(self._begin)
            return
        try:
            if self._deferred:
                transport.run_deferred()
            if self._pipes or self.request is None:
                self._begin()
            else:
                self._begin_now()
        except transport.mpi_error as error:
            if not transport.breaks(error):
                raise mpi_failure(error, repr(self)) from None
        finally:
            transport.unlock(None)
            if self._deferred:
                transport.flush()

    def _begin(self) -> None:
        if self.request is None:
            self._create()
        if self.where in self._pipes:
            self._pipes[self.where].add(PlainTransfer(self._begin_now))
        else:
            self._begin_now()

    def _create(self) -> None:
        # Here and not at first, because only the first start holds the lock.
        self.request = self._make_request(self._message, *self.where)
        self.test = self.request.Test
        self._start_request = self.request.Start
        self._transport.slots.add(self)

    def _begin_now(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Free the request."""
        if self._closed:
            return
        if self.busy:
            raise busy_error(repr(self))
        self.mark_closed()
        self._transport.run_locked(self._free)

    def mark_closed(self) -> None:
        """Refuse further starts."""
        self._closed = self.busy = True

    def _free(self) -> None:
        if self.request is not None:
            self._transport.slots.discard(self)
            finalize.free(self.request)


class SendSlot(PersistentSlot):
    """A persistent send; one that `is_short` has nearly always left when it was started."""

    outgoing = True
    done: SendDone | None
    _direction = "send to"
    is_short = False
    # A short message was put, and nobody has looked since whether it has left.
    _put = False

    def put(self, target: Any = None, value: Any = None) -> bool:
        """Send a value, as of every slot; a short message costs no polls."""
        if not self.is_short or self._pipes:
            return super().put(target, value)
        transport = self._transport
        try:
            transport.lock()
        except IndexError:
            return False
        try:
            if self._deferred:
                transport.run_deferred()
            if self.busy or (self._put and not self.test()):
                return False
            if target is not None:
                target[...] = value
            if self.request is None:
                self._create()
            self._start_request()
            self._put = True
        except transport.mpi_error as error:
            if not transport.breaks(error):
                raise mpi_failure(error, repr(self)) from None
        finally:
            transport.unlock(None)
            if self._deferred:
                transport.flush()
        return True

    def look(self) -> None:
        """Let the transport poll a message that was put and has not left. For use under the
        lock."""
        if self._put:
            self._put = False
            if not self.test():
                self.busy = True
                self.done = None
                self._watch(self)

    def _free(self) -> None:
        if self._put and not self.test():
            self._transport.slots.discard(self)
            finalize.retire_send(self)
        else:
            super()._free()

    def _begin_now(self) -> None:
        if self._put and not self.test():
            self.busy = False
            raise busy_error(repr(self))
        self._put = False
        self._start_request()
        # The next poll tests it: a persistent send is hardly ever complete at once, and a test that
        # finds nothing takes time, and the core where ranks share it.
        self._watch(self)

    def finish(self, status: MPI.Status) -> None:
        """Queue the callback; the slot may be started again."""
        self.busy = False
        if self.done is not None:
            self._ready.append((self.done, ()))


class ReceiveSlot(PersistentSlot):
    """A persistent receive."""

    outgoing = False
    done: ReceiveDone | None
    _direction = "receive from"

    def _begin_now(self) -> None:
        self._start_request()
        self._watch(self)

    def finish(self, status: MPI.Status) -> None:
        """Queue the callback; the slot may be started again."""
        self.busy = False
        if self.done is not None:
            self._ready.append((self.done, (status.Get_count(),)))


class LongSlot(Slot):
    """A slot whose buffer is longer than a chunk: `post` begins an ordinary long transfer."""

    def __init__(self, post: Callable[..., None], buffer: Any, peer: int, tag: int) -> None:
        self._post: Callable[..., None] | None = post
        self._arguments = (buffer, peer, tag)
        self.busy = False
        self._done: Callable[..., None] | None = None

    def __repr__(self) -> str:
        return f"slot: transfer with rank {self._arguments[1]}, tag {self._arguments[2]}"

    def start(self, done: Callable[..., None] | None = None) -> None:
        """Begin one transfer."""
        if self._post is None:
            raise closed_error(repr(self))
        if self.busy:
            raise busy_error(repr(self))
        self.busy = True
        self._done = done
        self._post(*self._arguments, self._finish)

    def _finish(self, *counts: int) -> None:
        self.busy = False
        if self._done is not None:
            self._done(*counts)

    def close(self) -> None:
        """Give the slot up."""
        if self.busy:
            raise busy_error(repr(self))
        self._post = None
