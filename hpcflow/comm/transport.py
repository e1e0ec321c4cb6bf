"""The interface of all transports, which the runtime's event loop drives, and its rules.

A transport connects `size` endpoints, numbered by rank. It has two planes.

*Control* messages are byte strings. Those from one source arrive in the order in which they were
sent, whatever their sizes, at the handler that `set_handler` installed.

*Data* messages are buffers matched by (source, tag), in the order in which sends and receives
were posted. A static edge is a pair of persistent slots made once and started in every step.

Rules that hold for every transport:

- Nothing blocks. Sends and receives may be posted from any thread and from inside callbacks.
- Progress happens in `poll` alone. Callbacks and the handler run there, in the polling thread,
  with no lock held; `done` never runs inside the call that posted the request. Callbacks of
  different requests run in no particular order. An exception in a callback leaves `poll`; the
  completions behind it are delivered by the next poll.
- A buffer belongs to the transport until `done` is called, and is kept alive until then.
- A message of 0 bytes is exactly one empty message; a receive of any size then completes with 0.
- A transfer longer than `config.flags.chunk_bytes` travels as several messages. Its receive
  accepts exactly as many bytes as its buffer has, or fewer than one chunk; after a first message
  shorter than a chunk nothing is left posted. Everything else is an InternalError in `poll`, as
  is a message longer than the buffer. All ranks must agree on the chunk size.
- A send to the own rank is matched inside the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from hpcflow import errors
from hpcflow.comm.cores import Core

#: Called when a send has completed, so that its buffer may be written again.
SendDone = Callable[[], None]
#: Called with the number of bytes received.
ReceiveDone = Callable[[int], None]
#: Called with the source and the payload of a control message.
Handler = Callable[[int, bytes], None]


class Slot(ABC):
    """A persistent send or receive: a fixed buffer, peer and tag, started once per transfer."""

    #: True from `start` until a poll has seen the transfer complete.
    busy: bool

    @abstractmethod
    def start(self, done: Callable[..., None] | None = None) -> None:
        """Begin one transfer; `done()` for a send, `done(nbytes)` for a receive follows in `poll`.

        Raises FailedPreconditionError if the previous transfer of this slot is not complete.
        """

    def put(self, target: Any = None, value: Any = None) -> bool:
        """Copy `value` into `target`, an array over the buffer of a send (None: it stays as it is),
        and send it; False, and nothing is done, while the last transfer is outstanding.

        For messages that nobody waits for: whether one has left may be looked at as late as by the
        next ``put``.
        """
        if self.busy:
            return False
        if target is not None:
            target[...] = value
        self.start()
        return True

    @abstractmethod
    def close(self) -> None:
        """Give the slot up. Raises FailedPreconditionError while a transfer is outstanding."""


class Transport(ABC):
    """One endpoint of a group of ranks. See the module's text for the rules."""

    #: This endpoint's rank, and the number of ranks.
    rank: int
    size: int
    #: Tags of data messages are 0 <= tag < tag_limit.
    tag_limit: int
    #: For logs and `doctor`.
    description: str
    #: Whether a poll that finds nothing yields the core.
    yields = False
    #: Whether ranks of one node are processes that can share memory.
    shares_memory = False
    is_mpi = False  # so it may take memory of GPUs
    #: What this rank keeps to while its steps are short, if it shares cores.
    core: Core | None = None

    def is_near(self, rank: int) -> bool:
        """True if `rank` is another process with which this one can share memory."""
        return False

    @abstractmethod
    def poll(self) -> bool:
        """Make progress without blocking; True if anything completed.

        One thread polls at a time: a call while another thread, or an outer call in this
        thread, is polling returns False at once.
        """

    @abstractmethod
    def pending(self) -> int:
        """The number of transfers that are not complete."""

    @abstractmethod
    def send_message(self, dest: int, payload: bytes) -> None:
        """Send a control message; `payload` may be changed after the call."""

    @abstractmethod
    def set_handler(self, handler: Handler) -> None:
        """Give control messages to `handler(source, payload)`, those that came before too."""

    @abstractmethod
    def post_send(self, buffer: object, dest: int, tag: int, done: SendDone | None = None) -> None:
        """Send a C-contiguous array, bytes or memoryview of any length, 0 included."""

    @abstractmethod
    def post_recv(self, buffer: object, source: int, tag: int, done: ReceiveDone) -> None:
        """Receive into a writable C-contiguous buffer; then `done(nbytes)`."""

    def post_sign(self, buffer: Any, source: int, tag: int, done: ReceiveDone, nbytes: int) -> None:
        """Receive a message that says that `nbytes` were written to shared memory."""
        self.post_recv(buffer, source, tag, done)

    @abstractmethod
    def send_slot(self, buffer: Any, dest: int, tag: int) -> Slot:
        """A persistent send from `buffer`."""

    @abstractmethod
    def recv_slot(self, buffer: object, source: int, tag: int) -> Slot:
        """A persistent receive into `buffer`."""

    @abstractmethod
    def close(self) -> None:
        """Deliver what was sent, as far as its receivers take it, and release everything."""

    @abstractmethod
    def abort(self, code: int, message: str) -> NoReturn:
        """End the whole job with a non-zero status, after printing `message`."""

    def is_gone(self, peer: int) -> bool:
        """True if `peer` is known to be closed: what is sent to it is dropped."""
        return False

    def check_peer(self, peer: int, tag: int = 0) -> None:
        """Raise InvalidArgumentError unless `peer` is a rank and `tag` a data tag."""
        if not 0 <= peer < self.size:
            raise errors.InvalidArgumentError(
                None, None, f"rank {peer} does not exist: expected 0 <= rank < {self.size}"
            )
        if not 0 <= tag < self.tag_limit:
            raise errors.InvalidArgumentError(
                None, None, f"tag {tag} is out of range: expected 0 <= tag < {self.tag_limit}"
            )


def closed_error(what: str) -> errors.FailedPreconditionError:
    """The error of using a transport or slot that was closed."""
    return errors.FailedPreconditionError(None, None, f"{what} is closed")


def busy_error(what: str) -> errors.FailedPreconditionError:
    """The error of starting or closing a slot whose transfer is outstanding."""
    return errors.FailedPreconditionError(
        None, None, f"{what} is still in progress: expected its transfer to be complete"
    )
