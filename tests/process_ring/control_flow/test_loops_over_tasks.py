"""Loops whose bodies are spread over tasks: values, gradients, order, failures."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from async_ops import gate, gates, later
from fake_accelerator import fake_accelerators
from raw_control_flow import loop
from running import timed_out
from speed import patience
from spread_loops import PROGRAMS, build, chain, expected

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.runtime.wire import wire

TASKS = [f"/job:worker/task:{i}" for i in range(3)]
TIMEOUT = hf.RunOptions(timeout_in_ms=int(1000 * patience()))


@pytest.fixture
def servers():
    spec = hf.train.ClusterSpec({"worker": [f"localhost:{2222 + i}" for i in range(3)]})
    made = [hf.train.Server(spec, "worker", i) for i in range(3)]
    with hf.Graph().as_default():
        yield made
    for server in made:
        server._server.close()


@pytest.fixture
def session(servers):
    with hf.Session(servers[0].target) as session:
        yield session


@pytest.fixture(scope="module")
def wanted():
    return {program: expected(program) for program in PROGRAMS}


def check(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("parallel, colocate", [(1, True), (2, False), (10, True)])
def test_values_and_gradients(form, checked, servers, session, wanted, program, parallel,
                              colocate):
    fetches, feeds = build(program, TASKS, parallel, colocate)
    for _ in range(3):
        check(session.run(fetches, feeds, TIMEOUT), wanted[program])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_several_devices_of_one_task(form, checked, wanted, program):
    with hf.Graph().as_default(), hf.Session(config=hf.ConfigProto(
            device_count={"CPU": 3})) as session:
        fetches, feeds = build(program, [f"/cpu:{i}" for i in range(3)], colocate=True)
        check(session.run(fetches, feeds), wanted[program])


def test_tasks_with_devices_of_their_own_memory(wanted):
    spec = hf.train.ClusterSpec({"worker": [f"fake:{i}" for i in range(3)]})
    with fake_accelerators(1):
        made = [hf.train.Server(spec, "worker", i) for i in range(3)]
        try:
            for program in PROGRAMS:
                with hf.Graph().as_default(), hf.Session(made[0].target) as session:
                    fetches, feeds = build(program, TASKS, colocate=True)
                    check(session.run(fetches, feeds, TIMEOUT), wanted[program])
        finally:
            for server in made:
                server._server.close()


@pytest.mark.parametrize("master", [1, 2])
def test_any_task_may_be_the_master(servers, wanted, master):
    with hf.Session(servers[master].target) as session:
        for program in PROGRAMS[:4]:
            fetches, feeds = build(program, TASKS)
            check(session.run(fetches, feeds, TIMEOUT), wanted[program])


def test_masters_at_the_same_time(servers, wanted):
    """Each task runs steps over all of them, from two threads."""
    errors = []

    def work(index):
        try:
            with hf.Graph().as_default(), hf.Session(servers[index].target) as session:
                fetches, feeds = build(PROGRAMS[index], TASKS[index:] + TASKS[:index])

                def steps():
                    for _ in range(5):
                        check(session.run(fetches, feeds, TIMEOUT), wanted[PROGRAMS[index]])

                other = threading.Thread(target=guarded, args=(steps,))
                other.start()
                steps()
                other.join()
        except BaseException as e:  # noqa: BLE001  (reported below)
            errors.append(e)

    def guarded(steps):
        try:
            steps()
        except BaseException as e:  # noqa: BLE001  (reported below)
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("dtype, value", [
    (hf.string, [b"a", b"", b"bcd"]), (hf.string, b"scalar"), (hf.bool, [True, False]),
    (hf.complex64, [1 + 2j]), (hf.float64, np.zeros((0, 3))), (hf.int64, 7),
    (hf.float32, np.arange(5000.0)), (hf.uint8, np.arange(200000) % 251),
], ids=str)
def test_what_goes_between_tasks(servers, session, dtype, value):
    """Small values travel in their message, large ones behind it."""
    value = hf.constant(value, dtype)

    def body(i, a):
        for task in TASKS[1:]:
            with hf.device(task):
                a = hf.identity(later(a))
        return i + 1, a

    result = hf.while_loop(lambda i, _: i < 4, body, [0, value])[1]
    got, same = session.run([result, value], options=TIMEOUT)
    np.testing.assert_array_equal(got, same)
    assert getattr(got, "dtype", None) == getattr(same, "dtype", None)


def test_shapes_that_grow(servers, session):
    def body(i, a):
        with hf.device(TASKS[1]):
            a = hf.concat([a, a], 0)
        return i + 1, a

    out = hf.while_loop(lambda i, _: i < 12, body, [0, hf.ones([1, 2])],
                        shape_invariants=[hf.TensorShape([]), hf.TensorShape([None, 2])])[1]
    assert session.run(out, options=TIMEOUT).shape == (4096, 2)


def test_loops_of_primitives(servers, session):
    """A graph that was written without a while_loop, the predicate on a task of its own."""
    def condition(i, a, step):
        with hf.device(TASKS[2]):
            return hf.less(i, 20)

    def body(i, a, step):
        with hf.device(TASKS[1]):
            a = a + hf.to_float(i)
        return i + step, a

    with hf.device(TASKS[0]):
        i, a = loop(condition, body, [hf.constant(0), hf.constant(0.0)], (hf.constant(3),))
    assert session.run([i, a], options=TIMEOUT) == [21, 63.0]


def test_state_of_other_tasks_in_the_order_of_control_edges(servers, session):
    """Each iteration adds to a variable of one task and reads it for another."""
    with hf.device(TASKS[1]):
        v = hf.Variable(0.0)

    def body(i, total):
        with hf.device(TASKS[1]):
            added = hf.assign_add(v, hf.to_float(i))
            with hf.control_dependencies([added.op]):
                now = v.read_value()
        with hf.device(TASKS[2]):
            return i + 1, total + now

    out = hf.while_loop(lambda i, _: i < 5, body, [0, 0.0], parallel_iterations=1)[1]
    session.run(v.initializer)
    assert session.run(out, options=TIMEOUT) == 0 + 1 + 3 + 6 + 10
    assert session.run(v) == 10


def test_queues_stream_between_loops_of_two_tasks(servers, session):
    """One loop fills a queue on another task, another loop empties it, in one step."""
    with hf.device(TASKS[1]):
        queue = hf.FIFOQueue(2, hf.float32, [[]])

    def fill(i):
        with hf.device(TASKS[2]):
            value = hf.to_float(i) * 2.0
        with hf.control_dependencies([queue.enqueue(value)]):
            return i + 1

    def empty(i, total):
        element = queue.dequeue()
        with hf.device(TASKS[0]):
            return i + 1, total + element

    filled = hf.while_loop(lambda i: i < 20, fill, [0])
    total = hf.while_loop(lambda i, _: i < 20, empty, [0, 0.0])[1]
    assert session.run([filled, total], options=TIMEOUT) == [20, 380.0]


def test_partial_runs_and_traces(servers, session, wanted):
    fetches, feeds = build(chain, TASKS)
    metadata = hf.RunMetadata()
    got = session.run(fetches, feeds, hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE),
                      metadata)
    check(got, wanted[chain])
    names = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert "while/MatMul" in names


# ---------------------------------------------------------------- messages


def count_messages(servers, monkeypatch):
    """Counts by kind, of what the endpoints send to each other."""
    counts: dict[int, int] = {}
    for server in servers:
        transport = server._server.endpoint.transport
        send = transport.send_message

        def counted(rank, payload, send=send):
            counts[payload[0]] = counts.get(payload[0], 0) + 1
            send(rank, payload)

        monkeypatch.setattr(transport, "send_message", counted)
    return counts


@pytest.mark.parametrize("parallel", [1, 10])
def test_one_message_per_iteration_and_participant(servers, session, monkeypatch, parallel):
    """A variable that stays on a task needs nothing but the predicate."""
    def body(i, a):
        with hf.device(TASKS[1]):
            a = hf.tanh(a) * 0.5 + 1.0
        return i + 1, a

    out = hf.while_loop(lambda i, _: i < 100, body, [0, hf.ones([3])],
                        parallel_iterations=parallel)[1]
    value = session.run(out, options=TIMEOUT)
    counts = count_messages(servers, monkeypatch)
    np.testing.assert_array_equal(session.run(out, options=TIMEOUT), value)
    assert counts[wire.LOOP_VALUE] == 101  # that of the last says that there is no other
    assert counts[wire.LOOP_DONE] == (100 if parallel == 1 else 20)
    assert wire.LOOP_GRANT not in counts


@pytest.mark.parametrize("parallel", [1, 3, 10])
def test_nobody_runs_ahead_by_more_than_allowed(servers, session, monkeypatch, parallel):
    """The owner of the predicate is fast, the other task slow: what comes early is bounded."""
    from hpcflow.runtime.executor.distributed_loops import SpreadLoops

    most = [0]
    arrived = SpreadLoops.arrived

    def watched(self, *args):
        arrived(self, *args)
        most[0] = max(most[0], len(self._early))

    monkeypatch.setattr(SpreadLoops, "arrived", watched)

    def body(i, a):
        with hf.device(TASKS[1]):
            a = later(a + hf.to_float(i), 0.002)
        return i + 1, a

    out = hf.while_loop(lambda i, _: i < 40, body, [0, 0.0], parallel_iterations=parallel)[1]
    assert session.run(out, options=TIMEOUT) == 780
    assert most[0] <= 3 * (parallel + 1)  # the edges are the predicate, the counter, its cast


@pytest.mark.parametrize("parallel, overlaps", [(1, False), (4, True)])
def test_iterations_overlap_up_to_parallel_iterations(servers, session, parallel, overlaps):
    """A task may begin an iteration while another is busy with the one before."""
    under_way, most = [0], [0]
    lock = threading.Lock()

    def enter(value):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        return value

    def leave(value):
        with lock:
            under_way[0] -= 1
        return value

    def body(i, total):
        with hf.device(TASKS[1]):
            x = hf.py_func(enter, [i], hf.int32)
            x.set_shape([])
            x = later(x, 0.02)
        with hf.device(TASKS[2]):
            x = hf.py_func(leave, [x], hf.int32)
            x.set_shape([])
            return i + 1, total + x

    out = hf.while_loop(lambda i, _: i < 8, body, [0, 0], parallel_iterations=parallel)[1]
    assert session.run(out, options=TIMEOUT) == 28
    assert (most[0] > 1) == overlaps


@pytest.mark.parametrize("in_predicate", [False, True])
@pytest.mark.parametrize("parallel", [1, 2, 3, 5])
def test_no_task_is_ahead_of_another_by_more(servers, session, monkeypatch, parallel,
                                             in_predicate):
    """Tasks that need nothing of each other: a quick one does not begin iteration n + parallel
    before a slow one has completed iteration n, not even its part of the predicate."""
    completed, begun = [-1], []

    def note(i):
        begun.append((int(i), completed[0]))
        return i

    def complete(i):
        completed[0] = int(i)
        return i

    def body(i, quick, slow):
        with hf.device(TASKS[1]):
            quick = (quick if in_predicate else hf.py_func(note, [quick], hf.int32)) + 1
        with hf.device(TASKS[2]):
            slow = hf.py_func(complete, [later(slow, 0.005)], hf.int32) + 1
        for value in (quick, slow):
            value.set_shape([])
        return i + 1, quick, slow

    def goes_on(i, quick, _):
        if not in_predicate:
            return i < 12
        with hf.device(TASKS[1]):
            noted = hf.reshape(hf.py_func(note, [quick], hf.int32), []) >= 0
        return hf.logical_and(i < 12, noted)

    outs = hf.while_loop(goes_on, body, [0, 0, 0], parallel_iterations=parallel)
    counts = count_messages(servers, monkeypatch)
    assert tuple(session.run(outs, options=TIMEOUT)) == (12, 12, 12)
    assert (counts.get(wire.LOOP_GRANT, 0) > 0) == (in_predicate and parallel < 4)
    assert [i for i, _ in begun] == list(range(12 + in_predicate))
    assert all(i - done <= parallel for i, done in begun), begun


# ---------------------------------------------------------------- failures


def failing_body(i, a):
    with hf.device(TASKS[1]):
        checked = hf.check_numerics(a / hf.to_float(3 - i), "in the loop")
    with hf.device(TASKS[2]):
        return i + 1, checked + 1.0


def test_a_failure_on_one_task_ends_the_step_everywhere(form, servers, session, wanted):
    bad = hf.while_loop(lambda i, _: i < 10, failing_body, [0, hf.ones([3])])[1]
    fetches, feeds = build(chain, TASKS)
    for _ in range(3):
        with pytest.raises(hf.errors.InvalidArgumentError, match="in the loop") as e:
            session.run(bad, options=TIMEOUT)
        assert "CheckNumerics" in str(e.value) and "task:1" in str(e.value)
        check(session.run(fetches, feeds, TIMEOUT), wanted[chain])


def test_a_failure_while_large_values_are_under_way(servers, session):
    big = hf.ones([100000])

    def body(i, a):
        with hf.device(TASKS[1]):
            b = a * 2.0
        with hf.device(TASKS[2]):
            c = b + 1.0
            failed = hf.check_numerics(1.0 / hf.to_float(2 - i), "late")
        with hf.device(TASKS[0]):
            return i + 1, c * 0.1 + failed * 0.0

    bad = hf.while_loop(lambda i, _: i < 10, body, [0, big])[1]
    good = hf.while_loop(lambda i, _: i < 2, body, [0, big])[1]
    for _ in range(5):
        with pytest.raises(hf.errors.InvalidArgumentError, match="late"):
            session.run(bad, options=TIMEOUT)
        assert session.run(good, options=TIMEOUT).shape == (100000,)


def stuck(name="stuck"):
    def body(i, a):
        with hf.device(TASKS[1]):
            a = hf.cond(hf.equal(i, 3), lambda: gate(a, name), lambda: a + 1.0)
        with hf.device(TASKS[2]):
            return i + 1, a * 2.0

    return hf.while_loop(lambda i, _: i < 6, body, [0, 1.0], parallel_iterations=2,
                         name="slow")[1]


def test_a_timeout_says_what_every_task_waits_for(servers, session):
    out = stuck()
    for _ in range(2):
        timed_out(session, out, "of type TestGate, in iteration 3 of loop 'slow/",
                  r"on /job:worker/replica:0/task:1 \(rank \d+\)",
                  "from /job:worker/replica:0/task:1, in iteration 3 of loop",
                  r"test_loops_over_tasks\.py")
    opener = threading.Thread(target=open_when_waiting, args=("stuck",))
    opener.start()
    assert session.run(out, options=TIMEOUT) == 182  # all but the fourth add 1, and all double
    opener.join()


def open_when_waiting(name):
    while not gates.count(name):
        time.sleep(0.005)
    gates.open(name)


def test_a_step_that_waits_for_others_says_so(servers, session):
    """The owner of the predicate waits for the slowest task."""
    def body(i, a):
        with hf.device(TASKS[1]):
            a = gate(a, "behind")
        return i + 1, a

    out = hf.while_loop(lambda i, _: i < 9, body, [0, 1.0], parallel_iterations=2)[1]
    timed_out(session, out,
              "2 iterations ahead of /job:worker/replica:0/task:1, which has completed 0")


def test_closing_the_session_cancels_the_loop(servers):
    out = stuck("closed")
    session = hf.Session(servers[0].target)
    errors = []

    def run():
        try:
            session.run(out, options=TIMEOUT)
        except hf.errors.OpError as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    while not gates.count("closed"):
        time.sleep(0.005)
    session.close()
    thread.join()
    assert [type(e) for e in errors] == [hf.errors.CancelledError]
    assert gates.count("closed") == 0


# ---------------------------------------------------------------- dead values and mixed frames


def test_a_dead_value_of_another_task_cannot_be_fetched(servers, session):
    p = hf.placeholder(hf.bool, [])
    _, true = raw_ops.Switch(data=hf.constant(1.0), pred=p)
    with hf.device(TASKS[1]):
        far = true + 1.0
    with hf.device(TASKS[2]):
        farther = far * 2.0
    assert session.run(farther, {p: True}) == 4
    for _ in range(2):
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"'mul.*' is dead"):
            session.run(farther, {p: False})
        assert session.run([farther, far], {p: True}) == [4, 2]


def test_a_loop_in_a_branch_that_is_not_taken(servers, session):
    p = hf.placeholder(hf.bool, [])
    x = hf.constant(1.0)
    false, true = raw_ops.Switch(data=x, pred=p)

    def body(a):
        with hf.device(TASKS[1]):
            return (a * 2.0,)

    def condition(a):
        with hf.device(TASKS[2]):
            return a < 50.0

    out, = loop(condition, body, [true])
    with hf.device(TASKS[2]):
        merged = raw_ops.Merge(inputs=[out, false])[0]
    for _ in range(2):
        assert session.run(merged, {p: True}, TIMEOUT) == 64
        assert session.run(merged, {p: False}, TIMEOUT) == 1
        with pytest.raises(hf.errors.InvalidArgumentError, match="is dead"):
            session.run(out, {p: False}, TIMEOUT)


def test_inputs_from_different_frames_over_tasks(servers, session):
    inside = raw_ops.Enter(data=hf.constant(1.0), frame_name="one")
    with hf.device(TASKS[1]):
        other = raw_ops.Enter(data=hf.constant(2.0), frame_name="two")
    with hf.device(TASKS[2]):
        mixed = raw_ops.Exit(data=raw_ops.Add(x=inside, y=other, name="mixed"))
    with pytest.raises(hf.errors.InvalidArgumentError,
                       match="'mixed' has inputs from different frames: 'Enter' is in frame "
                       "'one', 'Enter_1' in frame 'two'"):
        session.run(mixed)


def test_a_loop_without_loop_cond(servers, session):
    enter = raw_ops.Enter(data=hf.constant(0), frame_name="bare")
    merged = raw_ops.Merge(inputs=[enter, enter])[0]
    with hf.device(TASKS[1]):
        pred = hf.less(merged, 3)
    out, inside = raw_ops.Switch(data=merged, pred=pred)
    merged.op._update_input(1, raw_ops.NextIteration(data=inside + 1))
    with pytest.raises(hf.errors.InvalidArgumentError,
                       match=r"'bare' is spread over the tasks .*must have one LoopCond.* has 0"):
        session.run(raw_ops.Exit(data=out))
