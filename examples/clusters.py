"""k-means and a mixture of Gaussians, over points that are dealt out over the ranks.

Both find groups of points by turns: assign every point to groups, compute the groups anew from
their points. Each rank has its own points and adds up what they say about each group; an allreduce
in the graph adds up the ranks, so all ranks have the same groups after every step. No gradient, no
optimizer: a step is a graph like any other. EM begins with what k-means has found. The points are
made here, from groups of different sizes and forms.

    python examples/clusters.py                            one process, no MPI
    python -m hpcflow run -n 3 examples/clusters.py        the points are dealt out over 3 ranks

Prints how well the points are explained after each step, and at the end the share of points that
are in the group from which they were made.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=60_000, help="of all ranks")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--dimensions", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15, help="of k-means, and then of EM")
    return parser.parse_args()


def points(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Points ``[points, dimensions]`` and their groups, the same on all ranks."""
    random = np.random.default_rng(3)
    centres = random.uniform(-1, 1, (args.groups, args.dimensions))
    centres *= 6 / abs(centres).max(1, keepdims=True)
    centres[1::2] *= np.linspace(0.2, 1.2, len(centres[1::2]))[:, None]
    forms = random.normal(size=(args.groups, args.dimensions, args.dimensions))
    groups = random.choice(args.groups, args.points, p=np.arange(1, args.groups + 1)
                           / np.arange(1, args.groups + 1).sum())
    steps = random.normal(size=(args.points, args.dimensions))
    values = centres[groups] + np.einsum("pi,pij->pj", steps, forms[groups])
    return values.astype(np.float32), groups


def farthest(values: np.ndarray, groups: int) -> np.ndarray:
    """Points far from each other: each is the one farthest from those before."""
    chosen = [values[0]]
    while len(chosen) < groups:
        distance = np.min([((values - c) ** 2).sum(1) for c in chosen], axis=0)
        chosen.append(values[distance.argmax()])
    return np.array(chosen)


class KMeans:
    """Every point belongs to the nearest centre; a centre is the mean of its points."""

    def __init__(self, values: tf.Tensor, start: np.ndarray) -> None:
        groups = len(start)
        self.centres = tf.Variable(start, name="centres")
        distances = tf.reduce_sum(tf.squared_difference(
            values[:, None], self.centres[None]), 2)
        self.nearest = tf.argmin(distances, 1)
        sums, counts, spread = tf.mpi.allreduce([
            tf.unsorted_segment_sum(values, self.nearest, groups),
            tf.unsorted_segment_sum(tf.ones_like(values[:, 0]), self.nearest, groups),
            tf.reduce_sum(tf.reduce_min(distances, 1))])
        self.spread = spread / tf.reduce_sum(counts)
        with tf.control_dependencies([self.spread]):
            self.step = self.centres.assign(sums / tf.maximum(counts, 1)[:, None]).op


class Mixture:
    """Every point belongs to each Gaussian with a probability (Dempster and others, 1977)."""

    def __init__(self, values: tf.Tensor, centres: tf.Variable) -> None:
        groups, size = centres.shape.as_list()
        self.means = tf.Variable(tf.zeros([groups, size]), name="means")
        self.covariances = tf.Variable(tf.eye(size, batch_shape=[groups]), name="covariances")
        self.shares = tf.Variable(tf.fill([groups], 1 / groups), name="shares")
        self.begin = self.means.assign(centres)
        logs = self.log_densities(values) + tf.log(self.shares)
        total = tf.reduce_logsumexp(logs, 1)
        belongs = tf.exp(logs - total[:, None])  # [points, groups]
        self.likeliest = tf.argmax(logs, 1)
        counts, sums, squares, likelihood, count = tf.mpi.allreduce([
            tf.reduce_sum(belongs, 0), tf.matmul(belongs, values, transpose_a=True),
            tf.einsum("pg,pi,pj->gij", belongs, values, values), tf.reduce_sum(total),
            tf.cast(tf.shape(values)[0], tf.float32)])
        self.likelihood = likelihood / count
        means = sums / counts[:, None]
        outer = means[:, :, None] * means[:, None, :]
        with tf.control_dependencies([self.likelihood, means, outer, counts, count]):
            self.step = tf.group(
                self.means.assign(means), self.shares.assign(counts / count),
                self.covariances.assign(squares / counts[:, None, None] - outer
                                        + 1e-4 * tf.eye(size)))

    def log_densities(self, values: tf.Tensor) -> tf.Tensor:
        """The logarithm of the density of each point in each Gaussian."""
        factors = tf.cholesky(self.covariances)
        away = tf.transpose(values[:, None] - self.means[None], [1, 2, 0])
        scaled = tf.matrix_triangular_solve(factors, away)  # [groups, dimensions, points]
        volumes = tf.reduce_sum(tf.log(tf.matrix_diag_part(factors)), 1)
        constant = 0.5 * np.log(2 * np.pi) * self.means.shape[1].value
        return tf.transpose(-0.5 * tf.reduce_sum(tf.square(scaled), 1)
                            - volumes[:, None] - constant)


def agreement(found: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """How many points of each group (a row) were put into each that was found (a column)."""
    count = groups.max() + 1
    return np.bincount(groups * count + found, minlength=count**2).reshape(count, count)


def main() -> None:
    args = parse_arguments()
    rank, ranks = tf.mpi.rank(), tf.mpi.size()
    everything, groups = points(args)
    mine = slice(rank, None, ranks)
    values = tf.constant(everything[mine])
    kmeans = KMeans(values, farthest(everything[:1000], args.groups))
    mixture = Mixture(values, kmeans.centres)
    table = tf.placeholder(tf.int64, [args.groups, args.groups])
    of_all = tf.mpi.allreduce(table)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(1, args.steps + 1):
            spread, _ = session.run([kmeans.spread, kmeans.step])
            if rank == 0 and number % 5 == 0:
                print(f"k-means, step {number}: mean square distance {spread:.4f}", flush=True)
        session.run(mixture.begin)
        for number in range(1, args.steps + 1):
            likelihood, _ = session.run([mixture.likelihood, mixture.step])
            if rank == 0 and number % 5 == 0:
                print(f"EM, step {number}: log likelihood {likelihood:.4f}", flush=True)
        for name, found in (("k-means", kmeans.nearest), ("EM", mixture.likeliest)):
            shares = session.run(of_all, {table: agreement(session.run(found), groups[mine])})
            if rank == 0:
                print(f"{name}: {shares.max(1).sum() / args.points:.3f} in their group")


if __name__ == "__main__":
    main()
