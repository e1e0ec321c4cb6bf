"""A residual network for small pictures, with batch normalization over all ranks' gradients.

The network of He and others (2015) for pictures of 32 by 32: a convolution, three groups of N
blocks with 16, 32 and 64 channels, the mean, a linear layer; 6N + 2 layers in all. Each block adds
what its two convolutions make to its input. The moving means of batch normalization are updates
that the training operation waits for, and those of rank 0 are tested. The pictures are made here:
rings, crosses, discs and squares of any size and place, under noise.

    python examples/resnet.py --blocks 3                   ResNet-20 in one process
    python -m hpcflow run -n 2 examples/resnet.py          ranks that average their gradients

Prints the loss now and then, and at the end the accuracy on new pictures.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf

SIDE, SHAPES, REPORTS = 32, 4, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=3, help="of each group")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--batch", type=int, default=32, help="pictures of a step, on each rank")
    parser.add_argument("--side", type=int, default=SIDE, help="height and width of the pictures")
    return parser.parse_args()


def pictures(random: np.random.Generator, count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures ``[count, side, side, 1]`` and which shape each shows."""
    labels = random.integers(SHAPES, size=count)
    radius = random.uniform(side / 6, side / 3, (count, 1, 1))
    centre = random.uniform(side / 3, 2 * side / 3, (2, count, 1, 1))
    y = np.arange(side)[None, :, None] - centre[0]
    x = np.arange(side)[None, None, :] - centre[1]
    round_, square = np.hypot(x, y), np.maximum(abs(x), abs(y))
    shapes = [(round_ < radius) & (round_ > radius - 2), (np.minimum(abs(x), abs(y)) < 1.2)
              & (square < radius), round_ < radius, square < radius]
    shown = np.choose(labels[:, None, None], shapes)
    values = shown + random.normal(0, 0.3, shown.shape) - 0.2
    return values[..., None].astype(np.float32), labels


def normalized(values: tf.Tensor, training: tf.Tensor) -> tf.Tensor:
    """Batch normalization and rectified units."""
    return tf.nn.relu(tf.layers.batch_normalization(values, momentum=0.9, training=training))


def convolution(values: tf.Tensor, channels: int, stride: int = 1, size: int = 3) -> tf.Tensor:
    """A convolution without a bias, whose weights begin as He and others advise."""
    return tf.layers.conv2d(values, channels, size, stride, "same", use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer(2.0),
                            kernel_regularizer=tf.contrib.layers.l2_regularizer(1e-4))


def block(values: tf.Tensor, channels: int, stride: int, training: tf.Tensor) -> tf.Tensor:
    """Two convolutions, whose result is added to what comes in."""
    shortcut = values
    if stride > 1 or values.shape[3].value != channels:
        shortcut = convolution(values, channels, stride, size=1)
    inner = normalized(convolution(values, channels, stride), training)
    inner = tf.layers.batch_normalization(convolution(inner, channels), momentum=0.9,
                                          training=training)
    return tf.nn.relu(inner + shortcut)


def network(images: tf.Tensor, blocks: int, training: tf.Tensor) -> tf.Tensor:
    """The logits of a batch of pictures."""
    values = normalized(convolution(images, 16), training)
    for group, channels in enumerate((16, 32, 64)):
        for number in range(blocks):
            with tf.variable_scope(f"group_{group}/block_{number}"):
                values = block(values, channels, 2 if group and not number else 1, training)
    return tf.layers.dense(tf.reduce_mean(values, [1, 2]), SHAPES)


def main() -> None:
    args = parse_arguments()
    rank = tf.mpi.rank()
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, args.side, args.side, 1], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    training = tf.placeholder(tf.bool, name="training")
    logits = network(images, args.blocks, training)
    cross = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    step = tf.train.get_or_create_global_step()
    parts = [args.steps // 2, args.steps * 3 // 4]
    rate = tf.train.piecewise_constant(step, parts, [0.1, 0.01, 0.001])
    optimizer = tf.mpi.DistributedOptimizer(tf.train.MomentumOptimizer(rate, 0.9))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = optimizer.minimize(loss, global_step=step)
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))
    random = np.random.default_rng(rank)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.mpi.broadcast_variables(0))
        for number in range(1, args.steps + 1):
            shown, classes = pictures(random, args.batch, args.side)
            feeds = {images: shown, labels: classes, training: True}
            _, value = session.run([train, cross], feeds)
            if rank == 0 and number % max(args.steps // REPORTS, 1) == 0:
                print(f"step {number}  loss {value:.3f}", flush=True)
        shown, classes = pictures(random, 400, args.side)
        share = session.run(accuracy, {images: shown, labels: classes, training: False})
    if rank == 0:
        print(f"accuracy: {share:.3f}")


if __name__ == "__main__":
    main()
