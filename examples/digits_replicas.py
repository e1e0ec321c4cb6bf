"""Handwritten digits, learned by replicas that are synchronous, asynchronous, or both.

The workers are cut into groups. Those of a group average their gradients before each update; the
groups update the same variables, on the parameter servers, without waiting for each other.

    mpirun -n 5 python examples/digits_replicas.py                  one group of 4: synchronous
    mpirun -n 5 python examples/digits_replicas.py --groups 4       4 groups of one: asynchronous
    mpirun -n 5 python examples/digits_replicas.py --groups 2       2 groups of 2: hybrid
    mpirun -n 5 python examples/digits_replicas.py --backup 1       the first 3 gradients of 4 count
    python examples/digits_replicas.py                              one process, no MPI

``python -m hpcflow run -n 5 --ps 1 examples/digits_replicas.py --groups 2`` is the same.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import hpcflow as hf

TEST_IMAGES, HIDDEN = 360, 100


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ps", type=int, default=1, help="parameter servers among the ranks")
    parser.add_argument("--groups", type=int, default=1, help="groups of workers")
    parser.add_argument("--backup", type=int, default=0,
                        help="workers of each group that an update does not wait for")
    parser.add_argument("--steps", type=int, default=600, help="updates, of all groups together")
    parser.add_argument("--batch", type=int, default=64, help="images of a gradient")
    args, _ = parser.parse_known_args()
    return args


class Model:
    """The graph of one replica."""

    def __init__(self, args: argparse.Namespace, index: int, workers: int) -> None:
        size = workers // args.groups  # of a group
        if size <= args.backup or size * args.groups != workers:
            raise SystemExit(f"{workers} workers in {args.groups} groups of equal size, "
                             f"{args.backup} of each group for backup: that is not possible")
        self.images = hf.placeholder(hf.float32, [None, 64])
        self.labels = hf.placeholder(hf.int64, [None])
        hidden = hf.layers.dense(self.images, HIDDEN, activation=hf.tanh)
        logits = hf.layers.dense(hidden, 10)
        loss = hf.losses.sparse_softmax_cross_entropy(self.labels, logits)
        correct = hf.equal(hf.argmax(logits, 1), self.labels)
        self.accuracy = hf.reduce_mean(hf.cast(correct, hf.float32))
        self.step = hf.train.get_or_create_global_step()
        optimizer = hf.train.SyncReplicasOptimizer(
            hf.train.MomentumOptimizer(0.1, 0.5), size - args.backup, size,
            group=(index // size, args.groups))
        self.train = optimizer.minimize(loss, global_step=self.step)
        leads_group = index % size == 0
        self.hooks = [optimizer.make_session_run_hook(leads_group),
                      hf.train.StopAtStepHook(last_step=args.steps)]


class Report(hf.train.SessionRunHook):
    """Says at the end of training how well the test images are told apart."""

    def __init__(self, model: Model, images: np.ndarray, labels: np.ndarray, text: str) -> None:
        self.fetches = [model.step, model.accuracy]
        self.feeds = {model.images: images, model.labels: labels}
        self.text = text

    def end(self, session: hf.Session) -> None:
        """Training is over."""
        updates, accuracy = session.run(self.fetches, self.feeds)
        print(f"{self.text}, {updates} updates, test accuracy: {accuracy:.3f}", flush=True)


def main() -> None:
    """Train, and let the first worker say how well."""
    args = arguments()
    task = hf.mpi.task(jobs={"ps": args.ps})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    digits = load_digits()
    images, labels = (digits.images.reshape(-1, 64) / 8 - 1).astype(np.float32), digits.target
    workers = task.cluster.num_tasks("worker")
    with hf.device(hf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        model = Model(args, task.index, workers)
    is_chief = task.index == 0
    hooks = model.hooks
    if is_chief:
        text = f"{args.groups} groups of {workers // args.groups} workers"
        hooks = [Report(model, images[-TEST_IMAGES:], labels[-TEST_IMAGES:], text), *hooks]
    random = np.random.default_rng(task.index)
    with hf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks,
                                           log_step_count_steps=None) as session:
        while not session.should_stop():
            chosen = random.integers(len(labels) - TEST_IMAGES, size=args.batch)
            session.run(model.train, {model.images: images[chosen], model.labels: labels[chosen]})


if __name__ == "__main__":
    main()
