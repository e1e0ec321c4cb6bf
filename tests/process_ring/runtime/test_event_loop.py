"""How often the event loop's background thread looks whether it is needed."""

from __future__ import annotations

import threading

import pytest

import hpcflow as hf
from hpcflow import errors
from hpcflow.host import tuning
from hpcflow.runtime.executor import event_loop
from hpcflow.runtime.executor.event_loop import EventLoop


class Endpoint:
    """A transport to which messages come."""

    def __init__(self, messages: int = 0) -> None:
        self.messages = messages
        self.polls = 0

    def poll(self) -> bool:
        self.polls += 1
        self.messages -= self.messages > 0
        return self.messages > 0

    def pending(self) -> int:
        return self.messages


@pytest.fixture
def loop():
    """A loop without a background thread of its own."""
    found = EventLoop()
    found._endpoints = (Endpoint(3),)
    return found


def test_it_looks_less_often_beside_a_driver_that_waits(loop: EventLoop) -> None:
    pauses = [tuning.runtime.COVER_SECONDS]
    with loop._driving:
        for _ in range(6):
            pauses.append(loop._look(pauses[-1]))
    assert pauses == sorted(pauses)
    assert pauses[1] > tuning.runtime.COVER_SECONDS
    assert pauses[-2:] == [tuning.runtime.BESIDE_SECONDS] * 2
    assert loop._endpoints[0].polls == 0


def test_it_drives_and_looks_soon_again_where_nobody_does(loop: EventLoop) -> None:
    assert loop._look(tuning.runtime.BESIDE_SECONDS) == tuning.runtime.COVER_SECONDS
    assert loop._endpoints[0].polls == 3
    assert not loop._driving.locked()


def test_it_looks_less_often_where_nothing_comes(loop: EventLoop) -> None:
    loop._endpoints = (Endpoint(),)
    pauses = [tuning.runtime.COVER_SECONDS]
    for _ in range(6):
        pauses.append(loop._look(pauses[-1]))
    assert pauses == sorted(pauses)
    assert pauses[1] > tuning.runtime.COVER_SECONDS
    assert pauses[-2:] == [tuning.runtime.BESIDE_SECONDS] * 2
    assert loop._endpoints[0].polls == 6
    loop._endpoints[0].messages = 2
    assert loop._look(pauses[-1]) == tuning.runtime.COVER_SECONDS


def test_it_helps_a_busy_driver(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(event_loop.time, "monotonic", lambda: now)
    done = threading.Event()
    loop.soon(done.set)
    with loop._driving:
        loop._entered = now
        # It has only begun.
        assert loop._look(tuning.runtime.BESIDE_SECONDS) == tuning.runtime.BESIDE_SECONDS
        assert not done.is_set()
        now += 1.0
        assert loop._look(tuning.runtime.BESIDE_SECONDS) == tuning.runtime.COVER_SECONDS
    assert done.is_set()
    assert loop._endpoints[0].messages == 0


def test_a_step_that_waits_sleeps_where_nothing_has_to_be_polled(graph, session, monkeypatch):
    loop = event_loop.event_loop()
    monkeypatch.setattr(loop, "_endpoints", ())
    monkeypatch.setattr(loop, "_drive", lambda *args: pytest.fail("it polls"))
    queue = hf.FIFOQueue(2, hf.int32, [[]])
    taken, added = queue.dequeue_many(3) + 1, queue.enqueue_many([[1, 2, 3]])
    thread = threading.Thread(target=session.run, args=(added,))
    thread.start()
    assert session.run(taken).tolist() == [2, 3, 4]
    thread.join()
    with pytest.raises(errors.DeadlineExceededError):
        session.run(taken, options=hf.RunOptions(timeout_in_ms=20))
