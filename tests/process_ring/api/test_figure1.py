"""The program of Figure 1 in the OSDI paper on TensorFlow (Abadi et al., 2016), as printed.

Only the import differs, and two slips are mended: the hidden layer adds ``b_1``, and the cross
entropy takes ``labels=`` and ``logits=`` (their order changed after the paper).
"""

from __future__ import annotations

import numpy as np

import hpcflow as tf

BATCH_SIZE = 64
NUM_STEPS = 60


def batches():
    """Images of one bright band each, labelled by where it is."""
    random = np.random.default_rng(0)
    while True:
        labels = random.integers(10, size=BATCH_SIZE)
        images = 0.1 * random.random((BATCH_SIZE, 784), np.float32)
        for image, label in zip(images, labels):
            image[78 * label : 78 * label + 78] += 0.9
        yield images, np.eye(10, dtype=np.float32)[labels]


def test_the_program_of_figure_1_trains():
    data = batches()
    losses = []
    with tf.Graph().as_default():
        tf.set_random_seed(1)

        # 1. Construct a graph representing the model.
        x = tf.placeholder(tf.float32, [BATCH_SIZE, 784])
        y = tf.placeholder(tf.float32, [BATCH_SIZE, 10])

        W_1 = tf.Variable(tf.random_uniform([784, 100]))
        b_1 = tf.Variable(tf.zeros([100]))
        layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)

        W_2 = tf.Variable(tf.random_uniform([100, 10]))
        b_2 = tf.Variable(tf.zeros([10]))
        layer_2 = tf.matmul(layer_1, W_2) + b_2

        # 2. Add nodes that represent the optimization algorithm.
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=layer_2)
        train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)

        # 3. Execute the graph on batches of input data.
        with tf.Session() as sess:
            sess.run(tf.initialize_all_variables())
            for _ in range(NUM_STEPS):
                x_data, y_data = next(data)
                losses.append(sess.run(loss, {x: x_data, y: y_data}).mean())
                sess.run(train_op, {x: x_data, y: y_data})

    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < 0.2 * np.mean(losses[:10])
