"""Small steps, as a 1.x program writes them; the same file runs in hpcflow and in a peer."""

from __future__ import annotations

import itertools
from types import ModuleType

import numpy as np

BATCH, INPUTS, HIDDEN, CLASSES = 64, 784, 100, 10
RATE = 0.01
ACCUMULATOR = 0.1
ADDS, FLOATS = 1000, 1024

NO_OP = "no-op step"
FEED_ADD_FETCH = "feed, add, fetch"
CHAINED_ADDS = f"{ADDS:,} chained adds of {FLOATS:,} floats"
FIGURE1_STEP = "Figure-1 MLP training step"


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    graph = tf.Graph()
    with graph.as_default():
        session = tf.Session(graph=graph)
        return CASES[case](tf, session), session.close


def no_op(tf: ModuleType, session):
    """A step that does nothing."""
    op = tf.no_op()
    return lambda: session.run(op)


def feed_add_fetch(tf: ModuleType, session):
    """A fed scalar, one addition, fetched."""
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    return lambda: session.run(y, {x: 3.0})


def chained_adds(tf: ModuleType, session):
    """Additions of which each needs the one before."""
    x = tf.placeholder(tf.float32, [FLOATS])
    y = x
    for _ in range(ADDS):
        y = y + x
    values = np.full(FLOATS, 0.5, np.float32)
    return lambda: session.run(y, {x: values})


def figure1_step(tf: ModuleType, session):
    """A training step of one hidden layer, softmax and Adagrad."""
    x = tf.placeholder(tf.float32, [BATCH, INPUTS])
    y = tf.placeholder(tf.float32, [BATCH, CLASSES])
    w_1 = tf.Variable(tf.random_uniform([INPUTS, HIDDEN], -0.05, 0.05, seed=1))
    b_1 = tf.Variable(tf.zeros([HIDDEN]))
    layer_1 = tf.nn.relu(tf.matmul(x, w_1) + b_1)
    w_2 = tf.Variable(tf.random_uniform([HIDDEN, CLASSES], -0.05, 0.05, seed=2))
    b_2 = tf.Variable(tf.zeros([CLASSES]))
    layer_2 = tf.matmul(layer_1, w_2) + b_2
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=layer_2)
    train = tf.train.AdagradOptimizer(RATE, ACCUMULATOR).minimize(loss)
    session.run(tf.global_variables_initializer())
    batches = itertools.cycle(training_batches())

    def step():
        x_data, y_data = next(batches)
        session.run(train, {x: x_data, y: y_data})

    return step


def training_batches(count: int = 16):
    """Random inputs with random labels: the loss falls, but never so far that numbers vanish."""
    random = np.random.default_rng(0)
    labels = np.eye(CLASSES, dtype=np.float32)
    return [
        (
            random.random((BATCH, INPUTS), np.float32),
            labels[random.integers(CLASSES, size=BATCH)],
        )
        for _ in range(count)
    ]


CASES = {
    NO_OP: no_op,
    FEED_ADD_FETCH: feed_add_fetch,
    CHAINED_ADDS: chained_adds,
    FIGURE1_STEP: figure1_step,
}
