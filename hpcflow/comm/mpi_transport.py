"""The transport over MPI.

Built for latency: a poll of an idle transport is two lock operations and one MPI_Test per
request, or one MPI_Testsome when there are many; static edges are persistent requests; nothing
is allocated unless something has completed. No call waits for the lock around MPI: see
`mpi_lock`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from hpcflow import errors
from hpcflow.comm import abort, buffers, finalize
from hpcflow.comm.cores import own_core
from hpcflow.comm.matching import Exchange, Half, LocalSlot, Ready
from hpcflow.comm.mpi_control import SHORT_BYTES, ControlPlane
from hpcflow.comm.mpi_lock import LockedTransport
from hpcflow.comm.mpi_requests import (
    LongReceive,
    LongSend,
    Pipe,
    PipeKey,
    PlainTransfer,
    ReceiveEntry,
    SendEntry,
    describe,
    mpi_failure,
)
from hpcflow.comm.mpi_slots import LongSlot, ReceiveSlot, SendSlot
from hpcflow.comm.transport import (
    Handler,
    ReceiveDone,
    SendDone,
    Slot,
    busy_error,
)
from hpcflow.comm.waiting import Backoff
from hpcflow.comm.world import PrivateComms, private_comms
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI

#: The least that MPI may offer as its highest tag.
_GUARANTEED_TAG = 32767


class MpiTransport(LockedTransport):
    """An endpoint of a group of MPI ranks.

    `comms` are private communicators (made from the world by default, which all its ranks must do
    together). `tag_limit` may lower the number of tags below what MPI offers.
    """

    shares_memory = True
    is_mpi = True

    def __init__(self, comms: PrivateComms | None = None, tag_limit: int | None = None) -> None:
        from mpi4py import MPI

        comms = private_comms() if comms is None else comms
        super().__init__(comms)
        self.chunk_bytes = buffers.chunk_bytes()
        # The highest tag is ours: the second parts of long control messages.
        highest_tag = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or _GUARANTEED_TAG)
        self.tag_limit = min(highest_tag, tag_limit or highest_tag)
        self._byte = MPI.BYTE
        self._status = MPI.Status()
        self._testsome = MPI.Request.Testsome
        self._statuses: list[Any] = []

        # Set and tested under the lock: callbacks of a poll run without it.
        self._polling = False

        #: Completions for the next poll to run.
        self.ready: Ready = deque()
        # Entries in flight. New ones go to the end; `_requests` follows when it is needed.
        self._active: list[Any] = []
        self._requests: list[Any] = []
        self._stale = False
        self._finished: list[Any] = []
        #: Poll an entry from now on. For use under the lock.
        self.watch: Callable[[Any], None] = self._active.append
        self._send_pipes: dict[PipeKey, Pipe] = {}
        self._receive_pipes: dict[PipeKey, Pipe] = {}
        self._exchange = Exchange(self.chunk_bytes)
        #: Persistent requests, to be freed.
        self.slots: set[Any] = set()

        self.core = own_core(self.rank, comms.local_ranks) if comms.oversubscribed else None
        self.yields = comms.yields
        # Looks in one poll: each further one costs less than another poll, but may give the core
        # away with the lock.
        self._looks = range(2 if self.yields else tuning.POLL_LOOKS)
        self._is_late = False  # values went before the last look for control messages
        self._ahead = 0  # control messages that were taken since the last look for values
        self._isend = comms.data.Isend
        self._irecv = comms.data.Irecv
        self._control = ControlPlane(self, comms.control, highest_tag)
        self._short = self._control.short
        finalize.at_exit(self)

    def is_near(self, rank: int) -> bool:
        """True if `rank` is another rank of this node."""
        return rank != self.rank and rank in self.comms.local_ranks

    # --- progress ---------------------------------------------------------------------------

    def poll(self) -> bool:
        """Make progress without blocking; True if anything completed."""
        try:
            self.lock()
        except (IndexError, errors.FailedPreconditionError):
            return False
        came = False
        entry = None
        try:
            if self._polling:
                return False
            if self.deferred:
                self.run_deferred()
            status, ready, active = self._status, self.ready, self._active
            control = self._control
            if control.is_shut and self.yields:
                came = self._look_ahead(status)
            for _ in () if came else self._looks:
                if len(active) > tuning.REQUESTS_TESTED_SINGLY:
                    came |= self._test_many()
                else:
                    for entry in active:
                        if entry.test(status):
                            self._finished.append(entry)
                            entry.finish(status)
                    if self._finished:
                        self._forget_finished()
                        came = True
                if came and not self._is_late:  # what has come goes first, once
                    self._is_late = True
                    break
                self._is_late = False
                if control.is_shut:
                    control.reopen()
                if control.test(status):
                    control.take(status)
                    came = True
                if came or self.deferred:
                    break
            if not ready:
                return came
            self._polling = True
        except self.mpi_error as error:
            if self.breaks(error):
                return False
            raise self._explain(error, entry) from None
        finally:
            self.unlock(None)
            if self.deferred:
                self.flush()
        try:
            # What callbacks add is left to the next poll, so that this one ends.
            count = len(ready)
            while count:
                count -= 1
                function, arguments = ready.popleft()
                function(*arguments)
        finally:
            self._polling = False
        return True

    def _look_ahead(self, status: MPI.Status) -> bool:
        """Take a control message that has come already; whether there was one.

        Where a test that finds nothing gives the core away, it is away for as long as others
        compute: what has come must not wait for that. Values get their turn in any case.
        """
        self._ahead += 1
        if self._ahead > tuning.CONTROL_AHEAD:
            self._ahead = 0
            return False
        control = self._control
        control.reopen()
        if not control.test(status):
            self._ahead = 0
            return False
        control.take(status)
        return True

    def _forget_finished(self) -> None:
        for entry in self._finished:
            self._active.remove(entry)
        self._finished.clear()
        self._stale = True

    def pending(self) -> int:
        """The number of transfers in flight or waiting for their turn."""
        pipes = [*self._send_pipes.values(), *self._receive_pipes.values()]
        waiting = sum(len(pipe) for pipe in pipes)
        return len(self._active) + waiting + self._exchange.pending(self.rank)

    def _test_many(self) -> bool:
        active, requests = self._active, self._requests
        if self._stale or len(requests) > len(active):
            requests[:] = [entry.request for entry in active]
            self._stale = False
        else:
            requests += [entry.request for entry in active[len(requests) :]]
        # Testsome adds Status objects to the list as it needs them.
        found = self._testsome(requests, self._statuses)
        if not found:
            return False
        entries = [active[index] for index in found]
        gone = set(found)
        active[:] = [entry for index, entry in enumerate(active) if index not in gone]
        self._stale = True
        for entry, status in zip(entries, self._statuses):
            entry.finish(status)
        return True

    def _explain(self, error: Exception, entry: Any) -> errors.InternalError:
        suspects = [entry] if entry is not None else self._active
        found = [describe(*one.where) for one in suspects if not one.outgoing]
        return mpi_failure(error, ", ".join([f"rank {self.rank}", *found[:8]]))

    # --- control plane ----------------------------------------------------------------------

    def set_handler(self, handler: Handler) -> None:
        """Give control messages to `handler`, those that came before too."""
        self.run_locked(self._control.set_handler, handler)

    def send_message(self, dest: int, payload: bytes) -> None:
        """Send a control message."""
        if type(payload) is not bytes:
            payload = bytes(payload)
        put = self._short.get(dest)
        if put is not None and len(payload) == SHORT_BYTES and put(payload):
            return
        if not 0 <= dest < self.size:
            self.check_peer(dest)
        if dest == self.rank:
            self._check_open()
            self._control.send_to_self(payload)
        else:
            self.run_locked(self._control.send, dest, payload)

    # --- data plane -------------------------------------------------------------------------

    def post_send(self, buffer: Any, dest: int, tag: int, done: SendDone | None = None) -> None:
        """Send a buffer."""
        length = buffers.byte_length(buffer)
        self.check_peer(dest, tag)
        if dest == self.rank:
            self._check_open()
            half = Half(buffers.byte_view(buffer), done, self.ready)
            self._exchange.post_send((dest, dest, tag), half)
        else:
            self.run_locked(self.begin_send, buffer, length, dest, tag, done)

    def post_recv(self, buffer: Any, source: int, tag: int, done: ReceiveDone) -> None:
        """Receive into a buffer."""
        length = buffers.writable_length(buffer)
        self.check_peer(source, tag)
        if source == self.rank:
            self._check_open()
            half = Half(buffers.byte_view(buffer), done, self.ready)
            self._exchange.post_receive((source, source, tag), half)
        else:
            self.run_locked(self.begin_receive, buffer, length, source, tag, done)

    def begin_send(
        self, buffer: Any, length: int, dest: int, tag: int, done: SendDone | None
    ) -> None:
        """Send to another rank. For use under the lock."""
        pipe = self._send_pipes.get((dest, tag)) if self._send_pipes else None
        if length > self.chunk_bytes:
            pipe = pipe or Pipe(self._send_pipes, (dest, tag))
            pipe.add(LongSend(self, buffers.byte_view(buffer), dest, tag, pipe, done))
        elif pipe is not None:
            pipe.add(PlainTransfer(self._begin_plain_send, buffer, length, dest, tag, done))
        else:
            self._begin_plain_send(buffer, length, dest, tag, done)

    def _begin_plain_send(
        self, buffer: Any, length: int, dest: int, tag: int, done: SendDone | None
    ) -> None:
        request = self._isend((buffer, self._byte), dest, tag)
        # Short messages are gone at once, and then cost no poll. Of others, a test would find
        # nothing, and give the core away where ranks share it.
        if length > tuning.SEND_SHORT_BYTES or not request.Test():
            self.watch(SendEntry(request, done, self.ready))
        elif done is not None:
            self.ready.append((done, ()))

    def begin_receive(
        self, buffer: Any, length: int, source: int, tag: int, done: ReceiveDone
    ) -> None:
        """Receive from another rank. For use under the lock."""
        pipe = self._receive_pipes.get((source, tag)) if self._receive_pipes else None
        if length > self.chunk_bytes:
            pipe = pipe or Pipe(self._receive_pipes, (source, tag))
            pipe.add(LongReceive(self, buffers.byte_view(buffer), source, tag, pipe, done))
        elif pipe is not None:
            pipe.add(PlainTransfer(self._begin_plain_receive, buffer, source, tag, done))
        else:
            self._begin_plain_receive(buffer, source, tag, done)

    def _begin_plain_receive(self, buffer: Any, source: int, tag: int, done: ReceiveDone) -> None:
        request = self.start_receive(buffer, source, tag)
        self.watch(ReceiveEntry(request, done, self.ready, (source, tag)))

    def start_send(self, buffer: Any, dest: int, tag: int) -> Any:
        """The request of one message to send. For use under the lock."""
        return self._isend((buffer, self._byte), dest, tag)

    def start_receive(self, buffer: Any, source: int, tag: int) -> Any:
        """The request of one message to receive. For use under the lock."""
        return self._irecv((buffer, self._byte), source, tag)

    def send_slot(self, buffer: Any, dest: int, tag: int) -> Slot:
        """A persistent send."""
        length = buffers.byte_length(buffer)
        self.check_peer(dest, tag)
        self._check_open()
        if dest == self.rank:
            post, key = self._exchange.post_send, (dest, dest, tag)
            return LocalSlot(post, key, buffer, self.ready, self._check_open)
        if length > self.chunk_bytes:
            return LongSlot(self.post_send, buffer, dest, tag)
        message = (buffer, self._byte)
        slot = SendSlot(self, self.comms.data.Send_init, message, (dest, tag), self._send_pipes)
        slot.is_short = length <= tuning.SEND_SHORT_BYTES
        return slot

    def recv_slot(self, buffer: Any, source: int, tag: int) -> Slot:
        """A persistent receive."""
        length = buffers.writable_length(buffer)
        self.check_peer(source, tag)
        self._check_open()
        if source == self.rank:
            post, key = self._exchange.post_receive, (source, source, tag)
            return LocalSlot(post, key, buffer, self.ready, self._check_open)
        if length > self.chunk_bytes:
            return LongSlot(self.post_recv, buffer, source, tag)
        message, where = (buffer, self._byte), (source, tag)
        return ReceiveSlot(self, self.comms.data.Recv_init, message, where, self._receive_pipes)

    # --- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Deliver what was sent, as far as its receivers take it, and free all requests.

        Raises FailedPreconditionError inside a callback, or while another thread runs callbacks.
        """
        if self._closed:
            return
        if self.broken:
            self._abandon()
            return
        self._drain()
        self._take_over()
        try:
            self._release()
        finally:
            self.lock = self._refuse
            self.unlock(None)
            finalize.forget(self)

    def _abandon(self) -> None:
        """Close a transport that is broken: its requests never complete, and keep their buffers.
        What somebody still sends, who does not know yet, goes nowhere."""
        self._exchange.forget(self.rank)
        finalize.abandon(self)

    def _take_over(self) -> None:
        """Take the lock for good; from now on polls return False and operations are refused."""
        deadline = time.monotonic() + tuning.CLOSE_DRAIN_SECONDS
        while time.monotonic() < deadline:
            try:
                self.lock()
            except IndexError:
                time.sleep(1e-4)
                continue
            if not self._polling:
                self._polling = self._closed = True
                self.run_deferred()
                return
            self.unlock(None)
            time.sleep(1e-4)
        raise busy_error(f"a poll of {self.description}")

    def _drain(self) -> None:
        self.run_locked(self._look_at_slots)
        deadline = time.monotonic() + tuning.CLOSE_DRAIN_SECONDS
        backoff = Backoff(self.comms.oversubscribed)
        while self._has_unsent() and time.monotonic() < deadline:
            if self.poll():
                backoff.reset()
            else:
                backoff.wait()

    def _look_at_slots(self) -> None:
        for slot in self.slots:
            if slot.outgoing:
                slot.look()

    def _has_unsent(self) -> bool:
        return bool(self.deferred or self._send_pipes) or any(
            entry.outgoing for entry in list(self._active)
        )

    def _release(self) -> None:
        for entry in self._active:
            if entry.outgoing:
                finalize.retire_send(entry)
            else:
                finalize.retire_receive(entry.request)
        self._control.close()
        busy = set(map(id, self._active))
        for slot in self.slots:
            slot.mark_closed()
            if id(slot) not in busy:
                finalize.free(slot.request)
        self._active.clear()
        self._requests.clear()
        self._exchange.forget(self.rank)

    def abort(self, code: int, message: str) -> NoReturn:
        """Print `message` behind the rank and end all ranks of the job with a non-zero status."""
        abort.abort_job(self.rank, code, message)
