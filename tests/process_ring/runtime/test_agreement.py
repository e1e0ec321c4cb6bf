"""What tasks have to agree on before a step runs, and values that no task has memory for."""

from __future__ import annotations

import time
import types

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.compiler.ir.step_graph import RECV
from hpcflow.host import tuning
from hpcflow.runtime.cluster import agreement, distributed_step, receiving
from hpcflow.runtime.wire import wire

PS = "/job:ps/task:0"


@pytest.fixture
def target():
    """A cluster of one server and a worker in this process; the target of the worker."""
    spec = hf.train.ClusterSpec({"ps": ["d:1"], "worker": ["d:2"]})
    servers = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    with hf.Graph().as_default():
        yield servers[1].target
    for server in servers:
        server._server.close()


def there_and_back(x):
    with hf.device(PS):
        y = x + 1.0
    return y * 2.0


@pytest.mark.parametrize(("setting", "value", "advice"), [
    ("version", "0.0.0", "install the same version"),
    ("chunk_bytes", 77, "HPCFLOW_CHUNK_BYTES alike"),
    ("byte_order", "middle", "one byte order"),
])
def test_settings_that_differ_between_ranks(target, monkeypatch, setting, value, advice):
    x = hf.placeholder(hf.float32, [3])
    monkeypatch.setattr(distributed_step, "settings",
                        lambda: {**agreement.settings(), setting: value})
    with hf.Session(target) as session:
        with pytest.raises(hf.errors.FailedPreconditionError, match=f"{setting} {value}.*{advice}"):
            session.run(there_and_back(x), {x: [1, 2, 3]})
        monkeypatch.undo()
        np.testing.assert_array_equal(session.run(there_and_back(x), {x: [1, 2, 3]}), [4, 6, 8])


def test_edges_that_the_ends_see_differently(target, monkeypatch):
    """As if the other rank had registered an op or a type otherwise."""
    x = hf.placeholder(hf.float32, [3])
    encode = wire.encode_nodes

    def altered(nodes, *more):
        for node in nodes:
            if node.type == RECV:
                node.dims = [(4,)]
        return encode(nodes, *more)

    monkeypatch.setattr(wire, "encode_nodes", altered)
    with hf.Session(target) as session, pytest.raises(
            hf.errors.InternalError, match="do not agree on the edges"):
        session.run(there_and_back(x), {x: [1, 2, 3]})


def test_graphs_that_declare_a_variable_differently(target):
    def variable(shape, dtype):
        graph = hf.Graph()
        with graph.as_default(), hf.device(PS):
            return graph, hf.Variable(hf.zeros(shape, dtype), name="shared_by_name")

    graph, v = variable([2], hf.float32)
    with hf.Session(target, graph=graph) as session:
        session.run(v.initializer)
        for shape, dtype in [([3], hf.float32), ([2], hf.float64)]:
            other, w = variable(shape, dtype)
            with hf.Session(target, graph=other) as wrong:
                for fetch in (w, w.initializer):
                    with pytest.raises(hf.errors.InvalidArgumentError, match="exists with"):
                        wrong.run(fetch)
        np.testing.assert_array_equal(session.run(v), [0, 0])


def test_a_task_that_the_cluster_does_not_have(target):
    with hf.device("/job:ps/task:7"):
        y = hf.placeholder_with_default(1.0, []) + 1.0
    with hf.Session(target) as session, pytest.raises(
            hf.errors.InvalidArgumentError, match=r"Not in the cluster: /job:ps/task:7; it has"):
        session.run(y)


def test_a_value_of_static_shape_that_no_memory_can_hold(target):
    """The other side has a buffer for it before the step begins; so the step never does."""
    with hf.device(PS):
        huge = hf.zeros([1 << 22, 1 << 20]) + hf.placeholder_with_default(1.0, [])
    fine = there_and_back(hf.placeholder_with_default([1.0], [1]))
    start = time.monotonic()
    with hf.Session(target) as session:
        for _ in range(2):
            with pytest.raises(hf.errors.ResourceExhaustedError, match="Out of memory"):
                session.run(hf.reduce_sum(huge))
        assert session.run(fine) == [4.0]
    assert time.monotonic() - start < 5


def test_a_value_of_unknown_shape_that_the_receiver_cannot_hold(target, monkeypatch):
    n = hf.placeholder(hf.int32, [])
    with hf.device(PS):
        made = hf.fill([n], 1.0)
    total = hf.reduce_sum(made)

    def empty(shape, *rest):
        if np.prod(shape) > 1e6:
            raise MemoryError("no room for it")
        return np.empty(shape, *rest)

    shim = types.SimpleNamespace(**{**vars(np), "empty": empty})
    with hf.Session(target) as session:
        assert session.run(total, {n: 100_000}) == 100_000
        monkeypatch.setattr(receiving, "np", shim)
        monkeypatch.setattr(tuning.runtime, "STEP_DRAIN_SECONDS", 0.3)
        start = time.monotonic()
        with pytest.raises(hf.errors.ResourceExhaustedError, match="no room for it"):
            session.run(total, {n: 1_000_000})
        assert time.monotonic() - start < 5
        assert session.run(total, {n: 100_000}) == 100_000  # on a lane of its own
