"""Models of the first years of deep learning, forward and training; the same file runs in a peer.

Every step fetches values: the loss of a forward pass, the loss and the update of a training step.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

import numpy as np

BATCH, PIXELS, HIDDEN, CLASSES = 64, 784, 100, 10
SENTENCES, UNROLL, UNITS, WORDS, SAMPLED = 32, 20, 512, 40_000, 512
LSTM_BATCH, LSTM_TIME, LSTM_UNITS = 64, 28, 128
IMAGES, SIDE = 64, 32
EXAMPLES, NUMBERS, COLUMNS, BUCKETS, WIDTH = 256, 13, 26, 10_000, 16
DEEP = (256, 128)


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    kind = options["kind"]
    if kind in ("control_flow", "convnets"):  # programs of other benchmarks, beside this file
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        return importlib.import_module(kind).open_case(tf, options["case"], options)
    threads = options["threads"]
    config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                            inter_op_parallelism_threads=threads)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, optimizer, feeds = KINDS[kind](tf)
        fetches = [loss, optimizer.minimize(loss)] if options["training"] else loss
        session = tf.Session(graph=graph, config=config)
        session.run(tf.global_variables_initializer())
    return lambda: session.run(fetches, feeds), session.close


def weights(tf: ModuleType, *dims):
    """A variable whose products keep the size of what they multiply."""
    deviation = (2.0 / np.prod(dims[:-1])) ** 0.5
    return tf.Variable(tf.truncated_normal(dims, stddev=float(deviation), seed=1))


def dense(tf: ModuleType, x, outer: int):
    """A fully connected layer without an activation."""
    return tf.matmul(x, weights(tf, int(x.shape[1]), outer)) + tf.Variable(tf.zeros([outer]))


def perceptron(tf: ModuleType):
    """The network of Figure 1 of the white paper: one hidden layer, softmax, the mean loss."""
    x = tf.placeholder(tf.float32, [BATCH, PIXELS])
    y = tf.placeholder(tf.float32, [BATCH, CLASSES])
    scores = dense(tf, tf.nn.relu(dense(tf, x, HIDDEN)), CLASSES)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(y), logits=scores)
    random = np.random.RandomState(0)
    feeds = {x: random.rand(BATCH, PIXELS).astype(np.float32),
             y: np.eye(CLASSES, dtype=np.float32)[random.randint(0, CLASSES, BATCH)]}
    return tf.reduce_mean(losses), tf.train.AdagradOptimizer(0.01), feeds


def lstm_step(tf: ModuleType, x, c, h, kernel, bias):
    """The cell of Zaremba and others, with its gates as four pieces of one product."""
    gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias)
    i, j, f, o = tf.split(gates, 4, 1)
    c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
    return c, tf.tanh(c) * tf.sigmoid(o)


def language_model(tf: ModuleType):
    """One LSTM, its steps in the graph, over words; a sampled softmax predicts the next ones."""
    words = tf.placeholder(tf.int32, [SENTENCES, UNROLL])
    labels = tf.placeholder(tf.int64, [SENTENCES * UNROLL, 1])
    table, outer = weights(tf, WORDS, UNITS), weights(tf, WORDS, UNITS)
    kernel, bias = weights(tf, 2 * UNITS, 4 * UNITS), tf.Variable(tf.zeros([4 * UNITS]))
    c = h = tf.zeros([SENTENCES, UNITS])
    outputs = []
    for x in tf.unstack(tf.nn.embedding_lookup(table, words), axis=1):
        c, h = lstm_step(tf, x, c, h, kernel, bias)
        outputs.append(h)
    hidden = tf.reshape(tf.stack(outputs, 1), [-1, UNITS])
    losses = tf.nn.sampled_softmax_loss(
        weights=outer, biases=tf.Variable(tf.zeros([WORDS])), labels=labels, inputs=hidden,
        num_sampled=SAMPLED, num_classes=WORDS)
    random = np.random.RandomState(0)
    feeds = {words: random.randint(0, WORDS, (SENTENCES, UNROLL)),
             labels: random.randint(0, WORDS, (SENTENCES * UNROLL, 1))}
    return tf.reduce_mean(losses), tf.train.GradientDescentOptimizer(0.1), feeds


def looped_lstm(tf: ModuleType):
    """An LSTM as a while loop over rows of images, which it classifies at their end."""
    x = tf.placeholder(tf.float32, [LSTM_BATCH, LSTM_TIME, LSTM_TIME])
    y = tf.placeholder(tf.int64, [LSTM_BATCH])
    kernel = weights(tf, LSTM_TIME + LSTM_UNITS, 4 * LSTM_UNITS)
    bias = tf.Variable(tf.zeros([4 * LSTM_UNITS]))
    rows = tf.TensorArray(tf.float32, LSTM_TIME).unstack(tf.transpose(x, [1, 0, 2]))
    state = tf.zeros([LSTM_BATCH, LSTM_UNITS])
    _, _, h = tf.while_loop(
        lambda t, c, h: t < LSTM_TIME,
        lambda t, c, h: (t + 1, *lstm_step(tf, rows.read(t), c, h, kernel, bias)),
        [0, state, state])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=dense(tf, h, CLASSES))
    random = np.random.RandomState(0)
    feeds = {x: random.rand(LSTM_BATCH, LSTM_TIME, LSTM_TIME).astype(np.float32),
             y: random.randint(0, CLASSES, LSTM_BATCH)}
    return tf.reduce_mean(losses), tf.train.AdagradOptimizer(0.01), feeds


def _normalized(tf: ModuleType, x, outer: int, window: int = 3, stride: int = 1):
    x = tf.nn.conv2d(x, weights(tf, window, window, int(x.shape[3]), outer),
                     [1, stride, stride, 1], "SAME")
    scale, shift = tf.Variable(tf.ones([outer])), tf.Variable(tf.zeros([outer]))
    return tf.nn.fused_batch_norm(x, scale, shift)[0]


def residual_network(tf: ModuleType):
    """ResNet-20 of small images: three stages of three blocks of 16, 32 and 64 channels."""
    x = tf.placeholder(tf.float32, [IMAGES, SIDE, SIDE, 3])
    y = tf.placeholder(tf.int64, [IMAGES])
    h = tf.nn.relu(_normalized(tf, x, 16))
    for depth in (16, 32, 64):
        for block in range(3):
            stride = 2 if depth > 16 and block == 0 else 1
            short = h if stride == 1 else _normalized(tf, h, depth, 1, 2)
            inner = tf.nn.relu(_normalized(tf, h, depth, stride=stride))
            h = tf.nn.relu(_normalized(tf, inner, depth) + short)
    scores = dense(tf, tf.reduce_mean(h, [1, 2]), CLASSES)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores)
    random = np.random.RandomState(0)
    feeds = {x: random.standard_normal((IMAGES, SIDE, SIDE, 3)).astype(np.float32),
             y: random.randint(0, CLASSES, IMAGES)}
    return tf.reduce_mean(losses), tf.train.MomentumOptimizer(0.01, 0.9), feeds


def wide_and_deep(tf: ModuleType):
    """A linear model of many words beside a perceptron of their vectors and of numbers."""
    numbers = tf.placeholder(tf.float32, [EXAMPLES, NUMBERS])
    words = tf.placeholder(tf.int32, [EXAMPLES, COLUMNS])
    y = tf.placeholder(tf.float32, [EXAMPLES, 1])
    wide, vectors = [], [numbers]
    for column in range(COLUMNS):
        ids = words[:, column]
        wide.append(tf.nn.embedding_lookup(tf.Variable(tf.zeros([BUCKETS, 1])), ids))
        vectors.append(tf.nn.embedding_lookup(weights(tf, BUCKETS, WIDTH), ids))
    h = tf.concat(vectors, 1)
    for width in DEEP:
        h = tf.nn.relu(dense(tf, h, width))
    scores = dense(tf, h, 1) + tf.add_n(wide)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=scores)
    random = np.random.RandomState(0)
    feeds = {numbers: random.rand(EXAMPLES, NUMBERS).astype(np.float32),
             words: np.minimum(random.zipf(1.3, (EXAMPLES, COLUMNS)), BUCKETS) - 1,
             y: random.randint(0, 2, (EXAMPLES, 1)).astype(np.float32)}
    return tf.reduce_mean(losses), tf.train.AdagradOptimizer(0.01), feeds


KINDS = {f.__name__: f for f in (perceptron, language_model, looped_lstm, residual_network,
                                 wide_and_deep)}
