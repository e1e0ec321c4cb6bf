"""The memory into which ranks of a node write what they send each other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import hpcflow as hf
from hpcflow.comm import shared_memory
from hpcflow.host import tuning
from hpcflow.runtime.wire.shared_edges import SharedOutbox, Sign, make_inbox


def edge(index, dims, dtype=hf.float32, compressed=False):
    return SimpleNamespace(index=index, dims=dims, dtype=dtype, compressed=compressed,
                           nbytes=int(np.prod(dims)) * dtype.size)


class Near:
    """A transport whose rank 1 is on the same node."""

    def __init__(self):
        self.sent = []

    def is_near(self, rank):
        return rank == 1

    def send_slot(self, buffer, dest, tag):
        def put(target, value):
            target[...] = value
            self.sent.append((bytes(buffer), dest, tag))
            return True

        return SimpleNamespace(put=put, busy=False)


LONG, SHORT = [tuning.runtime.SHARED_EDGE_LEAST_BYTES // 4 + 1], [4]
EDGES = [edge(0, LONG), edge(1, SHORT), edge(2, LONG), edge(3, LONG, hf.float64),
         edge(4, [tuning.runtime.SHARED_EDGE_MOST_BYTES // 4 + 1]),
         edge(5, LONG, compressed=True), edge(6, LONG)]


def inbox_of(edges=EDGES):
    return make_inbox(Near(), edges, [2 if e.index == 2 else 1 for e in edges], frozenset([6]))


def test_long_values_of_near_ranks_have_memory():
    inbox = inbox_of()
    assert [e.index for e in EDGES if inbox.buffer(e) is not None] == [0, 3]
    assert [e.index for e in EDGES if inbox.address(e.index)] == [0, 3]
    assert inbox.buffer(EDGES[3]).dtype == np.float64
    inbox.close()
    assert make_inbox(Near(), EDGES[1:3], [1, 2], frozenset()) is None


def test_what_the_sender_writes_is_there():
    inbox, outbox = inbox_of(), SharedOutbox()
    written = [outbox.find(inbox.address(i), EDGES[i]) for i in (0, 3)]
    written[0][...] = 1.5
    written[1][...] = np.arange(len(written[1]))
    np.testing.assert_array_equal(inbox.buffer(EDGES[0]), np.full(LONG, 1.5, np.float32))
    np.testing.assert_array_equal(inbox.buffer(EDGES[3]), np.arange(LONG[0]))
    inbox.close()


def test_a_sign_changes_nothing():
    inbox, transport = inbox_of(), Near()
    memory = SharedOutbox().find(inbox.address(0), EDGES[0])
    memory[...] = np.float32(-7.25)
    sign = Sign(transport, memory, 1, 9)
    assert sign.send()
    ((message, rank, tag),) = transport.sent
    assert (message, rank, tag) == (inbox.buffer(EDGES[0]).tobytes()[:1], 1, 9)
    inbox.close()


def test_the_memory_is_not_to_be_had_after_the_first_step():
    inbox = inbox_of()
    inbox.begin()
    assert SharedOutbox().find(inbox.address(0), EDGES[0]) is not None
    inbox.begin()
    assert SharedOutbox().find(inbox.address(0), EDGES[0]) is None
    inbox.close()


def test_what_there_is_room_for(monkeypatch):
    """All edges of a lane, or none; the room of a lane that is closed is there for others."""
    before = shared_memory._made
    needed = sum(shared_memory.aligned(e.nbytes) for e in (EDGES[0], EDGES[3]))
    monkeypatch.setattr(shared_memory.config.flags, "shared_bytes", before + needed)
    inbox = inbox_of()
    assert inbox is not None and inbox_of() is None
    inbox.close()
    assert shared_memory._made == before
    inbox = inbox_of()
    assert inbox is not None
    inbox.close()
