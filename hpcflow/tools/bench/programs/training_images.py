"""Training programs on images; see `training`."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def digits(batches, batch: int):
    """Batches of (pixels from 0 to 1, labels)."""
    random = np.random.RandomState(0)
    return [(random.rand(batch, 784).astype(np.float32), random.randint(0, 10, batch))
            for _ in range(batches)]


def digits_network(tf: ModuleType):
    """Two convolutions with pooling, a wide layer with dropout, Adam."""
    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
    keep = tf.placeholder(tf.float32)
    h = tf.reshape(x, [-1, 28, 28, 1])
    for depth in (32, 64):
        h = tf.layers.conv2d(h, depth, 5, padding="same", activation=tf.nn.relu)
        h = tf.layers.max_pooling2d(h, 2, 2)
    h = tf.nn.dropout(tf.layers.dense(tf.reshape(h, [-1, 7 * 7 * 64]), 1024, tf.nn.relu), keep)
    scores = tf.layers.dense(h, 10)
    loss = tf.losses.sparse_softmax_cross_entropy(y, scores)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), y), tf.float32))
    train = tf.train.AdamOptimizer(1e-4).minimize(loss)
    return [train, loss, right], [{x: pixels, y: labels, keep: 0.5}
                                  for pixels, labels in digits(4, 50)]


def residual_network(tf: ModuleType):
    """Three stages of two residual blocks on small images, momentum."""
    x, y = tf.placeholder(tf.float32, [None, 32, 32, 3]), tf.placeholder(tf.int64, [None])

    def layer(h: int, depth: int, stride: int = 1):
        h = tf.layers.conv2d(h, depth, 3, stride, "same", use_bias=False)
        return tf.layers.batch_normalization(h, training=True)

    h = tf.nn.relu(layer(x, 16))
    for depth, first in ((16, 1), (32, 2), (64, 2)):
        for stride in (first, 1):
            short = h if stride == 1 else tf.layers.conv2d(h, depth, 1, stride)
            h = tf.nn.relu(layer(tf.nn.relu(layer(h, depth, stride)), depth) + short)
    scores = tf.layers.dense(tf.reduce_mean(h, [1, 2]), 10)
    loss = tf.losses.sparse_softmax_cross_entropy(y, scores)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.rand(32, 32, 32, 3), y: random.randint(0, 10, 32)}
                           for _ in range(4)]


def adversarial_networks(tf: ModuleType):
    """A generator of digits and a discriminator, each with an Adam step."""
    x = tf.placeholder(tf.float32, [32, 28, 28, 1])

    def generated():
        with tf.variable_scope("generator"):
            h = tf.layers.dense(tf.random_uniform([32, 64], -1.0, 1.0), 7 * 7 * 64, tf.nn.relu)
            h = tf.reshape(h, [-1, 7, 7, 64])
            h = tf.layers.conv2d_transpose(h, 32, 5, 2, "same", activation=tf.nn.relu)
            return tf.layers.conv2d_transpose(h, 1, 5, 2, "same", activation=tf.nn.tanh)

    def judged(images):
        with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
            for depth in (32, 64):
                images = tf.nn.leaky_relu(tf.layers.conv2d(images, depth, 5, 2, "same"))
            return tf.layers.dense(tf.reshape(images, [-1, 7 * 7 * 64]), 1)

    real, false = judged(x), judged(generated())
    entropy = tf.losses.sigmoid_cross_entropy
    losses = {"discriminator": entropy(tf.ones_like(real), real)
              + entropy(tf.zeros_like(false), false),
              "generator": entropy(tf.ones_like(false), false)}
    trains = [tf.train.AdamOptimizer(2e-4, 0.5).minimize(
        loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, name))
        for name, loss in losses.items()]
    random = np.random.RandomState(0)
    return [*trains, list(losses.values())], [{x: random.rand(32, 28, 28, 1)} for _ in range(4)]
