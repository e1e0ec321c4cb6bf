"""Handwritten digits, learned by ranks that average their gradients.

The network and the images of ``digits_ps.py``. Every rank has all variables and takes a batch of
its own; gradients are averaged over the ranks while the backward pass still runs, and all make the
same update. Rank 0 restores, saves, and reports.

    python examples/digits_allreduce.py                          one process, no MPI
    mpirun -n 4 python examples/digits_allreduce.py              4 ranks
    srun -n 16 --mpi=pmix python examples/digits_allreduce.py

The next run with the same --logdir goes on from the checkpoint there, on however many ranks;
``tensorboard --logdir`` shows the loss and the graph. A run that is preempted (SIGTERM, SIGUSR1)
saves and ends with status 75; the next one does the rest of its steps.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from digits_ps import HIDDEN, REPORTS, SIDE, Digits, Display, News, layer, on_terminal

import hpcflow as hf


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", default="build/digits-allreduce",
                        help="checkpoints and event files")
    parser.add_argument("--steps", type=int, default=1500, help="steps of this run")
    parser.add_argument("--batch", type=int, default=64, help="images of a step, on each rank")
    parser.add_argument("--lr", type=float, default=4e-3, help="learning rate at the start")
    return parser.parse_args()


class Model(NamedTuple):
    """The tensors and operations that training uses."""

    images: hf.Tensor
    labels: hf.Tensor
    loss: hf.Tensor
    accuracy: hf.Tensor
    global_step: hf.Variable
    end_of_run: hf.Tensor  # where this run ends; running it begins the run
    train: hf.Operation


def build(learning_rate: float, steps: int) -> Model:
    """Build the graph, the same on every rank."""
    images = hf.placeholder(hf.float32, [None, SIDE * SIDE], name="images")
    labels = hf.placeholder(hf.int64, [None], name="labels")
    logits = layer(hf.tanh(layer(images, HIDDEN, "hidden")), 10, "logits")
    with hf.name_scope("training"):
        losses = hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = hf.reduce_mean(losses, name="loss")
        global_step = hf.train.get_or_create_global_step()
        rate = hf.train.polynomial_decay(
            learning_rate, global_step, steps, end_learning_rate=learning_rate / 20, cycle=True)
        optimizer = hf.mpi.DistributedOptimizer(hf.train.AdamOptimizer(rate))
        train = optimizer.minimize(loss, global_step=global_step)
    correct = hf.cast(hf.equal(hf.argmax(logits, 1), labels), hf.float32)
    # Every rank tests a part of the images; what is right among all is the sum over the ranks.
    right, seen = hf.mpi.allreduce([hf.reduce_sum(correct), hf.cast(hf.size(labels), hf.float32)])
    # Saved, so that the next run does the rest if this one is cut short.
    end_of_run = hf.get_variable("end_of_run", [], hf.int64, hf.zeros_initializer(),
                                 trainable=False)
    begun = hf.where(global_step < end_of_run, end_of_run, global_step + steps)
    hf.summary.scalar("loss", loss)
    hf.summary.scalar("learning_rate", rate)
    return Model(images, labels, loss, right / seen, global_step, end_of_run.assign(begun), train)


def learn(session: hf.train.MonitoredSession, model: Model, digits: Digits,
          args: argparse.Namespace, display: Display | None) -> float:
    """Train for the steps of this run; return the accuracy at the end."""
    rank, size = hf.mpi.rank(), hf.mpi.size()
    mine = slice(rank, None, size)
    test = {model.images: digits.test_images[mine], model.labels: digits.test_labels[mine]}
    # The same on all ranks; with images, because hooks may fetch summaries in any step.
    first, last = map(int, session.run([model.global_step, model.end_of_run], test))
    interval = max((last - first) // REPORTS, 1)
    accuracy = 0.0
    for step in range(first + 1, last + 1):
        if session.should_stop():  # preempted: the session ends the program
            break
        images, labels = digits.batch(args.batch)
        _, loss = session.run(
            [model.train, model.loss], {model.images: images, model.labels: labels})
        is_due = (step - first) % interval == 0 or step == last
        if is_due:  # on all ranks, as they test together
            accuracy = float(session.run(model.accuracy, test))
        if display is not None:
            display.show(News(step, last, loss, accuracy if is_due else -1.0, b""))
    return accuracy


def main() -> None:
    """Train together with the other ranks."""
    args = parse_arguments()
    rank, size = hf.mpi.rank(), hf.mpi.size()
    hf.set_random_seed(rank)
    model = build(args.lr, args.steps)
    display = Display(on_terminal(hf.mpi.task())) if rank == 0 else None
    if display is not None:
        print(f"{size} ranks" if size > 1 else "one process", flush=True)
    with hf.train.MonitoredTrainingSession(
            checkpoint_dir=args.logdir, save_summaries_steps=20, log_step_count_steps=None,
            hooks=[hf.mpi.BroadcastVariablesHook(0)]) as session:
        accuracy = learn(session, model, Digits(seed=rank), args, display)
    if display is not None:
        display.close()
        print(f"saved {hf.train.latest_checkpoint(args.logdir)}")
        print(f"test accuracy: {accuracy:.3f}")


if __name__ == "__main__":
    main()
