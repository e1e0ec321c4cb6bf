"""What every transport must do: one body, run over loopback and over MPI with any number of ranks.

Each case is a function of a `Node`, called on every rank at the same time.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from speed import patience

from hpcflow import config, errors
from hpcflow.comm.transport import Transport
from hpcflow.comm.waiting import Backoff

LIMIT_SECONDS = patience()
SMALL_CHUNK = 1000


class Node:
    """A transport with a minimal event loop, and the messages that came."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self.backoff = Backoff(oversubscribed=True)
        self.messages: dict[int, list[bytes]] = defaultdict(list)
        self._arrived = 0

    def listen(self) -> None:
        """Collect control messages by source."""
        self.transport.set_handler(self._handle)

    def _handle(self, source: int, payload: bytes) -> None:
        if payload == b"<barrier>":
            self._arrived += 1
        else:
            self.messages[source].append(payload)

    def until(self, condition: Callable[[], Any]) -> None:
        """Poll until `condition` holds."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"rank {self.rank}: nothing more happens"
            if self.transport.poll():
                self.backoff.reset()
            else:
                self.backoff.wait()

    def barrier(self) -> None:
        """Wait for all ranks; needs `listen`. Serves the transport meanwhile."""
        for rank in range(self.size):
            self.transport.send_message(rank, b"<barrier>")
        self.until(lambda: self._arrived >= self.size)
        self._arrived -= self.size
        self.until(lambda: self.transport.pending() == 0)

    @property
    def right(self) -> int:
        """The next rank."""
        return (self.rank + 1) % self.size

    @property
    def left(self) -> int:
        """The rank before."""
        return (self.rank - 1) % self.size


@contextlib.contextmanager
def small_chunks(size: int = SMALL_CHUNK) -> Iterator[None]:
    """Let transports made meanwhile cut transfers into small messages."""
    before = config.flags.chunk_bytes
    config.flags.chunk_bytes = size
    try:
        yield
    finally:
        config.flags.chunk_bytes = before


def pattern(length: int, *key: int) -> np.ndarray:
    """Bytes that tell transfers apart."""
    return np.random.default_rng(key).integers(0, 256, length, np.uint8)


def messages_keep_their_order(node: Node) -> None:
    """Messages of one source arrive in order, whatever their sizes and destinations."""
    node.listen()
    draw = random.Random(7)
    sizes = [draw.choice((0, 1, 30, 500, 16384, 16385, 60_000)) for _ in range(60)]
    for number, size in enumerate(sizes):
        for rank in range(node.size):
            node.transport.send_message(rank, bytes([number]) + bytes(size))
    everything = node.size * len(sizes)
    node.until(lambda: sum(map(len, node.messages.values())) == everything)
    for source in range(node.size):
        got = [(message[0], len(message) - 1) for message in node.messages[source]]
        assert got == list(enumerate(sizes))
    node.barrier()


def messages_of_every_size(node: Node) -> None:
    """Payloads arrive as they were, also where the caller changes its buffer afterwards."""
    node.listen()
    for size in (0, 1, 100, 16383, 16384, 16385, 1 << 20, 10 << 20):
        payload = bytearray(pattern(size, size).tobytes())
        expected = bytes(payload)
        node.transport.send_message(node.right, payload)  # type: ignore[arg-type]
        payload[:] = bytes(size)
        node.until(lambda: node.messages[node.left])
        assert node.messages[node.left].pop(0) == expected
    node.barrier()


def messages_wait_for_a_handler(node: Node) -> None:
    """What comes before `set_handler` is kept; a later handler replaces the first."""
    node.transport.send_message(node.right, b"early")
    node.transport.send_message(node.right, b"second" * 5000)
    for _ in range(50):
        node.transport.poll()
    node.listen()
    node.until(lambda: len(node.messages[node.left]) == 2)
    assert node.messages[node.left] == [b"early", b"second" * 5000]
    node.barrier()
    others: list[bytes] = []
    node.transport.set_handler(lambda source, payload: others.append(payload))
    node.transport.send_message(node.rank, b"later")
    node.until(lambda: others)
    assert others[0] == b"later" or node.size > 1


def many_tags(node: Node) -> None:
    """Transfers are matched by tag, not by the order of posting."""
    node.listen()
    tags = [0, 1, 77, 30_000, *range(100, 140)]
    buffers = {tag: np.zeros(tag % 50 + 1, np.uint8) for tag in tags}
    counts: dict[int, int] = {}
    for tag in tags:
        node.transport.post_send(pattern(tag % 50 + 1, node.rank, tag), node.right, tag)
    for tag in reversed(tags):
        node.transport.post_recv(
            buffers[tag], node.left, tag, lambda count, tag=tag: counts.update({tag: count})
        )
    node.until(lambda: len(counts) == len(tags))
    for tag in tags:
        assert counts[tag] == len(buffers[tag])
        np.testing.assert_array_equal(buffers[tag], pattern(tag % 50 + 1, node.left, tag))
    node.barrier()


def one_tag_in_posting_order(node: Node) -> None:
    """Transfers of one tag match in the order of posting, long ones among them too."""
    node.listen()
    draw = random.Random(3)
    sizes = [draw.choice((0, 10, SMALL_CHUNK, SMALL_CHUNK + 1, 7777)) for _ in range(40)]
    rooms = [size or draw.choice((0, 5, 5000)) for size in sizes]
    buffers = [np.zeros(room, np.uint8) for room in rooms]
    counts: dict[int, int] = {}
    sent: list[int] = []
    for number, size in enumerate(sizes):
        node.transport.post_recv(
            buffers[number], node.left, 5, lambda count, n=number: counts.update({n: count})
        )
        node.transport.post_send(
            pattern(size, node.rank, number), node.right, 5, lambda n=number: sent.append(n)
        )
    node.until(lambda: len(counts) == len(sizes) == len(sent))
    for number, size in enumerate(sizes):
        assert counts[number] == size
        expected = pattern(size, node.left, number)
        np.testing.assert_array_equal(buffers[number][:size], expected)
    node.barrier()


def zero_length(node: Node) -> None:
    """An empty message completes any receive with 0, and the next transfer is not disturbed."""
    node.listen()
    for length in (0, 1, SMALL_CHUNK, SMALL_CHUNK + 1, 10 * SMALL_CHUNK):
        buffer = np.zeros(length, np.uint8)
        counts: list[int] = []
        node.transport.post_recv(buffer, node.left, 3, counts.append)
        node.transport.post_send(b"", node.right, 3)
        node.until(lambda: counts)
        assert counts == [0]
        node.transport.post_recv(buffer, node.left, 3, counts.append)
        node.transport.post_send(pattern(length, length), node.right, 3)
        node.until(lambda: len(counts) == 2)
        assert counts == [0, length]
        np.testing.assert_array_equal(buffer, pattern(length, length))
    node.barrier()
    assert node.transport.pending() == 0


def short_messages(node: Node) -> None:
    """A message shorter than the buffer, and than a chunk, completes the receive."""
    node.listen()
    for room, length in ((8, 3), (5 * SMALL_CHUNK, 7), (5 * SMALL_CHUNK, SMALL_CHUNK - 1)):
        buffer = np.zeros(room, np.uint8)
        counts: list[int] = []
        node.transport.post_recv(buffer, node.left, 3, counts.append)
        node.transport.post_send(pattern(length, room), node.right, 3)
        node.until(lambda: counts)
        assert counts == [length]
        np.testing.assert_array_equal(buffer[:length], pattern(length, room))
        assert not buffer[length:].any()
    node.barrier()


def long_transfers(node: Node) -> None:
    """Transfers of many chunks, both ways at once."""
    node.listen()
    for length in (SMALL_CHUNK, SMALL_CHUNK + 1, 3 * SMALL_CHUNK, 123_456):
        buffer = np.zeros(length, np.uint8)
        events: list[Any] = []
        node.transport.post_send(
            pattern(length, node.rank), node.right, 9, lambda: events.append("sent")
        )
        node.transport.post_recv(buffer, node.left, 9, events.append)
        node.until(lambda: len(events) == 2)
        assert set(events) == {"sent", length}
        np.testing.assert_array_equal(buffer, pattern(length, node.left))
    node.barrier()


def slots(node: Node) -> None:
    """Persistent transfers are started again and again, also from their own callbacks."""
    node.listen()
    for length in (4, 20_000, 10 * SMALL_CHUNK):
        source, target = np.zeros(length, np.uint8), np.zeros(length, np.uint8)
        send = node.transport.send_slot(source, node.right, 40)
        receive = node.transport.recv_slot(target, node.left, 40)
        rounds = 300 if length < 100 else 20
        for number in range(rounds):
            events: list[Any] = []
            source[:] = number % 251
            receive.start(events.append)
            send.start(lambda: events.append("sent"))
            node.until(lambda: len(events) == 2)
            assert set(events) == {"sent", length}
            assert (target == number % 251).all()
        send.close()
        receive.close()
        node.barrier()


def slots_from_callbacks(node: Node) -> None:
    """A chain of transfers that lives in callbacks alone."""
    node.listen()
    here = np.zeros(1, np.int64)
    there = np.zeros(1, np.int64)
    send = node.transport.send_slot(there, node.right, 41)
    receive = node.transport.recv_slot(here, node.left, 41)
    rounds = 200
    seen: list[int] = []
    sent: list[None] = []

    def came(count: int) -> None:
        assert count == 8
        seen.append(int(here[0]))
        if len(seen) < rounds:
            receive.start(came)
        if node.rank != 0 or len(seen) < rounds:
            forward()

    def forward() -> None:
        there[0] = here[0] + 1
        send.start(lambda: sent.append(None))

    receive.start(came)
    if node.rank == 0:
        forward()
    node.until(lambda: len(seen) == rounds)
    assert seen == [seen[0] + number * node.size for number in range(rounds)]
    node.barrier()
    send.close()
    receive.close()


def control_beside_data(node: Node) -> None:
    """Control messages come, in order, also where polls find data as well."""
    node.listen()
    rounds = 100
    target, counts = np.zeros(1, np.int64), []
    send = node.transport.send_slot(np.ones(1, np.int64), node.right, 42)
    receive = node.transport.recv_slot(target, node.left, 42)
    for number in range(rounds):
        receive.start(counts.append)
        node.until(send.put)
        for part in range(3):
            node.transport.send_message(node.right, bytes([number, part]) + bytes(22))
        node.until(lambda: len(counts) > number)
        node.until(lambda: len(node.messages[node.left]) >= 3 * number)
    node.until(lambda: len(node.messages[node.left]) == 3 * rounds)
    got = [tuple(message[:2]) for message in node.messages[node.left]]
    assert got == [(number, part) for number in range(rounds) for part in range(3)]
    assert counts == [8] * rounds
    node.barrier()
    send.close()
    receive.close()


def puts(node: Node) -> None:
    """Values that nobody waits for arrive in order, and as they were when they were put."""
    node.listen()
    for length in (1, 600, 3000):
        source, target = np.zeros(length), np.zeros(length)
        send = node.transport.send_slot(source, node.right, 43)
        receive = node.transport.recv_slot(target, node.left, 43)
        for number in range(100):
            counts: list[int] = []
            receive.start(counts.append)
            node.until(lambda: send.put(source, float(number)))
            node.until(lambda: counts)
            assert counts == [8 * length] and (target == number).all()
        for number in range(20):  # further than its receiver, as far as there is room for that
            if not send.put(source, float(number)):
                node.transport.post_send(np.full(length, float(number)), node.right, 43)
        for number in range(20):
            counts = []
            receive.start(counts.append)
            node.until(lambda: counts)
            assert (target == number).all()
        for put in (lambda: send.put(source, 7.5), send.put):  # then the buffer as it is
            target[:] = 0
            counts = []
            receive.start(counts.append)
            node.until(put)
            node.until(lambda: counts)
            assert (target == 7.5).all()
        node.barrier()
        send.close()
        receive.close()
        with pytest.raises(errors.FailedPreconditionError, match="closed"):
            send.start()


def slot_misuse(node: Node) -> None:
    """Starting twice, closing while busy and starting after close are errors."""
    node.listen()
    buffer = np.zeros(4, np.uint8)
    counts: list[int] = []
    receive = node.transport.recv_slot(buffer, node.left, 42)
    send = node.transport.send_slot(np.ones(4, np.uint8), node.right, 42)
    receive.start(counts.append)
    with pytest.raises(errors.FailedPreconditionError, match="still in progress"):
        receive.start(counts.append)
    with pytest.raises(errors.FailedPreconditionError, match="still in progress"):
        receive.close()
    send.start()
    node.until(lambda: counts)
    node.barrier()
    send.close()
    receive.close()
    receive.close()
    with pytest.raises(errors.FailedPreconditionError, match="closed"):
        receive.start(counts.append)


def kinds_of_buffers(node: Node) -> None:
    """Arrays of every type and rank, bytes and memoryviews."""
    node.listen()
    sources = [
        np.arange(12, dtype=np.float64).reshape(3, 4),
        np.arange(6, dtype=ml_dtypes.bfloat16),
        np.array(3.5, np.float32),
        np.float32(2.5),
        np.ones((0, 3), np.int32),
        np.array([True, False]),
        np.array([1 + 2j]),
        b"bytes",
        memoryview(b"a view"),
    ]
    for tag, source in enumerate(sources):
        length = len(source) if isinstance(source, bytes) else source.nbytes
        target = bytearray(length) if tag % 2 else np.zeros(length, np.uint8)
        counts: list[int] = []
        node.transport.post_recv(target, node.left, tag, counts.append)
        node.transport.post_send(source, node.right, tag)
        node.until(lambda: counts)
        assert counts == [length]
        assert bytes(target) == (source if isinstance(source, bytes) else source.tobytes())
    node.barrier()


def bad_arguments(node: Node) -> None:
    """Errors name the fact and the expectation, and change nothing."""
    transport, invalid = node.transport, errors.InvalidArgumentError
    node.listen()
    grid = np.zeros((4, 4))
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for use in (transport.post_send, transport.send_slot):
        with pytest.raises(invalid, match="not C-contiguous"):
            use(grid[:, 1:], node.right, 0)
        with pytest.raises(invalid, match="not C-contiguous"):
            use(np.asfortranarray(np.zeros((3, 2))), node.right, 0)
        with pytest.raises(invalid, match=f"rank {node.size} does not exist"):
            use(grid, node.size, 0)
        with pytest.raises(invalid, match="tag -1 is out of range"):
            use(grid, node.right, -1)
        with pytest.raises(invalid, match="out of range"):
            use(grid, node.right, transport.tag_limit)
    for target in (frozen, b"1234", memoryview(b"1234"), np.float32(1)):
        with pytest.raises(invalid, match="read-only"):
            transport.post_recv(target, node.left, 0, print)
        with pytest.raises(invalid, match="read-only"):
            transport.recv_slot(target, node.left, 0)
    with pytest.raises(invalid, match="rank -1 does not exist"):
        transport.send_message(-1, b"")
    assert transport.pending() == 0
    node.barrier()


def too_long_a_message(node: Node) -> None:
    """A message longer than the buffer is an error of the receiving rank's poll."""
    node.listen()
    node.transport.post_recv(np.zeros(4, np.uint8), node.left, 8, lambda count: None)
    node.transport.post_send(np.zeros(9, np.uint8), node.right, 8)
    with pytest.raises(errors.InternalError, match=r"receive .*from rank \d+, tag 8"):
        node.until(lambda: False)
    node.barrier()


def random_traffic(node: Node) -> None:
    """Transfers and messages between all ranks, with sizes, tags and order drawn at random."""
    seed = 20_240_601
    print(f"random traffic: seed {seed}")
    node.listen()
    draw = random.Random(seed)
    ranks = range(node.size)
    plan = [
        (number, draw.choice(ranks), draw.choice(ranks), draw.randrange(6), _size(draw))
        for number in range(150 * node.size)
    ]
    finished: dict[int, int] = {}
    targets: dict[int, np.ndarray] = {}
    count = 0
    for number, source, dest, tag, size in plan:
        if source == node.rank:
            data = pattern(size, number)
            done = None if number % 3 else (lambda n=number: finished.update({-n - 1: 0}))
            count += done is not None
            node.transport.post_send(data, dest, tag, done)
            node.transport.send_message(dest, number.to_bytes(4, "little"))
        if dest == node.rank:
            targets[number] = np.zeros(size, np.uint8)
            count += 1
            node.transport.post_recv(
                targets[number], source, tag, lambda c, n=number: finished.update({n: c})
            )
        if draw.random() < 0.3:
            node.transport.poll()
    node.until(lambda: len(finished) == count)
    for number, _source, dest, _tag, size in plan:
        if dest == node.rank:
            assert finished[number] == size
            np.testing.assert_array_equal(targets[number], pattern(size, number))
    for source in ranks:
        expected = [n for n, s, d, *_ in plan if s == source and d == node.rank]
        node.until(lambda: len(node.messages[source]) == len(expected))
        assert [int.from_bytes(m, "little") for m in node.messages[source]] == expected
    node.barrier()


def _size(draw: random.Random) -> int:
    return draw.choice((0, 1, 8, 100, SMALL_CHUNK, draw.randrange(2000), draw.randrange(100_000)))


def concurrent_threads(node: Node) -> None:
    """Several threads post while one polls; nothing is lost and each thread's order is kept."""
    node.listen()
    threads, each = 4, 60
    received: dict[tuple[int, int], np.ndarray] = {}
    completed: list[int] = []
    failures: list[BaseException] = []

    def post(thread: int) -> None:
        try:
            for number in range(each):
                data = np.full(50, number, np.uint8)
                node.transport.post_send(data, node.right, thread)
                target = received[thread, number] = np.zeros(50, np.uint8)
                node.transport.post_recv(target, node.left, thread, completed.append)
                node.transport.send_message(node.right, bytes([thread, number]))
        except BaseException as error:  # noqa: BLE001  shown by the main thread
            failures.append(error)

    workers = [threading.Thread(target=post, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    node.until(lambda: len(completed) == threads * each or failures)
    node.until(lambda: len(node.messages[node.left]) == threads * each or failures)
    for worker in workers:
        worker.join()
    assert not failures
    for (_thread, number), target in received.items():
        assert (target == number).all()
    for thread in range(threads):
        numbers = [m[1] for m in node.messages[node.left] if m[0] == thread]
        assert numbers == list(range(each))
    node.barrier()


def several_pollers(node: Node) -> None:
    """Threads that all poll run every callback exactly once."""
    node.listen()
    total = 200
    completed: list[int] = []
    stop = threading.Event()

    def serve() -> None:
        backoff = Backoff(oversubscribed=True)
        while not stop.is_set():
            if node.transport.poll():
                backoff.reset()
            else:
                backoff.wait()

    workers = [threading.Thread(target=serve) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for number in range(total):
            node.transport.post_recv(np.zeros(1, np.uint8), node.left, number, completed.append)
            node.transport.post_send(b"x", node.right, number)
        node.until(lambda: len(completed) >= total)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert completed == [1] * total
    node.barrier()


def polls_inside_callbacks(node: Node) -> None:
    """A poll inside a callback returns False at once; what a callback posts goes on."""
    node.listen()
    inner: list[Any] = []

    def came(count: int) -> None:
        inner.append(node.transport.poll())
        node.transport.post_recv(np.zeros(1, np.uint8), node.left, 2, inner.append)
        node.transport.post_send(b"2", node.right, 2)

    node.transport.post_recv(np.zeros(1, np.uint8), node.left, 1, came)
    node.transport.post_send(b"1", node.right, 1)
    node.until(lambda: len(inner) == 2)
    assert inner == [False, 1]
    node.barrier()


def callbacks_never_run_inside_posts(node: Node) -> None:
    """Even where everything is at hand, `done` waits for the next poll."""
    node.listen()
    node.barrier()
    events: list[Any] = []
    for number in range(20):
        node.transport.post_send(b"1", node.right, 1, lambda: events.append("sent"))
        node.transport.post_recv(np.zeros(1, np.uint8), node.left, 1, events.append)
        node.transport.send_message(node.rank, b"me")
        assert len(events) == 2 * number
        assert not node.messages[node.rank]
        node.until(lambda n=number: len(events) == 2 * n + 2 and node.messages.get(node.rank))
        node.messages[node.rank].clear()
    node.barrier()


def failing_callbacks(node: Node) -> None:
    """An exception leaves `poll`, and what completed with it is still delivered."""
    node.listen()
    counts: list[int] = []

    def fail(count: int) -> None:
        raise ZeroDivisionError("from the callback")

    for tag, done in enumerate((fail, counts.append, fail, counts.append)):
        node.transport.post_recv(np.zeros(1, np.uint8), node.left, tag, done)
        node.transport.post_send(b"1", node.right, tag)
    failed = 0
    while failed < 2:
        with pytest.raises(ZeroDivisionError, match="from the callback"):
            node.until(lambda: False)
        failed += 1
    node.until(lambda: len(counts) == 2)
    node.barrier()


def closing(node: Node) -> None:
    """A closed transport polls nothing and refuses everything else."""
    node.listen()
    node.transport.send_message(node.right, b"last words")
    slot = node.transport.send_slot(np.zeros(3), node.right, 6)
    unmatched = node.transport.recv_slot(np.zeros(3), node.left, 7)
    unmatched.start(lambda count: None)
    node.until(lambda: node.messages[node.left])
    node.transport.post_recv(np.zeros(1000), node.left, 8, lambda count: None)
    node.transport.close()
    node.transport.close()
    assert node.transport.poll() is False
    refused = errors.FailedPreconditionError
    for use in (
        lambda: node.transport.send_message(node.right, b""),
        lambda: node.transport.send_message(node.rank, b""),
        lambda: node.transport.post_send(b"", node.right, 0),
        lambda: node.transport.post_recv(bytearray(1), node.left, 0, print),
        lambda: node.transport.recv_slot(bytearray(1), node.left, 0).start(),
        slot.start,
    ):
        with pytest.raises(refused, match="closed"):
            use()


CASES: dict[str, Callable[[Node], None]] = {
    case.__name__: case
    for case in (
        messages_keep_their_order,
        messages_of_every_size,
        messages_wait_for_a_handler,
        many_tags,
        one_tag_in_posting_order,
        zero_length,
        short_messages,
        long_transfers,
        slots,
        slots_from_callbacks,
        control_beside_data,
        puts,
        slot_misuse,
        kinds_of_buffers,
        bad_arguments,
        too_long_a_message,
        random_traffic,
        concurrent_threads,
        several_pollers,
        polls_inside_callbacks,
        callbacks_never_run_inside_posts,
        failing_callbacks,
        closing,
    )
}
