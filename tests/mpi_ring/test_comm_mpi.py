"""What only MPI has: private communicators, groups, placement, and progress with shared cores."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from comm_cases import Node
from mpi4py import MPI
from speed import patience

from hpcflow.comm import groups, libmpi
from hpcflow.comm.mpi_transport import MpiTransport
from hpcflow.comm.waiting import Backoff
from hpcflow.comm.world import describe, launched_under_mpi, private_comms, world

# Four ranks on two cores took 10 ms per exchange when waiting ranks kept their cores.
SHARED_HOP_SECONDS = 5e-3


@pytest.fixture
def node():
    """A listening transport over the world."""
    node = Node(MpiTransport(private_comms()))
    node.listen()
    yield node
    node.barrier()
    node.transport.close()


@pytest.mark.ranks(1)
def test_world() -> None:
    here = world()
    assert (here.rank, here.size) == (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
    assert here.thread_level == "multiple"
    assert here.any_thread
    assert world() is here
    assert launched_under_mpi() or here.size == 1


@pytest.mark.ranks(1)
def test_describe() -> None:
    facts = describe()
    assert facts["size"] == MPI.COMM_WORLD.size
    assert facts["tag_limit"] >= 32767
    assert facts["cuda_aware"] in (True, False, None)
    assert len(facts["libraries"]) == 1
    assert facts["libraries"] == libmpi.loaded()


def test_private_communicators_see_no_foreign_messages(node: Node) -> None:
    """The application's wildcards catch nothing of ours, and we nothing of its messages."""
    comm = MPI.COMM_WORLD
    foreign = np.zeros(1000, np.uint8)
    wildcard = comm.Irecv(foreign, MPI.ANY_SOURCE, MPI.ANY_TAG)
    target = np.zeros(8, np.uint8)
    counts: list[int] = []
    node.transport.post_recv(target, node.left, 4, counts.append)
    if node.size > 1:
        # The same tags as ours, before and after our own messages.
        first = comm.Isend(np.full(8, 99, np.uint8), node.right, 4)
        node.transport.send_message(node.right, b"ours")
        node.transport.post_send(np.full(8, 7, np.uint8), node.right, 4)
        second = comm.Isend(b"theirs", node.right, 0)
        node.until(lambda: counts and node.messages[node.left])
        assert node.messages[node.left] == [b"ours"]
        assert (target == 7).all()
        node.until(wildcard.Test)
        assert (foreign[:8] == 99).all()
        rest = np.zeros(6, np.uint8)
        comm.Recv(rest, node.left, 0)
        assert rest.tobytes() == b"theirs"
        first.Wait()
        second.Wait()
    else:
        node.transport.post_send(np.full(8, 7, np.uint8), node.right, 4)
        node.until(lambda: counts)
        assert not wildcard.Test()
        wildcard.Cancel()
        wildcard.Wait()


def test_transports_over_part_of_an_application() -> None:
    """A cluster can live on any communicator; ranks are those of the communicator."""
    comm = MPI.COMM_WORLD
    part = comm.Split(comm.rank % 2, -comm.rank)
    node = Node(MpiTransport(private_comms(part)))
    node.listen()
    assert (node.rank, node.size) == (part.rank, part.size)
    node.transport.send_message(node.right, bytes([comm.rank]))
    node.until(lambda: node.messages[node.left])
    theirs = node.messages[node.left][0][0]
    assert theirs % 2 == comm.rank % 2
    node.barrier()
    node.transport.close()
    node.transport.comms.free()
    part.Free()
    comm.Barrier()


@pytest.mark.ranks(1)
def test_placement() -> None:
    """Here all ranks share one node, and its cores as soon as there are more ranks."""
    comms = private_comms()
    assert comms.local_ranks == tuple(range(MPI.COMM_WORLD.size))
    by_node = groups.split_by_node(comms.collectives)
    assert by_node.size == len(comms.local_ranks)
    by_node.Free()
    comms.free()


def waited_for_cores() -> np.ndarray:
    """The times that this thread has had a core, and that it has waited for one."""
    return np.array([float(x) for x in Path("/proc/thread-self/schedstat").read_text().split()[:2]])


def test_progress_where_ranks_share_cores(node: Node) -> None:
    """A token goes round; ranks that wait leave their cores to the one that has it."""
    backoff = Backoff(node.transport.comms.oversubscribed)
    node.backoff = backoff
    rounds = 200
    times, before = [], waited_for_cores()
    for number in range(rounds):
        if node.rank == 0:
            start = time.perf_counter()
            node.transport.send_message(node.right, b"token")
        node.until(lambda: len(node.messages[node.left]) > number)
        if node.rank == 0:
            times.append(time.perf_counter() - start)
        else:
            node.transport.send_message(node.right, b"token")
    if node.rank == 0:
        had, waited = waited_for_cores() - before
        hop = min(times) / node.size
        # As many times longer does everything take, apart from what these ranks cause.
        busy = max(1.0, (1 + waited / had) / max(1.0, node.size / len(os.sched_getaffinity(0))))
        print(f"a hop between {node.size} ranks: {1e6 * hop:.1f} us, delayed {busy:.1f} times")
        assert hop < busy * SHARED_HOP_SECONDS


def test_background_thread_serves_while_the_rank_computes(node: Node) -> None:
    """Any thread may poll: messages are answered while the first thread is away."""
    node.transport.set_handler(
        lambda source, payload: (
            node.transport.send_message(source, b"answer")
            if payload == b"question"
            else node._handle(source, payload)
        )
    )
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            if not node.transport.poll():
                time.sleep(1e-4)

    server = threading.Thread(target=serve)
    server.start()
    try:
        node.transport.send_message(node.right, b"question")
        deadline = time.monotonic() + patience()
        while not node.messages[node.right] and time.monotonic() < deadline:
            np.ones((200, 200)) @ np.ones((200, 200))
        assert node.messages[node.right] == [b"answer"]
    finally:
        # The others may still ask.
        node.barrier()
        stop.set()
        server.join()


def test_messages_of_many_transfers_at_once(node: Node) -> None:
    """With many requests outstanding completions are still found, in any order."""
    total = 500
    targets = [np.zeros(64, np.uint8) for _ in range(total)]
    finished: list[int] = []
    for number in range(total):
        node.transport.post_recv(
            targets[number], node.left, number, lambda count, n=number: finished.append(n)
        )
    order = np.random.default_rng(11).permutation(total)
    for number in order.tolist():
        node.transport.post_send(np.full(64, number % 256, np.uint8), node.right, number)
        if number % 50 == 0:
            node.transport.poll()
    node.until(lambda: len(finished) == total)
    assert sorted(finished) == list(range(total))
    assert all((target == number % 256).all() for number, target in enumerate(targets))


class Watched:
    """A transfer that does not complete until it may; notes every look for it."""

    outgoing = False
    where = (0, 0)

    def __init__(self, events: list[str]) -> None:
        self._events = events
        self.may_complete = False

    def test(self, status: MPI.Status) -> bool:
        self._events.append("value")
        return self.may_complete

    def finish(self, status: MPI.Status) -> None:
        pass


def test_messages_that_have_come_do_not_wait_for_the_core(node: Node) -> None:
    """Where a look for values gives the core away, messages that are there are taken before, but
    not any number of them."""
    if node.size == 1:
        pytest.skip("no message to ourselves goes through MPI")
    node.barrier()
    count = 20
    if node.rank == 1:
        MPI.COMM_WORLD.recv(source=0)  # the first rank has left the barrier
        for number in range(count):
            node.transport.send_message(0, bytes([number]))
        MPI.COMM_WORLD.send(None, 0)  # behind them
    elif node.rank == 0:
        MPI.COMM_WORLD.send(None, 1)
        MPI.COMM_WORLD.recv(source=1)
        events: list[str] = []
        watched = Watched(events)

        def handle(source: int, payload: bytes) -> None:
            if len(payload) == 1:
                events.append("message")
            else:  # another rank is at the barrier
                node._handle(source, payload)

        node.transport.set_handler(handle)
        node.transport.yields = True
        node.transport.watch(watched)
        node.until(lambda: events.count("message") == count)
        first = events.index("message")
        assert events[first : first + 10] == ["message"] * 10
        assert "value" in events[first + 10 : first + count]
        watched.may_complete = True
        node.until(lambda: not node.transport.pending())
        node.listen()
    node.barrier()


@pytest.mark.ranks(1)
def test_values_that_have_come_go_before_a_look_for_messages_once(node: Node, monkeypatch) -> None:
    """The look may give the core away, and messages must not wait for ever."""
    node.barrier()
    events: list[str] = []
    control = node.transport._control
    while control.is_shut or node.transport._is_late:
        node.transport.poll()
    look = control.test
    monkeypatch.setattr(control, "test", lambda status: events.append("look") or look(status))
    for expected in (["value"], ["value", "look"], ["value"]):
        watched = Watched(events)
        watched.may_complete = True
        node.transport.watch(watched)
        assert node.transport.poll() and events == expected
        events.clear()
    monkeypatch.undo()
