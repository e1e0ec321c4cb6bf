"""Convolutional networks in the 1.x graph API; the same file runs in hpcflow and in a peer.

A case is given by its options: ``batch``, ``image`` (its height and width) and ``layers``, a list
of lists of a kind and numbers (see `hpcflow.tools.bench.convnets`); ``training`` asks for whole
training steps, else a step computes the scores.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

RATE = 1e-4


def open_case(tf: ModuleType, case, options):
    """Build a network in a graph and session of its own: (function that runs one step, close)."""
    threads = options["threads"]
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        session = tf.Session(graph=graph, config=config)
        images, labels = batch_of(options)
        images = tf.Variable(images, trainable=False)
        fetch = scores = network(tf, images, options["layers"])
        if options["training"]:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.Variable(labels, trainable=False), logits=scores)
            fetch = tf.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_mean(losses))
        session.run(tf.global_variables_initializer())
    return lambda: session.run(fetch), session.close


def batch_of(options):
    """Random images with random labels."""
    random = np.random.default_rng(0)
    height, width = options["image"]
    dims = options["batch"], height, width, 3
    return (random.standard_normal(dims, np.float32),
            random.integers(1000, size=options["batch"]).astype(np.int32))


def network(tf: ModuleType, x, layers):
    """The layers, one after the other."""
    for kind, *numbers in layers:
        x = KINDS[kind](tf, x, *numbers)
    return x


def weights(tf: ModuleType, *dims):
    """A variable whose products keep the size of what they multiply."""
    deviation = (2.0 / np.prod(dims[:-1])) ** 0.5
    return tf.Variable(tf.truncated_normal(dims, stddev=deviation, seed=1))


def conv(tf: ModuleType, x, outer: int, window: int, stride: int = 1, padding: str = "SAME"):
    """Convolution, bias and relu."""
    w = weights(tf, window, window, int(x.shape[3]), outer)
    y = tf.nn.conv2d(x, w, [1, stride, stride, 1], padding)
    return tf.nn.relu(tf.nn.bias_add(y, tf.Variable(tf.zeros([outer]))))


def pool(tf: ModuleType, x, window: int, stride: int, padding: str = "VALID"):
    """The largest of each window."""
    return tf.nn.max_pool(x, [1, window, window, 1], [1, stride, stride, 1], padding)


def mean(tf: ModuleType, x, window: int):
    """The mean of each window."""
    return tf.nn.avg_pool(x, [1, window, window, 1], [1, 1, 1, 1], "VALID")


def inception(tf: ModuleType, x, one, three_in, three, five_in, five, pooled):
    """Four branches, joined along the channels."""
    return tf.concat([
        conv(tf, x, one, 1),
        conv(tf, conv(tf, x, three_in, 1), three, 3),
        conv(tf, conv(tf, x, five_in, 1), five, 5),
        conv(tf, pool(tf, x, 3, 1, "SAME"), pooled, 1),
    ], 3)


def norm_conv(tf: ModuleType, x, outer: int, window: int, stride: int = 1, relu: bool = True):
    """Convolution and batch normalization, and relu or not."""
    w = weights(tf, window, window, int(x.shape[3]), outer)
    y = tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME")
    scale, offset = tf.Variable(tf.ones([outer])), tf.Variable(tf.zeros([outer]))
    y = tf.nn.fused_batch_norm(y, scale, offset)[0]
    return tf.nn.relu(y) if relu else y


def residual(tf: ModuleType, x, inner: int, stride: int = 1):
    """Three convolutions around a narrow waist, added to their input."""
    outer = 4 * inner
    same = stride == 1 and int(x.shape[3]) == outer
    short = x if same else norm_conv(tf, x, outer, 1, stride, False)
    y = norm_conv(tf, norm_conv(tf, x, inner, 1), inner, 3, stride)
    return tf.nn.relu(norm_conv(tf, y, outer, 1, 1, False) + short)


def dense(tf: ModuleType, x, outer: int, relu: bool = True):
    """A fully connected layer."""
    inner = int(np.prod([int(n) for n in x.shape[1:]]))
    x = tf.reshape(x, [-1, inner])
    y = tf.nn.bias_add(tf.matmul(x, weights(tf, inner, outer)), tf.Variable(tf.zeros([outer])))
    return tf.nn.relu(y) if relu else y


KINDS = {f.__name__: f for f in (conv, pool, mean, inception, norm_conv, residual, dense)}
