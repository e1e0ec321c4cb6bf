"""A task that several masters use: long pieces of steps go to threads, short ones do not wait."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.opdef import register_op
from hpcflow.graph.shape_inference import unchanged
from hpcflow.host import tuning
from hpcflow.kernels.registry import kernel
from hpcflow.runtime.executor.offload import Masters, Pace

register_op("TestNap", "x: T", "y: T", "T: type; seconds: float", shape=unchanged, stateful=True)
slept_in: list[str] = []
#: While it is not set, naps that take any time do not end; and whether one of them has begun.
goes_on, napping = threading.Event(), threading.Event()


@kernel("TestNap")
def _nap(node):
    seconds = node.attr("seconds")

    def run(x):
        slept_in.append(threading.current_thread().name)
        time.sleep(seconds)
        if seconds and not goes_on.is_set():
            napping.set()
            goes_on.wait()
        return x

    return run


@pytest.fixture
def targets():
    """The targets of two workers that share a server, all in this process."""
    spec = hf.train.ClusterSpec({"ps": ["e:1"], "worker": ["e:2", "e:3"]})
    servers = [hf.train.Server(spec, job, i)
               for job, i in [("ps", 0), ("worker", 0), ("worker", 1)]]
    slept_in.clear()
    goes_on.set()
    yield [s.target for s in servers[1:]]
    for server in servers:
        server._server.close()


def nap(seconds):
    """(graph, input, output) of a step in which the server naps."""
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [2])
        with hf.device("/job:ps/task:0"):
            y = raw_ops.TestNap(x=x + 1.0, seconds=seconds) * 2.0
        return graph, x, y


def test_one_master_has_its_steps_in_the_thread_that_drives(targets):
    graph, x, y = nap(0.002)
    with hf.Session(targets[0], graph=graph) as session:
        for i in range(5):
            np.testing.assert_array_equal(session.run(y, {x: [i, 0]}), [2 * i + 2, 2])
    assert not is_in_a_thread()


def is_in_a_thread():
    """True if some nap was not in the thread that drives."""
    return any(name.startswith("hpcflow-step") for name in slept_in)


def test_long_steps_of_one_master_do_not_hold_up_another(targets, monkeypatch):
    """As soon as they are known to be long."""
    monkeypatch.setattr(tuning.runtime, "MASTER_SECONDS", 1e6)
    long, short = nap(0.1), nap(0.0)
    stop = threading.Event()
    failures = []

    def sleep_on():
        try:
            graph, x, y = long
            with hf.Session(targets[0], graph=graph) as session:
                while not stop.is_set():
                    np.testing.assert_array_equal(session.run(y, {x: [1, 2]}), [4, 6])
        except Exception as e:  # noqa: BLE001
            failures.append(e)

    thread = threading.Thread(target=sleep_on)
    thread.start()
    try:
        graph, x, y = short
        with hf.Session(targets[1], graph=graph) as session:
            while not is_in_a_thread() and not failures:
                np.testing.assert_array_equal(session.run(y, {x: [0, 1]}), [2, 4])
            napping.clear()
            goes_on.clear()
            while not napping.wait(0.01) and not failures:
                np.testing.assert_array_equal(session.run(y, {x: [0, 1]}), [2, 4])
            for _ in range(40):  # while the long one does not end
                np.testing.assert_array_equal(session.run(y, {x: [0, 1]}), [2, 4])
    finally:
        stop.set()
        goes_on.set()
        thread.join()
    assert not failures, failures[0]


def test_errors_in_threads_reach_their_master(targets, monkeypatch):
    monkeypatch.setattr(tuning.runtime, "MASTER_SECONDS", 1e6)
    graph, x, y = nap(0.005)
    with graph.as_default(), hf.device("/job:ps/task:0"):
        checked = hf.check_numerics(y, "bad value")
    other_graph, other_x, other_y = nap(0.005)
    with hf.Session(targets[0], graph=graph) as one, hf.Session(targets[1],
                                                                graph=other_graph) as two:
        for _ in range(4):
            np.testing.assert_array_equal(two.run(other_y, {other_x: [0, 0]}), [2, 2])
            with pytest.raises(hf.errors.InvalidArgumentError, match="bad value"):
                one.run(checked, {x: [np.nan, 0]})
            np.testing.assert_array_equal(one.run(checked, {x: [1, 0]}), [4, 2])
    assert is_in_a_thread()


@pytest.mark.parametrize("oversubscribed", [False, True])
def test_pace_and_masters(oversubscribed, monkeypatch):
    monkeypatch.setattr(tuning.runtime, "MASTER_SECONDS", 1e6)
    masters = Masters(oversubscribed)
    assert masters.long_seconds == (
        tuning.runtime.PIECE_LONG_SHARED_SECONDS if oversubscribed
        else tuning.runtime.PIECE_LONG_SECONDS)
    pace = Pace(masters)
    where = []

    def piece():
        where.append(threading.current_thread())
        time.sleep(2 * masters.long_seconds)

    masters.came(1)
    pace.run(piece)
    masters.came(1)
    assert not masters.are_several()
    pace.run(piece)
    masters.came(2)
    assert masters.are_several()
    pace.run(piece)
    while len(where) < 3:
        time.sleep(0.001)
    assert [t is threading.current_thread() for t in where] == [True, True, False]
