"""Queues: order, blocking, closing, cancellation, batches, and the threads that fill them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from running import until_waiting
from speed import patience

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def in_thread(call):
    """Start `call` in a thread; returns (thread, results, errors)."""
    results, errors = [], []

    def run():
        try:
            results.append(call())
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results, errors


def still_waits(thread, session, count=1):
    """True if the thread is one of so many whose steps wait."""
    until_waiting(session, count)
    thread.join(0.1)
    return thread.is_alive()


def test_first_in_first_out():
    q = hf.FIFOQueue(10, [hf.int32, hf.string], [[], []])
    x, s = hf.placeholder(hf.int32, []), hf.placeholder(hf.string, [])
    put, take, size = q.enqueue([x, s]), q.dequeue(), q.size()
    with hf.Session() as session:
        for i in range(3):
            session.run(put, {x: i, s: str(i)})
        assert session.run(size) == 3
        for i in range(3):
            assert session.run(take) == [i, str(i).encode()]


def test_static_shapes_and_names():
    q = hf.FIFOQueue(5, [hf.float32, hf.int32], [[2, 3], []], names=["image", "label"], name="q")
    out = q.dequeue_many(4)
    assert sorted(out) == ["image", "label"]
    assert out["image"].shape.as_list() == [4, 2, 3]
    assert q.dequeue_up_to(4)["image"].shape.as_list() == [None, 2, 3]
    with pytest.raises(ValueError, match="names"):
        q.enqueue([np.zeros((2, 3)), 1])
    with pytest.raises(ValueError, match="do not match"):
        q.enqueue({"image": np.zeros((2, 3)), "other": 1})


def test_dequeue_waits_for_an_element():
    q = hf.FIFOQueue(2, hf.int32, [[]])
    x = hf.placeholder(hf.int32, [])
    put, take = q.enqueue(x), q.dequeue()
    with hf.Session() as session:
        thread, results, errors = in_thread(lambda: session.run(take))
        assert still_waits(thread, session)
        session.run(put, {x: 5})
        thread.join(patience())
        assert results == [5] and not errors


def test_enqueue_waits_for_room():
    q = hf.FIFOQueue(1, hf.int32, [[]])
    x = hf.placeholder(hf.int32, [])
    put, take = q.enqueue(x), q.dequeue()
    with hf.Session() as session:
        session.run(put, {x: 1})
        thread, _, errors = in_thread(lambda: session.run(put, {x: 2}))
        assert still_waits(thread, session)
        assert session.run(take) == 1
        thread.join(patience())
        assert session.run(take) == 2 and not errors


def test_batches_larger_than_the_capacity():
    q = hf.FIFOQueue(2, hf.float32, [[]])
    put, take = q.enqueue_many([[1.0, 2.0, 3.0, 4.0, 5.0]]), q.dequeue_many(5)
    with hf.Session() as session:
        thread, _, errors = in_thread(lambda: session.run(put))
        np.testing.assert_array_equal(session.run(take), [1, 2, 3, 4, 5])
        thread.join(patience())
        assert not errors


def test_dequeue_many_needs_shapes():
    q = hf.FIFOQueue(2, hf.float32)
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="specified shapes"):
            session.run(q.dequeue_many(1))


def test_zero_elements():
    q = hf.FIFOQueue(2, hf.float32, [[3]])
    with hf.Session() as session:
        assert session.run(q.dequeue_many(0)).shape == (0, 3)
        with pytest.raises(hf.errors.InvalidArgumentError, match="-1"):
            session.run(q.dequeue_many(hf.placeholder_with_default(-1, [])))


def test_a_queue_is_closed_once():
    q = hf.FIFOQueue(5, hf.int32, [[]])
    close, cancel = q.close(), q.close(cancel_pending_enqueues=True)
    with hf.Session() as session:
        session.run(close)
        with pytest.raises(hf.errors.CancelledError, match="is already closed"):
            session.run(close)
        for _ in range(2):  # what waits may be cancelled later
            session.run(cancel)
        with pytest.raises(hf.errors.CancelledError, match="is already closed"):
            session.run(close)


@pytest.mark.parametrize(("capacity", "kept", "message"), [
    (10, 10, "min_after_dequeue 10 must be < capacity 10"),
    (0, 0, "min_after_dequeue 0 must be < capacity 0"),
    (10, -1, "min_after_dequeue -1 must be >= 0"),
])
def test_a_shuffling_queue_that_would_keep_everything(capacity, kept, message):
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(hf.RandomShuffleQueue(capacity, kept, hf.int32).size())


def test_closed_queue():
    q = hf.FIFOQueue(5, hf.int32, [[]])
    x = hf.placeholder(hf.int32, [])
    put, take, many, up_to = q.enqueue(x), q.dequeue(), q.dequeue_many(3), q.dequeue_up_to(3)
    with hf.Session() as session:
        for i in range(5):
            session.run(put, {x: i})
        session.run(q.close())
        with pytest.raises(hf.errors.CancelledError, match="is closed"):
            session.run(put, {x: 9})
        np.testing.assert_array_equal(session.run(many), [0, 1, 2])
        with pytest.raises(hf.errors.OutOfRangeError, match="requested 3, current size 2"):
            session.run(many)
        np.testing.assert_array_equal(session.run(up_to), [3, 4])  # the failure took nothing
        for op in (take, up_to):
            with pytest.raises(hf.errors.OutOfRangeError):
                session.run(op)


def test_closing_releases_waiting_dequeues():
    q = hf.FIFOQueue(5, hf.int32, [[]])
    take, close = q.dequeue(), q.close()
    with hf.Session() as session:
        thread, _, errors = in_thread(lambda: session.run(take))
        assert still_waits(thread, session)
        session.run(close)
        thread.join(patience())
        assert isinstance(errors[0], hf.errors.OutOfRangeError)


def test_waiting_enqueues_survive_a_close_unless_cancelled():
    for cancel in (False, True):
        q = hf.FIFOQueue(1, hf.int32, [[]], name=f"q_{cancel}")
        put, take = q.enqueue(1), q.dequeue()
        close = q.close(cancel_pending_enqueues=cancel)
        with hf.Session() as session:
            session.run(put)
            thread, _, errors = in_thread(lambda s=session, p=put: s.run(p))
            assert still_waits(thread, session)
            closing, _, _ = in_thread(lambda s=session, c=close: s.run(c))
            if cancel:
                thread.join(patience())
                assert isinstance(errors[0], hf.errors.CancelledError)
                assert session.run(take) == 1
            else:
                assert still_waits(thread, session, 2)
                assert [session.run(take), session.run(take)] == [1, 1]
                thread.join(patience())
                assert not errors
            closing.join(patience())


def test_a_timeout_leaves_the_queue_usable():
    q = hf.FIFOQueue(10, hf.int32, [[]])
    x = hf.placeholder(hf.int32, [])
    put, many, take = q.enqueue(x), q.dequeue_many(3), q.dequeue()
    with hf.Session(config=hf.ConfigProto(operation_timeout_in_ms=150)) as session:
        session.run(put, {x: 1})
        session.run(put, {x: 2})
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(many)
        assert session.run(q.size()) == 2
        session.run(put, {x: 3})
        assert [session.run(take) for _ in range(3)] == [1, 2, 3]  # in order


def test_closing_the_session_cancels_what_waits():
    q = hf.FIFOQueue(1, hf.int32, [[]])
    take = q.dequeue()
    session = hf.Session()
    thread, _, errors = in_thread(lambda: session.run(take))
    assert still_waits(thread, session)
    session.close()
    thread.join(patience())
    assert isinstance(errors[0], hf.errors.CancelledError)


def test_waiting_holds_no_thread():
    q = hf.FIFOQueue(10, hf.int32, [[]])
    takes = [q.dequeue() for _ in range(20)]
    before = threading.active_count()
    with hf.Session() as session:
        thread, results, errors = in_thread(lambda: session.run(takes))
        assert still_waits(thread, session)
        assert threading.active_count() < before + 8  # the runner, and a few for all steps
        session.run(q.enqueue_many([list(range(10))]))
        session.run(q.enqueue_many([list(range(10, 20))]))
        thread.join(patience())
        assert sorted(results[0]) == list(range(20)) and not errors


def test_shuffling():
    q = hf.RandomShuffleQueue(100, 5, hf.int32, [[]], seed=3)
    put, take, size = q.enqueue_many([list(range(40))]), q.dequeue(), q.size()
    with hf.Session() as session:
        session.run(put)
        got = [session.run(take) for _ in range(35)]
        assert got != sorted(got)
        thread, results, _ = in_thread(lambda: session.run(take))
        assert still_waits(thread, session)  # five stay behind ...
        session.run(q.close())  # ... until the queue is closed
        thread.join(patience())
        rest = [session.run(take) for _ in range(4)]
        assert sorted([*got, *results, *rest]) == list(range(40))
        assert session.run(size) == 0


def test_padding():
    q = hf.PaddingFIFOQueue(10, [hf.int32, hf.string], [[None], [None, 2]])
    a, b = hf.placeholder(hf.int32, [None]), hf.placeholder(hf.string, [None, 2])
    put, many = q.enqueue([a, b]), q.dequeue_many(2)
    assert many[1].shape.as_list() == [2, None, 2]
    with hf.Session() as session:
        session.run(put, {a: [1], b: [["x", "y"]]})
        session.run(put, {a: [2, 3, 4], b: np.empty((0, 2), object)})
        numbers, texts = session.run(many)
        np.testing.assert_array_equal(numbers, [[1, 0, 0], [2, 3, 4]])
        assert texts.tolist() == [[[b"x", b"y"]], [[b"", b""]]]


def test_priorities():
    q = hf.PriorityQueue(10, [hf.string], [[]])
    p, s = hf.placeholder(hf.int64, []), hf.placeholder(hf.string, [])
    put, take = q.enqueue([p, s]), q.dequeue()
    with hf.Session() as session:
        for priority, text in [(3, "c"), (1, "a"), (2, "b"), (1, "aa")]:
            session.run(put, {p: priority, s: text})
        assert [session.run(take)[1] for _ in range(4)] == [b"a", b"aa", b"b", b"c"]


def test_shared_names_between_graphs_of_a_server():
    server = hf.train.Server.create_local_server()
    try:
        with hf.Graph().as_default(), hf.Session(server.target) as session:
            session.run(hf.FIFOQueue(5, hf.int32, [[]], shared_name="s").enqueue(7))
        with hf.Graph().as_default(), hf.Session(server.target) as session:
            q = hf.FIFOQueue(5, hf.int32, [[]], shared_name="s", name="other")
            assert session.run(q.dequeue()) == 7
            with pytest.raises(hf.errors.InvalidArgumentError, match="Shared queue 's'"):
                session.run(hf.FIFOQueue(6, hf.float32, shared_name="s").size())
    finally:
        server._server.close()


def test_elements_keep_their_values():
    q = hf.FIFOQueue(5, hf.float32, [[3]])
    x = hf.placeholder(hf.float32, [3])
    v = hf.Variable([1.0, 1.0, 1.0])
    put, put_variable, take = q.enqueue(x), q.enqueue(v), q.dequeue()
    with hf.Session() as session:
        session.run(v.initializer)
        fed = np.ones(3, np.float32)
        session.run(put, {x: fed})
        session.run(put_variable)
        fed[:] = 9.0
        session.run(hf.assign_add(v, [1.0, 1.0, 1.0]))
        for _ in range(2):
            np.testing.assert_array_equal(session.run(take), [1, 1, 1])


def test_wrong_elements():
    q = hf.FIFOQueue(5, [hf.float32], [[3]])
    with pytest.raises(ValueError):
        q.enqueue(np.zeros(4, np.float32))
    with hf.Session() as session:
        x = hf.placeholder(hf.float32)
        with pytest.raises(hf.errors.InvalidArgumentError, match="Expected \\[3\\]"):
            session.run(q.enqueue(x), {x: np.zeros(4)})


def test_queue_runners_and_coordinator():
    counter = hf.Variable(0, name="counter")
    q = hf.FIFOQueue(5, hf.int32, [[]])
    with hf.control_dependencies([hf.assign_add(counter, 1)]):
        put = q.enqueue(hf.identity(counter))
    limited = hf.train.QueueRunner(q, [put])
    hf.train.add_queue_runner(limited)
    take = q.dequeue()
    with hf.Session() as session:
        session.run(counter.initializer)
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        got = [session.run(take) for _ in range(30)]
        assert got == sorted(got)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)
        assert coordinator.joined
        assert not any(t.is_alive() for t in threads)


def test_a_failing_runner_reports_to_the_coordinator():
    q = hf.FIFOQueue(5, hf.float32, [[]])
    put = q.enqueue(hf.check_numerics(hf.placeholder_with_default(np.nan, []), "deliberate"))
    hf.train.add_queue_runner(hf.train.QueueRunner(q, [put]))
    with hf.Session() as session:
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        assert coordinator.wait_for_stop(10)
        with pytest.raises(hf.errors.InvalidArgumentError, match="deliberate"):
            coordinator.join(threads, stop_grace_period_secs=10)


def test_a_runner_closes_its_queue_at_the_end_of_its_data():
    source = hf.FIFOQueue(5, hf.int32, [[]], name="source")
    sink = hf.FIFOQueue(50, hf.int32, [[]], name="sink")
    hf.train.add_queue_runner(hf.train.QueueRunner(sink, [sink.enqueue(source.dequeue())] * 2))
    take = sink.dequeue()
    with hf.Session() as session:
        session.run(source.enqueue_many([[1, 2, 3]]))
        session.run(source.close())
        hf.train.start_queue_runners(session)
        assert sorted(session.run(take) for _ in range(3)) == [1, 2, 3]
        with pytest.raises(hf.errors.OutOfRangeError):
            session.run(take)


def test_looper():
    calls = []
    coordinator = hf.train.Coordinator()
    looper = hf.train.LooperThread.loop(coordinator, 0.01, lambda: calls.append(1))
    while len(calls) < 3:
        time.sleep(0.01)
    coordinator.request_stop()
    coordinator.join([looper])


def test_a_timeout_of_one_run():
    q = hf.FIFOQueue(10, hf.int32, [[]])
    take = q.dequeue()
    with hf.Session() as session:
        for _ in range(2):
            with pytest.raises(hf.errors.DeadlineExceededError):
                session.run(take, options=hf.RunOptions(timeout_in_ms=50))
        session.run(q.enqueue(3))
        assert session.run(take, options=hf.RunOptions(timeout_in_ms=5000)) == 3


@pytest.mark.parametrize("make, message", [
    (lambda: hf.FIFOQueue(3, hf.int32, shared_name="s"),
     "has capacity 2 but requested capacity was 3"),
    (lambda: hf.FIFOQueue(2, hf.int64, shared_name="s"), "requested component types was"),
    (lambda: hf.FIFOQueue(2, hf.int32, [[1]], shared_name="s"), "requested component shapes was"),
    (lambda: hf.RandomShuffleQueue(2, 1, hf.int32, shared_name="s"), "requested type was"),
    (lambda: hf.RandomShuffleQueue(2, 1, hf.int32, shared_name="r"), "requested min_after_dequeue"),
    (lambda: hf.RandomShuffleQueue(2, 0, hf.int32, seed=1, shared_name="r"), "random seeds"),
])
def test_what_a_shared_queue_is_said_to_differ_in(make, message):
    with hf.Graph().as_default(), hf.Session() as session:
        for queue in (hf.FIFOQueue(2, hf.int32, shared_name="s"),
                      hf.RandomShuffleQueue(2, 0, hf.int32, seed=2, shared_name="r")):
            session.run(queue.queue_ref.op)
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(make().queue_ref.op)


def test_a_shared_shuffling_queue_with_a_seed_of_the_graph():
    hf.set_random_seed(5)
    first, second = (hf.RandomShuffleQueue(9, 0, hf.int32, [[]], shared_name="r") for _ in "ab")
    with hf.Session() as session:
        session.run(first.enqueue_many([[1, 2, 3]]))
        assert sorted(session.run(second.dequeue_many(3))) == [1, 2, 3]
    seeds = [q.queue_ref.op.get_attr("seed2") for q in (
        first, second, hf.RandomShuffleQueue(9, 0, hf.int32, shared_name="other"))]
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_list_of_something_else():
    with pytest.raises(TypeError, match="A list of queues expected"):
        hf.QueueBase.from_list(0, [1, 2])


def test_shapes_that_are_not_defined():
    for make in (lambda s: hf.FIFOQueue(2, hf.int32, s), lambda s: hf.PriorityQueue(2, hf.int32, s),
                 lambda s: hf.RandomShuffleQueue(2, 0, hf.int32, s)):
        with pytest.raises(ValueError, match="All shapes must be fully defined"):
            make([[None]])
    with pytest.raises(ValueError, match="must have a defined rank"):
        hf.PaddingFIFOQueue(2, hf.int32, [hf.TensorShape(None)])


def test_elements_of_another_shape():
    with hf.Graph().as_default(), hf.Session() as session:
        queue = hf.FIFOQueue(9, hf.int32, [[2]])
        many = hf.placeholder(hf.int32)
        with pytest.raises(hf.errors.InvalidArgumentError,
                           match=r"component 0. Expected \[1,2\], got \[1,3\]"):
            session.run(queue.enqueue_many([many]), {many: [[1, 2, 3]]})
        assert session.run(queue.size()) == 0


def test_a_close_comes_after_the_enqueues_that_wait():
    q = hf.FIFOQueue(1, hf.int32, [[]])
    put, take, close, is_closed = q.enqueue(1), q.dequeue(), q.close(), q.is_closed()
    with hf.Session() as session:
        session.run(put)
        assert not session.run(is_closed)
        waiting, _, errors = in_thread(lambda: session.run(put))
        assert still_waits(waiting, session)
        closing, _, _ = in_thread(lambda: session.run(close))
        assert still_waits(closing, session, 2)
        assert session.run(is_closed)
        assert [session.run(take), session.run(take)] == [1, 1]
        waiting.join()
        closing.join()
        assert not errors


def test_a_close_that_waits_can_be_cancelled():
    q = hf.FIFOQueue(1, hf.int32, [[]])
    put, close, cancel = q.enqueue(1), q.close(), q.close(cancel_pending_enqueues=True)
    with hf.Session() as session:
        session.run(put)
        waiting, _, errors = in_thread(lambda: session.run(put))
        assert still_waits(waiting, session)
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(close, options=hf.RunOptions(timeout_in_ms=50))
        session.run(cancel)
        waiting.join()
        assert isinstance(errors[0], hf.errors.CancelledError)


def test_scalars_are_batched_by_a_padding_queue():
    q = hf.PaddingFIFOQueue(4, [hf.int32, hf.string], shapes=[[], [None]])
    put = [q.enqueue([1, ["a"]]), q.enqueue([2, ["b", "c"]])]
    with hf.Session() as session:
        session.run(put[0])
        session.run(put[1])
        numbers, words = session.run(q.dequeue_many(2))
    assert numbers.tolist() == [1, 2]
    assert words.tolist() == [[b"a", b""], [b"b", b"c"]]


@pytest.mark.parametrize("make, name", [
    (lambda: hf.ConditionalAccumulator(hf.float32, name="a").accumulator_ref, "a"),
    (lambda: hf.Barrier(hf.float32, shapes=(), shared_name="b").barrier_ref, "b"),
    (lambda: hf.raw_ops.FIFOQueue(component_types=[hf.int32], name="q"), "q"),
    (lambda: hf.raw_ops.HashTable(key_dtype=hf.string, value_dtype=hf.int64, name="t"), "t"),
])
def test_handles_by_reference_are_a_container_and_a_name(make, name):
    with hf.container("here"):
        handle = make()
    assert handle.shape.as_list() == [2]
    with hf.Session() as session:
        assert session.run(handle).tolist() == [b"here", name.encode()]


def test_stacks_of_one_name_have_handles_of_their_own():
    one, two = (hf.raw_ops.Stack(elem_type=hf.float32, stack_name="s") for _ in range(2))
    with hf.Session() as session:
        assert session.run(one)[1] != session.run(two)[1]


def test_an_index_of_no_queue():
    q = hf.QueueBase.from_list(3, [hf.FIFOQueue(1, hf.int32), hf.FIFOQueue(2, hf.int32)])
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="is not in"):
            session.run(q.size())


def test_sessions_that_start_no_queue_runners():
    q = hf.FIFOQueue(5, hf.int32, [[]])
    hf.train.add_queue_runner(hf.train.QueueRunner(q, [q.enqueue(1)]))
    with hf.train.MonitoredSession() as session:  # it has started them itself
        assert hf.train.start_queue_runners(session) == []
    with pytest.raises(TypeError, match="must be a Session"):
        hf.train.start_queue_runners("target")
