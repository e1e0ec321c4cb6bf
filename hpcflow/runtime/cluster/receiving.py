"""What a lane receives: the tags that it gives to the senders, buffers, persistent requests.

An edge of static shape is received into a planned buffer, and an empty message means dead. Other
edges carry a header, and small values behind it in the same message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.comm.transfers import clock
from hpcflow.compiler.emit.items import Edge, Item
from hpcflow.errors import OpError, ResourceExhaustedError, op_error
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.iterations import DEAD
from hpcflow.runtime.wire.encoding import decode, put_upper_halves
from hpcflow.runtime.wire.packed import opener
from hpcflow.runtime.wire.shared_edges import make_inbox

if TYPE_CHECKING:
    from hpcflow.comm.matching import LocalSlot
    from hpcflow.runtime.cluster.lane import Lane

#: Begins what is sent of a shape that is not known: dtype, rank, 0, bytes; then the dimensions as
#: int64.
HEADER = struct.Struct("<HHIQ")


class TagSpace:
    """The tags of one receiver, per source; freed tags are used again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._next: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}

    def take(self, source: int) -> int:
        """A tag for messages from rank `source`; ``ResourceExhaustedError`` when none is left."""
        free = self._free.get(source)
        if free:
            return free.pop()
        tag = self._next.get(source, 0)
        if tag >= self.limit:
            raise ResourceExhaustedError(
                None, None, f"All {self.limit} message tags between two ranks are in use: close "
                "sessions that are no longer needed, or run fewer steps at once")
        self._next[source] = tag + 1
        return tag

    def shared(self, source: int) -> int:
        """The tag of the messages from rank `source` that all lanes share; it is never released."""
        tag = self._shared.get(source)
        if tag is None:
            tag = self._shared[source] = self.take(source)
        return tag

    def release(self, source: int, tag: int) -> None:
        """Give a tag back."""
        self._free.setdefault(source, []).append(tag)


class Receiving:
    """The edges over which a lane receives; `devices` are those with memory of their own that the
    values are for, None for others."""

    def __init__(self, lane: Lane, tags: TagSpace, devices: list[Any]) -> None:
        edges, self._lane = lane.executable.recvs, lane
        self._transport, self._gpu, self._tags = lane.transport, lane.gpu, tags
        self._ranks = [lane.ranks[e.peer] for e in edges]
        self._edge_tags = [tags.take(r) for r in self._ranks]
        self._logs = [lane.transfers.received(r) for r in self._ranks]
        self._names = [e.tensor for e in edges]
        self._devices = devices
        self._slots: list[Any] = [None] * len(edges)
        self._wide: dict[int, np.ndarray] = {}  # what compressed values are put into
        self._gpu.export(edges, self._ranks)
        exported = self._gpu.exported
        large = frozenset(e.index for e in edges if self._gpu.takes(e)) - exported
        late = lane.executable.late_edges | exported
        self.inbox = make_inbox(self._transport, edges, self._ranks, late, large)
        if self.inbox is not None:
            self._gpu.share_received([e for e in edges if self.inbox.address(e.index)],
                                     self.inbox.memory)
        # Now: a step that has begun could not say that there is no memory for them. What is
        # received late is to take memory late.
        self._buffers: list[Any] = [
            None if self._is_late(e.index) else self._buffer_for(e) for e in edges]
        self._late: set[int] = set()  # the late edges whose receives are posted

    def _is_late(self, index: int) -> bool:
        """True if the memory for edge `index` is taken when its value is needed."""
        if index not in self._lane.executable.late_edges or index in self._gpu.exported:
            return False
        return self.inbox is None or not self.inbox.address(index)

    def open(self) -> dict[str, Any]:
        """Edge name -> what its sender has to know: its tag, and the address of memory that it may
        write."""
        edges = self._lane.executable.recvs
        found: dict[str, Any] = {e.key.decode(): [t] for e, t in zip(
            edges, self._edge_tags, strict=True)}
        if self.inbox is not None:
            for edge in edges:
                found[edge.key.decode()] += self.inbox.address(edge.index)
        for index in self._gpu.exported:
            found[edges[index].key.decode()] += self._gpu.address(index)
        return found

    def close(self) -> None:
        """Give tags and requests back, but for those whose messages may still come."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None
        for index, (slot, rank, tag) in enumerate(
                zip(self._slots, self._ranks, self._edge_tags, strict=True)):
            if (slot is not None and slot.busy) or index in self._late:
                continue
            if slot is not None:
                slot.close()
            self._tags.release(rank, tag)
        self._slots, self._ranks, self._edge_tags = [], [], []

    def rebind(self) -> None:
        """Use other items of an executable that was built again, with the same edges."""
        for slot in self._slots:
            if slot is not None:
                slot.close()
        self._slots = [None] * len(self._slots)

    def receive(self, step: Step, index: int, item: Item) -> None:
        """Open edge `index` for this step: its value goes to `item`."""
        slot = self._slots[index]
        if slot is None:
            if self._is_late(index):
                self._receive_late(index, item)
                return
            slot = self._slots[index] = self._make_slot(index, item)
        slot[0].start(slot[1])

    def _receive_late(self, index: int, item: Item) -> None:
        self._late.add(index)  # before the memory for it: the message comes in any case
        try:
            buffer = self._buffer_for(self._lane.executable.recvs[index])
        except ResourceExhaustedError as e:
            self._cannot_drain(e)
            return

        def arrived(nbytes: int) -> None:
            self._late.discard(index)
            self._logs[index]((clock(), self._names[index], nbytes))
            self._deliver(index, item, buffer if nbytes else DEAD)

        self._transport.post_recv(buffer.reshape(-1).view(np.uint8), self._ranks[index],
                                 self._edge_tags[index], arrived)

    def _cannot_drain(self, error: OpError) -> None:
        """An edge has no memory for the value that is on its way: the step fails, once what runs
        now has returned."""
        self._lane.step.post(partial(self._lane.step.fail, error))

    def _make_slot(self, index: int, item: Item) -> Any:
        buffer = self._buffers[index]
        slot = self._transport.recv_slot(buffer.reshape(-1).view(np.uint8), self._ranks[index],
                                        self._edge_tags[index])
        return _Slot(slot, self._taker(index, item, buffer))

    def _taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Return the callback that takes the messages of edge `index`."""
        edge: Edge = self._lane.executable.recvs[index]
        if edge.is_control:
            return partial(self._control_arrived, index, item)
        if not edge.nbytes:
            return partial(self._header_arrived, index, item)
        if edge.parts:
            return self._pack_taker(index, item, buffer)
        if edge.dims == () and edge.dtype.np.kind in "biufc" and not (
                edge.compressed or self._devices[index]):
            return self._number_taker(index, item, buffer)
        return partial(self._static_arrived, index, item)

    def _number_taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Takes a number as a NumPy scalar, with which kernels are several times faster than with
        a 0-d array."""
        log, name = self._logs[index], self._names[index]

        def arrived(nbytes: int) -> None:
            self._lane.step.received(item, buffer[()] if nbytes else DEAD)
            log((clock(), name, nbytes))

        return arrived

    def _pack_taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Takes a message with several tensors apart."""
        log, name = self._logs[index], self._names[index]
        edge = self._lane.executable.recvs[index]
        tensors, whole = opener(edge, buffer), edge.nbytes

        def arrived(nbytes: int) -> None:
            self._lane.step.received(item, tensors() if nbytes else DEAD)
            log((clock(), name, nbytes and whole))

        return arrived

    def _buffer_for(self, edge: Edge) -> np.ndarray:
        """Return the buffer that the messages of `edge` are received into."""
        if not edge.nbytes:
            return np.empty(1 if edge.is_control else tuning.LANE_INLINE_BYTES, np.uint8)
        shared = self.inbox.buffer(edge) if self.inbox is not None else None
        if shared is not None:
            return shared
        try:
            pinned = self._gpu.buffer(edge)
            if pinned is not None:
                return pinned
            if edge.compressed:  # the lower halves of the value stay zero
                self._wide[edge.index] = np.zeros(edge.dims, np.float32)
            return np.empty(edge.dims, np.uint16 if edge.compressed else edge.dtype.np)
        except (MemoryError, ValueError) as e:
            raise _no_memory(edge, e) from None

    def _deliver(self, index: int, item: Item, value: Any) -> None:
        device = self._devices[index]
        if device is not None and value is not DEAD:
            value = self._gpu.deliver(self._lane.step, index, value)
        self._lane.step.received(item, value)

    def _static_arrived(self, index: int, item: Item, nbytes: int) -> None:
        whole = nbytes and self._lane.executable.recvs[index].nbytes  # it may be a sign
        self._logs[index]((clock(), self._names[index], whole))
        if not nbytes:
            self._deliver(index, item, DEAD)
        elif self._gpu.is_sign(index, nbytes):
            self._lane.step.received(item, self._gpu.take(self._lane.step, index))
        elif index in self._wide:
            put_upper_halves(self._buffers[index].reshape(-1), self._wide[index])
            self._deliver(index, item, self._wide[index])
        else:
            self._deliver(index, item, self._buffers[index])

    def _control_arrived(self, index: int, item: Item, nbytes: int) -> None:
        self._logs[index]((clock(), self._names[index], nbytes))
        self._lane.step.received(item, None if nbytes else DEAD)

    def _header_arrived(self, index: int, item: Item, nbytes: int) -> None:
        self._logs[index]((clock(), self._names[index], nbytes))
        if not nbytes:
            self._deliver(index, item, DEAD)
            return
        buffer = self._buffers[index]
        enum, rank, _, size = HEADER.unpack_from(buffer)
        start = HEADER.size
        dims = tuple(buffer[start : start + 8 * rank].view(np.int64).tolist())
        start += 8 * rank
        dtype = dtypes.as_dtype(enum)
        compressed = self._lane.executable.recvs[index].compressed
        if start + size <= tuning.LANE_INLINE_BYTES:
            self._deliver(index, item, decode(buffer[start : start + size].copy(), dtype, dims,
                                              compressed))
            return
        try:
            data = np.empty(size, np.uint8)
        except MemoryError as e:
            self._cannot_drain(_no_memory(self._lane.executable.recvs[index], e))
            return

        def arrived(nbytes: int) -> None:
            self._logs[index]((clock(), self._names[index], nbytes))
            self._deliver(index, item, decode(data, dtype, dims, compressed))

        self._transport.post_recv(data, self._ranks[index], self._edge_tags[index], arrived)


class _Slot(tuple):
    """A persistent receive with its callback."""

    __slots__ = ()

    def __new__(cls, slot: LocalSlot, arrived: Callable[..., Any]) -> _Slot:
        return super().__new__(cls, (slot, arrived))

    @property
    def busy(self) -> bool:
        return self[0].busy

    def close(self) -> None:
        self[0].close()


def _no_memory(edge: Edge, error: Exception) -> OpError:
    return op_error(ResourceExhaustedError, f"Out of memory for a value from {edge.peer}: {error}",
                    op=edge.node)
