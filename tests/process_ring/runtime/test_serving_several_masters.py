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


@kernel("TestNap")
def _nap(node):
    seconds = node.attr("seconds")

    def run(x):
        slept_in.append(threading.current_thread().name)
        time.sleep(seconds)
        return x

    return run


@pytest.fixture
def targets():
    """The targets of two workers that share a server, all in this process."""
    spec = hf.train.ClusterSpec({"ps": ["e:1"], "worker": ["e:2", "e:3"]})
    servers = [hf.train.Server(spec, job, i)
               for job, i in [("ps", 0), ("worker", 0), ("worker", 1)]]
    slept_in.clear()
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
    assert not [name for name in slept_in if name.startswith("hpcflow-step")]


def test_long_steps_of_one_master_do_not_hold_up_another(targets):
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
        seconds = []
        with hf.Session(targets[1], graph=graph) as session:
            deadline = time.monotonic() + 30
            while len(seconds) < 40 and time.monotonic() < deadline:
                start = time.monotonic()
                np.testing.assert_array_equal(session.run(y, {x: [0, 1]}), [2, 4])
                seconds.append(time.monotonic() - start)
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join(30)
    assert not failures, failures[0]
    assert [name for name in slept_in if name.startswith("hpcflow-step")]
    assert np.median(seconds) < 0.05  # half of a nap, each of which would hold up some


def test_errors_in_threads_reach_their_master(targets):
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
    assert [name for name in slept_in if name.startswith("hpcflow-step")]


@pytest.mark.parametrize("oversubscribed", [False, True])
def test_pace_and_masters(oversubscribed):
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
    deadline = time.monotonic() + 10
    while len(where) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [t is threading.current_thread() for t in where] == [True, True, False]
