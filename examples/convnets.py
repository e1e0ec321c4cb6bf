"""AlexNet, OverFeat, VGG-A and GoogLeNet: the networks of Table 1 of the OSDI paper.

Each is a row of layers, given as a list; GoogLeNet's inception modules are four branches side by
side. ``--width 1`` and ``--side 224`` are the networks as published, which take a batch of pictures
of noise with some brighter quarter, and learn which quarter that is. The time of a training step is
the one that the table compares.

    python examples/convnets.py --model alexnet            one process, no MPI
    python examples/convnets.py --model vgg --width 0.25 --side 64
    python -m hpcflow run -n 2 examples/convnets.py --model googlenet     averaged gradients

Prints the loss, the time of a training step, and at the end by how much the loss has fallen.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import hpcflow as tf

CLASSES, TRAINED = 1000, 4  # outputs of the networks, and classes among them that occur

# Convolutions (channels, kernel, stride, padding), poolings (kernel, stride), hidden layers.
ALEXNET = [("conv", 64, 11, 4, "VALID"), ("pool", 3, 2), ("conv", 192, 5, 1, "SAME"),
           ("pool", 3, 2), ("conv", 384, 3, 1, "SAME"), ("conv", 384, 3, 1, "SAME"),
           ("conv", 256, 3, 1, "SAME"), ("pool", 3, 2), ("dense", 4096), ("dense", 4096)]
OVERFEAT = [("conv", 96, 11, 4, "VALID"), ("pool", 2, 2), ("conv", 256, 5, 1, "SAME"),
            ("pool", 2, 2), ("conv", 512, 3, 1, "SAME"), ("conv", 1024, 3, 1, "SAME"),
            ("conv", 1024, 3, 1, "SAME"), ("pool", 2, 2), ("dense", 3072), ("dense", 4096)]
VGG = [("conv", 64, 3, 1, "SAME"), ("pool", 2, 2), ("conv", 128, 3, 1, "SAME"), ("pool", 2, 2),
       ("conv", 256, 3, 1, "SAME"), ("conv", 256, 3, 1, "SAME"), ("pool", 2, 2),
       ("conv", 512, 3, 1, "SAME"), ("conv", 512, 3, 1, "SAME"), ("pool", 2, 2),
       ("conv", 512, 3, 1, "SAME"), ("conv", 512, 3, 1, "SAME"), ("pool", 2, 2),
       ("dense", 4096), ("dense", 4096)]
# Inception modules: channels of the branches 1x1; 3x3 behind 1x1; 5x5 behind 1x1; pool and 1x1.
GOOGLENET = [("conv", 64, 7, 2, "SAME"), ("pool", 3, 2), ("conv", 64, 1, 1, "SAME"),
             ("conv", 192, 3, 1, "SAME"), ("pool", 3, 2),
             ("module", 64, 96, 128, 16, 32, 32), ("module", 128, 128, 192, 32, 96, 64),
             ("pool", 3, 2),
             ("module", 192, 96, 208, 16, 48, 64), ("module", 160, 112, 224, 24, 64, 64),
             ("module", 128, 128, 256, 24, 64, 64), ("module", 112, 144, 288, 32, 64, 64),
             ("module", 256, 160, 320, 32, 128, 128), ("pool", 3, 2),
             ("module", 256, 160, 320, 32, 128, 128), ("module", 384, 192, 384, 48, 128, 128),
             ("mean",)]
NETWORKS: dict[str, list[tuple]] = {
    "alexnet": ALEXNET, "overfeat": OVERFEAT, "vgg": VGG, "googlenet": GOOGLENET}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=NETWORKS, default="alexnet")
    parser.add_argument("--side", type=int, default=224, help="height and width of the pictures")
    parser.add_argument("--width", type=float, default=1.0, help="share of the channels and units")
    parser.add_argument("--batch", type=int, default=16, help="pictures of a step, on each rank")
    parser.add_argument("--steps", type=int, default=20, help="training steps")
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate of Adam")
    return parser.parse_args()


class Layers:
    """The kinds of layers, for a share of the channels."""

    def __init__(self, width: float) -> None:
        self.width = width

    def conv(self, values: tf.Tensor, channels: int, kernel: int, stride: int, padding: str,
             ) -> tf.Tensor:
        channels = max(1, round(channels * self.width))
        return tf.layers.conv2d(values, channels, kernel, stride, padding, activation=tf.nn.relu,
                                kernel_initializer=tf.variance_scaling_initializer(2.0))

    def pool(self, values: tf.Tensor, kernel: int, stride: int) -> tf.Tensor:
        return tf.layers.max_pooling2d(values, kernel, stride, "SAME")

    def dense(self, values: tf.Tensor, units: int) -> tf.Tensor:
        values = tf.layers.flatten(values)
        return tf.layers.dense(values, max(1, round(units * self.width)), tf.nn.relu,
                               kernel_initializer=tf.variance_scaling_initializer(2.0))

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(values, [1, 2])

    def module(self, values: tf.Tensor, one: int, before_three: int, three: int, before_five: int,
               five: int, pooled: int) -> tf.Tensor:
        """Four branches over the same values, side by side."""
        return tf.concat([
            self.conv(values, one, 1, 1, "SAME"),
            self.conv(self.conv(values, before_three, 1, 1, "SAME"), three, 3, 1, "SAME"),
            self.conv(self.conv(values, before_five, 1, 1, "SAME"), five, 5, 1, "SAME"),
            self.conv(self.pool(values, 3, 1), pooled, 1, 1, "SAME")], axis=3)


def network(images: tf.Tensor, rows: list[tuple], width: float) -> tf.Tensor:
    """The logits of pictures ``[batch, side, side, 3]``."""
    layers, values = Layers(width), images
    for number, (kind, *numbers) in enumerate(rows):
        with tf.variable_scope(f"{kind}_{number}"):
            make: Callable[..., tf.Tensor] = getattr(layers, kind)
            values = make(values, *numbers)
    return tf.layers.dense(values, CLASSES, name="logits")


def batch(random: np.random.Generator, count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of noise with one brighter quarter, and which one that is."""
    labels = random.integers(TRAINED, size=count)
    images = random.normal(size=(count, side, side, 3)).astype(np.float32)
    half = side // 2
    for image, label in zip(images, labels):
        image[label // 2 * half:][:half, label % 2 * half:][:, :half] += 1
    return images, labels


def main() -> None:
    args = parse_arguments()
    rank = tf.mpi.rank()
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [args.batch, args.side, args.side, 3], name="images")
    labels = tf.placeholder(tf.int64, [args.batch], name="labels")
    logits = network(images, NETWORKS[args.model], args.width)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf.mpi.DistributedOptimizer(tf.train.AdamOptimizer(args.rate))
    train = optimizer.minimize(loss)
    parameters = sum(v.shape.num_elements() for v in tf.trainable_variables())
    if rank == 0:
        print(f"{args.model}: {parameters:,} parameters", flush=True)
    random = np.random.default_rng(rank)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.mpi.broadcast_variables(0))
        losses, times = [], []
        for step in range(1, args.steps + 1):
            pictures, classes = batch(random, args.batch, args.side)
            begun = time.perf_counter()
            losses.append(session.run([loss, train], {images: pictures, labels: classes})[0])
            times.append(time.perf_counter() - begun)
            if rank == 0 and step % max(args.steps // 5, 1) == 0:
                print(f"step {step}  loss {losses[-1]:.3f}  "
                      f"{np.median(times[-5:]) * 1e3:,.0f} ms", flush=True)
    if rank == 0:
        part = max(args.steps // 5, 1)
        print(f"loss at the end, as a share of that at the start: "
              f"{np.mean(losses[-part:]) / losses[0]:.3f}")


if __name__ == "__main__":
    main()
