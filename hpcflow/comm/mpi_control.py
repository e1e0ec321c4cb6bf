"""The control plane over MPI: short messages into one open inbox, long ones in two parts.

The inbox is one persistent receive from any source; it is copied out and opened again at once, so
the messages of a source stay in order. A message longer than `CONTROL_MESSAGE_BYTES` announces
itself by a first part of more than that, and its rest is a transfer of the data plane; later
messages of the same source wait for it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.comm import finalize
from hpcflow.comm.mpi_requests import SendEntry
from hpcflow.comm.mpi_slots import SendSlot
from hpcflow.comm.transport import Handler
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpcflow.comm.mpi_transport import MpiTransport

#: Messages of exactly this length, those of every step, are sent by persistent requests.
SHORT_BYTES = 24
#: In front of the first part of a longer one: its total length and 8 bytes of padding.
_LONG_HEADER = struct.Struct("<QQ")
_TAG = 0


def _nothing_came(status: MPI.Status) -> bool:
    return False


class ControlPlane:
    """The control messages of one `MpiTransport`; `rest_tag` is the data tag of second parts."""

    def __init__(self, transport: MpiTransport, comm: MPI.Comm, rest_tag: int) -> None:
        from mpi4py import MPI

        self._transport = transport
        self._ready = transport.ready
        self._watch = transport.watch
        self._isend = comm.Isend
        self._send_init = comm.Send_init
        self._byte = MPI.BYTE
        #: By destination: what sends a message of `SHORT_BYTES`, or returns False.
        self.short: dict[int, Callable[[bytes], bool]] = {}
        self._rest_tag = rest_tag
        self._handler: Handler | None = None
        # Messages to ourselves that wait for a handler.
        self._early: deque[tuple[int, bytes]] = deque()
        # By source: a place for each message, from the first that has not come completely.
        self._backlogs: dict[int, deque[list[bytes]]] = {}
        inbox = bytearray(_LONG_HEADER.size + tuning.CONTROL_MESSAGE_BYTES)
        self._inbox = memoryview(inbox)
        self._head = self._inbox[:SHORT_BYTES]
        self._request = comm.Recv_init((inbox, MPI.BYTE), MPI.ANY_SOURCE, _TAG)
        self._open, self._test_request = self._request.Start, self._request.Test
        #: Whether a message was taken, and no receive is posted for the next one yet.
        self.is_shut = False
        #: Whether a message has come, as `Test(status)` of a request. Before there is a handler
        #: nothing is taken in: MPI keeps what comes.
        self.test: Callable[[Any], bool] = _nothing_came

    def set_handler(self, handler: Handler) -> None:
        """Begin to receive, or change the handler. For use under the lock."""
        self._handler = handler
        self._queue_early()
        if self.test is _nothing_came:
            self.reopen()

    def send(self, dest: int, payload: bytes) -> None:
        """Send a message to another rank. For use under the lock."""
        if len(payload) == SHORT_BYTES:
            if dest not in self.short:
                self.short[dest] = self._short_send(dest)
        if len(payload) > tuning.CONTROL_MESSAGE_BYTES:
            self._send_in_parts(dest, payload)
            return
        request = self._isend(payload, dest, _TAG)
        if not request.Test():
            self._watch(SendEntry(request, None, self._ready))

    def _short_send(self, dest: int) -> Callable[[bytes], bool]:
        message = np.zeros((), f"V{SHORT_BYTES}")
        slot = SendSlot(self._transport, self._send_init,
                        (message.reshape(1).view(np.uint8), self._byte), (dest, _TAG), {})
        slot.is_short = True
        return partial(slot.put, message)

    def _send_in_parts(self, dest: int, payload: bytes) -> None:
        head = _LONG_HEADER.pack(len(payload), 0) + payload[:tuning.CONTROL_MESSAGE_BYTES]
        request = self._isend(head, dest, _TAG)
        self._watch(SendEntry(request, None, self._ready))
        rest = memoryview(payload)[tuning.CONTROL_MESSAGE_BYTES:]
        self._transport.begin_send(rest, rest.nbytes, dest, self._rest_tag, None)

    def send_to_self(self, payload: bytes) -> None:
        """Queue a message to our own handler."""
        self._early.append((self._transport.rank, payload))
        if self._handler is not None:
            self._queue_early()

    def _queue_early(self) -> None:
        while self._early:
            self._ready.append((self._handler, self._early.popleft()))  # type: ignore[arg-type]

    def take(self, status: MPI.Status) -> None:
        """Take the message of which `test` has told. For use under the lock."""
        source, length = status.Get_source(), status.Get_count()
        payload = (self._head if length == SHORT_BYTES else self._inbox[:length]).tobytes()
        self.is_shut = True  # what the message asks for goes first
        self.test = _nothing_came
        if length > tuning.CONTROL_MESSAGE_BYTES:
            self._expect_rest(source, payload)
        elif self._backlogs and source in self._backlogs:
            self._backlogs[source].append([payload])
        else:
            self._ready.append((self._handler, (source, payload)))  # type: ignore[arg-type]

    def reopen(self) -> None:
        """Go on receiving after a message was taken. For use under the lock."""
        self.is_shut = False
        self._open()
        self.test = self._test_request

    def _expect_rest(self, source: int, head: bytes) -> None:
        total, _ = _LONG_HEADER.unpack_from(head)
        message = bytearray(total)
        message[:tuning.CONTROL_MESSAGE_BYTES] = head[_LONG_HEADER.size :]
        place: list[bytes] = []
        self._backlogs.setdefault(source, deque()).append(place)

        def complete(count: int) -> None:
            place.append(bytes(message))
            self._release(source)

        rest = memoryview(message)[tuning.CONTROL_MESSAGE_BYTES:]
        self._transport.begin_receive(rest, rest.nbytes, source, self._rest_tag, complete)

    def _release(self, source: int) -> None:
        """Deliver what has come completely, up to the first message that has not."""
        backlog = self._backlogs[source]
        while backlog and backlog[0]:
            payload = backlog.popleft()[0]
            self._ready.append((self._handler, (source, payload)))  # type: ignore[arg-type]
        if not backlog:
            del self._backlogs[source]

    def close(self) -> None:
        """Stop receiving. For use under the lock."""
        self.short.clear()  # the transport knows the slots
        if self.test is _nothing_came:
            finalize.free(self._request)
        else:
            self.test = _nothing_came
            finalize.retire_receive(self._request)
