"""The power method as a loop in the graph, and the derivative of what it finds.

The largest eigenvalue of a symmetric matrix is found by multiplying a vector by it again and again.
The iteration is a ``while_loop`` that ends when the vector stands still. Each rank holds some of
the rows and computes their part of the product; the client's graph spans all ranks, and the parts
meet in the loop. ``gradients`` goes backwards through the loop and gives the derivative of the
eigenvalue by every entry of the matrix, which is the outer product of the eigenvector with itself.

    python examples/power_method.py                        one process, no MPI
    python -m hpcflow run -n 3 examples/power_method.py    the rows are dealt out over 3 ranks

Prints the eigenvalue, the number of iterations, and how far both results are from NumPy's.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400, help="rows of the matrix")
    parser.add_argument("--tolerance", type=float, default=1e-10, help="of the vector's change")
    return parser.parse_args()


def symmetric(size: int) -> np.ndarray:
    """A matrix with eigenvalues of which one is well above the others."""
    random = np.random.default_rng(0)
    basis, _ = np.linalg.qr(random.normal(size=(size, size)))
    values = np.concatenate([[3.0], random.uniform(-2.0, 2.0, size - 1)])
    return (basis * values) @ basis.T


def power_method(blocks: list[tf.Tensor], devices: list[str], size: int, tolerance: float,
                 ) -> tuple[tf.Tensor, tf.Tensor]:
    """The largest eigenvalue of the matrix made of blocks of rows, and the iterations."""

    def product(vector: tf.Tensor) -> tf.Tensor:
        parts = []
        for block, device in zip(blocks, devices):
            with tf.device(device):
                parts.append(tf.matmul(block, vector))
        return tf.concat(parts, 0)

    def body(count, vector, change):
        after = product(vector)
        after /= tf.norm(after)
        return count + 1, after, tf.norm(after - vector)

    start = tf.ones([size, 1], tf.float64) / size**0.5
    count, vector, _ = tf.while_loop(lambda count, vector, change: change > tolerance, body,
                                     [0, start, tf.constant(1.0, tf.float64)])
    return tf.reduce_sum(vector * product(vector)), count


def main() -> None:
    """Rank 0 is the client; the others serve its steps."""
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.index:
        server.join()
        return
    ranks = task.cluster.num_tasks(task.job)
    devices = [f"/job:{task.job}/task:{rank}" for rank in range(ranks)]
    matrix = symmetric(args.size)
    with tf.device(devices[0]):
        given = tf.placeholder(tf.float64, [args.size, args.size])
        blocks = [given[args.size * rank // ranks:args.size * (rank + 1) // ranks]
                  for rank in range(ranks)]
        value, count = power_method(blocks, devices, args.size, args.tolerance)
        derivative, = tf.gradients(value, given)
    with tf.Session(server.target) as session:
        found, iterations, slope = session.run([value, count, derivative], {given: matrix})
    values, vectors = np.linalg.eigh(matrix)
    print(f"eigenvalue {found:.12f} after {iterations} iterations on {ranks} ranks")
    print(f"NumPy's is {values[-1]:.12f}")
    print(f"error of the eigenvalue: {abs(found - values[-1]):.1e}")
    outer = np.outer(vectors[:, -1], vectors[:, -1])
    print(f"error of the derivative: {abs(slope - outer).max():.1e}")


if __name__ == "__main__":
    main()
