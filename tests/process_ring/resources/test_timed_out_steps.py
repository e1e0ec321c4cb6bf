"""Steps that time out have done all of their queue operation, and give its result, or nothing."""

from __future__ import annotations

import collections
import random
import threading
import time

import numpy as np
import pytest
from running import timed_out

import hpcflow as hf

SEED = 11
STEPS = 300  # per case; each is over within a millisecond or so


@pytest.fixture(params=["one process", "cluster"])
def place(request):
    """(where queues are, the target of sessions)."""
    with hf.Graph().as_default():
        if request.param == "one process":
            yield "", ""
            return
        spec = hf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:3333"]})
        servers = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
        yield "/job:ps/task:0", servers[1].target
        for server in servers:
            server._server.close()


def options(rng):
    """A time limit of a fraction of a step to several of them."""
    return hf.RunOptions(timeout_in_ms=rng.choice((1, 1, 2)))


def fill(session, enqueue, value, count, rng):
    """A thread that gives a queue 0, 1, 2 ... at about the pace of the steps that time out."""
    stop = threading.Event()

    def run():
        for i in range(count):
            time.sleep(rng.random() * 0.002)
            session.run(enqueue, {value: i})
        stop.set()

    threading.Thread(target=run, daemon=True).start()
    return stop


def taken_in_short_steps(session, take, size, over, rng):
    """What steps with little time got, until `over` is set and nothing has come for a while; and
    then, where they are too slow for so little time, what steps got that have more."""
    got, late = [], 0
    while not (over.is_set() and late > 20):
        try:
            got += np.ravel(session.run(take, options=options(rng))).tolist()
            late = 0
        except hf.errors.DeadlineExceededError:
            late += 1
    while session.run(size):
        got += np.ravel(session.run(take)).tolist()
    return got


def sources(where):
    """name -> (operation that adds the value, what takes one or more, how many there are)."""
    value = hf.placeholder(hf.int64, [])
    with hf.device(where):
        queue = hf.FIFOQueue(10, hf.int64, [[]])
        shuffled = hf.RandomShuffleQueue(10, 0, hf.int64, [[]], seed=1)
        first = hf.PriorityQueue(10, hf.int64, [[]])
        area = hf.contrib.staging.StagingArea([hf.int64], [[]])
    return value, {
        "dequeue": (queue.enqueue(value), queue.dequeue(), queue.size()),
        "dequeue_many": (queue.enqueue(value), queue.dequeue_many(2), queue.size()),
        "computed": (queue.enqueue(value), hf.square(hf.cast(queue.dequeue(), hf.float64)) + 1.0,
                     queue.size()),
        "shuffled": (shuffled.enqueue(value), shuffled.dequeue(), shuffled.size()),
        "priority": (first.enqueue([value, value]), first.dequeue()[1], first.size()),
        "staged": (area.put([value]), area.get(), area.size()),
    }


@pytest.mark.parametrize("kind", ["dequeue", "dequeue_many", "computed", "shuffled", "priority",
                                  "staged"])
def test_no_element_is_lost_or_given_twice(place, kind, count=STEPS):
    rng = random.Random(SEED)
    value, pairs = sources(place[0])
    add, take, size = pairs[kind]
    with hf.Session(place[1]) as session:
        over = fill(session, add, value, count, rng)
        got = taken_in_short_steps(session, take, size, over, rng)
    if kind == "computed":
        got = [round((x - 1) ** 0.5) for x in got]
    assert collections.Counter(got) == collections.Counter(range(count)), f"seed {SEED}"


def test_iterator_gives_every_element_once(place):
    rng = random.Random(SEED)
    with hf.device(place[0]):
        slow = hf.data.Dataset.range(STEPS).map(
            lambda x: hf.py_func(lambda v: (time.sleep(0.001), v)[1], [x], hf.int64)).prefetch(2)
        take = slow.make_one_shot_iterator().get_next()
    got = []
    with hf.Session(place[1]) as session:
        while True:
            try:
                got.append(session.run(take, options=options(rng)))
            except hf.errors.DeadlineExceededError:
                pass
            except hf.errors.OutOfRangeError:
                break
    assert got == list(range(STEPS))


def test_enqueue_is_done_or_not(place):
    rng = random.Random(SEED)
    value = hf.placeholder(hf.int64, [None])
    with hf.device(place[0]):
        queue = hf.FIFOQueue(3, hf.int64, [[]])
    enqueue, take = queue.enqueue_many(value), queue.dequeue()
    with hf.Session(place[1]) as session:
        got, done = [], threading.Event()

        def read():
            while not done.is_set():
                time.sleep(rng.random() * 0.002)
                try:
                    got.append(session.run(take, options=hf.RunOptions(timeout_in_ms=20)))
                except hf.errors.DeadlineExceededError:
                    pass

        reader = threading.Thread(target=read)
        reader.start()
        sent, partly = [], 0
        for i in range(0, STEPS, 2):
            try:
                session.run(enqueue, {value: [i, i + 1]}, options=options(rng))
                sent += [i, i + 1]
            except hf.errors.DeadlineExceededError as e:
                if "stays so" in e.message:  # how many, in order
                    count = int(e.message.rpartition("QueueEnqueueMany")[2].split()[1])
                    sent += [i, i + 1][:count]
                    partly += 1
        done.set()
        reader.join()
        while session.run(queue.size()):
            got.append(session.run(take))
    assert got == sent


def test_what_cannot_be_undone_is_said(place):
    with hf.device(place[0]):
        full, empty = hf.FIFOQueue(5, hf.int64, [[]], name="full"), hf.FIFOQueue(5, hf.int64, [[]])
        sum_ = hf.Variable(0, dtype=hf.int64)
    add = hf.assign_add(sum_, full.dequeue(name="take"))
    with hf.control_dependencies([add]):
        blocked = empty.dequeue()
    with hf.Session(place[1]) as session:
        session.run([sum_.initializer, full.enqueue_many([[1, 2]])])
        timed_out(session, blocked, r"stays so:\n.*'take'.*1 element of FIFOQueue 'full'")
        assert session.run([sum_, full.size()]) == [1, 1]


def test_what_nobody_has_seen_goes_back(place):
    """A step with two dequeues, of which one waits for good."""
    with hf.device(place[0]):
        full, empty = hf.FIFOQueue(5, hf.int64, [[]]), hf.FIFOQueue(5, hf.int64, [[]])
    both = full.dequeue() + 1, empty.dequeue()
    with hf.Session(place[1]) as session:
        session.run(full.enqueue_many([[1, 2]]))
        for _ in range(3):
            with pytest.raises(hf.errors.DeadlineExceededError):
                session.run(both, options=hf.RunOptions(timeout_in_ms=50))
        assert session.run(full.dequeue_many(2)).tolist() == [1, 2]


def test_an_element_that_makes_a_step_fail_does_not_come_back():
    with hf.Graph().as_default(), hf.Session() as session:
        queue = hf.FIFOQueue(5, hf.string, [[]])
        number = hf.string_to_number(queue.dequeue())
        session.run(queue.enqueue_many([["none", "2"]]))
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(number)
        assert session.run(number) == 2.0


def test_a_step_that_is_late_but_done_gives_its_result():
    with hf.Graph().as_default(), hf.Session() as session:
        queue = hf.FIFOQueue(5, hf.int64, [[]])
        slow = hf.py_func(lambda v: (time.sleep(0.05), v)[1], [queue.dequeue()], hf.int64)
        session.run(queue.enqueue(7))
        assert session.run(slow, options=hf.RunOptions(timeout_in_ms=10)) == 7


def accumulators(where, kind):
    """(accumulator, what adds a gradient, what takes the average, the average) of a kind."""
    with hf.device(where):
        if kind == "sparse":
            made = hf.SparseConditionalAccumulator(hf.float32, [None, 1000])
            rows = hf.IndexedSlices(hf.fill([2, 1000], 3.0), hf.constant([1, 4], hf.int64))
            return made, made.apply_indexed_slices_grad(rows), made.take_indexed_slices_grad(
                2).values, np.full([2, 1000], 3.0)
        dtype = hf.int32 if kind == "whole numbers" else hf.float32
        made = hf.ConditionalAccumulator(dtype, [1000])
        add = made.apply_grad(hf.fill([1000], hf.constant(3, dtype)))
        return made, add, made.take_grad(2), np.full([1000], 3)


@pytest.mark.parametrize("kind", ["dense", "whole numbers", "sparse"])
def test_gradients_that_nobody_has_seen_go_back(place, kind):
    """A step takes an average and waits for good; gradients that come later count as well."""
    made, add, take, expected = accumulators(place[0], kind)
    with hf.device(place[0]):
        empty = hf.FIFOQueue(5, hf.int64, [[]])
    both = hf.nn.relu(take) * 2, empty.dequeue()
    with hf.Session(place[1]) as session:
        session.run(add)
        session.run(add)
        for number in range(3):
            with pytest.raises(hf.errors.DeadlineExceededError) as caught:
                session.run(both, options=hf.RunOptions(timeout_in_ms=50))
            assert "stays so" not in str(caught.value)
            assert session.run(made.num_accumulated()) == 2 + number
            session.run(add)
        np.testing.assert_allclose(session.run(take), expected, rtol=1e-6)
        assert session.run(made.num_accumulated()) == 0


def error_of_a_step_between_averages(place, milliseconds):
    """What a step says that takes an average and times out after another one was taken, if there
    was time for all of that."""
    made, add, take, _ = accumulators(place[0], "dense")
    with hf.device(place[0]):
        queue = hf.FIFOQueue(5, hf.int64, [[]])
        fresh = made.apply_grad(hf.fill([1000], 1.0), local_step=1)
    both = take * 1, queue.dequeue()
    with hf.Session(place[1]) as session:
        session.run(add)
        session.run(add)
        errors = []

        def run():
            try:
                session.run(both, options=hf.RunOptions(timeout_in_ms=milliseconds))
            except hf.errors.DeadlineExceededError as e:
                errors.append(e.message)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and session.run(made.num_accumulated()):
            time.sleep(0.005)
        session.run(fresh)
        session.run(fresh)
        value = session.run(take)[0]
        in_time = thread.is_alive()
        thread.join()
        assert value == 1.0 or not in_time
        return errors[0] if in_time else None


def test_an_average_stays_taken_if_another_one_was_since(place):
    errors = (error_of_a_step_between_averages(place, 3000 * 8 ** i) for i in range(4))
    error = next(filter(None, errors))
    assert "the average of 2 gradients" in error and "stays so" in error
