"""Inception-v3, in the style of `contrib.slim`: argument scopes, end points, an auxiliary loss.

The network of Szegedy and others (2015), with which the OSDI paper measures synchronous replicas
(its figures 7 and 8): convolutions that are factored into rows and columns, three kinds of modules,
grids that shrink by convolution and pooling side by side, batch normalization throughout, a second
classifier half way. ``--width 1 --side 299`` is the network as published. It learns to tell which
quarter of a noisy picture is brighter.

    python examples/inception_v3.py --steps 3              the whole network, in one process
    python examples/inception_v3.py --width 0.1 --side 79
    python -m hpcflow run -n 3 --ps 1 examples/inception_v3.py --width 0.1 --side 79 --sync

On ranks the variables are on the parameter servers (--ps of ``hpcflow run``), and the workers are
asynchronous, or with --sync synchronous, of which --backup many are not waited for. Prints the
loss, the time of a step, and at the end the loss.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hpcflow as tf

slim = tf.contrib.slim
CLASSES, TRAINED = 1000, 4  # outputs of the network, and classes among them that occur
Branch = list[tuple]  # (channels, kernel[, stride[, padding]]), or "avg" or "max"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=299, help="height and width of the pictures")
    parser.add_argument("--width", type=float, default=1.0, help="share of the channels")
    parser.add_argument("--batch", type=int, default=8, help="pictures of a step, of each worker")
    parser.add_argument("--steps", type=int, default=10, help="training steps, of all workers")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate of RMSProp")
    parser.add_argument("--sync", action="store_true", help="average the workers' gradients")
    parser.add_argument("--backup", type=int, default=0, help="workers that are not waited for")
    return parser.parse_args()


class Inception:
    """The network, for a share of the channels."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.end_points: dict[str, tf.Tensor] = {}

    def conv(self, values: tf.Tensor, channels: int, kernel: int | tuple[int, int],
             stride: int = 1, padding: str = "SAME") -> tf.Tensor:
        return slim.conv2d(values, max(4, round(channels * self.width)), kernel, stride, padding)

    def branch(self, values: tf.Tensor, layers: list) -> tf.Tensor:
        """Layers behind each other; a list at the end is two layers side by side."""
        for layer in layers:
            if layer == "avg":
                values = slim.avg_pool2d(values, 3, 1, "SAME")
            elif layer == "max":
                values = slim.max_pool2d(values, 3, 2, "VALID")
            elif isinstance(layer, list):
                values = tf.concat([self.conv(values, *side) for side in layer], 3)
            else:
                values = self.conv(values, *layer)
        return values

    def module(self, name: str, values: tf.Tensor, *branches: list) -> tf.Tensor:
        """Branches over the same values, side by side."""
        with tf.variable_scope(name):
            parts = []
            for number, layers in enumerate(branches):
                with tf.variable_scope(f"branch_{number}"):
                    parts.append(self.branch(values, layers))
            self.end_points[name] = tf.concat(parts, 3)
        return self.end_points[name]

    def stem(self, values: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("stem"):
            return self.branch(values, [(32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3), "max",
                                        (80, 1, 1, "VALID"), (192, 3, 1, "VALID"), "max"])

    def body(self, values: tf.Tensor) -> tf.Tensor:
        """The eleven modules."""
        for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
            values = self.module(f"mixed_{name}", values, [(64, 1)], [(48, 1), (64, 5)],
                                 [(64, 1), (96, 3), (96, 3)], ["avg", (pooled, 1)])
        values = self.module("mixed_6a", values, [(384, 3, 2, "VALID")],
                             [(64, 1), (96, 3), (96, 3, 2, "VALID")], ["max"])
        for name, n in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
            values = self.module(
                f"mixed_{name}", values, [(192, 1)], [(n, 1), (n, (1, 7)), (192, (7, 1))],
                [(n, 1), (n, (7, 1)), (n, (1, 7)), (n, (7, 1)), (192, (1, 7))], ["avg", (192, 1)])
        values = self.module("mixed_7a", values, [(192, 1), (320, 3, 2, "VALID")],
                             [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, "VALID")],
                             ["max"])
        for name in ("7b", "7c"):
            values = self.module(
                f"mixed_{name}", values, [(320, 1)],
                [(384, 1), [(384, (1, 3)), (384, (3, 1))]],
                [(448, 1), (384, 3), [(384, (1, 3)), (384, (3, 1))]], ["avg", (192, 1)])
        return values

    def classifier(self, name: str, values: tf.Tensor) -> tf.Tensor:
        """The mean over the picture, dropout, logits."""
        with tf.variable_scope(name):
            values = slim.dropout(slim.flatten(tf.reduce_mean(values, [1, 2], keepdims=True)), 0.8)
            return slim.fully_connected(values, CLASSES, activation_fn=None, normalizer_fn=None)

    def __call__(self, images: tf.Tensor, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """The logits, and those of the classifier half way."""
        normalize = {"is_training": is_training, "decay": 0.9, "epsilon": 1e-3}
        with slim.arg_scope([slim.conv2d, slim.fully_connected],
                            weights_regularizer=slim.l2_regularizer(4e-5)), \
                slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm,
                               normalizer_params=normalize), \
                slim.arg_scope([slim.dropout], is_training=is_training):
            values = self.body(self.stem(images))
            half_way = self.conv(self.end_points["mixed_6e"], 128, 1)
            return self.classifier("logits", values), self.classifier("auxiliary", half_way)


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
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    tf.set_random_seed(1)
    workers, is_chief = task.cluster.num_tasks("worker"), task.index == 0
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        images = tf.placeholder(tf.float32, [args.batch, args.side, args.side, 3], name="images")
        labels = tf.placeholder(tf.int64, [args.batch], name="labels")
        logits, auxiliary = Inception(args.width)(images, is_training=True)
        cross = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        tf.losses.sparse_softmax_cross_entropy(labels, auxiliary, weights=0.4)
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.RMSPropOptimizer(args.rate, decay=0.9, momentum=0.9, epsilon=1.0)
        hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
        if args.sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers - args.backup, workers)
            hooks.append(optimizer.make_session_run_hook(is_chief))
        train = slim.learning.create_train_op(tf.losses.get_total_loss(), optimizer, step)
    random, losses, times = np.random.default_rng(task.index), [], []
    with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks,
                                           log_step_count_steps=None) as session:
        while not session.should_stop():
            pictures, classes = batch(random, args.batch, args.side)
            begun = time.perf_counter()
            _, value, number = session.run([train, cross, step],
                                           {images: pictures, labels: classes})
            losses.append(value)
            times.append(time.perf_counter() - begun)
            if is_chief and len(losses) % max(args.steps // workers // 5, 1) == 0:
                print(f"step {number}  loss {value:.3f}  {np.median(times[-5:]) * 1e3:,.0f} ms",
                      flush=True)
    print(f"loss of worker {task.index}: {np.mean(losses[-5:]):.3f}")


if __name__ == "__main__":
    main()
