"""Training inside of an MPI simulation: the ranks of a heat equation learn to predict it.

The simulation is an mpi4py program as there are many: every rank has a slab of a plate, exchanges
the rows at its edges with its neighbours, and steps the heat equation, whose conductivity depends
on the temperature. Without a file in between, each rank also takes pieces of its slab, before and
after a number of steps, and all ranks together train a network that predicts the middle of a piece
after those steps. Simulation and training share the ranks: each has communicators of its own.

    python examples/heat_surrogate.py                          one process
    python -m hpcflow run -n 3 examples/heat_surrogate.py      slabs on 3 ranks

Prints the error of the network now and then, and at the end its error on a plate that it has not
seen, as a share of the error of predicting that nothing changes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mpi4py import MPI

import hpcflow as tf

REACH = 3  # cells around a place that the network sees
TRAININGS, REPORTS = 4, 5  # steps of training a leap, reports in all


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=96, help="cells of a side of the plate")
    parser.add_argument("--leap", type=int, default=8, help="steps that the network predicts")
    parser.add_argument("--leaps", type=int, default=400, help="of the simulation")
    parser.add_argument("--batch", type=int, default=256, help="pieces of a training step, on "
                        "each rank")
    return parser.parse_args()


class Plate:
    """The slab of this rank, with `REACH` more rows and columns around it."""

    def __init__(self, comm: MPI.Comm, side: int, seed: int) -> None:
        self.comm = comm
        rank, ranks = comm.Get_rank(), comm.Get_size()
        self.above, self.below = (rank - 1) % ranks, (rank + 1) % ranks  # the plate is a torus
        first, last = side * rank // ranks, side * (rank + 1) // ranks
        self.random = np.random.default_rng(seed)  # the same on all ranks
        y, x = np.mgrid[:side, :side]
        plate = np.zeros((side, side))
        for _ in range(12):
            place, width = self.random.uniform(0, side, 2), self.random.uniform(1.5, 5)
            away = [abs(np.mod(z - p + side / 2, side) - side / 2) for z, p in zip((y, x), place)]
            plate += self.random.uniform(0.3, 1) * np.exp(-(away[0]**2 + away[1]**2) / width**2)
        self.rows = last - first
        self.heat = np.pad(plate[first:last], REACH)
        self.source = plate[first:last]
        self.exchange()

    def exchange(self) -> None:
        """Get the rows beside the slab from the neighbours; columns come from the other side."""
        for to, of, sent, got in (
                (self.above, self.below, slice(REACH, 2 * REACH), slice(-REACH, None)),
                (self.below, self.above, slice(-2 * REACH, -REACH), slice(0, REACH))):
            received = np.empty_like(self.heat[got])
            self.comm.Sendrecv(np.ascontiguousarray(self.heat[sent]), to, 0, received, of, 0)
            self.heat[got] = received
        self.heat[:, :REACH] = self.heat[:, -2 * REACH:-REACH]
        self.heat[:, -REACH:] = self.heat[:, REACH:2 * REACH]

    def step(self) -> None:
        """Go on by one step: heat flows, faster where it is hot, and some flows in and off."""
        heat = self.heat
        flows = []
        for axis in (0, 1):
            conductivity = 0.05 + 0.1 * (heat + np.roll(heat, -1, axis)) / 2
            flow = conductivity * (np.roll(heat, -1, axis) - heat)
            flows.append(flow - np.roll(flow, 1, axis))
        heat += flows[0] + flows[1]
        self.inner[:] += 0.004 * (self.source - self.inner)
        self.exchange()

    @property
    def inner(self) -> np.ndarray:
        """The slab itself."""
        return self.heat[REACH:-REACH, REACH:-REACH]

    def pieces(self, ys: np.ndarray, xs: np.ndarray) -> np.ndarray:
        """What is around places, and the source there: ``[places, (2 * REACH + 1)**2 + 1]``."""
        around = np.lib.stride_tricks.sliding_window_view(self.heat, (2 * REACH + 1,) * 2)
        return np.concatenate([around[ys, xs].reshape(len(ys), -1),
                               self.source[ys, xs][:, None]], 1).astype(np.float32)


class Surrogate:
    """A network that predicts by how much the middle of a piece changes in a leap."""

    def __init__(self) -> None:
        self.pieces = tf.placeholder(tf.float32, [None, (2 * REACH + 1)**2 + 1], name="pieces")
        self.after = tf.placeholder(tf.float32, [None], name="after")
        middle = self.pieces[:, (2 * REACH + 1)**2 // 2]
        differences = 10 * (self.pieces[:, :-1] - middle[:, None])
        hidden = tf.concat([differences, middle[:, None], self.pieces[:, -1:]], 1)
        for units in (64, 64):
            hidden = tf.layers.dense(hidden, units, tf.nn.elu)
        change = 0.1 * tf.layers.dense(hidden, 1)[:, 0]
        self.prediction = middle + change
        error = tf.reduce_mean(tf.squared_difference(self.prediction, self.after))
        nothing = tf.reduce_mean(tf.squared_difference(middle, self.after))
        # Of the places of all ranks.
        self.errors = tf.sqrt(tf.mpi.allreduce(tf.stack([error, nothing]), "mean"))
        rate = tf.train.exponential_decay(3e-3, tf.train.get_or_create_global_step(), 400, 0.6)
        self.train = tf.mpi.DistributedOptimizer(tf.train.AdamOptimizer(rate)).minimize(
            1e3 * error, tf.train.get_global_step())

    def run(self, session: tf.Session, fetch: tf.Tensor | list, pieces: np.ndarray,
            after: np.ndarray) -> np.ndarray | list:
        """Run `fetch` on pieces, and what became of their middles."""
        return session.run(fetch, {self.pieces: pieces, self.after: after})


def leap(plate: Plate, args: argparse.Namespace, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Go on by a leap; return `count` pieces of before, and their middles after it."""
    ys = plate.random.integers(plate.rows, size=count)
    xs = plate.random.integers(args.side, size=count)
    before = plate.pieces(ys, xs)
    for _ in range(args.leap):
        plate.step()
    return before, plate.inner[ys, xs]


def main() -> None:
    args = parse_arguments()
    comm = MPI.COMM_WORLD.Dup()  # the simulation's own
    tf.set_random_seed(1)
    surrogate = Surrogate()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.mpi.broadcast_variables(0))
        plate, begun = Plate(comm, args.side, seed=0), time.perf_counter()
        for number in range(1, args.leaps + 1):
            if number % 40 == 0:
                plate = Plate(comm, args.side, seed=number)
            before, after = leap(plate, args, args.batch * TRAININGS)
            for part in np.split(np.arange(len(after)), TRAININGS):
                errors, _ = surrogate.run(session, [surrogate.errors, surrogate.train],
                                          before[part], after[part])
            if comm.Get_rank() == 0 and number % max(args.leaps // REPORTS, 1) == 0:
                print(f"leap {number}  error {errors[0]:.5f}, of no change {errors[1]:.5f}",
                      flush=True)
        seconds = time.perf_counter() - begun
        plate = Plate(comm, args.side, seed=args.leaps + 1)
        seen = [surrogate.run(session, surrogate.errors, *leap(plate, args, args.batch))
                for _ in range(20)]
    if comm.Get_rank() == 0:
        print(f"{args.leaps / seconds:.0f} leaps per second on {comm.Get_size()} ranks")
        share = np.sqrt(np.mean(np.square(seen), 0))
        print(f"error, as a share of that of no change: {share[0] / share[1]:.3f}")


if __name__ == "__main__":
    main()
