"""Handwritten digits, learned over parameter servers.

A two-layer perceptron learns the digits that come with scikit-learn: 1,797 images of 8 by 8
pixels, of which the last 360 are the test set. Parameter-server ranks hold the variables; worker
ranks read them, compute gradients and apply them, without waiting for each other.

    python examples/digits_ps.py                               one process, no MPI
    mpirun -n 4 python examples/digits_ps.py --ps 2            2 parameter servers, 2 workers
    srun -n 16 --mpi=pmix python examples/digits_ps.py --ps 4

The next run with the same --logdir goes on from the checkpoint there; ``tensorboard --logdir``
shows the loss and the graph. A run that is preempted (SIGTERM, SIGUSR1) saves and ends with status
75; the next one does the rest of its steps.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import hpcflow as hf

TEST_IMAGES = 360
SIDE = 8
HIDDEN = 128
SHIFT = 0.7  # pixels
NOISE = 0.3
SUMMARY_STEPS = 20
REPORTS = 10  # lines of progress, and checkpoints, in a run


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ps", type=int, metavar="K", help="parameter servers among the ranks; "
                        "the others are workers (default: half of the ranks, at most 2)")
    parser.add_argument("--logdir", default="build/digits", help="checkpoints and event files")
    parser.add_argument("--steps", type=int, default=3000, help="steps of this run, of all workers")
    parser.add_argument("--batch", type=int, default=64, help="images of a step")
    parser.add_argument("--lr", type=float, default=4e-3, help="learning rate at the start")
    parser.add_argument("--fresh", action="store_true", help="do not go on from a checkpoint")
    return parser.parse_args()


class Digits:
    """The images, as rows of pixels from -1 to 1, and what they show."""

    def __init__(self, seed: int) -> None:
        digits = load_digits()
        images = (digits.data / 8 - 1).astype(np.float32)
        self.train_images, self.test_images = images[:-TEST_IMAGES], images[-TEST_IMAGES:]
        labels = digits.target.astype(np.int64)
        self.train_labels, self.test_labels = labels[:-TEST_IMAGES], labels[-TEST_IMAGES:]
        self.random = np.random.default_rng(seed)

    def batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Random training images, each shifted a little and made noisy."""
        chosen = self.random.integers(0, len(self.train_images), size)
        images = self.train_images[chosen].reshape(size, SIDE, SIDE)
        for axis in (1, 2):
            images = self.shifted(images, axis)
        images = images + NOISE * self.random.standard_normal(images.shape, np.float32)
        return images.reshape(size, SIDE * SIDE), self.train_labels[chosen]

    def shifted(self, images: np.ndarray, axis: int) -> np.ndarray:
        """Every image moved by a random part of a pixel, to either side."""
        shift = self.random.uniform(-SHIFT, SHIFT, (len(images), 1, 1)).astype(np.float32)
        moved = np.where(shift > 0, np.roll(images, 1, axis), np.roll(images, -1, axis))
        return images + np.abs(shift) * (moved - images)


class Model(NamedTuple):
    """The tensors and operations that training uses."""

    images: hf.Tensor
    labels: hf.Tensor
    loss: hf.Tensor
    accuracy: hf.Tensor
    global_step: hf.Variable
    last_step: hf.Variable
    end_of_run: hf.Variable
    train: hf.Tensor
    summary: hf.Tensor


def layer(inputs: hf.Tensor, units: int, name: str) -> hf.Tensor:
    """A fully connected layer, without an activation."""
    with hf.variable_scope(name):
        size = inputs.get_shape()[1].value
        scale = hf.random_normal_initializer(stddev=size**-0.5)
        weights = hf.get_variable("weights", [size, units], initializer=scale)
        biases = hf.get_variable("biases", [units], initializer=hf.zeros_initializer())
        return hf.matmul(inputs, weights) + biases


def build(learning_rate: float, steps: int) -> Model:
    """Build the graph."""
    images = hf.placeholder(hf.float32, [None, SIDE * SIDE], name="images")
    labels = hf.placeholder(hf.int64, [None], name="labels")
    logits = layer(hf.tanh(layer(images, HIDDEN, "hidden")), 10, "logits")
    with hf.name_scope("training"):
        losses = hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = hf.reduce_mean(losses, name="loss")
        global_step = hf.train.get_or_create_global_step()
        rate = hf.train.polynomial_decay(
            learning_rate, global_step, steps, end_learning_rate=learning_rate / 20, cycle=True)
        update = hf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
        with hf.control_dependencies([update]):
            train = global_step.read_value()  # the number of the step that this makes
    correct = hf.equal(hf.argmax(logits, 1), labels)
    accuracy = hf.reduce_mean(hf.cast(correct, hf.float32), name="accuracy")
    # Where this run ends: the first worker sets it, and thereby lets the others begin.
    last_step = hf.Variable(0, trainable=False, name="last_step",
                            collections=[hf.GraphKeys.LOCAL_VARIABLES])
    # The same for the next run, if this one is cut short.
    end_of_run = hf.get_variable("end_of_run", [], hf.int64, hf.zeros_initializer(),
                                 trainable=False)
    hf.summary.scalar("loss", loss)
    hf.summary.scalar("learning_rate", rate)
    return Model(images, labels, loss, accuracy, global_step, last_step, end_of_run, train,
                 hf.summary.merge_all())


def on_terminal(task: hf.mpi.Task) -> bool:
    """Whether a person sees what this rank prints as it is printed.

    mpirun gives its ranks a terminal in any case; what counts is where its own output goes.
    """
    if not sys.stdout.isatty() or task.size == 1:
        return sys.stdout.isatty()
    launcher_output = os.path.realpath(f"/proc/{os.getppid()}/fd/1")
    return launcher_output.startswith(("/dev/pts/", "/dev/tty"))


class News(NamedTuple):
    """What the first worker tells about training."""

    step: int
    last: int
    loss: float
    accuracy: float  # of the test set; negative between tests
    text: bytes


class Display:
    """Shows news: a bar on a terminal, otherwise lines."""

    def __init__(self, bar: bool) -> None:
        self.with_bar = bar
        self.bar: tqdm | None = None

    def show(self, news: News) -> None:
        if news.text:
            self.close()
            print(news.text.decode(), flush=True)
        elif self.with_bar:
            if self.bar is None:
                self.bar = self.make_bar(news)
            self.bar.set_postfix_str(f"loss {news.loss:.3f}", refresh=False)
            self.bar.update(int(news.step) - self.bar.n)
        elif news.accuracy >= 0:
            print(f"step {news.step:6d}   loss {news.loss:.3f}   "
                  f"test accuracy {news.accuracy:.3f}", flush=True)

    def make_bar(self, news: News) -> tqdm:
        # The terminal that mpirun gives its ranks has no size of its own.
        columns, rows = shutil.get_terminal_size()
        return tqdm(total=int(news.last), initial=int(news.step), unit="step",
                    ncols=min(columns, 100), nrows=rows, file=sys.stdout)

    def close(self) -> None:
        """Leave the terminal to others."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class Wire:
    """A queue of news on the first parameter server, from the first worker to rank 0."""

    TYPES = (hf.int64, hf.int64, hf.float32, hf.float32, hf.string)

    def __init__(self) -> None:
        with hf.device("/job:ps/task:0"):
            queue = hf.FIFOQueue(100, self.TYPES, [[]] * len(self.TYPES), shared_name="news")
        self.fields = [hf.placeholder(t, []) for t in self.TYPES]
        self.put, self.take, self.end = queue.enqueue(self.fields), queue.dequeue(), queue.close()

    def tell(self, session: hf.Session, news: News) -> None:
        """Send news."""
        session.run(self.put, dict(zip(self.fields, news, strict=True)))

    def show_all(self, session: hf.Session, display: Display) -> None:
        """Show what comes, until the end."""
        while True:
            try:
                display.show(News(*session.run(self.take)))
            except hf.errors.OutOfRangeError:
                display.close()
                return


class Reporter:
    """Where the first worker's news go: over the wire, or straight to the display."""

    def __init__(self, session: hf.Session, wire: Wire | None, display: Display) -> None:
        self.session, self.wire, self.display = session, wire, display
        self.step = self.last = self.interval = self.next_test = 0

    def plan(self, first: int, last: int) -> None:
        """Training goes from step `first` to `last`."""
        self.last, self.interval = last, max((last - first) // REPORTS, 1)
        self.next_test = first + self.interval

    def test_is_due(self, step: int) -> bool:
        """True when it is time to test and save."""
        due = step >= self.next_test
        while step >= self.next_test:
            self.next_test += self.interval
        return due

    def reached(self, step: int, loss: float, accuracy: float = -1.0) -> None:
        """Training is at `step`."""
        self.send(News(step, self.last, loss, accuracy, b""))

    def say(self, text: str) -> None:
        """Show a line of text."""
        self.send(News(0, 0, 0.0, -1.0, text.encode()))

    def send(self, news: News) -> None:
        if self.wire is None:
            self.display.show(news)
        else:
            self.wire.tell(self.session, news)

    def close(self) -> None:
        """Nothing more will come."""
        self.display.close()
        if self.wire is not None:
            self.session.run(self.wire.end)


def begin(session: hf.Session, model: Model, saver: hf.train.Saver, args: argparse.Namespace,
          reporter: Reporter) -> int:
    """Give the variables their first values and let the other workers begin; return the first
    step of this run."""
    checkpoint = None if args.fresh else hf.train.latest_checkpoint(args.logdir)
    if checkpoint is None:
        session.run(hf.global_variables_initializer())
        reporter.say("starting from random weights")
    else:
        saver.restore(session, checkpoint)
        state = hf.train.get_checkpoint_state(args.logdir)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        reporter.say(f"resuming from {checkpoint}")
    first, end = map(int, session.run([model.global_step, model.end_of_run]))
    reporter.plan(first, end if first < end else first + args.steps)
    model.end_of_run.load(reporter.last, session)
    model.last_step.load(reporter.last, session)
    return first


def wait_to_begin(session: hf.Session, model: Model) -> int:
    """Wait until the first worker has begun; return the last step."""
    waiting = hf.report_uninitialized_variables([model.last_step])
    while len(session.run(waiting)):
        time.sleep(0.05)
    return int(session.run(model.last_step))


def work(session: hf.Session, model: Model, digits: Digits, batch: int) -> None:
    """Train until the last step has been done by whichever worker."""
    last = wait_to_begin(session, model)
    step = 0
    while step < last:
        images, labels = digits.batch(batch)
        step = session.run(model.train, {model.images: images, model.labels: labels})
        if hf.train.preemption_requested(session):
            hf.train.save_and_exit(session)


def lead(session: hf.Session, model: Model, digits: Digits, args: argparse.Namespace,
         reporter: Reporter) -> None:
    """Train as the other workers do, and besides report, test and save."""
    saver = hf.train.Saver()
    path = os.path.join(args.logdir, "model.ckpt")
    test = {model.images: digits.test_images, model.labels: digits.test_labels}
    step = begin(session, model, saver, args, reporter)
    turn = 0
    with hf.summary.FileWriter(args.logdir, hf.get_default_graph()) as writer:
        while step < reporter.last:
            images, labels = digits.batch(args.batch)
            fetches = [model.train, model.loss]
            if turn % SUMMARY_STEPS == 0:
                fetches.append(model.summary)
            step, loss, *summaries = session.run(
                fetches, {model.images: images, model.labels: labels})
            for summary in summaries:
                writer.add_summary(summary, step)
                reporter.reached(step, loss)
            turn += 1
            if hf.train.preemption_requested(session):
                reporter.say("preempted: saving")
                reporter.close()
                hf.train.save_and_exit(session, saver, path, model.global_step)
            if reporter.test_is_due(step):
                accuracy = session.run(model.accuracy, test)
                reporter.reached(step, loss, accuracy)
                value = hf.Summary.Value(tag="test_accuracy", simple_value=accuracy)
                writer.add_summary(hf.Summary(value=[value]), step)
                if step < reporter.last:
                    saver.save(session, path, global_step=step)
        saved = saver.save(session, path, global_step=model.global_step)
    reporter.say(f"saved {saved}")
    reporter.say(f"test accuracy: {session.run(model.accuracy, test):.3f}")
    reporter.close()


def serve(server: hf.train.Server, task: hf.mpi.Task) -> None:
    """Hold variables until the workers are done; rank 0 shows the news meanwhile."""

    def show() -> None:
        with hf.Session(server.target) as session:
            Wire().show_all(session, Display(on_terminal(task)))

    shows = threading.Thread(target=show, daemon=True)
    if task.rank == 0:
        shows.start()
    server.join()  # in the main thread, which signals come to
    if task.rank == 0:
        shows.join()


def main() -> None:
    """Serve variables, or work."""
    args = parse_arguments()
    servers = min(hf.mpi.size() // 2, 2) if args.ps is None else args.ps
    task = hf.mpi.task(jobs={"ps": servers})
    server = hf.train.Server(task.cluster, job_name=task.job, task_index=task.index)
    if task.job == "ps":
        serve(server, task)
        return
    device = hf.train.replica_device_setter(
        cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")
    hf.set_random_seed(task.index)
    with hf.device(device):
        model = build(args.lr, args.steps)
    digits = Digits(seed=task.index)
    wire = Wire() if task.index == 0 and task.rank > 0 else None
    with hf.Session(server.target) as session:
        if task.index > 0:
            work(session, model, digits, args.batch)
            return
        os.makedirs(args.logdir, exist_ok=True)
        reporter = Reporter(session, wire, Display(on_terminal(task)))
        workers = task.cluster.num_tasks("worker")
        reporter.say(f"{task.size} ranks: {task.size - workers} parameter servers, "
                     f"{workers} workers" if task.size > 1 else "one process")
        lead(session, model, digits, args, reporter)


if __name__ == "__main__":
    main()
