"""Links by memory: the GPUs of ranks of one node, which read each other's memory (CUDA IPC).

Every rank exports memory, which the others open. An operation is a row of *exchanges*: each rank
writes what the others need into its own memory, says so when that is complete, and reads theirs
once all have said so. The memory has two halves, which exchanges use in turn: a rank that says that
the next exchange is written has read the last one, so nobody waits to write. No thread waits; the
messages are those of a pattern (`hpcflow.comm.patterns`), and end likewise when a step fails.

Values are joined by kernels, in the same tree as on CPUs, and so to the same bits.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from hpcflow import config
from hpcflow.comm.patterns import Elsewhere, Pattern, Round, bounds, is_small, others
from hpcflow.comm.reduction import TreeNode, join_into
from hpcflow.errors import DeadlineExceededError, InternalError, OpError
from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu import ipc
from hpcflow.runtime.executor.gpu.completions import completions
from hpcflow.runtime.executor.gpu.transfers import Transfers

#: Joins two arrays: ``f(a, b, out=...)``.
Joiner = Callable[..., Any]
_WORD = np.ones(1, np.uint8)


class Work(Protocol):
    """An operation.

    Attributes:
        ready: the event behind which its values are complete, and its results may be written.
    """

    ready: Any

    def share(self, exchanges: Exchanges) -> Pattern:
        """Its exchanges, which are the same on all ranks."""


class IpcLink:
    """This rank's end of a link over the GPU of `transfers`: member `me` of `ranks`.

    ``closed(rank, number)`` tells a rank that what it has exported as `number` is closed here;
    ``failed(error)`` is called once if the link breaks. Raises ``InternalError`` if this GPU
    exports no memory.
    """

    way = "ipc"

    def __init__(self, transfers: Transfers, ranks: Sequence[int], me: int,
                 closed: Callable[[int, int], None], failed: Callable[[OpError], None]) -> None:
        self.transfers, self.streams = transfers, transfers.streams
        self.ranks, self.me = ranks, me
        self._closed, self._failed = closed, failed
        self.half = tuning.LINK_HALF_BYTES
        peers = [ranks[k] for k in others(len(ranks), me)]
        self._own = self.streams.entered(ipc.exports.make)(self.streams, peers, 3 * self.half)
        if self._own is None:
            raise InternalError(None, None, "this GPU exports no memory to other ranks")
        self._numbers: dict[int, int] = {}  # of the other members' memory
        self._opened: dict[int, ipc.Opened] = {}
        self._addresses = {me: self._own.address}
        self._lock = threading.RLock()
        self._turns: dict[int, Callable[[], None]] = {}  # what waits for its turn
        self._next, self._busy, self._given, self._exchanged = 0, False, 0, 0
        self.error: OpError | None = None

    # ------------------------------------------------------------ opening

    @property
    def address(self) -> list[Any]:
        """What the other members open this one's memory by."""
        assert self._own is not None
        return [self._own.handle.hex(), self._own.number]

    def enter(self, addresses: dict[int, list[Any]]) -> None:
        """Open the memory of the other members. Raises ``InternalError`` if that does not go."""
        self._numbers = {member: number for member, (_, number) in addresses.items()}
        for member, (handle, _) in addresses.items():
            rank = self.ranks[member]
            opened = self.streams.entered(ipc.open_of)(self.streams, rank, bytes.fromhex(handle))
            if opened is None:
                raise InternalError(None, None, f"it cannot open memory of the GPU of rank {rank}")
            self._opened[member] = opened
            self._addresses[member] = opened.address

    def place(self, member: int, offset: int) -> int:
        """Where the memory of a member is here."""
        return self._addresses[member] + offset

    # ------------------------------------------------------------ operations

    def take_number(self) -> int:
        """The number of the next operation: for the member that gives them out."""
        with self._lock:
            self._given += 1
            return self._given - 1

    def run(self, number: int, text: str, nbytes: int, work: Work) -> Pattern:
        """Operation `number`, which begins when all before it are over."""
        exchanges = Exchanges(self)
        exchanges.ok = yield Elsewhere.of(partial(self._when_turn, number))
        noted = self.launch(self._begun, text, nbytes, work.ready)
        yield from work.share(exchanges)
        self.launch(noted or _nothing)
        yield from exchanges.wait()
        self._over()
        if self.error is not None:
            raise self.error

    def _begun(self, text: str, nbytes: int, ready: Any) -> Callable[[], None]:
        self.streams.collective.wait_event(ready)
        return self.transfers.watched(text, nbytes, self.streams.collective)

    def next_half(self) -> int:
        """Where the next exchange lies in everybody's memory."""
        self._exchanged += 1
        return self._exchanged % 2 * self.half

    def _when_turn(self, number: int, begin: Callable[[], None]) -> None:
        with self._lock:
            self._turns[number] = begin
        self._go_on()

    def _over(self) -> None:
        with self._lock:
            self._busy = False
            self._next += 1
        self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            begin = None if self._busy else self._turns.pop(self._next, None)
            self._busy |= begin is not None
        if begin is not None:
            begin()

    # ------------------------------------------------------------ launching

    def launch(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(*args)`` on the stream of the link; a failure ends the link on all ranks."""
        error: BaseException | None = None
        with self._lock:
            if self.error is not None:
                return None
            try:
                return self.streams.entered(self._launched)(function, args)
            except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
                error = e
        self.abort(InternalError(
            None, None, f"A collective operation between GPUs failed: {error}"))
        return None

    def _launched(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        with self.streams.collective:
            return function(*args)

    def abort(self, error: OpError, tell: bool = True) -> None:
        """End the link: nothing is launched any more; memory is given back behind what was."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            event = self.streams.entered(self._last_event)()
        if tell:
            self._failed(error)
        completions().when(lambda: event is None or self.streams.is_over(event), self._close)

    def _last_event(self) -> Any:
        try:
            event = self.streams.event(self.streams.collective)
            self.streams.compute.wait_event(event)  # until then results are written
            return event
        except Exception:  # noqa: BLE001  (the GPU has failed: it is the end anyway)
            return None

    def _close(self) -> None:
        for member, number in self._numbers.items():
            with contextlib.suppress(Exception):  # the GPU, the rank or this one's MPI may be gone
                if member in self._opened:
                    self.streams.entered(self._opened.pop(member).close)()
                self._closed(self.ranks[member], number)
        if self._own is not None:
            ipc.exports.done(self._own.number)
            self._own = None


class Exchanges:
    """The exchanges of one operation. Arrays are flat, and of one type.

    `ok` is False once the operation has failed: then messages go on, and nothing is launched.
    """

    def __init__(self, link: IpcLink) -> None:
        self._link = link
        self._members, self._me = len(link.ranks), link.me
        self._peers = others(self._members, link.me)
        self.ok = True

    # ------------------------------------------------------------ what operations are made of

    def all_reduce(self, source: Any, target: Any, join: Joiner) -> Pattern:
        """The sources of all members, joined, in the target of each."""
        if not source.size:
            return
        if is_small(source.nbytes, self._members):
            yield from self._exchange(
                partial(self._put, source, slice(None), 0),
                partial(self._join_all, source, target, join))
            return
        most = self._members * self._most(source)
        for start in range(0, source.size, most):
            edges = bounds(min(most, source.size - start), self._members)
            segments = [slice(start + a, start + b) for a, b in itertools.pairwise(edges)]
            yield from self._scatter(source, segments, partial(
                self._join, target, segments[self._me], join))
            yield from self.gather(target, segments)

    def reduce_scatter(self, source: Any, target: Any, join: Joiner) -> Pattern:
        """The members' equal parts of the sources, joined, each in its member's target."""
        for start, segments in self._parts(source):
            size = segments[0].stop - segments[0].start
            yield from self._scatter(source, segments, partial(
                self._join, target, slice(start, start + size), join))

    def all_to_all(self, source: Any, target: Any) -> Pattern:
        """The equal parts of the sources, of which member k gets all k-th ones."""
        for _, segments in self._parts(source):
            yield from self._scatter(source, segments, partial(self._keep, target, segments))

    def gather(self, whole: Any, segments: Sequence[slice]) -> Pattern:
        """Each member has its segment of `whole`, and gets those of the others."""
        if not whole.size:
            return
        most, longest = self._link.half // whole.itemsize, max(s.stop - s.start for s in segments)
        for start in range(0, longest, most):
            parts = [slice(min(s.start + start, s.stop), min(s.start + start + most, s.stop))
                     for s in segments]
            yield from self._exchange(
                partial(self._put, whole, parts[self._me], 0), partial(self._get, whole, parts))

    # ------------------------------------------------------------ one exchange

    def _exchange(self, put: Callable[[int], None], take: Callable[[int], None]) -> Pattern:
        """``put(half)`` writes for the others, ``take(half)`` reads what they have written."""
        half = self._link.next_half()
        self._launch(put, half)
        yield from self.wait()
        self.ok = yield self._signs()
        self._launch(take, half)

    def wait(self) -> Pattern:
        """Until all that was launched is complete."""
        link, since = self._link, time.monotonic()
        event = link.launch(link.streams.event, link.streams.collective)

        def is_over() -> bool:
            limit = config.flags.collective_timeout
            if limit and time.monotonic() - since > limit:
                link.abort(DeadlineExceededError(
                    None, None, f"A collective operation has run on the GPU for {limit:g} s "
                    "(HPCFLOW_COLLECTIVE_TIMEOUT)"))
            return link.error is not None or self.is_over(event)

        self.ok = yield Elsewhere.of(lambda done: completions().when(is_over, done))
        if event is not None:
            link.launch(event.synchronize)  # it is complete: this raises what has failed

    def is_over(self, event: Any) -> bool:
        """True if an event (None: there is none) has come, or the device has failed."""
        return event is None or self._link.streams.is_over(event)

    def _signs(self) -> Round:
        """Say that what was written is complete; nothing, if it is not."""
        word = _WORD if self.ok and self._link.error is None else _WORD[:0]
        return ([(k, word) for k in self._peers],
                [(k, np.zeros(1, np.uint8)) for k in self._peers])

    def _launch(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._link.launch(function, *args) if self.ok else None

    # ------------------------------------------------------------ parts

    def _most(self, array: Any) -> int:
        """Elements of the longest piece of which a half holds one for each member."""
        return self._link.half // self._members // ipc.ALIGNMENT * ipc.ALIGNMENT // array.itemsize

    def _parts(self, source: Any) -> list[tuple[int, list[slice]]]:
        """Equal parts of `source` for all members, in pieces that go into a half: where these
        begin in each part, and where in `source`."""
        size, most = source.size // self._members, self._most(source)
        return [(start, [slice(k * size + start, k * size + min(start + most, size))
                         for k in range(self._members)]) for start in range(0, size, most)]

    def _scatter(self, source: Any, segments: Sequence[slice],
                 take: Callable[[list[Any]], None]) -> Pattern:
        """Each member gets its segment of the sources of all, by ``take(pieces)``."""
        room = ipc.aligned(max(s.stop - s.start for s in segments) * source.itemsize)
        yield from self._exchange(partial(self._put_each, source, segments, room),
                                  partial(self._take, source, segments[self._me], room, take))

    # ------------------------------------------------------------ what is launched

    def _put(self, source: Any, part: slice, offset: int, half: int) -> None:
        piece = source[part]
        if piece.size:
            self._copy(self._link.place(self._me, half + offset), piece.data.ptr, piece.nbytes)

    def _put_each(self, source: Any, segments: Sequence[slice], room: int, half: int) -> None:
        for k in self._peers:
            self._put(source, segments[k], k * room, half)

    def _take(self, source: Any, own: slice, room: int, take: Callable[[list[Any]], None],
              half: int) -> None:
        mine = source[own]
        if mine.size:
            take(self._pieces(mine, half + self._me * room))

    def _pieces(self, mine: Any, offset: int) -> list[Any]:
        """A piece of each member like this one's: what lies at an offset of its memory."""
        return [mine if k == self._me else ipc.array_at(
            self._link.streams, self._link.place(k, offset), mine.size, mine.dtype)
            for k in range(self._members)]

    def _get(self, whole: Any, parts: Sequence[slice], half: int) -> None:
        for k in self._peers:
            piece = whole[parts[k]]
            if piece.size:
                self._copy(piece.data.ptr, self._link.place(k, half), piece.nbytes)

    def _keep(self, target: Any, segments: Sequence[slice], pieces: list[Any]) -> None:
        for k in self._peers:
            piece = target[segments[k]]
            self._copy(piece.data.ptr, pieces[k].data.ptr, piece.nbytes)

    def _join_all(self, source: Any, target: Any, join: Joiner, half: int) -> None:
        self._join(target, slice(None), join, self._pieces(source, half))

    def _join(self, target: Any, part: slice, join: Joiner, pieces: list[Any]) -> None:
        """Join pieces in a part of `target`, and what does not fit there in the link's memory."""
        room, link = ipc.aligned(pieces[0].nbytes), self._link
        places = iter(range(2 * link.half, 3 * link.half - room + 1, room))
        values: dict[TreeNode, Any] = {(0, k): piece for k, piece in enumerate(pieces)}
        join_into(values, self._members, join, target[part], lambda: ipc.array_at(
            link.streams, link.place(self._me, next(places)), pieces[0].size, pieces[0].dtype))

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        ipc.copy_bytes(self._link.streams, target, source, nbytes, self._link.streams.collective)


def _nothing() -> None:
    """Nothing was begun."""
