"""Results do not depend on time: the first runs of a step, line by line, and the later ones, in
which compiled loops have taken the lines' place, agree."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower, lower_all

import hpcflow as hf
from hpcflow import config
from hpcflow.host import bits
from hpcflow.loops import compiling

RUNS = 4
# Of the largest element of a result: the functions of a step differ by up to 8 units in the last
# place from one form to another (`loops.meanings`), and sums by the order of their terms.
ULPS = 64


def values(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def weights(name, *shape):
    scale = np.float32(np.prod(shape[:-1]) ** -0.5)
    return hf.get_variable(name, initializer=scale * values(len(name), *shape))


def mlp():
    x = hf.placeholder(hf.float32, [None, 50])
    hidden = hf.nn.relu(hf.matmul(x, weights("w1", 50, 70)) + weights("bias1", 70))
    hidden = hf.sigmoid(hf.matmul(hidden, weights("w22", 70, 60))) * hf.tanh(hidden[:, :60])
    scores = hf.matmul(hf.nn.dropout(hidden, rate=0.0), weights("w333", 60, 10))
    loss = hf.nn.softmax_cross_entropy_with_logits(
        labels=hf.nn.softmax(values(1, 48, 10)), logits=scores)
    return loss, {x: values(2, 48, 50)}


def lstm():
    x = hf.placeholder(hf.float32, [9, None, 24])
    start = hf.zeros([hf.shape(x)[1], 32])
    cell = hf.nn.rnn_cell.BasicLSTMCell(32)
    outputs, _ = hf.nn.dynamic_rnn(cell, x, time_major=True,
                                   initial_state=hf.nn.rnn_cell.LSTMStateTuple(start, start))
    scores = hf.tensordot(outputs, weights("out", 32, 20), 1)
    labels = np.random.RandomState(3).randint(0, 20, (9, 40))
    return (hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores),
            {x: values(4, 9, 40, 24)})


def convolutions():
    x = hf.placeholder(hf.float32, [None, 14, 14, 3])
    y = hf.nn.conv2d(x, weights("kernel", 3, 3, 3, 16), 1, "SAME")
    y = hf.nn.relu(hf.nn.bias_add(y, weights("b", 16)))
    y = hf.nn.max_pool(hf.nn.local_response_normalization(y, 2, 2.0, 1e-4, 0.75), 2, 2, "VALID")
    y = hf.nn.conv2d(y, weights("kernel2", 3, 3, 16, 16), 1, "SAME")
    y, _, _ = hf.nn.fused_batch_norm(y, weights("scale", 16), weights("offset_", 16))
    y = hf.reduce_mean(hf.nn.avg_pool(hf.nn.relu(y), 3, 2, "SAME"), [1, 2])
    labels = np.random.RandomState(5).randint(0, 10, 20)
    return (hf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=hf.matmul(y, weights("last", 16, 10))), {x: values(6, 20, 14, 14, 3)})


@pytest.fixture
def compiles(monkeypatch):
    """All is compiled that can be, whatever its size, once it has run."""
    monkeypatch.setattr(config.flags, "jit", True)
    if not compiling.enabled():
        pytest.skip("nothing compiles loops here")
    lower_all(monkeypatch)
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)


@pytest.mark.parametrize("mode", ["fast", "deterministic", "equal bits"])
@pytest.mark.parametrize("network", [mlp, lstm, convolutions])
def test_later_runs_agree_with_the_first(graph, compiles, monkeypatch, network, mode):
    monkeypatch.setattr(config.flags, "deterministic", mode == "deterministic")
    losses, feeds = network()
    if mode == "equal bits":
        graph._ask_for_equal_bits()
    fetches = [losses, *hf.gradients(losses, hf.trainable_variables())]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        first = session.run(fetches, feeds)
        for run in range(1, RUNS):
            compiling.wait()
            for now, before in zip(session.run(fetches, feeds), first, strict=True):
                bound = 0.0 if mode != "fast" else (
                    ULPS * np.finfo(np.float32).eps * np.abs(before).max())
                far = np.abs(now - before).max()
                assert far <= bound, f"run {run} is {far} away from the first"
    assert any(loop.function is not None for loop in compiling._programs.values())


def test_slices_ask_for_equal_bits_of_their_graph_alone(graph):
    """In its steps, which are made anew, and in the functions that these call."""

    def kept(name):
        return hf.py_func(lambda x: np.float32(bits.keeps_bits()), [hf.constant(0.0)], hf.float32,
                          name=name)

    here = kept("here")
    element = hf.data.Dataset.range(3).map(lambda _: kept("mapped")).make_one_shot_iterator()
    with hf.Graph().as_default(), hf.Session() as other:
        elsewhere = kept("elsewhere")
        with hf.Session(graph=graph) as session:
            assert session.run(here) == 0
            with graph.as_default():
                w = hf.get_variable("w", initializer=values(1, 4))
                hf.mpi.DistributedOptimizer(
                    hf.train.GradientDescentOptimizer(1.0), slices=2).compute_gradients(
                        lambda x: hf.reduce_sum(w * x), inputs=[hf.constant(values(2, 6, 4))])
                assert session.run([here, element.get_next()]) == [1, 1]
        assert other.run(elsewhere) == 0
    assert not bits.keeps_bits()
