"""A deep LSTM whose layers are on different ranks, as a pipeline.

One client builds one graph over all ranks: layer k is on rank k, with its variables, and the output
of a layer crosses to the next rank time step by time step. Nothing says so but the devices: while a
layer works on one time step, the layer below works on the next, and backwards too. The network
learns to continue the text of a Python module, letter by letter.

    python examples/lstm_pipeline.py                      one process, all layers
    mpirun -n 2 python examples/lstm_pipeline.py          a layer on each rank
    srun -n 4 --mpi=pmix python examples/lstm_pipeline.py --layers 4
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hpcflow as hf

REPORTS = 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", help="a file to learn from; a module of the standard library "
                        "if none is given")
    parser.add_argument("--layers", type=int, default=2, help="dealt out over the ranks in turn")
    parser.add_argument("--units", type=int, default=128, help="of each layer")
    parser.add_argument("--batch", type=int, default=32, help="texts of a training step")
    parser.add_argument("--unroll", type=int, default=32, help="letters of each text")
    parser.add_argument("--steps", type=int, default=200, help="training steps")
    return parser.parse_args()


class Text:
    """A text as numbers of letters."""

    def __init__(self, path: str | None) -> None:
        text = Path(path or argparse.__file__).read_text(errors="replace")
        letters = sorted(set(text))
        self.letters = len(letters)
        self.numbers = np.searchsorted(letters, list(text)).astype(np.int32)

    def batch(self, random: np.random.RandomState, count: int, length: int,
              ) -> tuple[np.ndarray, np.ndarray]:
        """Pieces ``[count, length]``, and the same one letter later."""
        starts = random.randint(0, len(self.numbers) - length - 1, count)
        places = starts[:, None] + np.arange(length)
        return self.numbers[places], self.numbers[places + 1]


class Model(NamedTuple):
    """The tensors and operations that training uses."""

    inputs: hf.Tensor
    targets: hf.Tensor
    loss: hf.Tensor
    train: hf.Operation


def build(letters: int, devices: list[str], args: argparse.Namespace) -> Model:
    """Build the graph: a layer on each of `devices`."""
    inputs = hf.placeholder(hf.int32, [args.batch, args.unroll], name="inputs")
    targets = hf.placeholder(hf.int32, [args.batch, args.unroll], name="targets")
    with hf.device(devices[0]):
        embedding = hf.get_variable("embedding", [letters, args.units])
        values = hf.unstack(hf.nn.embedding_lookup(embedding, inputs), axis=1)
    for number, device in enumerate(devices):
        with hf.device(device), hf.variable_scope(f"layer_{number}"):
            cell = hf.contrib.rnn.BasicLSTMCell(args.units)
            values, _ = hf.contrib.rnn.static_rnn(cell, values, dtype=hf.float32)
    with hf.device(devices[-1]):
        outputs = hf.reshape(hf.stack(values, axis=1), [-1, args.units])
        logits = hf.layers.dense(outputs, letters, name="logits")
        loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=hf.reshape(targets, [-1]), logits=logits))
    # The gradients of a layer are computed where the layer is.
    train = hf.train.AdamOptimizer(3e-3).minimize(loss, colocate_gradients_with_ops=True)
    return Model(inputs, targets, loss, train)


def learn(session: hf.Session, model: Model, text: Text, args: argparse.Namespace) -> float:
    """Train; return the loss at the end, in nats per letter."""
    random = np.random.RandomState(0)
    begun, loss = time.perf_counter(), float("nan")
    for step in range(1, args.steps + 1):
        inputs, targets = text.batch(random, args.batch, args.unroll)
        feeds = {model.inputs: inputs, model.targets: targets}
        loss = session.run([model.loss, model.train], feeds)[0]
        if step % max(args.steps // REPORTS, 1) == 0 or step == args.steps:
            rate = step * args.batch * args.unroll / (time.perf_counter() - begun)
            print(f"step {step}  loss {loss:.3f}  {rate:,.0f} letters/s", flush=True)
    return float(loss)


def main() -> None:
    """Rank 0 is the client; the others serve its steps."""
    args = parse_arguments()
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.index:
        server.join()
        return
    ranks = task.cluster.num_tasks(task.job)
    devices = [f"/job:{task.job}/task:{number % ranks}" for number in range(args.layers)]
    print(f"{args.layers} layers on {ranks} ranks" if ranks > 1 else "one process", flush=True)
    text = Text(args.text)
    hf.set_random_seed(1)
    model = build(text.letters, devices, args)
    with hf.Session(server.target) as session:
        session.run(hf.global_variables_initializer())
        loss = learn(session, model, text, args)
    print(f"loss: {loss:.3f} nats per letter")


if __name__ == "__main__":
    main()
