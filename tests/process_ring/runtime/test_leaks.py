"""Nothing is left of steps that failed, timed out or were cancelled: threads, frames, stacks,
lanes, tags, handles and messages are counted before and after."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter

import pytest
from async_ops import gate, gates
from speed import patience

import hpcflow as hf
from hpcflow.resources.handles import Handle
from hpcflow.runtime.cluster.distributed_step import Execution
from hpcflow.runtime.cluster.lane import Lane
from hpcflow.runtime.executor.distributed_loops import SpreadLoops
from hpcflow.runtime.executor.event_loop import EventLoop
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.iterations import Frame, Iteration
from hpcflow.runtime.steps import compiled
from hpcflow.runtime.steps.compiled import LocalRun

COUNTED = (Handle, Step, LocalRun, Execution, SpreadLoops, Frame, Iteration, Lane)
TASKS = [f"/job:worker/task:{i}" for i in range(3)]
SOON = hf.RunOptions(timeout_in_ms=300)
TIMEOUT = hf.RunOptions(timeout_in_ms=int(1000 * patience()))


def census(servers=()):
    """How many there are of what a step owns."""
    settle(servers)
    gc.collect()
    found = Counter(type(o).__name__ for o in gc.get_objects() if issubclass(type(o), COUNTED))
    found["threads"] = threading.active_count()
    for server in servers:
        endpoint = server._server.endpoint
        tags = endpoint.tags
        found["tags"] += sum(tags._next.values()) - sum(map(len, tags._free.values()))
        found["under way"] += endpoint.transport.pending()
        found["runs"] += len(endpoint.runs)
        found["requests"] += len(endpoint.requests)
        found["plans"] += len(endpoint.plans)
        found["lanes with loops"] += len(endpoint.tagged_lanes)
        found["early messages"] += sum(len(lane.tagged._early)
                                       for lane in endpoint.tagged_lanes.values())
    return +found


def assert_nothing_more(servers, before):
    """What other tests left may go meanwhile; nothing may have come. On a busy machine the last
    messages of a step take their time; what leaks stays."""
    deadline = time.monotonic() + patience()
    while (more := census(servers) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not more


def settle(servers):
    """Let the last messages arrive, and threads of test ops end."""
    def busy():
        return any(isinstance(t, threading.Timer) for t in threading.enumerate()) or any(
            s._server.endpoint.transport.pending() or s._server.endpoint.transport._inbox
            or s._server.endpoint.loop._ready for s in servers)

    quiet = 0
    while quiet < 3:
        quiet = 0 if busy() else quiet + 1
        time.sleep(0.02)


@pytest.fixture
def servers():
    spec = hf.train.ClusterSpec({"worker": [f"leaks:{i}" for i in range(3)]})
    made = [hf.train.Server(spec, "worker", i) for i in range(3)]
    with hf.Graph().as_default():
        yield made
    for server in made:
        server._server.close()


class Scenarios:
    """Steps with loops, gradients, arrays, queues and a mutex that end well, or not."""

    def __init__(self, places: list[str]) -> None:
        self.bad = hf.placeholder(hf.int32, [])  # the iteration that fails
        self.stop = hf.placeholder(hf.int32, [])  # the iteration that waits for ever
        with hf.device(places[1]):
            self.queue = hf.FIFOQueue(8, hf.float32, [[4]])
            self.mutex = hf.Mutex()
        self.gate = f"leaks {places[0]}"
        x = hf.ones([4])
        rows = hf.TensorArray(hf.float32, 6)

        def body(i, a, rows):
            with hf.device(places[1]):
                a = hf.tanh(a * 1.5)
                a = hf.cond(hf.equal(i, self.stop), lambda: gate(a, self.gate), lambda: a)
            with hf.device(places[2]):
                scale = 1.0 / hf.to_float(self.bad - i)
                a = hf.check_numerics(a * scale, "the loop failed")

                def inner(j, b):
                    with hf.device(places[0]):
                        return j + 1, b * 0.9 + x

                a = hf.while_loop(lambda j, _: j < 3, inner, [0, a])[1]
            return i + 1, a, rows.write(i, a)

        _, a, rows = hf.while_loop(lambda i, *_: i < 6, body, [0, x, rows],
                                   parallel_iterations=3)
        self.loop = [a, hf.gradients([a, rows.stack()], x, colocate_gradients_with_ops=True)[0]]
        with hf.control_dependencies([self.mutex.acquire()]):
            self.locked = hf.identity(self.queue.dequeue())

    def good(self, session):
        session.run(self.loop, {self.bad: 100, self.stop: 100}, TIMEOUT)

    def failing(self, session):
        with pytest.raises(hf.errors.InvalidArgumentError, match="the loop failed"):
            session.run(self.loop, {self.bad: 2, self.stop: 100}, TIMEOUT)

    def timing_out(self, session):
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(self.loop, {self.bad: 100, self.stop: 3}, SOON)

    def blocked(self, session):
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run([self.loop, self.locked], {self.bad: 100, self.stop: 100}, SOON)

    def all(self):
        return [self.good, self.failing, self.timing_out, self.blocked]


def check_steps(session, scenarios, servers=()):
    for scenario in scenarios.all():  # the first time makes what later steps use again
        scenario(session)
    before = census(servers)
    for _ in range(3):
        for scenario in scenarios.all():
            scenario(session)
    assert_nothing_more(servers, before)
    assert not gates.count(scenarios.gate)


def test_steps_of_one_process(form):
    with hf.Graph().as_default(), hf.Session(config=hf.ConfigProto(
            device_count={"CPU": 3})) as session:
        check_steps(session, Scenarios([f"/cpu:{i}" for i in range(3)]))


def test_steps_over_tasks(form, servers):
    scenarios = Scenarios(TASKS)
    with hf.Session(servers[0].target) as session:
        check_steps(session, scenarios, servers)


def test_sessions_that_are_closed_while_they_run(servers):
    others = census(servers)  # what other tests of this process hold on to
    scenarios = Scenarios(TASKS)

    def run_and_close():
        session = hf.Session(servers[0].target)
        for scenario in scenarios.all():
            scenario(session)
        errors = []

        def run():
            try:
                session.run(scenarios.loop, {scenarios.bad: 100, scenarios.stop: 3}, TIMEOUT)
            except hf.errors.OpError as e:
                errors.append(type(e))

        thread = threading.Thread(target=run)
        thread.start()
        while not gates.count(scenarios.gate):
            time.sleep(0.005)
        session.close()
        thread.join()
        assert errors == [hf.errors.CancelledError]

    run_and_close()
    before = census(servers)
    for _ in range(3):
        run_and_close()
    assert_nothing_more(servers, before)
    for kind in ("Step", "Lane", "Frame"):
        assert before[kind] <= others[kind]


def test_concurrent_steps_use_their_lanes_again(servers):
    """Steps at the same time open lanes; failures in between leave none behind."""
    others = census(servers)
    scenarios = Scenarios(TASKS)
    with hf.Session(servers[0].target) as session:
        def round_of_steps():
            errors = []

            def work(index):
                try:
                    scenarios.all()[index % 3](session)
                except BaseException as e:  # noqa: BLE001  (reported below)
                    errors.append(e)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors
            assert not gates.count(scenarios.gate)

        most = 0
        for _ in range(4):
            round_of_steps()
            found = census(servers)
            lanes = found["Lane"]  # each keeps the next step and the last one, which take turns
            assert found["Step"] <= others["Step"] + 2 * lanes
            assert found["Frame"] <= others["Frame"] + lanes
            assert not found["runs"]
            most = max(most, found["Lane"] - others["Lane"])
        assert most <= 6 * 3 * 2  # at most one a step and task, for each compiled form


def test_steps_that_never_wait_keep_nothing(monkeypatch):
    """Queue operations complete at once, and nobody drives the event loop for them."""
    loop = EventLoop()
    monkeypatch.setattr(compiled, "event_loop", lambda: loop)
    with hf.Graph().as_default(), hf.Session() as session:
        queue = hf.FIFOQueue(8, [hf.float32], [[]])
        for step in [queue.enqueue(1.0), queue.dequeue()] * 10:
            session.run(step)
        assert not loop._ready
