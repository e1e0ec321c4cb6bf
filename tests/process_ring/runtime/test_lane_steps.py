"""Steps of one lane: they serve again, and what leaves a task goes first."""

from __future__ import annotations

import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.host import tuning
from hpcflow.runtime.cluster import lane as lanes
from hpcflow.runtime.cluster.endpoint import Endpoint
from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.runtime.executor.executor import Step

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@pytest.fixture
def session(beside_server):
    return beside_server


def there_and_back(value):
    """`value`, negated by the parameter server, times three at the worker."""
    with hf.device(PS):
        far = -value
    with hf.device(WORKER):
        return 3.0 * far


def test_a_number_of_another_task_is_not_the_buffer_of_the_next_step(session):
    x = hf.placeholder(hf.float32, [])
    with hf.device(PS):
        far = -x
    one = session.run(far, {x: 1.0})
    two = session.run(far, {x: 2.0})
    assert (one, two) == (-1.0, -2.0) and one.dtype == np.float32


@pytest.mark.parametrize("dtype", [hf.float16, hf.float64, hf.int8, hf.int64, hf.bool,
                                   hf.complex64, hf.bfloat16])
def test_numbers_of_all_types_cross(session, dtype):
    x = hf.placeholder(dtype, [])
    with hf.device(PS):
        far = hf.stack([x, x])[0]
    with hf.device(WORKER):
        near = hf.stack([far, far])
    value = np.asarray(1).astype(dtype.as_numpy_dtype)
    np.testing.assert_array_equal(session.run(near, {x: value}), [value, value])


def test_the_first_kernel_of_a_task_fails_before_its_receives_are_posted(session):
    x = hf.placeholder(hf.float32, [])
    with hf.device(PS):
        bad = hf.Variable(1.0, name="never_initialized")
        sent = bad + 1.0  # fails at once, at the server
    with hf.device(WORKER):
        reply = sent + x
    with hf.device(PS):
        end = reply * 2.0
    for _ in range(3):  # the lane is drained each time
        with pytest.raises(hf.errors.FailedPreconditionError, match="never_initialized"):
            session.run(end, {x: 1.0})
    session.run(bad.initializer)
    assert session.run(end, {x: 1.0}) == 6.0


def test_the_steps_of_a_lane_serve_again(session, monkeypatch):
    x = hf.placeholder(hf.float32, [])
    y = there_and_back(x)
    made = []
    monkeypatch.setattr(lanes, "Step", lambda *a: made.append(Step(*a)) or made[-1])
    for ends_here in (y, y.op.inputs[1].op):  # the worker's part ends last, and the server's
        for k in range(2):  # two take turns at most
            session.run(ends_here, {x: float(k)})
        made.clear()
        for k in range(5):
            value = session.run(ends_here, {x: float(k)})
            assert value is None or value == -3.0 * k
        assert not made


def test_a_step_that_serves_again_keeps_nothing_of_the_last(session):
    x = hf.placeholder(hf.float32, [3])
    y = there_and_back(x)
    first = session.run(y, {x: [1.0, 2.0, 3.0]})
    held = weakref.ref(session.run(y, {x: [4.0, 5.0, 6.0]}))
    assert held() is None
    session.run(y, {x: [7.0, 8.0, 9.0]})
    np.testing.assert_array_equal(first, [-3.0, -6.0, -9.0])


def test_a_step_that_failed_does_not_serve_again(session):
    x = hf.placeholder(hf.float32, [])
    with hf.device(PS):
        checked = hf.check_numerics(x, "bad")
    with hf.device(WORKER):
        y = 3.0 * checked
    for value in (1.0, float("nan"), 2.0, float("inf"), float("nan"), 4.0):
        if np.isfinite(value):
            assert session.run(y, {x: value}) == 3.0 * value
        else:
            with pytest.raises(hf.errors.InvalidArgumentError, match="bad"):
                session.run(y, {x: value})


def test_the_end_of_a_step_that_is_over_does_not_end_the_next():
    with hf.Graph().as_default(), hf.Session() as alone:
        y = hf.placeholder(hf.float32, []) * 2.0
        step = Step(alone._engine.compile([y], [y.op.inputs[0]], {}, "session").executable,
                    step_id=1)
        step.start((1.0,))
        assert step.finished and step.results == [2.0]
        assert step.again() and not step.finished
        step.cancel()  # comes too late
        step.step_id = 2
        step._cancelled(1, hf.errors.CancelledError(None, None, "late"))
        step.start((3.0,))
        assert step.error is None and step.results == [6.0]
        step.cancel()  # of a step that is over: it is not used again
        assert not step.again()


def test_a_step_made_beforehand_is_not_used_after_a_reset(session):
    with hf.device(PS):
        v = hf.Variable(2.0, name="v")
    y = there_and_back(v)
    session.run(v.initializer)
    assert session.run(y) == -6.0
    session._engine.reset(None)  # as by another master
    with pytest.raises(hf.errors.FailedPreconditionError):
        session.run(y)
    session.run(v.initializer)
    assert session.run(y) == -6.0


def test_a_step_that_is_cancelled_before_it_begins_runs_nothing():
    with hf.Graph().as_default(), hf.Session() as alone:
        v = hf.Variable(1.0)
        count = hf.assign_add(v, 1.0)
        alone.run(v.initializer)
        step = Step(alone._engine.compile([count], [], {}, "session").executable)
        step.cancel()
        step.start()
        assert step.finished and isinstance(step.error, hf.errors.CancelledError)
        assert alone.run(v) == 1.0


def test_what_comes_together_wakes_a_step_once():
    with hf.Graph().as_default(), hf.Session() as alone:
        c = hf.placeholder(hf.float32, [2]) * 2.0
        executable = alone._engine.compile([c], [c.op.inputs[0]], {}, "session").executable
    calls, seen = [], []
    step = Step(executable, wake=calls.append)
    step.start(None)
    for i in range(3):
        step.post(lambda i=i: seen.append(i))
    assert calls == [step] and not seen
    step.advance()
    assert seen == [0, 1, 2]
    step.feed(0, np.ones(2, np.float32))
    assert calls == [step, step] and not step.finished
    step.advance()
    assert step.finished
    np.testing.assert_array_equal(step.results[0], [2.0, 2.0])


def test_cancelling_wakes_a_step_whose_wake_was_lost():
    with hf.Graph().as_default(), hf.Session() as alone:
        c = hf.placeholder(hf.float32, []) * 2.0
        executable = alone._engine.compile([c], [c.op.inputs[0]], {}, "session").executable
    calls = []
    step = Step(executable, wake=calls.append)
    step.start(None)
    step.post(lambda: None)
    calls.clear()  # nobody advances
    step.cancel()
    assert calls == [step]
    step.advance()
    assert step.finished and isinstance(step.error, hf.errors.CancelledError)


@pytest.fixture
def polled(monkeypatch):
    """What says for every value that arrives whether it is taken in by the poll that found it."""
    found = []
    received = Step.received

    def note(step, item, value):
        inbox = step._inbox
        received(step, item, value)
        found.append(not inbox)

    monkeypatch.setattr(Step, "received", note)
    return found


def set_paces(session, seconds):
    """All plans have pieces that take so long."""
    for step in session._engine._steps:
        step._pace.longest = seconds
        for name in step.remote:
            server = next(e for e in event_loop()._endpoints if e.rank == step.remote[name])
            endpoint = server._handler.__self__
            for plan in endpoint.plans.values():
                plan.pace.longest = seconds


@pytest.mark.parametrize("seconds, expected", [(0.0, True), (1.0, False)])
def test_very_short_pieces_are_run_by_the_poll(session, polled, seconds, expected):
    x = hf.placeholder(hf.float32, [])
    y = there_and_back(x)
    session.run(y, {x: 1.0})
    set_paces(session, seconds)
    polled.clear()
    assert session.run(y, {x: 2.0}) == -6.0
    assert polled == [expected] * 2


def test_a_long_piece_ends_that(session, polled):
    def sleep(value):
        time.sleep(tuning.runtime.PIECE_SHORT_SECONDS * 10)
        return value

    x = hf.placeholder(hf.float32, [])
    with hf.device(PS):
        far = -x
    with hf.device(WORKER):
        y = hf.py_func(sleep, [far], hf.float32, stateful=False)
        y.set_shape([])
    session.run(y, {x: 1.0})
    set_paces(session, 0.0)
    for value in (2.0, 3.0):
        polled.clear()
        assert session.run(y, {x: value}) == -value
    assert polled == [True, False]


def test_what_fails_in_the_poll_fails_the_step(session):
    x = hf.placeholder(hf.int32, [])
    with hf.device(PS):
        far = hf.stack([x, x])[0]
    with hf.device(WORKER):
        y = hf.constant(1) // far
    assert session.run(y, {x: 1}) == 1
    set_paces(session, 0.0)
    with pytest.raises(hf.errors.InvalidArgumentError, match="by zero"):
        session.run(y, {x: 0})
    assert session.run(y, {x: 1}) == 1


def test_numbers_are_the_users_again_after_a_step_of_several_tasks(session):
    """Whichever part ends last, and also when one fails."""
    x = hf.placeholder(hf.float32, [])
    with hf.device(WORKER):
        near = x / 0.0
    with hf.device(PS):
        far = near + 1.0
        bad = near + hf.Variable(1.0, name="no_value")

    def mine():
        with pytest.raises(FloatingPointError):
            np.float32(1) / np.float32(0)
        halves = np.full(4, 1e-39, np.float32) * np.float32(0.5)
        return bool(halves.view(np.int32).all())

    with np.errstate(divide="raise"):
        for _ in range(3):
            session.run(far.op, {x: 1.0})  # the server ends last
            assert mine()
            assert session.run(there_and_back(near), {x: 1.0}) == -np.inf  # the worker does
            assert mine()
            with pytest.raises(hf.errors.FailedPreconditionError):
                session.run(bad, {x: 1.0})
            assert mine()


@pytest.mark.parametrize(("has_edges", "behind", "expected"), [
    (False, True, ["value", "done"]), (True, True, ["done", "value"]), (False, False, ["done"])])
def test_what_a_step_has_woken_goes_before_its_end(has_edges, behind, expected):
    """Others wait for the values of the steps that it has woken; nobody for one of its own."""
    order = []
    queue = [lambda: order.append("value")] if behind else []
    loop = SimpleNamespace(is_behind=lambda: bool(queue), soon=queue.append)
    endpoint = SimpleNamespace(loop=loop, transport=SimpleNamespace(
        send_message=lambda rank, message: order.append("done")))
    lane = SimpleNamespace(end=lambda: None, prepare=lambda *_: None, stop=None, stopped_at=None)
    step = SimpleNamespace(error=None, trace=None, step_id=1, deadline=None, left=[], lane=lane,
                           executable=SimpleNamespace(has_edges=has_edges))
    Endpoint.served(endpoint, 0, 1, 0, step)
    for action in queue:
        action()
    assert order == expected
