"""Steps of one lane: the next is made before it is needed, and what leaves a task goes first."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.runtime import lane as lanes
from hpcflow.runtime.executor import Step

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@pytest.fixture
def session():
    """A session of a worker beside one parameter server."""
    spec = hf.train.ClusterSpec({"ps": ["lane-ps:1"], "worker": ["lane-worker:1"]})
    made = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    with hf.Graph().as_default(), hf.Session(made[1].target) as opened:
        yield opened
    for server in made:
        server._server.close()


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


def test_a_step_is_made_beforehand(session, monkeypatch):
    x = hf.placeholder(hf.float32, [])
    y = there_and_back(x)
    assert session.run(y, {x: 1.0}) == -3.0
    made = []
    monkeypatch.setattr(lanes, "Step", lambda *a: made.append(Step(*a)) or made[-1])
    assert session.run(y, {x: 2.0}) == -6.0
    # Both parts ran on steps that the run before has made, and made one for the next.
    assert len(made) == 2 and not any(step.finished for step in made)


def test_a_step_made_beforehand_is_not_used_after_a_reset(session):
    with hf.device(PS):
        v = hf.Variable(2.0, name="v")
    y = there_and_back(v)
    session.run(v.initializer)
    assert session.run(y) == -6.0
    hf.Session.reset(session.sess_str)
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
