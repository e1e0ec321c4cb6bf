"""A whole cluster in one process: several servers, sessions of several masters."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import config


@pytest.fixture
def servers():
    """Two parameter servers and two workers at addresses that only name them."""
    made = []

    def make(spec):
        spec = hf.train.ClusterSpec(spec)
        for job in spec.jobs:
            for index in spec.task_indices(job):
                made.append(hf.train.Server(spec, job, index))
        return {(s.server_def.job_name, s.server_def.task_index): s for s in made}

    with hf.Graph().as_default():
        yield make({"ps": ["localhost:2222", "localhost:2223"],
                    "worker": ["localhost:3333", "localhost:3334"]})
    for server in made:
        server._server.close()


def test_targets_look_like_addresses(servers):
    assert servers["ps", 1].target == "grpc://localhost:2223"
    assert servers["ps", 1].server_def.cluster.job[0].name == "ps"


def test_variables_are_shared_between_sessions_of_both_workers(servers):
    with hf.device("/job:ps/task:1"):
        v = hf.Variable([1.0, 2.0], name="v")
    one, two = (hf.Session(servers["worker", i].target) for i in (0, 1))
    one.run(v.initializer)
    two.run(hf.assign_add(v, [1.0, 1.0]).op)
    np.testing.assert_array_equal(one.run(v), [2.0, 3.0])


def test_unserved_task(servers):
    spec = {"worker": ["localhost:4444"], "ps": ["localhost:9999"]}
    server = hf.train.Server(spec, "worker", 0)
    config.flags.reload({"HPCFLOW_CONNECT_TIMEOUT": "0.3"})
    try:
        with hf.device("/job:ps/task:0"):
            far = hf.constant(1.0) + 1.0
        near = hf.constant(2.0)
        session = hf.Session(server.target)
        assert session.run(near) == 2.0  # what does not need the missing task works
        with pytest.raises(hf.errors.UnavailableError, match=r"localhost:9999.* within 0\.3 s"):
            session.run(far)
    finally:
        config.flags.reload()
        server._server.close()


def test_masters_in_several_threads(servers):
    """Both workers run steps over all tasks at the same time."""
    errors = []

    def work(index):
        try:
            with hf.Graph().as_default():
                x = hf.placeholder(hf.float32, [3])
                y = x
                for job, task in [("ps", 0), ("worker", 1 - index), ("ps", 1), ("worker", index)]:
                    with hf.device(f"/job:{job}/task:{task}"):
                        y = y + 1.0
                with hf.Session(servers["worker", index].target) as session:
                    for i in range(50):
                        np.testing.assert_array_equal(session.run(y, {x: [i] * 3}), [i + 4.0] * 3)
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience())
    assert not errors, errors[0]


def test_failure_on_one_task_leaves_the_session_usable(servers):
    x = hf.placeholder(hf.float32, [None])
    with hf.device("/job:ps/task:0"):
        a = hf.check_numerics(x, "bad value", name="checked") * 2.0
    with hf.device("/job:ps/task:1"):
        b = a + 1.0
    with hf.device("/job:worker/task:0"):
        c = hf.identity(b)
    with hf.Session(servers["worker", 0].target) as session:
        for _ in range(3):
            with pytest.raises(hf.errors.InvalidArgumentError, match="checked"):
                session.run(c, {x: [np.nan]})
            np.testing.assert_array_equal(session.run(c, {x: [1.0, 2.0]}), [3.0, 5.0])


def test_closing_a_session_frees_what_tasks_hold_for_it(servers):
    with hf.device("/job:ps/task:0"):
        y = hf.constant([1.0]) + hf.placeholder_with_default([1.0], [1])
    endpoint = servers["ps", 0]._server.endpoint
    before = len(endpoint.plans)
    session = hf.Session(servers["worker", 0].target)
    session.run(y)
    assert len(endpoint.plans) == before + 1
    session.close()
    while len(endpoint.plans) > before:
        time.sleep(0.01)


def test_wrong_clusters():
    with pytest.raises(hf.errors.InvalidArgumentError, match="not in the cluster"):
        hf.train.Server({"ps": ["a:1"]}, "worker", 0)
    with pytest.raises(ValueError, match="job_name"):
        hf.train.Server({"ps": ["a:1"], "worker": ["a:2"]})
    with pytest.raises(hf.errors.UnavailableError, match="No server"):
        hf.Session("grpc://localhost:1")


def test_local_server():
    server = hf.train.Server.create_local_server()
    with hf.Graph().as_default(), hf.Session(server.target) as session:
        assert session.run(hf.constant(2) + 3) == 5
    server._server.close()


def reported(session, fetch, capfd, *said):
    """Run a step that never ends for as long as it takes until a report says all of it."""
    report = ""
    for milliseconds in (1000, 10_000, 100_000):
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(fetch, options=hf.RunOptions(timeout_in_ms=milliseconds))
        report += capfd.readouterr().err
        if all(re.search(part, report) for part in said):
            return
    pytest.fail(report)


def test_a_step_that_waits_for_long_says_for_what(servers, capfd):
    with hf.device("/job:ps/task:0"):
        queue = hf.FIFOQueue(2, hf.int32, [[]], name="empty")
        element = queue.dequeue()
    with hf.device("/job:worker/task:0"):
        after = element + 1
    config.flags.reload({"HPCFLOW_STALL_SECONDS": "0.2"})
    try:
        with hf.Session(servers["worker", 0].target) as session:
            reported(session, after, capfd,
                     "value of 'empty_Dequeue:0' from /job:ps/replica:0/task:0",
                     "op 'empty_Dequeue' of type QueueDequeueV2", r"test_loopback_cluster\.py",
                     r"last transfers:\n +received from rank \d+: ")
            session.run(queue.enqueue(4))
            assert session.run(after) == 5
            # From the servers' side, and from the master's.
            reported(session, after, capfd, r"received from rank \d+: 'empty_Dequeue:0' "
                     r"\(4 bytes, \d+\.\d s ago\)")
    finally:
        config.flags.reload()


def test_loops_read_and_use_other_tasks(servers):
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(2.0, name="factor")
    with hf.device("/job:worker/task:0"):
        near = hf.while_loop(lambda x: x < 100.0, lambda x: x * v, [1.0])

    def far_body(x):
        with hf.device("/job:ps/task:1"):
            return x + 1.0

    with hf.device("/job:worker/task:0"):
        far = hf.while_loop(lambda x: x < 5.0, far_body, [1.0])
    with hf.Session(servers["worker", 0].target) as session:
        session.run(v.initializer)
        assert session.run(near) == 128.0
        assert session.run(far) == 5.0


def test_closed_sessions_give_their_tags_back(servers):
    """Both the master's tags and those of the tasks are used again by the next session."""
    x = hf.placeholder(hf.float32, [3])
    with hf.device("/job:ps/task:0"):
        y = x + 1.0
    with hf.device("/job:worker/task:0"):
        z = hf.identity(y)
    spaces = [servers[task]._server.endpoint.tags for task in (("worker", 0), ("ps", 0))]
    taken = []
    for _ in range(3):
        with hf.Session(servers["worker", 0].target) as session:
            session.run(z, {x: [1.0, 2.0, 3.0]})
        while servers["ps", 0]._server.endpoint.plans:
            time.sleep(0.01)
        taken.append([dict(space._next) for space in spaces])
    assert taken[0] == taken[1] == taken[2]


def test_a_reset_ends_the_sessions_of_its_target(servers):
    target, other = servers["worker", 0].target, servers["worker", 1].target
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(3.0, name="v")
    one, two, elsewhere = hf.Session(target), hf.Session(target), hf.Session(other)
    one.run(v.initializer)
    assert [s.run(v) for s in (one, two, elsewhere)] == [3.0] * 3
    hf.Session.reset(target)
    for session in (one, two):
        with pytest.raises(hf.errors.AbortedError, match=r"Session.reset\(\) was called"):
            session.run(v)
        session.close()
    with pytest.raises(hf.errors.FailedPreconditionError):
        elsewhere.run(v)
    with hf.Session(target) as session:
        session.run(v.initializer)
        assert session.run(v) == elsewhere.run(v) == 3.0
    elsewhere.close()


def test_a_session_lists_the_devices_of_all_tasks_before_it_runs(servers):
    with hf.Session(servers["worker", 0].target) as session:
        names = {d.name for d in session.list_devices()}
    assert {f"/job:{job}/replica:0/task:{i}/device:CPU:0"
            for job in ("ps", "worker") for i in (0, 1)} <= names


def test_the_job_of_a_local_server_is_called_local():
    server = hf.train.Server.create_local_server()
    with hf.Graph().as_default(), hf.device("/job:local/task:0"):
        x = hf.constant(2.0) * 3.0
        with hf.Session(server.target) as session:
            assert session.run(x) == 6.0
    server._server.close()
