"""Supervisors: initialization, services, workers, the end."""

from __future__ import annotations

import glob
import threading
import time

import numpy as np
import pytest
from speed import patience

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def noted(writer):
    """The kinds of what the threads of a supervisor give to its writer, as it comes."""
    found, add_summary, add_log = set(), writer.add_summary, writer.add_session_log

    def note_summary(summary, *rest):
        parsed = hf.Summary.FromString(summary) if isinstance(summary, bytes) else summary
        add_summary(summary, *rest)
        found.update(value.tag for value in parsed.value)

    def note_log(log, *rest):
        add_log(log, *rest)
        found.update(["checkpoint"] * (log.status == 3))

    writer.add_summary, writer.add_session_log = note_summary, note_log
    return found


def test_training_and_restoring(tmp_path):
    def train(last):
        with hf.Graph().as_default():
            step = hf.train.get_or_create_global_step()
            hf.summary.scalar("s", step)
            add = hf.assign_add(step, 1)
            sv = hf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0.05,
                                     save_model_secs=0.05)
            written = noted(sv.summary_writer)
            with sv.managed_session() as session:
                first = session.run(step)
                while not sv.should_stop():
                    if session.run(add) >= last:
                        while not written >= {"s", "global_step/sec", "checkpoint"}:
                            time.sleep(0.01)
                        sv.saver.save(session, sv.save_path, global_step=step)
                        sv.request_stop()
            return int(first)

    assert train(5) == 0
    assert train(9) == 5
    tags, checkpoints = set(), 0
    for path in glob.glob(str(tmp_path / "events*")):
        for event in hf.train.summary_iterator(path):
            tags.update(v.tag for v in event.summary.value)
            checkpoints += event.session_log.status == 3
    assert tags == {"s", "global_step/sec"} and checkpoints >= 2
    assert (tmp_path / "graph.pbtxt").exists()


def test_without_a_directory():
    v = hf.Variable(3.0)
    sv = hf.train.Supervisor()
    assert sv.summary_writer is None and sv.save_path is None
    with sv.managed_session() as session:
        assert session.run(v) == 3.0
        with pytest.raises(RuntimeError, match="requires a summary writer"):
            sv.summary_computed(session, b"")


def test_errors_and_the_end_of_the_data():
    x = hf.placeholder(hf.float32, [])
    checked = hf.check_numerics(x, "deliberate")
    number = hf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()
    sv = hf.train.Supervisor()
    with pytest.raises(hf.errors.InvalidArgumentError, match="deliberate"):
        with sv.managed_session() as session:
            session.run(checked, {x: np.nan})
    got = []
    with sv.managed_session() as session:
        while not sv.should_stop():
            got.append(session.run(number))
    assert got == [0, 1, 2]


def test_loops_and_train_loops():
    v = hf.Variable(0)
    add = hf.assign_add(v, 1)
    sv = hf.train.Supervisor()
    calls = []

    def step(session, limit, extra):
        if session.run(add) >= limit + extra:
            sv.request_stop()

    hf.train.basic_train_loop(sv, step, args=(5,), kwargs={"extra": 2})
    with sv.managed_session() as session:
        assert session.run(v) == 0
        sv.loop(0.01, calls.append, args=(1,))
        deadline = time.monotonic() + patience()
        while len(calls) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(calls) >= 3


def test_a_train_loop_begins_again_after_an_aborted_step(tmp_path):
    count = hf.train.create_global_step()
    add = hf.assign_add(count, 1)
    sv = hf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    sessions, numbers = [], []

    def step(session):
        if session not in sessions:
            sessions.append(session)
        number = session.run(add)
        numbers.append(number)
        if number == 2 and len(sessions) == 1:
            sv.saver.save(session, sv.save_path, global_step=count)
            raise hf.errors.AbortedError(None, None, "a server is gone")
        if number >= 4:
            sv.request_stop()

    hf.train.basic_train_loop(sv, step)
    assert len(sessions) == 2 and numbers == [1, 2, 3, 4]


def test_workers_wait_for_the_chief():
    server = hf.train.Server.create_local_server()
    try:
        values = []

        def build(is_chief):
            with hf.device("/job:local/task:0"):
                v = hf.Variable(4.0, name="v")
            return v, hf.train.Supervisor(is_chief=is_chief)

        def work():
            with hf.Graph().as_default():
                v, sv = build(False)
                with sv.managed_session(server.target) as session:
                    values.append(session.run(v))
                with pytest.raises(RuntimeError, match="Only chief"):
                    sv.start_standard_services(None)

        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.2)
        assert not values
        _, sv = build(True)
        with sv.managed_session(server.target):
            worker.join(patience())
        assert values == [4.0]
    finally:
        server._server.close()
    with hf.Graph().as_default():
        hf.Variable(1.0, name="unplaced")
        with pytest.raises(ValueError, match="device set: unplaced"):
            hf.train.Supervisor(is_chief=False)


def test_a_global_step_of_one_element(tmp_path):
    with hf.Graph().as_default():
        step = hf.Variable([7], trainable=False, name="global_step")
        hf.add_to_collection(hf.GraphKeys.GLOBAL_STEP, step)
        hf.summary.scalar("s", 1.0)
        sv = hf.train.Supervisor(logdir=str(tmp_path))
        with sv.managed_session() as session:
            sv.summary_computed(session, session.run(sv.summary_op))


def test_threads_that_were_not_started_are_not_waited_for():
    coordinator, ended = hf.train.Coordinator(), []
    threads = [threading.Thread(target=lambda: ended.append(1)), threading.Thread(target=print)]
    threads[0].start()
    coordinator.request_stop()
    coordinator.join(threads)
    assert ended == [1]
