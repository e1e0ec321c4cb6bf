"""Edges between ranks of one node whose values lie in memory that both ranks map.

The receiver makes the memory, which takes the place of the buffer that messages are received into,
and tells the sender where it is. The sender writes its value there and sends the first byte of it,
as a sign: a message that changes nothing in the buffer. So the value is copied once, whether a
receive is posted yet or not; a sender that cannot map the memory sends the value instead.

A step of a lane begins when all parts of its last one are over. So nobody reads the last value any
more when the next one is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config
from hpcflow.comm.shared_memory import Room, aligned, enter_room, make_room
from hpcflow.compiler.emit.items import Edge
from hpcflow.host.tuning import runtime as tuning

if TYPE_CHECKING:
    from hpcflow.comm.loopback import LoopbackTransport



class SharedInbox:
    """The memory into which the ranks of a node write the values of a lane's edges."""

    def __init__(self, room: Room, offsets: dict[int, int]) -> None:
        self._room = room
        self._is_open = True
        self._offsets = offsets  # by the index of the edge
        self._begun = False

    def buffer(self, edge: Edge) -> np.ndarray | None:
        """The memory of an edge's values; None if it has none here."""
        offset = self._offsets.get(edge.index)
        return None if offset is None else _value(self._room.memory, offset, edge)

    @property
    def memory(self) -> np.ndarray:
        """All of it, as bytes."""
        return self._room.memory

    def address(self, index: int) -> list[Any]:
        """Where a sender finds the memory of an edge; empty if it has none."""
        offset = self._offsets.get(index)
        return [] if offset is None else [*self._room.address, offset]

    def begin(self) -> None:
        """Begin a step; at the second one all senders have mapped the memory, so nobody else may
        any more."""
        if self._begun and self._is_open:
            self._shut()
        self._begun = True

    def _shut(self) -> None:
        self._is_open = False
        self._room.shut(used=True)

    def close(self) -> None:
        """The lane is given up."""
        if self._is_open:
            self._shut()
        self._room.give_back()


def make_inbox(transport: LoopbackTransport, edges: Sequence[Edge], ranks: Sequence[int],
               late: frozenset[int], large: frozenset[int] = frozenset()) -> SharedInbox | None:
    """Memory for those of `edges`, which come from `ranks`, whose senders can write it; not for the
    `late` ones, which are to take memory late. Those that are `large` may be so, and late, as far
    as half of the memory goes. None if there are none, or no memory is left."""
    offsets: dict[int, int] = {}
    end = 0
    for edge, rank in zip(edges, ranks, strict=True):
        fits = end + edge.nbytes <= config.flags.shared_bytes // 2 if edge.index in large else (
            edge.nbytes <= tuning.SHARED_EDGE_MOST_BYTES and edge.index not in late)
        if (edge.nbytes > tuning.SHARED_EDGE_LEAST_BYTES and fits and not edge.compressed
                and transport.is_near(rank)):
            offsets[edge.index] = end
            end += aligned(edge.nbytes)
    room = make_room(end) if end else None
    if room is not None and room.nbytes < end:
        room.shut(used=False)
        return None
    return None if room is None else SharedInbox(room, offsets)


class SharedOutbox:
    """The memory of receivers that a lane writes its values into."""

    def __init__(self) -> None:
        self._rooms: dict[str, np.ndarray | None] = {}

    def room(self, address: list[Any]) -> np.ndarray | None:
        """The whole room of an address that was found."""
        return self._rooms.get(repr(address[:-1]))

    def find(self, address: list[Any], edge: Edge) -> np.ndarray | None:
        """The memory of an edge at an address of :class:`SharedInbox`; None if it is not to be
        had."""
        *room, offset = address
        key = repr(room)
        if key not in self._rooms:
            self._rooms[key] = enter_room(room)
        memory = self._rooms[key]
        return None if memory is None else _value(memory, offset, edge)


def _value(memory: np.ndarray, offset: int, edge: Edge) -> np.ndarray:
    nbytes = edge.dtype.size * math.prod(edge.dims)
    return memory[offset : offset + nbytes].view(edge.dtype.np).reshape(edge.dims)


class Sign:
    """A signal to a receiver that a value lies in its memory."""

    __slots__ = ("first", "slot", "_buffer")

    def __init__(self, transport: Any, value: np.ndarray, rank: int, tag: int) -> None:
        self.first = value.reshape(-1).view(np.uint8)[:1]
        self._buffer = np.empty(1, np.uint8)
        self.slot = transport.send_slot(self._buffer, rank, tag)

    def send(self) -> bool:
        """Send it; False, and nothing is done, while the last one is under way."""
        return self.slot.put(self._buffer, self.first)
