"""The program of Figure 1 of the OSDI paper on TensorFlow, on data made up here.

A layer of 100 rectified units, a linear layer, cross entropy, Adagrad: the graph is described
first, and a session runs the training operation on one batch after the other. A picture of class c
is noise that is brighter in its c-th stripe.

    python examples/figure_1.py                            one process, no MPI
    python -m hpcflow run -n 2 examples/figure_1.py        ranks that average their gradients

Prints the loss now and then, and at the end the share of new pictures that are classified rightly.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf

BATCH_SIZE, PIXELS, CLASSES, REPORTS = 64, 784, 10, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    return parser.parse_args()


def batch(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pictures ``[64, 784]`` and the classes that they show as rows of ones and zeros."""
    labels = random.integers(CLASSES, size=BATCH_SIZE)
    pictures = random.random((BATCH_SIZE, PIXELS), np.float32)
    stripes = np.arange(PIXELS) * CLASSES // PIXELS
    pictures += 0.3 * (stripes == labels[:, None])
    return pictures - np.float32(0.5), np.eye(CLASSES, dtype=np.float32)[labels]


def main() -> None:
    args = parse_arguments()
    tf.set_random_seed(1)

    # 1. Construct a graph representing the model.
    x = tf.placeholder(tf.float32, [BATCH_SIZE, PIXELS])
    y = tf.placeholder(tf.float32, [BATCH_SIZE, CLASSES])

    W_1 = tf.Variable(tf.random_uniform([PIXELS, 100], -0.1, 0.1))
    b_1 = tf.Variable(tf.zeros([100]))
    layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)

    W_2 = tf.Variable(tf.random_uniform([100, CLASSES], -0.1, 0.1))
    b_2 = tf.Variable(tf.zeros([CLASSES]))
    layer_2 = tf.matmul(layer_1, W_2) + b_2

    # 2. Add nodes that represent the optimization algorithm.
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=layer_2))
    optimizer = tf.mpi.DistributedOptimizer(tf.train.AdagradOptimizer(0.01))
    train_op = optimizer.minimize(loss)
    right = tf.equal(tf.argmax(layer_2, 1), tf.argmax(y, 1))
    accuracy = tf.mpi.allreduce(tf.reduce_mean(tf.cast(right, tf.float32)), "mean")

    # 3. Execute the graph on batches of input data.
    random = np.random.default_rng(tf.mpi.rank())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(tf.mpi.broadcast_variables(0))
        for step in range(1, args.steps + 1):
            x_data, y_data = batch(random)
            _, cost = sess.run([train_op, loss], {x: x_data, y: y_data})
            if step % max(args.steps // REPORTS, 1) == 0 and tf.mpi.rank() == 0:
                print(f"step {step}  loss {cost:.3f}", flush=True)
        x_data, y_data = batch(random)
        share = sess.run(accuracy, {x: x_data, y: y_data})
    if tf.mpi.rank() == 0:
        print(f"accuracy: {share:.3f}")


if __name__ == "__main__":
    main()
