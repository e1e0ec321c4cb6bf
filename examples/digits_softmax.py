"""Softmax regression and a convolutional network on the digits of scikit-learn.

The two models that every introduction to 1.x begins with: a linear layer with a softmax, and two
convolutions with pooling, a hidden layer and dropout. ``--model`` chooses.

    python examples/digits_softmax.py --model softmax
    python examples/digits_softmax.py --model cnn
    python -m hpcflow run -n 2 examples/digits_softmax.py --model cnn     averaged gradients

Prints the loss now and then, and at the end the accuracy on the last 360 images, which are not
among those of the training.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import hpcflow as tf

SIDE, CLASSES, TEST_IMAGES, REPORTS = 8, 10, 360, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["softmax", "cnn"], default="cnn")
    parser.add_argument("--steps", type=int, default=1000, help="training steps")
    parser.add_argument("--batch", type=int, default=50, help="images of a step, on each rank")
    return parser.parse_args()


def softmax_regression(images: tf.Tensor) -> tf.Tensor:
    """Logits that are linear in the pixels."""
    weights = tf.Variable(tf.zeros([SIDE * SIDE, CLASSES]), name="weights")
    biases = tf.Variable(tf.zeros([CLASSES]), name="biases")
    return tf.nn.xw_plus_b(images, weights, biases)


def variable(shape: list[int]) -> tf.Variable:
    """Weights that begin small and random."""
    return tf.Variable(tf.truncated_normal(shape, stddev=(2 / np.prod(shape[:-1])) ** 0.5))


def convolutional(images: tf.Tensor, keep: tf.Tensor) -> tf.Tensor:
    """Two convolutions with pooling behind each, a hidden layer with dropout, the logits."""
    hidden = tf.reshape(images, [-1, SIDE, SIDE, 1])
    for before, after in ((1, 16), (16, 32)):
        kernel, bias = variable([3, 3, before, after]), tf.Variable(tf.constant(0.1, shape=[after]))
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME") + bias)
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(hidden, [-1, SIDE // 4 * SIDE // 4 * 32])
    hidden = tf.nn.relu(tf.matmul(flat, variable([128, 64])) + tf.Variable(tf.zeros([64])))
    hidden = tf.nn.dropout(hidden, keep_prob=keep)
    return tf.matmul(hidden, variable([64, CLASSES])) + tf.Variable(tf.zeros([CLASSES]))


def main() -> None:
    args = parse_arguments()
    rank = tf.mpi.rank()
    digits = load_digits()
    pixels = (digits.data / 16).astype(np.float32)
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, SIDE * SIDE], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    keep = tf.placeholder_with_default(1.0, [], name="keep")
    if args.model == "softmax":
        logits, inner = softmax_regression(images), tf.train.GradientDescentOptimizer(0.5)
    else:
        logits, inner = convolutional(images, keep), tf.train.AdamOptimizer(2e-3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = tf.mpi.DistributedOptimizer(inner).minimize(loss)
    right = tf.nn.in_top_k(logits, labels, 1)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    random = np.random.default_rng(rank)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.mpi.broadcast_variables(0))
        for step in range(1, args.steps + 1):
            chosen = random.integers(len(pixels) - TEST_IMAGES, size=args.batch)
            feeds = {images: pixels[chosen], labels: digits.target[chosen], keep: 0.7}
            _, cost = session.run([train, loss], feeds)
            if step % max(args.steps // REPORTS, 1) == 0 and rank == 0:
                print(f"step {step}  loss {cost:.3f}", flush=True)
        share = session.run(accuracy, {images: pixels[-TEST_IMAGES:],
                                       labels: digits.target[-TEST_IMAGES:]})
    if rank == 0:
        print(f"accuracy: {share:.3f}")


if __name__ == "__main__":
    main()
