"""Asynchronous kernels: steps that park, fail, are cancelled, and end."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import async_ops
import numpy as np
import pytest
from async_ops import gate, gates, later
from raw_control_flow import branches, loop
from speed import patience

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.compiler.emit.executable import Executable
from hpcflow.resources.effects import Effect
from hpcflow.runtime.executor.executor import DEAD, Step
from hpcflow.runtime.session.local_engine import LocalEngine
from hpcflow.runtime.steps.compiled import StepOptions, make_parts

assert async_ops  # registers the test ops


class Running:
    """One step, driven by the test: how a step looks from inside the runtime."""

    def __init__(self, fetches, feeds=(), values=()):
        engine = LocalEngine(StepOptions())
        hf.Session().close()  # loads the kernels
        parts = make_parts(fetches, list(feeds), engine.task, engine.task.device_infos(),
                           engine._context, {}, engine.options)
        (nodes,) = parts.values()
        executable = Executable(nodes, engine.task.name, engine.task.by_name, engine._context,
                                config.flags.compile)
        self.ended = threading.Event()
        self.endings = 0
        self.step = Step(executable, on_done=self._done)
        self.step.start(values)

    def _done(self, step):
        self.endings += 1
        self.ended.set()

    def wait(self):
        """The fetched values, or the error."""
        assert self.ended.wait(patience())
        assert self.step.finished
        if self.step.error is not None:
            raise self.step.error
        return self.step.results


def wait_until(condition):
    while not condition():
        time.sleep(0.001)


# ---------------------------------------------------------------- values


def test_values_from_other_threads(form, graph, session):
    x = hf.placeholder(hf.float32, [None])
    y = later(x * 2.0)
    z = y + later(x) + 1.0
    y1, y2 = raw_ops.TestPairLater(x=z)
    for size in (0, 1, 3):
        value = np.arange(size, dtype=np.float32)
        got = session.run([z, y1, y2], {x: value})
        np.testing.assert_array_equal(got[0], 3 * value + 1)
        np.testing.assert_array_equal(got[1], got[0])
        np.testing.assert_array_equal(got[2], 2 * got[0])


def test_the_first_answer_counts(form, graph, session):
    x = hf.placeholder(hf.int32, [])
    y = raw_ops.TestTwice(x=x) + 1
    for i in range(20):
        assert session.run(y, {x: i}) == i + 1


def test_an_effect_without_outputs(form, graph, session):
    v = hf.Variable(1)
    session.run(v.initializer)
    with hf.control_dependencies([raw_ops.TestEffectLater(x=v._ref())]):
        after = hf.assign_add(v, 1)
    session.run(after.op)
    assert session.run(v) == 2


def test_variables_are_read_when_the_kernel_starts(form, graph, session):
    v = hf.Variable([1.0, 2.0])
    session.run(v.initializer)
    slow = later(v._ref(), 0.01)
    with hf.control_dependencies([slow]):
        update = v.assign_add([1.0, 1.0])
    with hf.control_dependencies([update]):
        total = slow + v.read_value()
    assert session.run(total).tolist() == [3, 5]


def test_regions_do_not_wait_for_each_other(form, graph, session):
    """What does not need the gate runs before it opens: here it opens the gate."""
    x = hf.placeholder(hf.int32, [])
    opened = []

    def open_gate(value):
        opened.append(gates.open("mutual"))
        return value

    register_opener(open_gate)
    waited = gate(x, "mutual") + 1
    with hf.control_dependencies([x + 1]):
        opener = raw_ops.TestOpener(x=later(x + 5, 0.01))
    assert session.run([waited, opener], {x: 1}) == [2, 6]
    assert opened == [1]


_opener = []


def register_opener(function):
    from hpcflow.graph.opdef import has_op, register_op
    from hpcflow.kernels.registry import kernel

    if not has_op("TestOpener"):
        register_op("TestOpener", "x: T", "y: T", "T: type", stateful=True)
        kernel("TestOpener")(lambda node: lambda x: _opener[-1](x))
    _opener.append(function)


def test_in_loops_and_branches(form, graph, session):
    n = hf.placeholder(hf.int32, [])
    p = hf.placeholder(hf.bool, [])
    for parallel in (1, 10):
        _, total = loop(lambda i, s, k: i < k,
                        lambda i, s, k: [later(i + 1), s + later(i * 2)],
                        [hf.constant(0), hf.constant(0)], (n,), parallel_iterations=parallel)
        assert session.run(total, {n: 9}) == 72
    result = branches(p, n, lambda t: later(t + 1), lambda f: later(f - 1))
    assert session.run(result, {n: 4, p: True}) == 5
    assert session.run(result, {n: 4, p: False}) == 3


def test_a_step_that_goes_straight_until_its_second_kernel_waits(form, graph, session):
    source, target = (hf.FIFOQueue(2, hf.int32, [[]]) for _ in range(2))
    x = source.dequeue() * 2
    moved, put, taken = target.enqueue(x), source.enqueue(3), target.dequeue()
    session.run(target.enqueue_many([[0, 1]]))
    session.run(put)
    with pytest.raises(hf.errors.DeadlineExceededError, match="1 element of FIFOQueue"):
        session.run([moved, x], options=hf.RunOptions(timeout_in_ms=20))
    assert session.run([source.size(), target.size()]) == [0, 2]
    assert session.run([put, taken]) == [None, 0]
    assert session.run([moved, x]) == [None, 6]
    assert [session.run(taken) for _ in range(2)] == [1, 6]


def test_many_at_once(form, graph, session):
    x = hf.placeholder(hf.int32, [])
    total = hf.add_n([later(x + i) for i in range(50)])
    assert session.run(total, {x: 1}) == 50 + 49 * 25


def test_steps_of_several_threads_park_at_once(form, graph, session):
    x = hf.placeholder(hf.int32, [])
    y = gate(x, "several") * 2
    got = {}
    threads = [threading.Thread(target=lambda k=k: got.update({k: session.run(y, {x: k})}))
               for k in range(4)]
    for t in threads:
        t.start()
    wait_until(lambda: gates.count("several") == 4)
    gates.open("several")
    for t in threads:
        t.join(patience())
    assert got == {k: 2 * k for k in range(4)}


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("at_once", [True, False])
def test_failures_name_the_op(form, graph, session, at_once):
    x = hf.placeholder(hf.float32, [None], name="x")
    y = raw_ops.TestFailLater(x=x, at_once=at_once, name="bad")
    z = hf.identity(y)
    for _ in range(2):
        with pytest.raises(hf.errors.InvalidArgumentError) as caught:
            session.run([z, x + 1.0], {x: [1, 2]})
        message = str(caught.value)
        assert "failed" in message
        assert "op 'bad' of type TestFailLater" in message
        assert "inputs float32[2]" in message
        assert "test_executor_async.py" in message
        assert caught.value.op is y.op
        assert isinstance(caught.value.__cause__, ValueError)
    assert session.run(x + 1.0, {x: [1]}).tolist() == [2]


def test_a_failure_waits_for_what_runs(form, graph):
    """The step ends when everything that was started has ended, and once."""
    x = hf.placeholder(hf.int32, [])
    slow = gate(x, "slow", deaf=True)
    bad = raw_ops.TestFailLater(x=x)
    running = Running([slow, bad], [x], [np.int32(1)])
    wait_until(lambda: running.step.error is not None and gates.count("slow"))
    assert not running.step.finished
    gates.open("slow")
    with pytest.raises(hf.errors.InvalidArgumentError):
        running.wait()
    assert running.endings == 1


def test_a_failure_stops_what_has_not_started(form, graph, session):
    v = hf.Variable(0)
    session.run(v.initializer)
    with hf.control_dependencies([gate(hf.constant(1), "before", deaf=True)]):
        bump = hf.assign_add(v, 1)
    bad = raw_ops.TestFailLater(x=hf.constant(1))

    def open_after_the_failure():
        runs = session._engine.running._runs
        wait_until(lambda: gates.count("before") and any(r.step.error for r in list(runs)))
        gates.open("before")

    opens = threading.Thread(target=open_after_the_failure)
    opens.start()
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run([bump.op, bad])
    opens.join()
    assert session.run(v) == 0


def test_a_failure_tells_what_waits(form, graph):
    x = hf.placeholder(hf.int32, [])
    before = gates.cancelled.count("told")
    waits = gate(x, "told") + 1
    bad = raw_ops.TestFailLater(x=x)
    running = Running([waits, bad], [x], [np.int32(1)])
    with pytest.raises(hf.errors.InvalidArgumentError, match="failed later"):
        running.wait()
    assert gates.cancelled.count("told") == before + 1
    assert gates.count("told") == 0


def test_the_first_of_two_failures_counts(form, graph, session):
    x = hf.constant(1)
    bad = [raw_ops.TestFailLater(x=x, name=f"bad{i}") for i in range(5)]
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"'bad[0-4]'"):
        session.run([b.op for b in bad])


def test_a_failure_in_a_loop_with_parked_iterations(form, graph, session):
    n = hf.placeholder(hf.int32, [])

    def body(i, k):
        checked = hf.floordiv(12, 5 - i, name="five")
        return [later(i + 1) + checked * 0]

    (end,) = loop(lambda i, k: i < k, body, [hf.constant(0)], (n,))
    with pytest.raises(hf.errors.InvalidArgumentError, match="'five'"):
        session.run(end, {n: 20})
    assert session.run(end, {n: 5}) == 5


# ---------------------------------------------------------------- cancellation


def test_cancelling_a_step(form, graph):
    x = hf.placeholder(hf.int32, [])
    running = Running([gate(x, "cancelled") + 1, later(x)], [x], [np.int32(1)])
    wait_until(lambda: gates.count("cancelled") == 1)
    assert not running.step.finished
    running.step.cancel()
    with pytest.raises(hf.errors.CancelledError, match="Step was cancelled"):
        running.wait()
    assert gates.count("cancelled") == 0
    running.step.cancel()  # later than late
    assert running.endings == 1


def test_cancelling_waits_for_kernels_that_cannot_be_told(form, graph):
    x = hf.placeholder(hf.int32, [])
    running = Running([gate(x, "deaf", deaf=True)], [x], [np.int32(1)])
    wait_until(lambda: gates.count("deaf"))
    running.step.cancel(hf.errors.AbortedError(None, None, "the reason"))
    assert not running.step.finished
    gates.open("deaf")
    with pytest.raises(hf.errors.AbortedError, match="the reason"):
        running.wait()


def test_cancelling_and_completing_at_once(form, graph):
    """Whoever comes first, the step ends, and ends once."""
    x = hf.placeholder(hf.int32, [])
    y = gate(x, "race") + 1
    outcomes = set()
    for i in range(60):
        running = Running([y], [x], [np.int32(1)])
        threads = [threading.Thread(target=running.step.cancel),
                   threading.Thread(target=gates.open, args=("race",))]
        for t in threads if i % 2 else reversed(threads):
            t.start()
        for t in threads:
            t.join()
        try:
            assert running.wait() == [2]
            outcomes.add("value")
        except hf.errors.CancelledError:
            outcomes.add("cancelled")
        assert running.endings == 1
    assert outcomes


def test_time_limit(form, graph):
    with hf.Session(config=hf.ConfigProto(operation_timeout_in_ms=50)) as session:
        y = gate(hf.constant(1), "timeout") + 1
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(y)
        assert session.run(hf.constant(2) + 1, options=hf.RunOptions(timeout_in_ms=10**6)) == 3


def test_what_stays_is_known_while_another_thread_takes_the_rest_back(form, graph):
    """Nothing that was done is neither there nor left for a moment."""
    step = Running([hf.constant(1) + 1]).step
    begun, go_on, found = threading.Event(), threading.Event(), []

    class Slow(Effect):
        def describe(self):
            begun.set()
            go_on.wait()
            return "1 element"

    effect = Slow()
    effect.passed = True
    node = SimpleNamespace(name="put", type="QueueEnqueueV2", attrs={})
    step.effects[0, 0] = SimpleNamespace(nodes=[node]), effect
    cancelled = hf.errors.CancelledError(None, None, "")
    threads = [threading.Thread(target=step.withdraw, args=(cancelled,)),
               threading.Thread(target=lambda: found.append(step.stays()))]
    threads[0].start()
    begun.wait()
    threads[1].start()
    threads[1].join(0.1)
    go_on.set()
    for thread in threads:
        thread.join()
    assert found == [["  op 'put' of type QueueEnqueueV2: 1 element"]]


def test_a_dead_input_skips_the_kernel(form, graph):
    p = hf.placeholder(hf.bool, [])
    false, true = raw_ops.Switch(data=hf.constant(3), pred=p)
    running = Running([gate(false, "dead") + 1, later(true)], [p], [np.bool_(True)])
    assert running.wait() == [DEAD, 3]
    assert gates.count("dead") == 0
