"""A forest of decision stumps by boosting, over patients that are dealt out over the ranks.

A stump asks whether one feature is above a threshold and gives one of two scores. Stumps are added
one by one: the graph of a step gives each example the gradient of its loss, adds these up by
feature and bin into a histogram, adds up the histograms of all ranks, tries every threshold, and
appends the best stump to variables. Only histograms travel, whatever the number of examples. The
data are the breast cancer measurements that come with scikit-learn.

    python examples/stumps.py                              one process, no MPI
    python -m hpcflow run -n 3 examples/stumps.py          the patients are dealt out over 3 ranks

Prints the loss now and then, the most used features, and at the end the accuracy on patients who
were left out.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer

import hpcflow as tf

BINS, TEST_SHARE, REPORTS = 32, 5, 5  # every fifth patient is left out


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stumps", type=int, default=100, help="of the forest")
    parser.add_argument("--rate", type=float, default=0.3, help="the share taken of each stump")
    return parser.parse_args()


def binned(values: np.ndarray) -> np.ndarray:
    """The bin of each feature of each example: about equally many examples are in each."""
    edges = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], axis=0)
    return np.stack([np.searchsorted(e, v) for e, v in zip(edges.T, values.T)], 1).astype(np.int32)


class Forest:
    """The stumps so far, in variables, and the operation that adds one.

    Args:
        bins: of each feature of this rank's examples, ``[examples, features]``.
        labels: 0 or 1.
    """

    def __init__(self, bins: tf.Tensor, labels: tf.Tensor, args: argparse.Namespace) -> None:
        features = bins.shape[1].value
        shape = [args.stumps]
        self.count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer())
        self.feature, self.threshold = (
            tf.get_variable(name, shape, tf.int32, tf.zeros_initializer())
            for name in ("feature", "threshold"))
        self.scores = tf.get_variable("scores", [*shape, 2], initializer=tf.zeros_initializer())
        self.reached = tf.get_variable("reached", [bins.shape[0].value], trainable=False,
                                       initializer=tf.zeros_initializer())
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=self.reached)
        total, examples = tf.mpi.allreduce([
            tf.reduce_sum(losses), tf.cast(tf.size(labels), tf.float32)])
        self.loss = total / examples
        with tf.control_dependencies([self.loss]):
            histogram = self.histogram(bins, labels, features)
        best, scores = self.best_stump(histogram, features)
        scores *= args.rate
        feature, threshold = best // (BINS - 1), best % (BINS - 1)
        above = tf.cast(tf.gather(bins, feature, axis=1) > threshold, tf.int32)
        number = self.count
        with tf.control_dependencies([
                tf.scatter_update(self.feature, number, feature),
                tf.scatter_update(self.threshold, number, threshold),
                tf.scatter_update(self.scores, number, scores),
                tf.assign_add(self.reached, tf.gather(scores, above))]):
            self.grow = tf.assign_add(self.count, 1).op

    def histogram(self, bins: tf.Tensor, labels: tf.Tensor, features: int) -> tf.Tensor:
        """Gradients and curvatures ``[features, BINS, 2]`` of all ranks' examples."""
        probability = tf.sigmoid(self.reached)
        pair = tf.stack([labels - probability, probability * (1 - probability)], 1)
        places = bins + BINS * tf.range(features)
        repeated = tf.tile(pair[:, None], [1, features, 1])
        sums = tf.unsorted_segment_sum(tf.reshape(repeated, [-1, 2]), tf.reshape(places, [-1]),
                                       features * BINS)
        return tf.reshape(tf.mpi.allreduce(sums), [features, BINS, 2])

    def best_stump(self, histogram: tf.Tensor, features: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The number of the best feature and threshold, and the two scores."""
        below = tf.cumsum(histogram, axis=1)[:, :-1]
        sides = tf.stack([below, tf.reduce_sum(histogram, 1, keepdims=True) - below])
        sides = tf.reshape(sides, [2, features * (BINS - 1), 2])
        gradient, curvature = sides[..., 0], sides[..., 1] + 1.0
        best = tf.argmax(tf.reduce_sum(tf.square(gradient) / curvature, 0), output_type=tf.int32)
        return best, tf.gather(gradient / curvature, best, axis=1)

    def predict(self, bins: tf.Tensor) -> tf.Tensor:
        """Return whether the sum of all stumps' scores is positive."""
        above = tf.cast(tf.gather(bins, self.feature, axis=1) > self.threshold, tf.int32)
        stumps = tf.tile(tf.range(self.scores.shape[0].value)[None], [tf.shape(bins)[0], 1])
        return tf.reduce_sum(tf.gather_nd(self.scores, tf.stack([stumps, above], 2)), 1) > 0


def main() -> None:
    args = parse_arguments()
    rank, ranks = tf.mpi.rank(), tf.mpi.size()
    patients = load_breast_cancer()
    bins, labels = binned(patients.data), patients.target.astype(np.float32)
    is_test = np.arange(len(labels)) % TEST_SHARE == 0
    mine = np.flatnonzero(~is_test)[rank::ranks]
    forest = Forest(tf.constant(bins[mine]), tf.constant(labels[mine]), args)
    says = forest.predict(tf.constant(bins[is_test]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(1, args.stumps + 1):
            loss, _ = session.run([forest.loss, forest.grow])
            if rank == 0 and number % max(args.stumps // REPORTS, 1) == 0:
                print(f"{number} stumps  loss {loss:.4f}", flush=True)
        found, used = session.run([says, forest.feature])
    if rank == 0:
        favourites = np.bincount(used).argsort()[::-1][:3]
        print("most used:", ", ".join(patients.feature_names[favourites]))
        print(f"accuracy: {np.mean(found == (labels[is_test] > 0)):.3f}")


if __name__ == "__main__":
    main()
