"""Data sets that are computed ahead or in parallel: order, errors, cancellation, threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from dataset_elements import elements, numbers, rest
from running import until_running
from speed import patience

import hpcflow as hf
from hpcflow.data import Dataset


def settle():
    """Wait until nothing is under way: there are no threads of data sets."""
    while any(t.name.startswith("hpcflow-data") for t in threading.enumerate()):
        time.sleep(0.02)


def python(function, *inputs):
    """An int64 that `function` computes."""
    return hf.py_func(lambda *v: np.int64(function(*v)), list(inputs), hf.int64)


@pytest.mark.parametrize("size", [1, 2, 7, -1, None])
def test_prefetch(session, size):
    assert numbers(session, Dataset.range(20).prefetch(size)) == list(range(20))
    assert numbers(session, Dataset.range(6).prefetch(size).batch(4).repeat(2)) == [
        [0, 1, 2, 3], [4, 5]] * 2


def test_no_more_than_asked_for_is_computed_ahead(session):
    seen = []
    dataset = Dataset.range(100).map(lambda x: python(lambda v: seen.append(int(v)) or v, x))
    following = dataset.prefetch(3).make_one_shot_iterator().get_next()
    assert session.run(following) == 0
    settle()  # the buffer is full, and holds no thread
    assert 2 <= len(seen) <= 4


@pytest.mark.parametrize("calls", [1, 4, -1])
def test_parallel_calls_keep_the_order(session, calls):
    def slow(value):
        time.sleep(0.002 * (value % 3))
        return value * 10

    dataset = Dataset.range(12).map(lambda x: python(slow, x), num_parallel_calls=calls)
    assert numbers(session, dataset) == list(range(0, 120, 10))


def test_calls_are_made_at_the_same_time(session):
    both = threading.Barrier(2, timeout=patience())
    dataset = Dataset.range(2).map(lambda x: python(lambda v: (both.wait(), v)[1], x),
                                   num_parallel_calls=2)
    assert numbers(session, dataset) == [0, 1]


def test_many_short_calls(session):
    dataset = Dataset.range(500).map(lambda x: x + 1, num_parallel_calls=4)
    assert numbers(session, dataset) == list(range(1, 501))
    assert sum(len(b) for b in elements(session, dataset.batch(7).prefetch(2))) == 500


@pytest.mark.parametrize("change", [
    lambda d: d.prefetch(2), lambda d: d.map(hf.identity, num_parallel_calls=3),
    lambda d: d.apply(hf.data.experimental.map_and_batch(hf.identity, 1)),
    lambda d: d.interleave(Dataset.from_tensors, 1, 1, num_parallel_calls=2)])
def test_errors_stay_in_their_place(session, change):
    dataset = Dataset.range(5).map(lambda x: hf.check_numerics(1.0 / hf.to_float(x - 2), "here"))
    found = elements(session, change(dataset))
    assert found[2] is hf.errors.InvalidArgumentError
    assert [float(np.ravel(v)[0]) for i, v in enumerate(found) if i != 2] == [-0.5, -1, 1, 0.5]


def test_interleaving_ahead_is_interleaving(session):
    def rows(n):
        return Dataset.from_tensors(n).repeat(n)

    plain = numbers(session, Dataset.range(6).interleave(rows, 3, 2))
    assert numbers(session, Dataset.range(6).interleave(rows, 3, 2, num_parallel_calls=2)) == plain
    by_default = numbers(session, Dataset.range(6).interleave(rows))
    assert by_default == numbers(session, Dataset.range(6).interleave(rows, 4))
    assert by_default == numbers(session, Dataset.range(6).interleave(
        rows, num_parallel_calls=hf.data.experimental.AUTOTUNE))
    ahead = hf.data.experimental.parallel_interleave(rows, 3, 2)
    assert numbers(session, Dataset.range(6).apply(ahead)) == plain


def test_a_function_that_waits_is_not_in_the_way_of_others(session):
    queue = hf.FIFOQueue(10, hf.int64, [])
    dataset = Dataset.range(3).map(lambda x: x + queue.dequeue())
    iterator = dataset.prefetch(1).make_initializable_iterator()
    following, found = iterator.get_next(), []
    session.run(iterator.initializer)
    reader = threading.Thread(target=lambda: found.extend(rest(session, following)))
    reader.start()
    for value in (10, 20, 30):
        time.sleep(0.01)
        session.run(queue.enqueue([np.int64(value)]))
    reader.join(patience())
    assert found == [10, 21, 32]


def test_a_step_that_times_out_leaves_the_element_to_the_next(session):
    go = threading.Event()
    dataset = Dataset.range(3).map(lambda x: python(lambda v: (go.wait(), v)[1], x)).prefetch(1)
    following = dataset.make_one_shot_iterator().get_next()
    with pytest.raises(hf.errors.DeadlineExceededError):
        session.run(following, options=hf.RunOptions(timeout_in_ms=100))
    go.set()
    assert rest(session, following) == [0, 1, 2]


def test_closing_a_session_stops_what_is_under_way(graph):
    queue = hf.FIFOQueue(10, hf.int64, [])
    dataset = Dataset.range(100).map(lambda x: x + queue.dequeue(), num_parallel_calls=3)
    iterator = dataset.prefetch(2).make_initializable_iterator()
    following, failed = iterator.get_next(), []
    session = hf.Session()
    session.run(iterator.initializer)

    def wait():
        try:
            session.run(following)
        except (hf.errors.OpError, RuntimeError) as e:
            failed.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until_running(session)
    session.close()
    waiting.join(patience())
    assert isinstance(failed[0], hf.errors.CancelledError)
    settle()


def test_a_new_pass_stops_the_one_before(session):
    queue = hf.FIFOQueue(10, hf.int64, [])
    wait = hf.placeholder(hf.bool, [])
    dataset = Dataset.range(100).map(
        lambda x: hf.cond(wait, lambda: x + queue.dequeue(), lambda: x)).prefetch(2)
    iterator = dataset.make_initializable_iterator()
    session.run(iterator.initializer, {wait: True})
    with pytest.raises(hf.errors.DeadlineExceededError):
        session.run(iterator.get_next(), options=hf.RunOptions(timeout_in_ms=100))
    session.run(iterator.initializer, {wait: False})
    assert session.run(iterator.get_next()) == 0
    settle()


def test_steps_of_several_threads_share_the_elements(session):
    following = Dataset.range(200).map(lambda x: x * 2).make_one_shot_iterator().get_next()
    found: list = []
    readers = [threading.Thread(target=lambda: found.extend(rest(session, following)))
               for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(patience())
    assert sorted(found) == list(range(0, 400, 2))


def test_a_generator_is_closed_with_its_pass(session):
    ended = []
    dataset = Dataset.from_generator(lambda: iter(range(3)), hf.int64, [])
    dataset = dataset.map(lambda x: python(lambda v: ended.append(v) or v, x)).prefetch(10)
    assert numbers(session, dataset.take(1)) == [0]
    settle()


def _with_errors(session, dataset):
    """The numbers of a data set, "error" for each that fails."""
    following, found = dataset.make_one_shot_iterator().get_next(), []
    while True:
        try:
            found.append(int(session.run(following)))
        except hf.errors.OutOfRangeError:
            return found
        except hf.errors.InvalidArgumentError:
            found.append("error")


def _no_five(x):
    def check(v):
        if v == 5:
            raise ValueError("five")
        return v
    return python(check, x)


def test_errors_count_in_blocks_that_are_interleaved_in_parallel(session):
    source = Dataset.from_tensor_slices(np.int64([3, 5, 2]))
    several = lambda x: Dataset.from_tensors(x).repeat(x)
    bad = "error"
    for dataset, serial, parallel in (
            (source.map(_no_five), [3, bad, 2, 3, 2, 3], [3, bad, 3, 3, 2, 2]),
            (source, [3, *[bad] * 5, 3, 2, 3, 2], [3, bad, 3, bad, 3, bad, bad, 2, bad, 2])):
        def opened(x, inner=dataset is source):
            return several(x).map(_no_five) if inner else several(x)
        assert _with_errors(session, dataset.interleave(opened, 2)) == serial
        for way in (dataset.interleave(opened, 2, num_parallel_calls=2),
                    dataset.apply(hf.data.experimental.parallel_interleave(opened, 2))):
            assert _with_errors(session, way) == parallel
    behind = source.take(2).interleave(lambda x: Dataset.range(5, 8).map(_no_five), 2)
    assert _with_errors(session, behind) == [bad, 6, bad, 6, 7, 7]


def test_iterators_are_on_the_device_of_their_scope(graph):
    dataset = Dataset.range(10).map(lambda x: x * 2)
    with hf.device("/cpu:1"):
        iterator = hf.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
    assert iterator.initializer.device == "/device:CPU:1"
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(iterator.initializer)
        assert rest(session, following) == list(range(0, 20, 2))
