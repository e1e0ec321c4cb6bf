"""Training programs that are fed by the host, in the 1.x graph API: a perceptron, a language model.

A case is given by its options: ``kind`` names a function here, ``args`` are its arguments.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

BATCHES = 4  # different ones, which take turns


def open_case(tf: ModuleType, case, options):
    """Build a program in a graph and session of its own: (function that runs one step, close)."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        train, batches = KINDS[options["kind"]](tf, **options["args"])
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
    turns = [0]

    def step():
        turns[0] += 1
        session.run(train, batches[turns[0] % BATCHES])

    return step, session.close


def perceptron_batches(batch: int):
    """(pixels, one-hot labels) of each batch."""
    random = np.random.default_rng(0)
    return [(random.random((batch, 784), np.float32),
             np.eye(10, dtype=np.float32)[random.integers(10, size=batch)])
            for _ in range(BATCHES)]


def perceptron(tf: ModuleType, batch: int, hidden: int):
    """A hidden layer, ten classes, Adagrad: the figure that the 1.x white paper begins with."""
    x, y = tf.placeholder(tf.float32, [batch, 784]), tf.placeholder(tf.float32, [batch, 10])
    h = tf.nn.relu(tf.matmul(x, tf.Variable(tf.random_uniform([784, hidden], -0.05, 0.05)))
                   + tf.Variable(tf.zeros([hidden])))
    scores = tf.matmul(h, tf.Variable(tf.random_uniform([hidden, 10], -0.05, 0.05)))
    scores += tf.Variable(tf.zeros([10]))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=scores))
    train = tf.train.AdagradOptimizer(0.01).minimize(loss)
    return train, [{x: a, y: b} for a, b in perceptron_batches(batch)]


def word_batches(batch: int, steps: int, words: int):
    """(words, the words after them) of each batch."""
    random = np.random.default_rng(0)
    return [random.integers(words, size=(2, batch, steps)).astype(np.int32)
            for _ in range(BATCHES)]


def language_model(tf: ModuleType, batch: int, steps: int, units: int, words: int):
    """One LSTM whose steps are in the graph, a softmax over all words, clipped gradients."""
    x, y = (tf.placeholder(tf.int32, [batch, steps]) for _ in range(2))
    table = tf.get_variable("embedding", [words, units])
    inputs = tf.unstack(tf.nn.embedding_lookup(table, x), axis=1)
    outputs, _ = tf.nn.static_rnn(tf.nn.rnn_cell.BasicLSTMCell(units), inputs, dtype=tf.float32)
    hidden = tf.reshape(tf.stack(outputs, 1), [-1, units])
    weights = tf.get_variable("weights", [units, words])
    scores = tf.nn.bias_add(tf.matmul(hidden, weights), tf.Variable(tf.zeros([words])))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(y, [-1]), logits=scores))
    variables = tf.trainable_variables()
    slopes, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(zip(slopes, variables))
    return train, [{x: a, y: b} for a, b in word_batches(batch, steps, words)]


KINDS = {function.__name__: function for function in (perceptron, language_model)}
