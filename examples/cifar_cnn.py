"""A convolutional network for small colour pictures, with input, augmentation and averages.

The network of the CIFAR-10 tutorial of 1.x: two convolutions with pooling and local response
normalization, two hidden layers with weight decay, a learning rate that falls, and moving averages
of the variables, with which it is tested. The pictures are made here: each class is a pattern of
stripes, in a direction and a pair of colours, under noise. A data set cuts and brightens them anew
every time, in threads beside the training.

    python examples/cifar_cnn.py                           one process, no MPI
    python -m hpcflow run -n 2 examples/cifar_cnn.py       ranks that average their gradients

Prints the loss and pictures per second now and then, and at the end the accuracy on new pictures.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hpcflow as tf

SIDE, CUT, CLASSES, REPORTS = 32, 24, 10, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--batch", type=int, default=64, help="pictures of a step, on each rank")
    parser.add_argument("--width", type=int, default=64, help="channels of the convolutions")
    return parser.parse_args()


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures ``[count, 32, 32, 3]`` of bytes, and their classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=count)
    angles = np.pi * labels / CLASSES
    y, x = np.mgrid[:SIDE, :SIDE]
    along = np.cos(angles)[:, None, None] * x + np.sin(angles)[:, None, None] * y
    waves = np.sin(0.8 * along + random.uniform(0, 2 * np.pi, (count, 1, 1)))
    colours = np.random.default_rng(0).uniform(-60, 60, (CLASSES, 3))[labels]
    values = 128 + waves[..., None] * colours[:, None, None]
    values += random.normal(0, 25, (count, SIDE, SIDE, 3))
    return values.clip(0, 255).astype(np.uint8), labels.astype(np.int64)


def augmented(picture: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A piece of a picture, brighter or darker, of any contrast, with mean 0 and deviation 1."""
    piece = tf.random_crop(tf.cast(picture, tf.float32), [CUT, CUT, 3])
    piece = tf.image.random_brightness(piece, max_delta=40)
    piece = tf.image.random_contrast(piece, lower=0.7, upper=1.5)
    return tf.image.per_image_standardization(piece), label


def centred(picture: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The middle of a picture, with mean 0 and deviation 1."""
    piece = tf.image.resize_image_with_crop_or_pad(tf.cast(picture, tf.float32), CUT, CUT)
    return tf.image.per_image_standardization(piece), label


def layer(values: tf.Tensor, units: int, name: str, decay: float) -> tf.Tensor:
    """A hidden layer of rectified units, whose weights are held small by a loss."""
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [values.shape[1].value, units],
                                  initializer=tf.truncated_normal_initializer(stddev=0.04))
        tf.add_to_collection("losses", decay * tf.nn.l2_loss(weights))
        biases = tf.get_variable("biases", [units], initializer=tf.constant_initializer(0.1))
        return tf.nn.relu(tf.matmul(values, weights) + biases)


def convolution(values: tf.Tensor, channels: int, name: str, bias: float) -> tf.Tensor:
    """A convolution of 5 by 5 with rectified units."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("weights", [5, 5, values.shape[3].value, channels],
                                 initializer=tf.truncated_normal_initializer(stddev=5e-2))
        biases = tf.get_variable("biases", [channels], initializer=tf.constant_initializer(bias))
        summed = tf.nn.conv2d(values, kernel, [1, 1, 1, 1], "SAME") + biases
        return tf.nn.relu(summed, name=tf.get_variable_scope().name)


def network(images: tf.Tensor, width: int) -> tf.Tensor:
    """The logits of a batch of pictures."""
    hidden = convolution(images, width, "conv1", 0.0)
    hidden = tf.nn.max_pool(hidden, [1, 3, 3, 1], [1, 2, 2, 1], "SAME", name="pool1")
    hidden = tf.nn.lrn(hidden, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    hidden = convolution(hidden, width, "conv2", 0.1)
    hidden = tf.nn.lrn(hidden, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm2")
    hidden = tf.nn.max_pool(hidden, [1, 3, 3, 1], [1, 2, 2, 1], "SAME", name="pool2")
    hidden = tf.layers.flatten(hidden)
    hidden = layer(layer(hidden, 384, "local3", 0.004), 192, "local4", 0.004)
    return tf.layers.dense(hidden, CLASSES, name="logits", bias_initializer=tf.zeros_initializer(),
                           kernel_initializer=tf.truncated_normal_initializer(stddev=1 / 192))


def data(args: argparse.Namespace) -> tuple[tf.Tensor, tf.Tensor]:
    """Batches of augmented pictures, without end."""
    made = tf.data.Dataset.from_tensor_slices(pictures(2000, 1 + tf.mpi.rank()))
    made = made.shuffle(2000, seed=tf.mpi.rank()).repeat().map(augmented, num_parallel_calls=2)
    return made.batch(args.batch, drop_remainder=True).prefetch(4).make_one_shot_iterator(
        ).get_next()


def main() -> None:
    args = parse_arguments()
    tf.set_random_seed(1)
    images, labels = data(args)
    with tf.variable_scope("model"):
        logits = network(images, args.width)
    cross = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits))
    loss = tf.add_n([cross, *tf.get_collection("losses")])
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.01, step, 200, 0.5, staircase=True)
    optimizer = tf.mpi.DistributedOptimizer(tf.train.MomentumOptimizer(rate, 0.9))
    applied = optimizer.minimize(loss, global_step=step)
    averages = tf.train.ExponentialMovingAverage(0.98, step)
    with tf.control_dependencies([applied]):
        train = averages.apply(tf.trainable_variables())

    # The test reads the averages of the variables instead of the variables.
    test = tf.data.Dataset.from_tensor_slices(pictures(500, 0)).map(centred).batch(500)
    test_images, test_labels = test.make_one_shot_iterator().get_next()
    with tf.variable_scope("model", reuse=True, custom_getter=(
            lambda getter, name, *given, **named: averages.average(getter(name, *given, **named)))):
        test_logits = network(test_images, args.width)
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(test_logits, test_labels, 1), tf.float32))

    hooks = [tf.mpi.BroadcastVariablesHook(0)]
    with tf.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as session:
        begun = time.perf_counter()
        for number in range(1, args.steps + 1):
            _, value = session.run([train, cross])
            if number % max(args.steps // REPORTS, 1) == 0 and tf.mpi.rank() == 0:
                speed = number * args.batch * tf.mpi.size() / (time.perf_counter() - begun)
                print(f"step {number}  loss {value:.3f}  {speed:,.0f} pictures/s", flush=True)
        share = session.run(accuracy)
    if tf.mpi.rank() == 0:
        print(f"accuracy: {share:.3f}")


if __name__ == "__main__":
    main()
