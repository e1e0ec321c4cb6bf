"""Lanes: what one running step of a partition owns of the network: tags, buffers, requests.

A lane serves one step at a time and is used again afterwards. Its tags come from the receivers;
its edges of static shape are persistent requests on planned buffers, without headers: an empty
message means dead. Other edges carry a header, and small values inside it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import numpy as np

from hpcflow import dtypes
from hpcflow.comm.transfers import Transfers, clock
from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import Edge, Item, Part
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.errors import InvalidArgumentError, OpError, ResourceExhaustedError, op_error
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.cluster.gpu_edges import IPC, GpuEdges
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.iterations import DEAD
from hpcflow.runtime.executor.offload import Pace
from hpcflow.runtime.executor.tagged import LaneAddress, TaggedEdges
from hpcflow.runtime.wire.encoding import decode, encode, length, put_upper_halves, upper_halves
from hpcflow.runtime.wire.packed import Outgoing, opener
from hpcflow.runtime.wire.shared_edges import SharedOutbox, Sign, make_inbox

if TYPE_CHECKING:
    from hpcflow.comm.matching import LocalSlot

_HEADER = struct.Struct("<HHIQ")  # dtype, rank, 0, bytes; then the dimensions as int64
_LIVE = b"\x01"  # what a control edge carries


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


class Lane:
    """The network side of one running step of an :class:`Executable`.

    `ranks` maps task names to ranks, `address` tells the lane from all others, and `pairing` keeps
    a large value of a loop behind the message that announces it; `transfers` notes what the edges
    carry; `pace` knows how long the pieces of its steps take. ``on_failure(step)`` is told when the
    step fails, ``on_close()`` when the lane is closed.
    """

    def __init__(self, transport: Any, executable: Executable, ranks: dict[str, int],
                 tags: TagSpace, devices: dict[str, Any], address: LaneAddress,
                 pairing: Any, transfers: Transfers, pace: Pace) -> None:
        self.transport = transport
        self.pace = pace
        self.ranks = ranks
        self.transfers = transfers
        self.on_close: Any = None
        # What every step of this lane gets, and one that was made beforehand.
        self.wake: Any = None
        self.on_done: Any = None
        self._spare: Step | None = None
        self._used: Step | None = None  # one that is over
        self._spare_maker = WeakMethod(self._make_spare)
        self._asked = False  # for a spare step
        self._closed = False
        self.is_left = False  # to be closed when its step ends
        # None without loops over tasks, which most steps do not have.
        self.tagged = TaggedEdges(self, executable, ranks, devices, address, pairing) if (
            executable.spread) else None
        self.executable = executable
        self.on_failure: Any = None
        self._tags = tags
        self._send_ranks = [ranks[e.peer] for e in executable.sends]
        self._recv_ranks = [ranks[e.peer] for e in executable.recvs]
        self.recv_tags = [tags.take(r) for r in self._recv_ranks]
        self._send_logs = [transfers.sent(r) for r in self._send_ranks]
        self._recv_logs = [transfers.received(r) for r in self._recv_ranks]
        self._send_names = [e.tensor for e in executable.sends]
        self._recv_names = [e.tensor for e in executable.recvs]
        self._send_tags = [-1] * len(executable.sends)
        self._send_slots: list[Any] = [None] * len(executable.sends)
        self._send_buffers: list[Any] = [None] * len(executable.sends)
        # (the slot's put, buffer, dims, what takes notes, name, bytes) of the edges whose values
        # only have to be copied into the buffer.
        self._small: list[Any] = [None] * len(executable.sends)
        self._recv_slots: list[Any] = [None] * len(executable.recvs)
        self._wide: dict[int, np.ndarray] = {}  # what compressed values are put into
        # Now: a step that has begun could not say that there is no memory for them. What is
        # received late is to take memory late.
        self._send_devices = [_own_memory(devices, e.node.device) for e in executable.sends]
        self._recv_devices = [_own_memory(devices, e.node.device) for e in executable.recvs]
        self._gpu = GpuEdges(self, self._send_devices, self._recv_devices)
        self._gpu.export(executable.recvs, self._recv_ranks)
        exported = self._gpu.exported
        large = frozenset(e.index for e in executable.recvs if self._gpu.takes(e)) - exported
        late = executable.late_edges | exported
        self._inbox = make_inbox(transport, executable.recvs, self._recv_ranks, late, large)
        if self._inbox is not None:
            self._gpu.share_received([e for e in executable.recvs if self._inbox.address(e.index)],
                                     self._inbox.memory)
        self._recv_buffers: list[Any] = [
            None if self._is_late(e.index) else self._buffer_for(e) for e in executable.recvs]
        self._late: set[int] = set()  # the late edges whose receives are posted
        self._sent = [False] * len(executable.sends)
        # The memory of receivers that values are written into, and what then tells them.
        self._shared: list[Any] = [None] * len(executable.sends)
        self._signs: list[Sign | None] = [None] * len(executable.sends)
        self._outgoing = [Outgoing(e) if e.parts else None for e in executable.sends]
        self._by_node = _edges_by_node(executable.sends)
        self._sent_done = self._send_completed
        self.step: Any = None  # the Step that uses this lane
        self._over: Step | None = None  # the last one, if what it has done may be undone yet
        self.stop: tuple[int, bytes] | None = None  # a step that has to stop, and why
        self.stopped_at: str | None = None  # what the step waited for when it was told to stop

    def _is_late(self, index: int) -> bool:
        """True if the memory for edge `index` is taken when its value is needed."""
        return index in self.executable.late_edges and index not in self._gpu.exported and not (
            self._inbox is not None and self._inbox.address(index))

    def open_recvs(self) -> dict[str, Any]:
        """Edge name -> what its sender has to know: its tag, and the address of memory that it may
        write, or (in a loop) its place and a tag."""
        found: dict[str, Any] = {e.key.decode(): [t] for e, t in zip(
            self.executable.recvs, self.recv_tags, strict=True)}
        if self._inbox is not None:
            for edge in self.executable.recvs:
                found[edge.key.decode()] += self._inbox.address(edge.index)
        for index in self._gpu.exported:
            found[self.executable.recvs[index].key.decode()] += self._gpu.address(index)
        if self.tagged is not None:
            found.update(self.tagged.open_recvs(self._tags))
        return found

    def open_sends(self, tags: dict[str, Any]) -> None:
        """Take the tags that the receivers gave to this lane's edges (by edge name)."""
        outbox = SharedOutbox()
        for i, edge in enumerate(self.executable.sends):
            self._send_tags[i], *address = tags[edge.key.decode()]
            if address and address[0] == IPC:
                self._gpu.open(i, self._send_ranks[i], address)
            elif address:
                self._open_shared(i, edge, outbox.find(address, edge))
                self._gpu.share_sent(i, outbox.room(address), self._shared[i])
        if self.tagged is not None:
            self.tagged.open_sends(tags)

    def _open_shared(self, index: int, edge: Edge, memory: Any) -> None:
        if memory is None:
            return
        self._shared[index] = memory
        self._signs[index] = Sign(self.transport, memory, self._send_ranks[index],
                                  self._send_tags[index])
        outgoing = self._outgoing[index]
        if outgoing is not None:
            outgoing.use(memory)

    def close(self) -> None:
        """Give tags and requests back; what is still under way stays with the transport."""
        self._gpu.close()
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None
        self._spare, self._used, self._closed = None, None, True
        if self.on_close is not None:
            self.on_close()
        for slot in [*self._send_slots, *(sign.slot for sign in self._signs if sign is not None)]:
            if slot is not None and not slot.busy:
                slot.close()
        for index, (slot, rank, tag) in enumerate(
                zip(self._recv_slots, self._recv_ranks, self.recv_tags, strict=True)):
            if slot is not None and slot.busy:  # a message may still come: the tag is not free
                continue
            if index in self._late:
                continue
            if slot is not None:
                slot.close()
            self._tags.release(rank, tag)
        self._send_slots, self._recv_slots, self._recv_ranks, self.recv_tags = [], [], [], []
        self._small = [None] * len(self._small)

    def rebind(self, executable: Executable) -> None:
        """Use this lane for an executable that was built again, with the same edges."""
        self.executable = executable
        if self.tagged is not None:
            self.tagged.rebind(executable)
        self._by_node = _edges_by_node(executable.sends)
        for slot in self._recv_slots:
            if slot is not None:
                slot.close()
        self._recv_slots = [None] * len(executable.recvs)

    def new_step(self) -> Step:
        """A step for this lane, which has no number yet."""
        step, self._spare = self._spare, None
        if step is None or step.executable is not self.executable:
            return self._make_step()
        return step

    def _make_step(self) -> Step:
        step = Step(self.executable, self, 0, self.on_done, self.wake, self.transport.rank)
        step.pace = self.pace
        return step

    def prepare(self, used: Step, when_idle: Callable[[WeakMethod], None]) -> None:
        """Let ``when_idle`` make the next step, of one that is over if that is possible, at a time
        when nobody waits for it."""
        if self.is_left:
            self.close()
            return
        if self._spare is None:
            self._used = used
        if not self._asked and self.executable.tracer is None:
            self._asked = True
            when_idle(self._spare_maker)

    def _make_spare(self) -> None:
        self._asked = False
        if self._spare is None and not self._closed:
            used, self._used = self._used, None
            if used is not None and used.executable is self.executable and used.again():
                used.on_done = self.on_done
                self._spare = used
            else:
                self._spare = self._make_step()

    def begin(self, step: Step) -> None:
        """Let `step` use this lane from now on."""
        self.step = step
        self.stopped_at = None
        if self.tagged is not None:
            self.tagged.begin(step.step_id)
        if self._sent:
            self._sent = [False] * len(self._sent)
        if self._inbox is not None:
            self._inbox.begin()

    def end(self) -> None:
        """End the use by a step: nothing of it is kept, but for what its master may not accept."""
        if self.tagged is not None:
            self.tagged.end()
        self._over = self.step if self.step is not None and self.step.effects else None
        self.step = None

    def withdraw(self, step_id: int, error: BaseException) -> None:
        """The master of a step has given it up: undo what it has done if it is over here."""
        for step in (self.step, self._over):
            if step is not None and step.step_id == step_id and step.finished:
                step.withdraw(error)

    def aborted(self, step: Step) -> None:
        """The step failed: what it has not sent is sent as dead, so that nobody waits for it."""
        for index, sent in enumerate(self._sent):
            if not sent:
                self.send_nothing(step, index)
        if self.on_failure is not None:
            self.on_failure(step)

    def last_transfers(self, ranks: Iterable[int], tasks: Iterable[str]) -> list[str]:
        """Return descriptions of the last transfers between this rank and `ranks` and those of
        `tasks`."""
        return self.transfers.describe([*ranks, *(self.ranks[task] for task in tasks)])

    # ------------------------------------------------------------ receiving

    def receive(self, step: Step, index: int, item: Item) -> None:
        """Open edge `index` for this step: its value goes to `item`."""
        if self._is_late(index):
            self._receive_late(index, item)
            return
        slot = self._recv_slots[index]
        if slot is None:
            slot = self._recv_slots[index] = self._make_recv_slot(index, item)
        slot[0].start(slot[1])

    def _receive_late(self, index: int, item: Item) -> None:
        self._late.add(index)  # before the memory for it: the message comes in any case
        try:
            buffer = self._buffer_for(self.executable.recvs[index])
        except ResourceExhaustedError as e:
            self._cannot_drain(e)
            return

        def arrived(nbytes: int) -> None:
            self._late.discard(index)
            self._recv_logs[index]((clock(), self._recv_names[index], nbytes))
            self._deliver(index, item, buffer if nbytes else DEAD)

        self.transport.post_recv(buffer.reshape(-1).view(np.uint8), self._recv_ranks[index],
                                 self.recv_tags[index], arrived)

    def _cannot_drain(self, error: OpError) -> None:
        """An edge has no memory for the value that is on its way: the step fails, once what runs
        now has returned."""
        self.step.post(partial(self.step.fail, error))

    def _make_recv_slot(self, index: int, item: Item) -> Any:
        buffer = self._recv_buffers[index]
        slot = self.transport.recv_slot(buffer.reshape(-1).view(np.uint8), self._recv_ranks[index],
                                        self.recv_tags[index])
        return _Slot(slot, self._taker(index, item, buffer))

    def _taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Return the callback that takes the messages of edge `index`."""
        edge: Edge = self.executable.recvs[index]
        if edge.is_control:
            return partial(self._control_arrived, index, item)
        if not edge.nbytes:
            return partial(self._header_arrived, index, item)
        if edge.parts:
            return self._pack_taker(index, item, buffer)
        if edge.dims == () and edge.dtype.np.kind in "biufc" and not (
                edge.compressed or self._recv_devices[index]):
            return self._number_taker(index, item, buffer)
        return partial(self._static_arrived, index, item)

    def _number_taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Takes a number as a NumPy scalar, with which kernels are several times faster than with
        a 0-d array."""
        log, name = self._recv_logs[index], self._recv_names[index]

        def arrived(nbytes: int) -> None:
            log((clock(), name, nbytes))
            self.step.received(item, buffer[()] if nbytes else DEAD)

        return arrived

    def _pack_taker(self, index: int, item: Item, buffer: np.ndarray) -> Any:
        """Takes a message with several tensors apart."""
        log, name = self._recv_logs[index], self._recv_names[index]
        edge = self.executable.recvs[index]
        tensors, whole = opener(edge, buffer), edge.nbytes

        def arrived(nbytes: int) -> None:
            log((clock(), name, nbytes and whole))
            self.step.received(item, tensors() if nbytes else DEAD)

        return arrived

    def _buffer_for(self, edge: Edge) -> np.ndarray:
        """Return the buffer that the messages of `edge` are received into."""
        if not edge.nbytes:
            return np.empty(1 if edge.is_control else tuning.LANE_INLINE_BYTES, np.uint8)
        shared = self._inbox.buffer(edge) if self._inbox is not None else None
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
        device = self._recv_devices[index]
        if device is not None and value is not DEAD:
            value = self._gpu.deliver(self.step, index, value)
        self.step.received(item, value)

    def _static_arrived(self, index: int, item: Item, nbytes: int) -> None:
        whole = nbytes and self.executable.recvs[index].nbytes  # it may be a sign
        self._recv_logs[index]((clock(), self._recv_names[index], whole))
        if not nbytes:
            self._deliver(index, item, DEAD)
        elif self._gpu.is_sign(index, nbytes):
            self.step.received(item, self._gpu.take(self.step, index))
        elif index in self._wide:
            put_upper_halves(self._recv_buffers[index].reshape(-1), self._wide[index])
            self._deliver(index, item, self._wide[index])
        else:
            self._deliver(index, item, self._recv_buffers[index])

    def _control_arrived(self, index: int, item: Item, nbytes: int) -> None:
        self._recv_logs[index]((clock(), self._recv_names[index], nbytes))
        self.step.received(item, None if nbytes else DEAD)

    def _header_arrived(self, index: int, item: Item, nbytes: int) -> None:
        self._recv_logs[index]((clock(), self._recv_names[index], nbytes))
        if not nbytes:
            self._deliver(index, item, DEAD)
            return
        buffer = self._recv_buffers[index]
        enum, rank, _, size = _HEADER.unpack_from(buffer)
        start = _HEADER.size
        dims = tuple(buffer[start : start + 8 * rank].view(np.int64).tolist())
        start += 8 * rank
        dtype = dtypes.as_dtype(enum)
        compressed = self.executable.recvs[index].compressed
        if start + size <= tuning.LANE_INLINE_BYTES:
            self._deliver(index, item, decode(buffer[start : start + size].copy(), dtype, dims,
                                              compressed))
            return
        try:
            data = np.empty(size, np.uint8)
        except MemoryError as e:
            self._cannot_drain(_no_memory(self.executable.recvs[index], e))
            return

        def arrived(nbytes: int) -> None:
            self._recv_logs[index]((clock(), self._recv_names[index], nbytes))
            self._deliver(index, item, decode(data, dtype, dims, compressed))

        self.transport.post_recv(data, self._recv_ranks[index], self.recv_tags[index], arrived)

    # ------------------------------------------------------------ sending

    def send(self, step: Step, index: int, value: Any) -> None:
        """Send `value` (None over a control edge) over edge `index`."""
        small = self._small[index]
        if small is not None:
            put, buffer, dims, log, name, nbytes = small
            if value.shape == dims and put(buffer, value):
                self._sent[index] = True
                log((clock(), name, nbytes))
                return
        edge = self.executable.sends[index]
        if edge.is_control:
            self._send_control(step, index)
            return
        device = self._send_devices[index]
        if device is not None:
            if device.fetches_later and device.is_device_value(value) and (
                    not edge.nbytes or value.shape == edge.dims):
                self._gpu.send(step, index, edge, value)
                self._sent[index] = True
                return
            value = device.to_host(value)
        self.send_host(step, index, edge, value)

    def send_host(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        """Send a value that is in memory of the host."""
        if edge.nbytes:
            self._send_static(step, index, edge, value)
        else:
            self._send_dynamic(step, index, edge, value)

    def send_part(self, step: Step, index: int, part: Part, value: Any) -> None:
        """Send `value` over edge `index`, together with the other parts: with the last of them."""
        outgoing: Outgoing = self._outgoing[index]  # type: ignore[assignment]
        if not outgoing.put(part, value):
            return
        self._sent[index] = True
        edge = self.executable.sends[index]
        if self._shared[index] is not None:
            self.send_sign(step, index, edge)
            return
        if edge.nbytes > tuning.LANE_COPY_BYTES:
            self._post(step, index, outgoing.message)
            outgoing.renew()
            return
        slot = self._send_slots[index] or self._make_send_slot(index, edge)
        if slot.put(self._send_buffers[index], outgoing.message):
            self._send_logs[index]((clock(), self._send_names[index], edge.nbytes))
        else:  # the last step's message has left, but nobody has polled since
            self._post(step, index, outgoing.message.copy())

    def _send_control(self, step: Step, index: int) -> None:
        self._sent[index] = True
        slot = self._send_slots[index]
        if slot is None:
            slot = self._send_slots[index] = self.transport.send_slot(
                _LIVE, self._send_ranks[index], self._send_tags[index])
        if not slot.put():
            self._post(step, index, _LIVE)
            return
        self._send_logs[index]((clock(), self._send_names[index], len(_LIVE)))

    def _send_static(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        if value.shape != edge.dims:
            raise op_error(InvalidArgumentError,
                           f"The value has shape {list(value.shape)}, but the graph says "
                           f"{list(edge.dims)}", op=edge.node)
        self._sent[index] = True
        if edge.compressed:
            value = upper_halves(value).reshape(edge.dims)
        shared = self._shared[index]
        if shared is not None:
            shared[...] = value
            self.send_sign(step, index, edge)
            return
        if edge.nbytes > tuning.LANE_COPY_BYTES:
            self._post(step, index, np.ascontiguousarray(value))
            return
        slot = self._send_slots[index]
        if slot is None:
            slot = self._make_send_slot(index, edge)
        if not slot.put(self._send_buffers[index], value):
            # The last step's message has left, but nobody has polled since.
            self._post(step, index, np.ascontiguousarray(value))
            return
        self._send_logs[index]((clock(), self._send_names[index], edge.nbytes))

    def send_short(self, step: Step, index: int, sign: bytes) -> None:
        """Tell the receiver that the value is on its GPU."""
        self._post(step, index, sign)

    def send_sign(self, step: Step, index: int, edge: Edge) -> None:
        """Tell the receiver that the value is in its memory."""
        sign: Sign = self._signs[index]  # type: ignore[assignment]
        if sign.send():
            self._send_logs[index]((clock(), self._send_names[index], edge.nbytes))
        else:  # the last one has left, but nobody has polled since
            self._post(step, index, sign.first.tobytes())

    def _make_send_slot(self, index: int, edge: Edge) -> Any:
        buffer = self._send_buffers[index] = np.empty(
            edge.dims, np.uint16 if edge.compressed else edge.dtype.np)
        slot = self._send_slots[index] = self.transport.send_slot(
            buffer.reshape(-1).view(np.uint8), self._send_ranks[index], self._send_tags[index])
        if not (edge.compressed or self._send_devices[index]):
            self._small[index] = (slot.put, buffer, edge.dims, self._send_logs[index],
                                  self._send_names[index], edge.nbytes)
        return slot

    def _send_dynamic(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        payload, dims = encode(value, edge)
        header = _HEADER.pack(edge.dtype.enum, len(dims), 0, length(payload)) + struct.pack(
            f"<{len(dims)}q", *dims)
        self._sent[index] = True
        if len(header) + length(payload) <= tuning.LANE_INLINE_BYTES:
            self._post(step, index, header + bytes(payload))
            return
        self._post(step, index, header)
        self._post(step, index, payload)

    def _post(self, step: Step, index: int, buffer: Any) -> None:
        step.hold()
        self.transport.post_send(buffer, self._send_ranks[index], self._send_tags[index],
                                 self._sent_done)
        self._send_logs[index]((clock(), self._send_names[index], length(buffer)))

    def send_dead(self, step: Step, node: Node) -> None:
        """Send a dead value over the edge of a Send node that has not sent yet."""
        index = self._by_node.get(node)
        if index is not None and not self._sent[index]:
            self.send_nothing(step, index)

    def send_nothing(self, step: Step, index: int) -> None:
        """Send a dead value over edge `index`."""
        self._sent[index] = True
        outgoing = self._outgoing[index]
        if outgoing is not None:
            outgoing.drop()
        self._post(step, index, b"")

    def _send_completed(self) -> None:
        step = self.step
        step.post(step.let_go)


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


def _edges_by_node(edges: Iterable[Edge]) -> dict[Node, int]:
    """Send node -> index of the edge that it belongs to."""
    return {node: e.index for e in edges
            for node in [e.node, *(part.node for part in e.parts)]}


def _no_memory(edge: Edge, error: Exception) -> OpError:
    return op_error(ResourceExhaustedError, f"Out of memory for a value from {edge.peer}: {error}",
                    op=edge.node)


def _own_memory(devices: dict[str, Any], name: str) -> Any:
    device = devices[name]
    return device if device.has_own_memory else None
