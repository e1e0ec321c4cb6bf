"""What a lane sends: values of planned shape by persistent requests or into memory that is shared
with the receiver, others behind a header, and dead values as empty messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.comm.transfers import clock
from hpcflow.compiler.emit.items import Edge, Part
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.errors import InvalidArgumentError, op_error
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.cluster.gpu_edges import IPC
from hpcflow.runtime.cluster.receiving import HEADER
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.wire.encoding import encode, length, upper_halves
from hpcflow.runtime.wire.packed import Outgoing
from hpcflow.runtime.wire.shared_edges import SharedOutbox, Sign

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.lane import Lane

_LIVE = b"\x01"  # what a control edge carries


class Sending:
    """The edges over which a lane sends; `devices` are those with memory of their own that the
    values are on, None for others."""

    def __init__(self, lane: Lane, devices: list[Any]) -> None:
        edges, self._lane = lane.executable.sends, lane
        self._transport, self._gpu = lane.transport, lane.gpu
        self._ranks = [lane.ranks[e.peer] for e in edges]
        self._logs = [lane.transfers.sent(r) for r in self._ranks]
        self._names = [e.tensor for e in edges]
        self._devices = devices
        self._tags = [-1] * len(edges)
        self._slots: list[Any] = [None] * len(edges)
        self._buffers: list[Any] = [None] * len(edges)
        # (the slot's put, buffer, dims, what takes notes, name, bytes) of the edges whose values
        # only have to be copied into the buffer.
        self._small: list[Any] = [None] * len(edges)
        self._sent = [0] * len(edges)  # the number of the step that has sent over it last
        # The memory of receivers that values are written into, and what then tells them.
        self._shared: list[Any] = [None] * len(edges)
        self._signs: list[Sign | None] = [None] * len(edges)
        self._outgoing = [Outgoing(e) if e.parts else None for e in edges]
        self._by_node = _edges_by_node(edges)
        self._sent_done = self._completed

    def open(self, tags: dict[str, Any]) -> None:
        """Take the tags that the receivers gave to the edges (by edge name)."""
        outbox = SharedOutbox()
        for i, edge in enumerate(self._lane.executable.sends):
            self._tags[i], *address = tags[edge.key.decode()]
            if address and address[0] == IPC:
                self._gpu.open(i, self._ranks[i], address)
            elif address:
                self._open_shared(i, edge, outbox.find(address, edge))
                self._gpu.share_sent(i, outbox.room(address), self._shared[i])

    def _open_shared(self, index: int, edge: Edge, memory: Any) -> None:
        if memory is None:
            return
        self._shared[index] = memory
        self._signs[index] = Sign(self._transport, memory, self._ranks[index],
                                  self._tags[index])
        outgoing = self._outgoing[index]
        if outgoing is not None:
            outgoing.use(memory)

    def close(self) -> None:
        """Give requests back; what is still under way stays with the transport."""
        for slot in [*self._slots, *(sign.slot for sign in self._signs if sign is not None)]:
            if slot is not None and not slot.busy:
                slot.close()
        self._slots = []
        self._small = [None] * len(self._small)

    def rebind(self) -> None:
        """Use the nodes of an executable that was built again, with the same edges."""
        self._by_node = _edges_by_node(self._lane.executable.sends)

    def abort(self, step: Step) -> None:
        """The step failed: what it has not sent is sent as dead, so that nobody waits for it."""
        for index, sent in enumerate(self._sent):
            if sent != step.step_id:
                self.send_nothing(step, index)

    def send(self, step: Step, index: int, value: Any) -> None:
        """Send `value` (None over a control edge) over edge `index`."""
        small = self._small[index]
        if small is not None:
            put, buffer, dims, log, name, nbytes = small
            if value.shape == dims and put(buffer, value):
                self._sent[index] = step.step_id
                log((clock(), name, nbytes))
                return
        edge = self._lane.executable.sends[index]
        if edge.is_control:
            self._send_control(step, index)
            return
        device = self._devices[index]
        if device is not None:
            if device.fetches_later and device.is_device_value(value) and (
                    not edge.nbytes or value.shape == edge.dims):
                self._gpu.send(step, index, edge, value)
                self._sent[index] = step.step_id
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
        self._sent[index] = step.step_id
        edge = self._lane.executable.sends[index]
        if self._shared[index] is not None:
            self.send_sign(step, index, edge)
            return
        if edge.nbytes > tuning.LANE_COPY_BYTES:
            self._post(step, index, outgoing.message)
            outgoing.renew()
            return
        slot = self._slots[index] or self._make_slot(index, edge)
        if slot.put(self._buffers[index], outgoing.message):
            self._logs[index]((clock(), self._names[index], edge.nbytes))
        else:  # the last step's message has left, but nobody has polled since
            self._post(step, index, outgoing.message.copy())

    def _send_control(self, step: Step, index: int) -> None:
        self._sent[index] = step.step_id
        slot = self._slots[index]
        if slot is None:
            slot = self._slots[index] = self._transport.send_slot(
                _LIVE, self._ranks[index], self._tags[index])
        if not slot.put():
            self._post(step, index, _LIVE)
            return
        self._logs[index]((clock(), self._names[index], len(_LIVE)))

    def _send_static(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        if value.shape != edge.dims:
            raise op_error(InvalidArgumentError,
                           f"The value has shape {list(value.shape)}, but the graph says "
                           f"{list(edge.dims)}", op=edge.node)
        self._sent[index] = step.step_id
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
        slot = self._slots[index]
        if slot is None:
            slot = self._make_slot(index, edge)
        if not slot.put(self._buffers[index], value):
            # The last step's message has left, but nobody has polled since.
            self._post(step, index, np.ascontiguousarray(value))
            return
        self._logs[index]((clock(), self._names[index], edge.nbytes))

    def send_bytes(self, step: Step, index: int, message: Any) -> None:
        """Send a value as it lies in memory of a GPU, or a sign that it is on the receiver's."""
        self._post(step, index, message)

    def send_sign(self, step: Step, index: int, edge: Edge) -> None:
        """Tell the receiver that the value is in its memory."""
        sign: Sign = self._signs[index]  # type: ignore[assignment]
        if sign.send():
            self._logs[index]((clock(), self._names[index], edge.nbytes))
        else:  # the last one has left, but nobody has polled since
            self._post(step, index, sign.first.tobytes())

    def _make_slot(self, index: int, edge: Edge) -> Any:
        buffer = self._buffers[index] = np.empty(
            edge.dims, np.uint16 if edge.compressed else edge.dtype.np)
        slot = self._slots[index] = self._transport.send_slot(
            buffer.reshape(-1).view(np.uint8), self._ranks[index], self._tags[index])
        if not (edge.compressed or self._devices[index]):
            self._small[index] = (slot.put, buffer, edge.dims, self._logs[index],
                                  self._names[index], edge.nbytes)
        return slot

    def _send_dynamic(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        payload, dims = encode(value, edge)
        header = HEADER.pack(edge.dtype.enum, len(dims), 0, length(payload)) + struct.pack(
            f"<{len(dims)}q", *dims)
        self._sent[index] = step.step_id
        if len(header) + length(payload) <= tuning.LANE_INLINE_BYTES:
            self._post(step, index, header + bytes(payload))
            return
        self._post(step, index, header)
        self._post(step, index, payload)

    def _post(self, step: Step, index: int, buffer: Any) -> None:
        step.hold()
        self._transport.post_send(buffer, self._ranks[index], self._tags[index],
                                 self._sent_done)
        self._logs[index]((clock(), self._names[index], length(buffer)))

    def send_dead(self, step: Step, node: Node) -> None:
        """Send a dead value over the edge of a Send node that has not sent yet."""
        index = self._by_node.get(node)
        if index is not None and self._sent[index] != step.step_id:
            self.send_nothing(step, index)

    def send_nothing(self, step: Step, index: int) -> None:
        """Send a dead value over edge `index`."""
        self._sent[index] = step.step_id
        outgoing = self._outgoing[index]
        if outgoing is not None:
            outgoing.drop()
        self._post(step, index, b"")

    def _completed(self) -> None:
        step = self._lane.step
        step.post(step.let_go)


def _edges_by_node(edges: Iterable[Edge]) -> dict[Node, int]:
    """Send node -> index of the edge that it belongs to."""
    return {node: e.index for e in edges
            for node in [e.node, *(part.node for part in e.parts)]}
