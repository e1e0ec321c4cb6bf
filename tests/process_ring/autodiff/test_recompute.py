"""Recomputation: cheap forward values are computed again for the backward pass, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config, kernels
from hpcflow.compiler.distribute.schedule import schedule
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.recompute import recompute

DEVICE = "/job:a/replica:0/task:0/device:CPU:0"


def network(layers=4, size=64):
    hf.set_random_seed(5)
    h = x = hf.placeholder(hf.float32, [32, size])
    for i in range(layers):
        w = hf.get_variable(f"w{i}", [size, size])
        b = hf.get_variable(f"b{i}", [size])
        z = hf.matmul(h, w)
        h = hf.tanh(z + b) * hf.sigmoid(z + b)
    loss = hf.reduce_mean(hf.square(h))
    return x, loss, hf.train.GradientDescentOptimizer(0.5).minimize(loss)


def config_with(option):
    proto = hf.ConfigProto()
    options = proto.graph_options.rewrite_options
    options.memory_optimization = options.MemOptType.Value(option)
    return proto


@pytest.mark.parametrize("option", ["MANUAL", "RECOMPUTATION_HEURISTICS", "HEURISTICS"])
def test_the_same_bits(option):
    losses = []
    value = np.random.RandomState(0).rand(32, 64)
    for proto in (None, config_with(option)):
        with hf.Graph().as_default():
            x, loss, train = network()
            with hf.Session(config=proto) as session:
                session.run(hf.global_variables_initializer())
                losses.append([session.run([loss, train], {x: value})[0] for _ in range(3)])
    assert losses[0] == losses[1]


@pytest.fixture
def graph():
    kernels.load()
    with hf.Graph().as_default() as g:
        yield g


def peak_of(train, x, *arguments):
    step = prune([train], [x], DEVICE)
    if arguments:
        recompute(step, *arguments)
    names = [n.name for n in step.nodes]
    return schedule(step.nodes).nbytes, [n for n in names if n.endswith("/recomputed")]


def test_it_saves_memory(graph):
    x, _, train = network()
    before, _ = peak_of(train, x)
    after, copies = peak_of(train, x, True)
    assert after < 0.7 * before
    assert "Tanh_3/recomputed" in copies and not any("MatMul" in c for c in copies)


def test_hints_decide_in_manual_mode(graph):
    x = hf.placeholder(hf.float32, [8])
    v = hf.Variable(np.ones(8, np.float32))
    hinted = hf.exp(x, name="hinted")
    hinted.op._set_attr("_recompute_hint", 1)
    other = hf.tanh(hinted, name="other")
    gradient = hf.gradients(other + hinted * v, v._ref())
    _, copies = peak_of(gradient[0], x, False)
    assert copies == ["hinted/recomputed"]
    with hf.Session(config=config_with("MANUAL")) as session:
        session.run(v.initializer)
        one = session.run(gradient[0], {x: np.arange(8)})
    with hf.Session() as session:
        session.run(v.initializer)
        assert session.run(gradient[0], {x: np.arange(8)}).tobytes() == one.tobytes()


def test_random_values_are_not_drawn_again(graph):
    x = hf.placeholder(hf.float32, [64, 64])
    v = hf.Variable(np.ones((64, 64), np.float32))
    dropped = hf.nn.dropout(hf.tanh(x * v), 0.5)
    gradient = hf.gradients(hf.square(dropped), v._ref())[0]
    config.flags.reload({"HPCFLOW_RECOMPUTE": "1"})
    try:
        with hf.Session() as session:
            session.run(v.initializer)
            out, back = session.run([dropped, gradient], {x: np.ones((64, 64))})
    finally:
        config.flags.reload()
    np.testing.assert_array_equal(out == 0, back == 0)
