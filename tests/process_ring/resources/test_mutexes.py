"""Mutexes: one step at a time, waiting, release by whoever does not hold it, the step's end."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from running import until_waiting
from speed import patience

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def held_by_a_parked_step(mutex, session):
    """A thread with a step that holds `mutex` until `end` is run; (thread, end, outcome)."""
    gate = hf.FIFOQueue(1, hf.int32, [[]], name="gate")
    held = hf.FIFOQueue(1, hf.int32, [[]], name="held")
    with hf.control_dependencies([mutex.acquire()]):
        holds = held.enqueue(1)
    with hf.control_dependencies([holds]):
        passed = gate.dequeue()
    outcome = []

    def run():
        try:
            outcome.append(session.run(passed))
        except Exception as e:  # noqa: BLE001
            outcome.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    session.run(held.dequeue())
    return thread, gate.enqueue(7), outcome


def test_foreign_and_double_releases():
    mutex = hf.Mutex(name="m")
    acquire = mutex.acquire()
    with hf.control_dependencies([acquire]):
        release = mutex.release()
    with hf.control_dependencies([release]):
        again = mutex.release()
    with hf.Session() as session:
        with pytest.raises(hf.errors.FailedPreconditionError, match=r"'m'.*nobody holds it"):
            session.run(mutex.release())
        session.run(release)
        with pytest.raises(hf.errors.FailedPreconditionError, match="nobody holds it"):
            session.run(again)
        thread, end, outcome = held_by_a_parked_step(mutex, session)
        with pytest.raises(hf.errors.FailedPreconditionError, match="another step holds it"):
            session.run(mutex.release())
        session.run(end)
        thread.join(patience())
        assert outcome == [7]


def test_the_end_of_a_step_releases():
    mutex = hf.Mutex()
    x = hf.placeholder(hf.float32, [])
    with hf.control_dependencies([mutex.acquire()]):
        checked = hf.check_numerics(x, "deliberate")
    with hf.Session(config=hf.ConfigProto(operation_timeout_in_ms=10000)) as session:
        for value in (1.0, np.nan, 2.0):
            if value == value:
                assert session.run(checked, {x: value}) == value
            else:
                with pytest.raises(hf.errors.InvalidArgumentError, match="deliberate"):
                    session.run(checked, {x: value})


def test_waiting_cancelling_and_timeouts():
    mutex = hf.Mutex()
    acquire = mutex.acquire()
    with hf.Session() as session:
        thread, end, _ = held_by_a_parked_step(mutex, session)
        waiting = threading.Thread(target=lambda: session.run(acquire))
        waiting.start()
        until_waiting(session, 2)
        assert waiting.is_alive()
        session.run(end)
        waiting.join(patience())
        thread.join(patience())
        assert not waiting.is_alive() and not thread.is_alive()
    with hf.Session() as session:
        with hf.control_dependencies([acquire]):
            twice = mutex.acquire()  # not reentrant
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(twice, options=hf.RunOptions(timeout_in_ms=200))
        session.run(acquire)  # free again


def test_a_closed_session_cancels_the_holder_and_those_who_wait():
    mutex = hf.Mutex()
    acquire = mutex.acquire()
    session = hf.Session()
    thread, _, outcome = held_by_a_parked_step(mutex, session)
    errors = []

    def wait():
        try:
            session.run(acquire)
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until_waiting(session, 2)
    session.close()
    thread.join(patience()), waiting.join(patience())
    assert isinstance(outcome[0], hf.errors.CancelledError)
    assert not waiting.is_alive()


def test_related_variables_change_together():
    """Transfers between two accounts: every reader under the mutex sees the same sum."""
    a, b = hf.Variable(100, name="a"), hf.Variable(100, name="b")
    mutex = hf.Mutex()

    def transfer():
        old = a.read_value()
        with hf.control_dependencies([old]):
            first = hf.assign(a, old - 1)
        with hf.control_dependencies([first]):
            return hf.assign(b, b.read_value() + 1).op

    move = mutex.execute(transfer)
    look = mutex.execute(lambda: [a.read_value(), b.read_value()])
    with hf.Session() as session:
        session.run([a.initializer, b.initializer])
        errors = []

        def work():
            try:
                for _ in range(20):
                    session.run(move)
                    assert sum(session.run(look)) == 200
            except Exception as e:  # noqa: BLE001
                errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        assert not errors, errors[0]
        assert session.run([a, b]) == [40, 160]


def test_several_blocks_in_one_step():
    v = hf.Variable(0)
    mutex = hf.Mutex()
    blocks = [mutex.execute(lambda: hf.assign(v, v.read_value() + 1)) for _ in range(5)]
    with hf.Session() as session:
        session.run(v.initializer)
        assert sorted(session.run(blocks)) == [1, 2, 3, 4, 5]
