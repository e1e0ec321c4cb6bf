"""Receives of large values that wait until their values are needed."""

import re
import threading

import numpy as np
import pytest
from async_ops import later
from thresholds import lower

import hpcflow as hf
from hpcflow import config
from hpcflow.errors import ResourceExhaustedError
from hpcflow.runtime.cluster.receiving import Receiving

pytestmark = pytest.mark.usefixtures("form")

SIZE, LAYERS = 300, 8  # a value has 360 kB
OPTIONS = hf.RunOptions(timeout_in_ms=30_000)


@pytest.fixture
def session(monkeypatch):
    lower(monkeypatch, "LATE_BYTES_PER_SECOND", "LATE_MESSAGE_SECONDS")
    spec = hf.train.ClusterSpec({"worker": [f"late:{i}" for i in range(2)]})
    servers = [hf.train.Server(spec, "worker", i) for i in range(2)]
    with hf.Graph().as_default(), hf.Session(servers[0].target) as session:
        yield session
    for server in servers:
        server._server.close()


def layers(last=lambda x: x):
    """A deep network here, whose parameters are there."""
    x = hf.placeholder(hf.float32, [20, SIZE])
    a = x
    for k in range(LAYERS):
        with hf.device("/job:worker/task:1"):
            w = hf.fill([SIZE, SIZE], np.float32((k + 1) / SIZE))
            w = last(w) if k == LAYERS - 1 else w + hf.reduce_sum(x) * 0
        a = hf.tanh(hf.matmul(a, w))
    return x, a


def expected(x):
    for k in range(LAYERS):
        x = np.tanh(x @ np.full([SIZE, SIZE], (k + 1) / SIZE, np.float32))
    return x


@pytest.fixture
def live(monkeypatch):
    """The most buffers of late receives at one time, and all that were made."""
    import weakref

    counts = {"now": 0, "most": 0, "made": 0}
    lock = threading.Lock()

    def gone(_):
        with lock:
            counts["now"] -= 1

    kept = []
    make = Receiving._buffer_for

    def watched(self, edge):
        buffer = make(self, edge)
        if edge.nbytes > 1 << 18:
            with lock:
                counts["now"] += 1
                counts["made"] += 1
                counts["most"] = max(counts["most"], counts["now"])
                kept.append(weakref.ref(buffer, gone))
        return buffer

    monkeypatch.setattr(Receiving, "_buffer_for", watched)
    return counts


def test_few_values_are_there_at_one_time(session, live, capfd, monkeypatch):
    monkeypatch.setattr(config.flags, "print_memory", True)
    x, a = layers()
    value = np.full([20, SIZE], 0.5, np.float32)
    for _ in range(3):
        np.testing.assert_allclose(session.run(a, {x: value}, OPTIONS), expected(value), 1e-5)
    assert live["most"] <= LAYERS - 3
    found = re.search(r"about ([\d,]+) bytes of values at the peak if all were received at once, "
                      r"([\d,]+) as they are", capfd.readouterr().err)
    before, after = (int(n.replace(",", "")) for n in found.groups())
    assert before > LAYERS * SIZE * SIZE * 4 and after < before / 2


@pytest.mark.parametrize("off", ["flag", "options"])
def test_it_can_be_turned_off(session, live, monkeypatch, off):
    config_proto = hf.ConfigProto()
    if off == "flag":
        monkeypatch.setattr(config.flags, "late_receives", False)
    else:
        config_proto.graph_options.optimizer_options.opt_level = -1
    x, a = layers()
    value = np.full([20, SIZE], 0.5, np.float32)
    with hf.Session(session._target, graph=session.graph, config=config_proto) as other:
        np.testing.assert_allclose(other.run(a, {x: value}, OPTIONS), expected(value), 1e-5)
    assert live["most"] == LAYERS


def test_a_step_that_fails_takes_in_what_comes_late(session, live):
    """The value of the last layer is there after the step has failed in the first."""
    x, a = layers(last=lambda w: later(w, 0.05))
    with hf.control_dependencies([hf.Assert(hf.reduce_all(x > 0), ["not positive"])]):
        checked = hf.identity(x)
    out = a + hf.reduce_sum(checked)
    value = np.full([20, SIZE], 0.5, np.float32)
    wanted = session.run(out, {x: value}, OPTIONS)
    for _ in range(2):
        with pytest.raises(hf.errors.InvalidArgumentError, match="not positive"):
            session.run(out, {x: -value}, OPTIONS)
        np.testing.assert_array_equal(session.run(out, {x: value}, OPTIONS), wanted)
    assert live["now"] <= 1  # that of the first layer may be there from the beginning


def test_values_that_are_read_more_than_once(session, live):
    """A receive waits only for what all readers of its value wait for."""
    x, a = layers()
    with hf.device("/job:worker/task:1"):
        w = hf.fill([SIZE, SIZE], np.float32(0.01)) + hf.reduce_sum(x) * 0
    early = hf.reduce_sum(w)
    late = hf.reduce_sum(hf.matmul(a + early * 0, w))
    value = np.full([20, SIZE], 0.5, np.float32)
    got = session.run([early, late], {x: value}, OPTIONS)
    np.testing.assert_allclose(got, [900, expected(value).sum() * 3], 1e-4)


def test_gradients_through_parameters_elsewhere(session, monkeypatch):
    """What comes late in the forward pass stays until the backward pass."""
    x, a = layers()
    gradient = hf.gradients(a, x)[0]
    value = np.full([20, SIZE], 0.001, np.float32)
    late = session.run(gradient, {x: value}, OPTIONS)
    monkeypatch.setattr(config.flags, "late_receives", False)
    with hf.Session(session._target, graph=session.graph) as other:
        np.testing.assert_array_equal(other.run(gradient, {x: value}, OPTIONS), late)


def test_no_memory_when_a_value_is_received(session, monkeypatch):
    """The step fails, with the reason; another session is not harmed."""
    x, a = layers()
    value = np.full([20, SIZE], 0.5, np.float32)
    wanted = session.run(a, {x: value}, OPTIONS)
    make = Receiving._buffer_for

    def none_left(self, edge):
        if edge.index in self._lane.executable.late_edges:
            raise ResourceExhaustedError(None, None, "Out of memory for a value")
        return make(self, edge)

    monkeypatch.setattr(Receiving, "_buffer_for", none_left)
    with pytest.raises(ResourceExhaustedError, match="Out of memory for a value"):
        session.run(a, {x: value}, OPTIONS)
    monkeypatch.undo()
    with hf.Session(session._target, graph=session.graph) as other:
        np.testing.assert_array_equal(other.run(a, {x: value}, OPTIONS), wanted)


def test_what_is_inside_a_loop_is_not_waited_for(session, live, monkeypatch):
    """The loop is part of a region, which ends with it."""
    lower(monkeypatch, "LATE_LEAST_GAIN")
    x = hf.placeholder(hf.float32, [20, SIZE])
    with hf.device("/job:worker/task:0"):
        looped = hf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2.0), [0, x])[1]
    with hf.device("/job:worker/task:1"):
        w = hf.fill([SIZE, SIZE], np.float32(0.01)) + hf.reduce_sum(x) * 0
    with hf.device("/job:worker/task:0"):
        out = hf.matmul(looped, w)
    got = session.run(out, {x: np.ones([20, SIZE], np.float32)}, OPTIONS)
    np.testing.assert_allclose(got, np.full([20, SIZE], 8 * SIZE * 0.01), 1e-4)
