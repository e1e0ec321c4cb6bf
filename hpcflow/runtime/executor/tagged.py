"""Messages inside loops that are spread over tasks: each says to which iteration it belongs.

They are control messages, for these come in order from each rank and need no receive posted for
each: what is late because its step has failed is recognized by the step's number, and dropped. A
value that is too large follows its message over the data plane, on one tag for each pair of ranks;
the receive is posted whenever a message announces it, so nothing is ever left under way.
"""

from __future__ import annotations

import struct
import threading
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.comm.transfers import clock
from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import Edge, Gate
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.executor.iterations import DEAD
from hpcflow.runtime.wire import wire
from hpcflow.runtime.wire.encoding import decode, encode, length

_VALUE = struct.Struct("<IHBBQ")  # edge, dtype, rank, depth, bytes; then path, dims and payload
_PROGRESS = struct.Struct("<III")  # loop, iteration, depth; then the path
_IS_DEAD, _FOLLOWS = 1, 2


class LaneAddress(NamedTuple):
    """The address that tells a lane from all others: the rank of its master, and two numbers of the
    master."""

    master: int
    plan: int
    lane: int


class TaggedEdges:
    """The edges of one lane that are inside loops.

    ``live`` is the step between its beginning here and its end; messages of a step that has not
    begun are kept for it.
    """

    def __init__(self, lane: Any, executable: Executable, ranks: dict[str, int],
                 devices: dict[str, Any], address: LaneAddress, pairing: Any) -> None:
        self.lane = lane
        self.transport = lane.transport
        self.address = address
        self._ranks = ranks
        self._tasks = {r: t for t, r in ranks.items()}
        self._devices = devices
        self._pairing = pairing
        self._lock = threading.Lock()
        self._live: Any = None
        self._over = 0  # the last step that has ended
        self._early: dict[int, list] = {}
        self._targets: list[tuple[int, int, int]] = []  # rank, its number of the edge, tag
        self.rebind(executable)

    def rebind(self, executable: Executable) -> None:
        """Use these edges for an executable that was built again."""
        self._sends: list[Edge] = executable.loop_sends
        self._recvs: list[Edge] = executable.loop_recvs
        self._by_node = {e.node: e.index for e in self._sends}
        own = {n: d for n, d in self._devices.items() if d.has_own_memory}
        self._send_devices = [own.get(e.node.device) for e in self._sends]
        self._recv_devices = [own.get(e.node.device) for e in self._recvs]

    def open_recvs(self, tags: Any) -> dict[str, Any]:
        """Edge name -> its number here, and the tag of large values."""
        return {e.key.decode(): [e.index, tags.shared(self._ranks[e.peer])] for e in self._recvs}

    def open_sends(self, tags: dict[str, Any]) -> None:
        """Take what the receivers said of the edges."""
        self._targets = [(self._ranks[e.peer], *tags[e.key.decode()]) for e in self._sends]

    # ------------------------------------------------------------ steps

    def begin(self, step_id: int) -> None:
        """A step is about to begin: what came for older ones is of no use."""
        with self._lock:
            self._over = step_id - 1
            self._early = {s: m for s, m in self._early.items() if s >= step_id}

    def started(self, step: Any) -> None:
        """`step` takes messages from now on, those that came before first."""
        with self._lock:
            self._live = step
            early = self._early.pop(step.step_id, ())
        for action in early:
            action(step.loops)

    def end(self) -> None:
        """No step takes messages."""
        with self._lock:
            if self._live is not None:
                self._over = self._live.step_id
            self._live = None

    def _deliver(self, step_id: int, action: Any) -> None:
        """Let ``action(loops)`` happen inside the step of this number."""
        with self._lock:
            step = self._live
            if step is None or step.step_id != step_id:
                if step_id > self._over:
                    self._early.setdefault(step_id, []).append(action)
                return
        step.post(partial(_act, step, action))

    # ------------------------------------------------------------ sending

    def send(self, step: Any, index: int, path: tuple[int, ...], value: Any) -> None:
        """Send the value (None over a control edge, or DEAD) of one iteration."""
        edge = self._sends[index]
        rank, number, tag = self._targets[index]
        flags, payload, dims = 0, b"", ()
        if value is DEAD:
            flags = _IS_DEAD
        elif not edge.is_control:
            device = self._send_devices[index]
            payload, dims = encode(value if device is None else device.to_host(value), edge)
        size = length(payload)
        self.lane.transfers.sent(rank)((clock(), edge.tensor, size))
        if size > tuning.TAGGED_INLINE_BYTES:
            flags = _FOLLOWS
        head = self._header(wire.LOOP_VALUE, flags, step.step_id) + _VALUE.pack(
            number, 0 if edge.is_control else edge.dtype.enum, len(dims), len(path), size,
        ) + struct.pack(f"<{len(path)}I{len(dims)}q", *path, *dims)
        if flags != _FOLLOWS:
            self.transport.send_message(rank, head + bytes(payload))
            return
        step.hold()
        with self._pairing:  # as announced, so sent: the tag is shared
            self.transport.send_message(rank, head)
            self.transport.post_send(payload, rank, tag, partial(step.post, step.let_go))

    def send_dead(self, step: Any, node: Node, path: tuple[int, ...]) -> None:
        """Send a dead value over the edge of a Send node."""
        self.send(step, self._by_node[node], path, DEAD)

    def confirm(self, step: Any, gate: Gate, path: tuple[int, ...], count: int) -> None:
        """Tell the owner of a loop that its first `count` iterations are complete here."""
        self.transport.send_message(self._ranks[gate.owner], self._progress(
            wire.LOOP_DONE, step, gate, path, count))

    def grant(self, step: Any, gate: Gate, path: tuple[int, ...], index: int) -> None:
        """Tell the followers of a loop that iteration `index` begins here."""
        message = self._progress(wire.LOOP_GRANT, step, gate, path, index)
        for task in gate.followers:
            self.transport.send_message(self._ranks[task], message)

    def _progress(self, kind: int, step: Any, gate: Gate, path: tuple[int, ...],
                  iteration: int) -> bytes:
        return self._header(kind, 0, step.step_id) + _PROGRESS.pack(
            gate.loop, iteration, len(path)) + struct.pack(f"<{len(path)}I", *path)

    def _header(self, kind: int, flags: int, step_id: int) -> bytes:
        master, plan, lane = self.address
        return wire.HEADER.pack(kind, flags, plan, lane, master, step_id)

    # ------------------------------------------------------------ receiving

    def take_value(self, step_id: int, message: Value, payload: Any) -> None:
        """A value came, with its bytes."""
        edge = self._recvs[message.edge]
        self.lane.transfers.received(self._ranks[edge.peer])(
            (clock(), edge.tensor, message.nbytes))
        value: Any = None
        if message.dead:
            value = DEAD
        elif message.dtype:
            value = decode(payload, dtypes.as_dtype(message.dtype), message.dims,
                           edge.compressed)
            device = self._recv_devices[message.edge]
            if device is not None:
                value = device.to_device(value)
        self._deliver(step_id, lambda loops: loops.arrived(message.edge, message.path, value))

    def take_done(self, step_id: int, source: int, payload: bytes) -> None:
        """Another task has completed iterations of a loop of which this one is the owner."""
        loop, path, count = _read_progress(payload)
        task = self._tasks[source]
        self._deliver(step_id, lambda loops: loops.confirmed(loop, path, task, count))

    def take_grant(self, step_id: int, source: int, payload: bytes) -> None:
        """The owner of a loop, the only one to send this, has begun another iteration."""
        loop, path, index = _read_progress(payload)
        self._deliver(step_id, lambda loops: loops.granted(loop, path, index))


def _read_progress(payload: bytes) -> tuple[int, tuple[int, ...], int]:
    """Return the loop, the iteration that it is in, and the iteration that a message tells of."""
    start = wire.HEADER.size
    loop, iteration, depth = _PROGRESS.unpack_from(payload, start)
    return loop, struct.unpack_from(f"<{depth}I", payload, start + _PROGRESS.size), iteration


def _act(step: Any, action: Any) -> None:
    if step.loops is not None:  # otherwise the step is over
        action(step.loops)


class Value(NamedTuple):
    """The header of a value in a message."""

    edge: int
    dtype: int
    path: tuple[int, ...]
    dims: tuple[int, ...]
    dead: bool
    nbytes: int
    follows: bool
    start: int  # where its bytes begin in the message


def read_value(payload: bytes, flags: int) -> Value:
    """Take apart a message with a value."""
    start = wire.HEADER.size
    edge, dtype, rank, depth, nbytes = _VALUE.unpack_from(payload, start)
    layout = f"<{depth}I{rank}q"
    start += _VALUE.size
    numbers = struct.unpack_from(layout, payload, start)
    return Value(edge, dtype, numbers[:depth], numbers[depth:], bool(flags & _IS_DEAD), nbytes,
                 bool(flags & _FOLLOWS), start + struct.calcsize(layout))


def inline_bytes(payload: bytes, value: Value) -> Any:
    """The bytes of a value that is part of its message, in memory of their own."""
    return np.frombuffer(payload, np.uint8, value.nbytes, value.start).copy()
