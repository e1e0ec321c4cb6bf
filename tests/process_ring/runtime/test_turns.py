"""Turns of queue runners that run many in one go, and all the same as one by one."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from running import until_waiting

import hpcflow as hf
from hpcflow import config
from hpcflow.host.tuning import runtime as tuning
from hpcflow.resources.queue_kinds import RandomShuffleQueue
from hpcflow.resources.queues import Queue
from hpcflow.shapes import TensorShape


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setattr(config.flags, "compile", True)  # node by node there are single turns only
    monkeypatch.setattr(tuning, "TURN_LONG_SECONDS", 10.0)  # however busy the machine is
    with hf.Graph().as_default():
        yield


class OneByOne(hf.Session):
    """A session whose queue runners run a step for every turn."""

    def run(self, *arguments, **keywords):
        return super().run(*arguments, **keywords)


def numbers(count, capacity=100):
    """A queue with the numbers from 0 on, and the op that fills it."""
    queue = hf.FIFOQueue(capacity, [hf.int32], [[]])
    return queue, queue.enqueue_many([np.arange(count)])


def in_goes(session, op, goes):
    """Run `op` once as a step, then so many goes; the number of goes that did something."""
    session.run(op)
    runner = session._unfed[op]
    return sum(runner.turns() for _ in range(goes))


def drained(session, queue):
    """The elements of a queue."""
    take = queue.dequeue()
    return [session.run(take) for _ in range(session.run(queue.size()))]


@contextlib.contextmanager
def running(session, *runners):
    """Threads of the runners, which end with the block; errors of theirs are raised then."""
    coordinator = hf.train.Coordinator()
    threads = [t for r in runners for t in r.create_threads(session, coordinator, start=True)]
    yield coordinator
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=10)


def test_as_many_as_there_are_and_have_room():
    source, fill = numbers(20)
    target = hf.FIFOQueue(12, [hf.int32], [[]])
    move = target.enqueue(source.dequeue() * 2)
    with hf.Session() as session:
        session.run(fill)
        assert 1 <= in_goes(session, move, 11) < 11  # more than one each; then there is no room
        assert session.run([source.size(), target.size()]) == [8, 12]
        assert drained(session, target) == list(range(0, 24, 2))
        while session._unfed[move].turns():
            pass
        assert session.run([source.size(), target.size()]) == [0, 8]
        assert not session._unfed[move].turns()


def batches(make):
    """The batches of a pipeline of two queue runners, up to the last."""
    found = []
    with hf.Graph().as_default():
        x = hf.train.range_input_producer(50, num_epochs=1, seed=3).dequeue()
        row = hf.gather(np.arange(100.0).reshape(50, 2), x) + hf.random_uniform(
            [2], seed=5, dtype=hf.float64)
        batch = hf.train.batch([x, row], 8, capacity=20, allow_smaller_final_batch=True)
        with make() as session:
            session.run(hf.local_variables_initializer())
            with running(session, *hf.get_collection(hf.GraphKeys.QUEUE_RUNNERS)):
                with pytest.raises(hf.errors.OutOfRangeError):
                    while True:
                        found.append(session.run(batch))
    return found


def test_batches_are_those_of_single_turns():
    found, expected = batches(hf.Session), batches(OneByOne)
    assert [len(n) for n, _ in found] == [8] * 6 + [2]
    for (n, rows), (m, others) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(n, m)
        np.testing.assert_array_equal(rows, others)


@pytest.mark.parametrize("make", [hf.Session, OneByOne])
def test_an_error_leaves_what_came_before_and_after_it(make):
    source, fill = numbers(10)
    target = hf.FIFOQueue(100, [hf.int32], [[]])
    move = target.enqueue(hf.gather(np.arange(6, dtype=np.int32) * 10, source.dequeue()))
    with make() as session:
        session.run(fill)
        with pytest.raises(hf.errors.InvalidArgumentError, match="6"):
            with running(session, hf.train.QueueRunner(target, [move])) as coordinator:
                coordinator.wait_for_stop()
        assert drained(session, target) == [0, 10, 20, 30, 40, 50]
        assert drained(session, source) == [7, 8, 9]


@pytest.mark.parametrize("make", [hf.Session, OneByOne])
def test_a_full_queue_and_a_stop_leave_one_element_in_each_hand(make):
    source, fill = numbers(30)
    target = hf.FIFOQueue(9, [hf.int32], [[]])
    move = target.enqueue(source.dequeue())
    with make() as session:
        session.run(fill)
        with running(session, hf.train.QueueRunner(target, [move] * 2)):
            until_waiting(session, 2)
            assert session.run([source.size(), target.size()]) == [19, 9]
        assert set(drained(session, target)) < set(range(11))


def test_threads_move_every_element_once():
    source, fill = numbers(2000, 3000)
    target = hf.FIFOQueue(50, [hf.int32], [[]])
    runner = hf.train.QueueRunner(target, [target.enqueue(source.dequeue() + i) for i in (0, 5000)])
    take, end = target.dequeue_many(100), source.close()
    with hf.Session() as session:
        session.run(fill)
        session.run(end)
        with running(session, runner):
            found = np.concatenate([session.run(take) for _ in range(20)])
            with pytest.raises(hf.errors.OutOfRangeError):
                session.run(take)
    assert sorted(found % 5000) == list(range(2000))


def test_many_at_a_time_fill_what_fits():
    target = hf.FIFOQueue(10, [hf.float32], [[]])
    many = target.enqueue_many([hf.random_uniform([3], seed=1)])
    with hf.Session() as session:
        in_goes(session, many, 3)
        assert session.run(target.size()) == 9
        assert not session._unfed[many].turns()
        found = drained(session, target)
    one = hf.random_uniform([3], seed=1)
    with hf.Session() as session:
        np.testing.assert_array_equal(found, np.concatenate([session.run(one) for _ in range(3)]))


def test_what_may_wait_or_is_noticed_runs_turn_by_turn():
    gate, calls = threading.Event(), []

    def slow():
        calls.append(1)
        if len(calls) > 1:
            gate.wait(30)
        return np.float32(len(calls))

    target = hf.FIFOQueue(10, [hf.float32], [[]])
    runner = hf.train.QueueRunner(
        target, [target.enqueue(hf.py_func(slow, [], hf.float32, stateful=False))])
    counter = hf.Variable(0.0)
    counted = target.enqueue(counter.assign_add(1.0))
    take = target.dequeue()
    with hf.Session() as session:
        session.run(counter.initializer)
        assert not in_goes(session, counted, 3) and session.run(take) == 1
        with running(session, runner):
            assert session.run(take) == 1  # although the next one is not there
            gate.set()


def test_variables_that_are_read():
    source, fill = numbers(20)
    table = hf.Variable(np.arange(20, dtype=np.int32) * 3)
    target = hf.FIFOQueue(20, [hf.int32], [[]])
    move = target.enqueue(hf.gather(table, source.dequeue()))
    with hf.Session() as session:
        session.run([fill, table.initializer])
        assert in_goes(session, move, 20)
        assert drained(session, target) == list(range(0, 60, 3))
        session.run([fill, table.assign(table * 2)])
        assert session._unfed[move].turns() and drained(session, target)[:3] == [0, 6, 12]


def test_only_queues_in_order_are_taken_from_at_once():
    shuffled = hf.RandomShuffleQueue(20, 0, [hf.int32], [[]])
    fill = shuffled.enqueue_many([np.arange(10)])
    target = hf.FIFOQueue(20, [hf.int32], [[]])
    move = target.enqueue(shuffled.dequeue())
    with hf.Session() as session:
        session.run(fill)
        assert not in_goes(session, move, 3)


def queue_of(kind=Queue, capacity=4, **options):
    """A queue of numbers."""
    return kind("q", [hf.int32], [TensorShape([])], capacity, **options)


def test_room_that_is_held_is_for_nobody_else():
    queue, told = queue_of(), []
    assert queue.hold(3) == 3 and queue.hold(9) == 1 and queue.hold(1) == 0
    queue.enqueue((9,), told.append)
    assert not told and not queue.hold(1)
    assert queue.fill([[(1,)], [(2,)]], 3)
    assert told == [()]  # the one that waited has the third place
    assert queue.fill([], 1)
    assert queue.take_now(2) == [(1,), (2,)]
    queue.enqueue_many((np.array([3, 4, 5]),), told.append)
    assert len(told) == 1  # one place is free, two are held
    queue.give_back([(2,)], 2)
    assert queue.take_now(9) == [(2,), (9,), (3,), (4,)] and len(told) == 1
    queue.give_back([], 4)
    assert queue.size() == 1 and len(told) == 2


def test_a_queue_that_was_closed_takes_nothing():
    queue, told = queue_of(), []
    room = queue.hold(2)
    queue.close(done=told.append)
    assert told == [()] and not queue.fill([[(1,)]], room)
    assert not queue.size() and not queue.hold(1)


def test_elements_that_come_at_once_are_taken_as_they_come():
    def taken(add):
        queue = queue_of(RandomShuffleQueue, 100, min_after_dequeue=10,
                         generator=np.random.default_rng(1))
        found = []
        queue.dequeue_many(20, found.append)
        add(queue, [(i,) for i in range(40)])
        return list(found[0][0]), [e[0] for e in queue.take_now(20)]

    def one_by_one(queue, elements):
        for element in elements:
            queue.enqueue(element, lambda _: None)

    assert taken(one_by_one) == taken(lambda q, e: q.fill([[x] for x in e], q.hold(len(e))))


def test_long_turns_are_steps_which_is_looked_at_ever_more_rarely(monkeypatch):
    source, fill = numbers(1000, 1000)
    monkeypatch.setattr(tuning, "TURN_LONG_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "TURNS_SECONDS", 0.0)  # a go at a time
    with hf.Session() as session:
        target = hf.FIFOQueue(1000, [hf.int32], [[]])
        move = target.enqueue(source.dequeue() + 1)
        session.run(fill)
        session.run(move)
        turns = session._unfed[move].turns
        found = "".join("-g"[turns()] for _ in range(400))
    goes = tuning.TURNS_LONG
    pauses = ["-" * tuning.TURNS_PAUSE, "-" * 2 * tuning.TURNS_PAUSE, "-" * 4 * tuning.TURNS_PAUSE]
    assert found == ("g" * goes + "g".join(pauses))[:400]


def test_the_end_waits_for_what_may_come_back():
    queue, told = queue_of(), []
    for number in range(2):
        queue.enqueue((number,), lambda _: None)
    queue.close(done=lambda _: None)
    taken = queue.take_now(2)
    queue.dequeue(told.append)
    assert not told
    queue.give_back(taken[1:], 2)
    assert told == [taken[1]]
    queue.dequeue(told.append)
    assert isinstance(told[1], hf.errors.OutOfRangeError)


def test_a_session_behind_another_object():
    class Wrapper:
        def __init__(self, session):
            self.run, self.graph = session.run, session.graph

    source, fill = numbers(20)
    target = hf.FIFOQueue(30, [hf.int32], [[]])
    runner = hf.train.QueueRunner(target, [target.enqueue(source.dequeue())])
    with hf.Session() as session:
        session.run(fill)
        with running(Wrapper(session), runner):
            found = session.run(target.dequeue_many(20)).tolist()
            session.run(source.close())
        assert found == list(range(20))
