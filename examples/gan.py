"""A generative adversarial network that learns to draw digits.

Two networks play against each other (Goodfellow and others, 2014): the generator makes pictures of
random numbers, the discriminator says which pictures are real, and each is trained on what the
other does. The real ones are the digits of scikit-learn. How good the drawings are is judged by a
third network, trained to read the real digits beforehand: it should be sure of what it sees, and
see all ten digits.

    python examples/gan.py                                 one process, no MPI
    python -m hpcflow run -n 2 examples/gan.py             ranks that average their gradients

Prints both losses now and then, a drawing, and at the end the score: e to the power of the mean
divergence of what is seen in a picture from what is seen in all; 1 is the worst, 10 the best.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import hpcflow as tf

SIDE, NOISE, CLASSES, REPORTS = 8, 16, 10, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000, help="training steps of both")
    parser.add_argument("--batch", type=int, default=64, help="pictures of a step, on each rank")
    return parser.parse_args()


def generator(noise: tf.Tensor) -> tf.Tensor:
    """Pictures ``[batch, 8, 8, 1]`` with pixels from -1 to 1."""
    with tf.variable_scope("generator"):
        values = tf.layers.dense(noise, 2 * 2 * 64, tf.nn.leaky_relu)
        values = tf.reshape(values, [-1, 2, 2, 64])
        values = tf.layers.conv2d_transpose(values, 32, 4, 2, "same", activation=tf.nn.leaky_relu)
        return tf.layers.conv2d_transpose(values, 1, 4, 2, "same", activation=tf.tanh)


def discriminator(pictures: tf.Tensor) -> tf.Tensor:
    """The logit of a picture being real."""
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        values = tf.layers.conv2d(pictures, 32, 3, 2, "same", activation=tf.nn.leaky_relu)
        values = tf.layers.conv2d(values, 64, 3, 2, "same", activation=tf.nn.leaky_relu)
        return tf.layers.dense(tf.layers.flatten(values), 1)


def reader(pictures: tf.Tensor) -> tf.Tensor:
    """The logits of the ten digits."""
    with tf.variable_scope("reader", reuse=tf.AUTO_REUSE):
        return tf.layers.dense(tf.layers.dense(tf.layers.flatten(pictures), 64, tf.tanh), CLASSES)


def cross_entropy(logits: tf.Tensor, label: float) -> tf.Tensor:
    """The loss of saying `logits` when all labels are `label`."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
        logits=logits, labels=tf.fill(tf.shape(logits), label)))


def minimize(loss: tf.Tensor, rate: float, name: str) -> tf.Operation:
    """A step of Adam on the variables of one network, with gradients of all ranks."""
    optimizer = tf.mpi.DistributedOptimizer(tf.train.AdamOptimizer(rate, beta1=0.5))
    return optimizer.minimize(loss, var_list=tf.trainable_variables(name))


def score(logits: tf.Tensor) -> tf.Tensor:
    """The inception score (Salimans and others, 2016) by what the reader says."""
    seen = tf.nn.softmax(logits)
    overall = tf.reduce_mean(seen, 0, keepdims=True)
    divergence = tf.reduce_sum(seen * (tf.log(seen + 1e-9) - tf.log(overall + 1e-9)), 1)
    return tf.exp(tf.reduce_mean(divergence))


def show(picture: np.ndarray) -> None:
    """Print a picture by letters."""
    for row in picture[..., 0]:
        print("   ", "".join(" .:*#"[int((v + 1) * 2.499)] * 2 for v in row))


def main() -> None:
    args = parse_arguments()
    rank = tf.mpi.rank()
    digits = load_digits()
    data = (digits.images / 8 - 1).astype(np.float32)[..., None]
    tf.set_random_seed(1 + rank)
    real = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="real")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    drawn = generator(tf.random_normal([tf.shape(real)[0], NOISE]))
    says_real, says_drawn = discriminator(real), discriminator(drawn)
    against = cross_entropy(says_real, 0.9) + cross_entropy(says_drawn, 0.0)
    behind = cross_entropy(says_drawn, 1.0)
    read = tf.losses.sparse_softmax_cross_entropy(labels, reader(real))
    learn_to_read = minimize(read, 2e-3, "reader")
    train = [minimize(against, 5e-4, "discriminator"), minimize(behind, 1e-3, "generator")]
    quality = score(reader(drawn))
    random = np.random.default_rng(rank)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.mpi.broadcast_variables(0))
        for _ in range(400):
            chosen = random.integers(len(data), size=args.batch)
            session.run(learn_to_read, {real: data[chosen], labels: digits.target[chosen]})
        for step in range(1, args.steps + 1):
            feeds = {real: data[random.integers(len(data), size=args.batch)]}
            one, other = session.run([against, behind, train], feeds)[:2]
            if rank == 0 and step % max(args.steps // REPORTS, 1) == 0:
                print(f"step {step}  discriminator {one:.3f}  generator {other:.3f}", flush=True)
        value, pictures = session.run([quality, drawn], {real: data[:500]})
    if rank == 0:
        show(pictures[0])
        print(f"score: {value:.2f}")


if __name__ == "__main__":
    main()
