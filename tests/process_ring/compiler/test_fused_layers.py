"""Fused layers and updates give what their parts give, by oneDNN and without it."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import config, errors

RNG = np.random.default_rng(61)
PLAIN = hf.OptimizerOptions(opt_level=hf.OptimizerOptions.L0)


def normal(*shape, scale=1.0):
    return (scale * RNG.normal(size=shape)).astype(np.float32)


def run_both(build, feeds=None, steps=1):
    """The results of ``build() -> (fetches, variables)`` with and without the passes."""
    results = []
    for options in (None, PLAIN):
        graph_options = hf.GraphOptions(optimizer_options=options)
        with hf.Graph().as_default() as graph:
            session_config = hf.ConfigProto(graph_options=graph_options)
            with hf.Session(config=session_config, graph=graph) as session:
                fetches, variables, fed = build()
                session.run(hf.global_variables_initializer())
                for _ in range(steps):
                    found = session.run(fetches, dict(zip(fed, feeds or [])))
                results.append([x for x in found if x is not None] + session.run(variables))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max(initial=0))


@pytest.fixture(params=["", "0"], ids=["onednn", "numpy"], autouse=True)
def library(request, monkeypatch):
    monkeypatch.setattr(config.flags, "onednn", request.param)


def plus(x, bias):
    return x + bias


@pairs(
    ("add", [hf.nn.bias_add, plus]),
    ("relu", [True, False]),
    ("flips", [(False, False), (False, True), (True, False), (True, True)]),
    ("sizes", [(0, 300, 260), (2, 300, 260), (90, 300, 260), (90, 2100, 40)]),
)
def test_dense_layers(sizes, flips, relu, add):
    """Without rows, with so few that BLAS computes, and with bias and relu inside or after."""
    m, k, n = sizes
    x, w, b = normal(m, k), normal(k, n), normal(n)
    x, w = x.T if flips[0] else x, w.T if flips[1] else w

    def build():
        dims = [k, None] if flips[0] else [None, k]
        fed, weights, bias = hf.placeholder(hf.float32, dims), hf.Variable(w), hf.Variable(b)
        y = add(hf.matmul(fed, weights, *flips), bias)
        y = hf.nn.relu(y) if relu else y
        return [y, *hf.gradients(y, [fed, weights, bias])], [], [fed]

    run_both(build, [x])


def test_a_bias_that_does_not_fit():
    """Told by the name of the product."""
    with hf.Graph().as_default(), hf.Session() as session:
        bias = hf.placeholder(hf.float32, None)
        w = hf.placeholder(hf.float32, [300, 260])
        product = hf.matmul(hf.ones([90, 300]), w, name="dense")
        y = hf.nn.relu(hf.nn.bias_add(product, bias))
        fed = {bias: normal(9), w: normal(300, 260)}
        with pytest.raises(errors.InvalidArgumentError, match=r"bias of shape \[9\].*'dense'"):
            session.run(y, fed)


@pairs(
    ("relu", [True, False]),
    ("padding", ["SAME", "VALID"]),
    ("layout", ["NHWC", "NCHW"]),
    ("batch", [0, 3]),
)
def test_layers(batch, layout, padding, relu):
    x, w, b = normal(batch, 9, 7, 5), normal(3, 2, 5, 6), normal(6)
    steps = [1, 2, 1, 1]
    if layout == "NCHW":
        x, steps = np.moveaxis(x, -1, 1), [1, 1, 2, 1]

    def build():
        fed = hf.placeholder(hf.float32, [None, *x.shape[1:]])
        conv = hf.nn.conv2d(fed, hf.Variable(w), steps, padding, data_format=layout)
        y = hf.nn.bias_add(conv, hf.Variable(b), data_format=layout)
        return [hf.nn.relu(y) if relu else y], [], [fed]

    run_both(build, [x])


@pairs(
    ("add", [hf.nn.bias_add, plus]),
    ("relu", [True, False]),
    ("batch", [0, 1, 16]),
    ("kind", ["conv1d", "dense"]),
)
def test_layers_of_sequences(kind, batch, relu, add):
    """The bias comes after a view of the result, whose shape the gradients ask for."""
    x, w, b = normal(batch, 20, 128), normal(128, 512), normal(512)

    def build():
        fed = hf.placeholder(hf.float32, [None, None, 128])
        weights, bias = hf.Variable(w), hf.Variable(b)
        if kind == "dense":
            y = hf.tensordot(fed, weights, [[2], [0]])
        else:
            y = hf.nn.conv1d(fed, hf.expand_dims(weights, 0), 1, "SAME")
        y = add(y, bias)
        y = hf.nn.relu(y) if relu else y
        return [y, *hf.gradients(y, [fed, weights, bias])], [], [fed]

    run_both(build, [x])


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("layout", ["NHWC", "NCHW"]),
    ("batch,window", [(0, 3), (3, 3), (2, 1)]),
)
def test_poolings_and_their_gradients(batch, window, layout, padding):
    """Values with ties: the first maximum of a window gets the gradient."""
    x = RNG.integers(0, 5, (batch, 9, 7, 20)).astype(np.float32)
    ksize, steps = [1, window, window, 1], [1, 2, 1, 1]
    if layout == "NCHW":
        x, ksize, steps = np.moveaxis(x, -1, 1), [1, 1, window, window], [1, 1, 2, 1]

    def build():
        fed = hf.placeholder(hf.float32, [None, *x.shape[1:]])
        y = hf.nn.max_pool(fed, ksize, steps, padding, layout)
        return [y, *hf.gradients(y * y, [fed])], [], [fed]

    run_both(build, [x])


@pairs(
    ("layout", ["NHWC", "NCHW"]),
    ("padding", ["SAME", "VALID"]),
    ("batch", [0, 3]),
)
def test_gradients_of_layers_with_poolings(batch, padding, layout):
    """Ties among the features, and more layers than one before the same pooling."""
    x = RNG.integers(-2, 3, (batch, 31, 33, 6)).astype(np.float32)
    w, b = RNG.integers(-1, 2, (1, 1, 6, 40)).astype(np.float32), normal(40)
    ksize, steps = [1, 3, 3, 1], [1, 2, 2, 1]
    if layout == "NCHW":
        x, ksize, steps = np.moveaxis(x, -1, 1), [1, 1, 3, 3], [1, 1, 2, 2]

    def build():
        fed = hf.placeholder(hf.float32, [None, *x.shape[1:]])
        weights, bias = hf.Variable(w), hf.Variable(b)
        conv = hf.nn.conv2d(fed, weights, [1, 1, 1, 1], "SAME", data_format=layout)
        y = hf.nn.relu(hf.nn.bias_add(conv, bias, data_format=layout))
        pooled = hf.nn.max_pool(y, ksize, steps, padding, layout)
        both = hf.reduce_sum(pooled * pooled) + hf.reduce_sum(hf.square(y))
        return [*hf.gradients(pooled * pooled, [fed, weights, bias]),
                *hf.gradients(both, [fed, weights, bias])], [], [fed]

    run_both(build, [x])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("batch", [0, 3])
def test_sums_of_gradients_of_convolutions(batch, layout):
    """Of branches, one of them a pooling, and of one whose input is also fetched."""
    x = normal(batch, 9, 7, 20) if layout == "NHWC" else normal(batch, 20, 9, 7)
    filters = [normal(1, 1, 20, n) for n in (24, 3, 16)]
    window = [1, 3, 3, 1] if layout == "NHWC" else [1, 1, 3, 3]

    def build():
        fed = hf.placeholder(hf.float32, [None, *x.shape[1:]])
        weights = list(map(hf.Variable, filters))
        image, channels = hf.nn.relu(fed), 3 if layout == "NHWC" else 1
        ends = [hf.nn.conv2d(image, w, [1] * 4, padding, data_format=layout)
                for w, padding in zip(weights, ("SAME", "VALID", "SAME"), strict=True)]
        ends.append(hf.nn.max_pool(image, window, [1] * 4, "SAME", layout))
        sums = [hf.square(hf.concat(parts, channels)) for parts in (ends, ends[:2])]
        wanted = [fed, image, weights[0]]
        return [image, *(g for y in sums for g in hf.gradients(y, wanted))], [], [fed]

    run_both(build, [x])


def test_a_sum_that_does_not_fit():
    """Told by the name of the gradient."""
    with hf.Graph().as_default(), hf.Session() as session:
        total, dy = hf.placeholder(hf.float32), hf.placeholder(hf.float32)
        gradient = hf.nn.conv2d_backprop_input([1, 5, 5, 4], hf.ones([1, 1, 4, 2]), dy, [1] * 4,
                                               "SAME", name="of_image")
        with pytest.raises(errors.InvalidArgumentError,
                           match=r"\[1,5,4\].*\[1,5,5,4\].*'of_image'"):
            session.run(hf.add_n([total, gradient]),
                        {total: np.ones((1, 5, 4)), dy: np.ones((1, 5, 5, 2))})


def test_training_a_small_network():
    """Everything that is fused at once, over several steps."""
    x, labels = normal(4, 12, 12, 3), RNG.integers(10, size=4)

    def build():
        w = [hf.Variable(normal_of(n, dims)) for n, dims in enumerate(
            [(3, 3, 3, 8), (8,), (1152, 64), (64,), (64, 1200), (1200, 10)])]
        y = hf.nn.relu(hf.nn.bias_add(hf.nn.conv2d(x, w[0], [1, 1, 1, 1], "SAME"), w[1]))
        y = hf.nn.relu(hf.matmul(hf.reshape(y, [4, -1]), w[2]) + w[3])
        y = hf.matmul(hf.matmul(y, w[4]), w[5])
        loss = hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=y)
        train = hf.train.GradientDescentOptimizer(0.05).minimize(hf.reduce_mean(loss))
        return [loss, train], w, []

    run_both(build, steps=4)


def normal_of(seed, dims):
    return np.random.default_rng(seed).normal(size=dims).astype(np.float32) * 0.1


def test_readers_of_the_variable_keep_their_value():
    w = normal(600, 200, scale=0.1)

    def build():
        v = hf.Variable(w)
        y = hf.matmul(normal_of(1, (50, 600)), v)
        train = hf.train.GradientDescentOptimizer(0.1).minimize(hf.reduce_sum(y * y))
        return [v + 0.0, train], [v], []

    run_both(build)
    with hf.Graph().as_default(), hf.Session() as session:
        fetches, variables, _ = build()
        session.run(hf.global_variables_initializer())
        before, _ = session.run(fetches)
        np.testing.assert_array_equal(before, w)
        assert np.abs(session.run(variables[0]) - w).max() > 1e-3


def test_a_bad_bias_is_named():
    with hf.Graph().as_default(), hf.Session() as session:
        x, b = hf.placeholder(hf.float32, [1, 4, 4, 2]), hf.placeholder(hf.float32)
        y = hf.nn.relu(hf.nn.bias_add(hf.nn.conv2d(x, np.ones((1, 1, 2, 3), np.float32),
                                                   [1, 1, 1, 1], "SAME"), b))
        with pytest.raises(errors.InvalidArgumentError, match=r"bias of shape \[2\].*3 channels"):
            session.run(y, {x: np.ones((1, 4, 4, 2)), b: np.ones(2)})


def test_an_update_of_an_uninitialized_variable():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(hf.zeros([300, 300]))
        gradient = hf.matmul(hf.ones([300, 9]), hf.ones([9, 300]))
        train = hf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, v)])
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized"):
            session.run(train)


@pytest.mark.parametrize("dtype", [hf.float32, hf.float64])
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_the_gradient_of_weights_that_are_used_many_times(rows, dtype):
    w, b = normal(48, 40), normal(40, 48)

    def build():
        first, second = hf.Variable(w.astype(dtype.as_numpy_dtype)), hf.Variable(b, dtype=dtype)
        state = start = hf.constant(normal_input, dtype)
        for _ in range(4):
            state = hf.tanh(hf.matmul(hf.tanh(hf.matmul(state, first)), second))
        shared = hf.reduce_sum(state) + hf.reduce_sum(hf.matmul(start, second, transpose_b=True))
        return hf.gradients(shared + hf.nn.l2_loss(second), [first, second]), [], []

    normal_input = normal(rows, 48)
    run_both(build)


def test_a_sum_of_products_in_a_branch_and_in_a_loop():
    x, w = normal(3, 4, 30), normal(3, 4, 20)

    def build():
        fed = hf.placeholder(hf.bool, [])
        parts, factors = hf.unstack(hf.constant(x)), hf.unstack(hf.constant(w))

        def total(scale):
            return hf.add_n([hf.matmul(a * scale, b, transpose_a=True)
                             for a, b in zip(parts, factors, strict=True)])

        branch = hf.cond(fed, lambda: total(2.0), lambda: hf.zeros([30, 20]))
        _, loop = hf.while_loop(
            lambda i, _: i < 3,
            lambda i, t: (i + 1, t + total(hf.cast(i, hf.float32))), [0, branch])
        return [branch, loop], [], [fed]

    run_both(build, [True])
    run_both(build, [False])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_unrolled_networks(cell):
    """Whose inputs of all steps are multiplied at once, as are the gradients of the inputs."""
    x, steps, size = normal(3, 5, 96), 5, 96

    def build():
        fed = hf.placeholder(hf.float32, [3, steps, size])
        make = {"lstm": hf.contrib.rnn.BasicLSTMCell, "gru": hf.contrib.rnn.GRUCell}[cell]
        with hf.variable_scope("net", initializer=hf.random_normal_initializer(0, 0.2, seed=5)):
            outputs, _ = hf.contrib.rnn.static_rnn(make(size), hf.unstack(fed, axis=1),
                                                   dtype=hf.float32)
        loss = hf.reduce_sum(hf.square(hf.stack(outputs)))
        train = hf.train.GradientDescentOptimizer(1e-3).minimize(loss)
        gradient, = hf.gradients(loss, [fed])
        return [loss, gradient, train], hf.trainable_variables(), [fed]

    run_both(build, [x], steps=2)
