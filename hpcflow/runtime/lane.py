"""Lanes: what one running step of a partition owns of the network: tags, buffers, requests.

A lane serves one step at a time and is used again afterwards. Its tags come from the receivers;
its edges of static shape are persistent requests on planned buffers, without headers: an empty
message means dead. Other edges carry a header, and small values inside it.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.compiler.executable import Edge, Executable, Item
from hpcflow.compiler.ir import Node
from hpcflow.errors import InternalError, InvalidArgumentError, op_error
from hpcflow.runtime.executor import DEAD, Step

_HEADER = struct.Struct("<HHIQ")  # dtype, rank, 0, bytes; then the dimensions as int64
_INLINE = 4096  # bytes of a header message with everything in it
_COPY = 1 << 14  # smaller static values are copied into the lane's own send buffer
_LIVE = b"\x01"  # what a control edge carries


class TagSpace:
    """The tags of one receiver, per source; freed tags are used again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._next: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}

    def take(self, source: int) -> int:
        """A tag for messages from rank `source`; ``ResourceExhaustedError`` when none is left."""
        free = self._free.get(source)
        if free:
            return free.pop()
        tag = self._next.get(source, 0)
        if tag >= self.limit:
            from hpcflow.errors import ResourceExhaustedError

            raise ResourceExhaustedError(
                None, None, f"All {self.limit} message tags between two ranks are in use: close "
                "sessions that are no longer needed, or run fewer steps at once")
        self._next[source] = tag + 1
        return tag

    def release(self, source: int, tag: int) -> None:
        """Give a tag back."""
        self._free.setdefault(source, []).append(tag)


class Lane:
    """The network side of one running step of an :class:`Executable`.

    `ranks` maps task names to ranks. ``on_failure(step)`` is told when the step fails.
    """

    def __init__(self, transport: Any, executable: Executable, ranks: dict[str, int],
                 tags: TagSpace, devices: dict[str, Any]) -> None:
        self.transport = transport
        self.executable = executable
        self.on_failure: Any = None
        self._tags = tags
        self._send_ranks = [ranks[e.peer] for e in executable.sends]
        self._recv_ranks = [ranks[e.peer] for e in executable.recvs]
        self.recv_tags = [tags.take(r) for r in self._recv_ranks]
        self._send_tags = [-1] * len(executable.sends)
        self._send_slots: list[Any] = [None] * len(executable.sends)
        self._send_buffers: list[Any] = [None] * len(executable.sends)
        self._recv_slots: list[Any] = [None] * len(executable.recvs)
        self._recv_buffers: list[Any] = [None] * len(executable.recvs)
        self._send_devices = [_own_memory(devices, e.node.device) for e in executable.sends]
        self._recv_devices = [_own_memory(devices, e.node.device) for e in executable.recvs]
        self._sent = [False] * len(executable.sends)
        self._by_node = {e.node: e.index for e in executable.sends}
        self._sent_done = self._send_completed
        self.step: Any = None  # the Step that uses this lane

    def open_sends(self, tags: dict[str, int]) -> None:
        """Take the tags that the receivers gave to this lane's edges (by edge name)."""
        for i, edge in enumerate(self.executable.sends):
            self._send_tags[i] = tags[edge.key.decode()]

    def close(self) -> None:
        """Give tags and requests back; what is still under way stays with the transport."""
        for slot in self._send_slots:
            if slot is not None and not slot.busy:
                slot.close()
        for slot, rank, tag in zip(self._recv_slots, self._recv_ranks, self.recv_tags, strict=True):
            if slot is not None and slot.busy:  # a message may still come: the tag is not free
                continue
            if slot is not None:
                slot.close()
            self._tags.release(rank, tag)
        self._send_slots, self._recv_slots, self._recv_ranks, self.recv_tags = [], [], [], []

    def rebind(self, executable: Executable) -> None:
        """Use this lane for an executable that was built again, with the same edges."""
        self.executable = executable
        self._by_node = {e.node: e.index for e in executable.sends}
        for slot in self._recv_slots:
            if slot is not None:
                slot.close()
        self._recv_slots = [None] * len(executable.recvs)

    def begin(self, step: Step) -> None:
        """`step` uses this lane from now on."""
        self.step = step
        if self._sent:
            self._sent = [False] * len(self._sent)

    def end(self) -> None:
        """The step is over: nothing of it is kept."""
        self.step = None

    def aborted(self, step: Step) -> None:
        """The step failed: what it has not sent is sent as dead, so that nobody waits for it."""
        for index, sent in enumerate(self._sent):
            if not sent:
                self._sent[index] = True
                self._post(step, index, b"")
        if self.on_failure is not None:
            self.on_failure(step)

    # ------------------------------------------------------------ receiving

    def receive(self, step: Step, index: int, item: Item) -> None:
        """Open edge `index` for this step: its value goes to `item`."""
        slot = self._recv_slots[index]
        if slot is None:
            slot = self._recv_slots[index] = self._make_recv_slot(index, item)
        slot[0].start(slot[1])

    def _make_recv_slot(self, index: int, item: Item) -> Any:
        edge: Edge = self.executable.recvs[index]
        if edge.nbytes:
            buffer = np.empty(edge.dims, edge.dtype.np)
            arrived = self._static_arrived
        elif edge.is_control:
            buffer = np.empty(1, np.uint8)
            arrived = self._control_arrived
        else:
            buffer = np.empty(_INLINE, np.uint8)
            arrived = self._header_arrived
        self._recv_buffers[index] = buffer
        slot = self.transport.recv_slot(buffer.reshape(-1).view(np.uint8), self._recv_ranks[index],
                                        self.recv_tags[index])
        return _Slot(slot, partial(arrived, index, item))

    def _deliver(self, index: int, item: Item, value: Any) -> None:
        step: Step = self.step
        device = self._recv_devices[index]
        if device is not None and value is not DEAD:
            value = device.to_device(value)
        step.post(lambda: step.received(item, value))

    def _static_arrived(self, index: int, item: Item, nbytes: int) -> None:
        self._deliver(index, item, self._recv_buffers[index] if nbytes else DEAD)

    def _control_arrived(self, index: int, item: Item, nbytes: int) -> None:
        step = self.step
        dead = not nbytes
        step.post(lambda: step.control_received(item, dead))

    def _header_arrived(self, index: int, item: Item, nbytes: int) -> None:
        if not nbytes:
            self._deliver(index, item, DEAD)
            return
        buffer = self._recv_buffers[index]
        enum, rank, _, size = _HEADER.unpack_from(buffer)
        start = _HEADER.size
        dims = tuple(buffer[start : start + 8 * rank].view(np.int64).tolist())
        start += 8 * rank
        dtype = dtypes.as_dtype(enum)
        if start + size <= _INLINE:
            self._deliver(index, item, _decode(buffer[start : start + size].copy(), dtype, dims))
            return
        data = np.empty(size, np.uint8)
        self.transport.post_recv(
            data, self._recv_ranks[index], self.recv_tags[index],
            lambda n: self._deliver(index, item, _decode(data, dtype, dims)))

    # ------------------------------------------------------------ sending

    def send(self, step: Step, index: int, value: Any) -> None:
        """Send `value` (None over a control edge) over edge `index`."""
        edge = self.executable.sends[index]
        if edge.is_control:
            self._sent[index] = True
            self._post(step, index, _LIVE)
            return
        device = self._send_devices[index]
        if device is not None:
            value = device.to_host(value)
        if edge.nbytes:
            self._send_static(step, index, edge, value)
        else:
            self._send_dynamic(step, index, edge, value)

    def _send_static(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        if value.shape != edge.dims:
            raise op_error(InvalidArgumentError,
                           f"The value has shape {list(value.shape)}, but the graph says "
                           f"{list(edge.dims)}", op=edge.node)
        self._sent[index] = True
        if edge.nbytes > _COPY:
            self._post(step, index, np.ascontiguousarray(value))
            return
        slot = self._send_slots[index]
        if slot is None:
            buffer = self._send_buffers[index] = np.empty(edge.dims, edge.dtype.np)
            slot = self._send_slots[index] = self.transport.send_slot(
                buffer.reshape(-1).view(np.uint8), self._send_ranks[index], self._send_tags[index])
        if slot.busy:  # the last step's message has left, but nobody has polled since
            self._post(step, index, np.ascontiguousarray(value))
            return
        self._send_buffers[index][...] = value
        slot.start()

    def _send_dynamic(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        payload, dims = _encode(value, edge)
        header = _HEADER.pack(edge.dtype.enum, len(dims), 0, _length(payload)) + struct.pack(
            f"<{len(dims)}q", *dims)
        self._sent[index] = True
        if len(header) + _length(payload) <= _INLINE:
            self._post(step, index, header + bytes(payload))
            return
        self._post(step, index, header)
        self._post(step, index, payload)

    def _post(self, step: Step, index: int, buffer: Any) -> None:
        step.hold()
        self.transport.post_send(buffer, self._send_ranks[index], self._send_tags[index],
                                 self._sent_done)

    def send_dead(self, step: Step, node: Node) -> None:
        """Send a dead value over the edge of a Send node that has not sent yet."""
        index = self._by_node.get(node)
        if index is None or self._sent[index]:
            return
        self._sent[index] = True
        self._post(step, index, b"")

    def _send_completed(self) -> None:
        step = self.step
        step.post(step.let_go)


class _Slot(tuple):
    """A persistent receive with its callback."""

    __slots__ = ()

    def __new__(cls, slot: Any, arrived: Any) -> _Slot:
        return super().__new__(cls, (slot, arrived))

    @property
    def busy(self) -> bool:
        return self[0].busy

    def close(self) -> None:
        self[0].close()


def _own_memory(devices: dict[str, Any], name: str) -> Any:
    device = devices[name]
    return device if device.has_own_memory else None


def _length(payload: Any) -> int:
    return payload.nbytes if isinstance(payload, np.ndarray) else len(payload)


def _encode(value: Any, edge: Edge) -> tuple[Any, tuple]:
    """The bytes and the dims of a value."""
    if edge.dtype is dtypes.string:
        array = np.asarray(value, dtype=object)
        items = [bytes(b) for b in array.reshape(-1)]
        lengths = np.array([len(b) for b in items], np.int64)
        return lengths.tobytes() + b"".join(items), array.shape
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise op_error(InternalError, f"A {edge.dtype.name} value cannot be sent", op=edge.node)
    array = np.ascontiguousarray(array)
    shape = np.shape(value)  # ascontiguousarray makes rank 0 rank 1
    return array.reshape(-1).view(np.uint8), shape


def _decode(data: Any, dtype: Any, dims: tuple) -> Any:
    if dtype is not dtypes.string:
        return data.view(dtype.np).reshape(dims)
    count = int(np.prod(dims, dtype=np.int64))
    lengths = data[: 8 * count].view(np.int64)
    text = data[8 * count :].tobytes()
    out = np.empty(count, dtype=object)
    position = 0
    for i, length in enumerate(lengths.tolist()):
        out[i] = text[position : position + length]
        position += length
    return out.reshape(dims) if dims else out[0]
