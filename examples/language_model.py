"""An LSTM language model with full or sampled softmax, over any number of parameter servers.

The model of the OSDI paper's figure 9: words are rows of an embedding, an LSTM reads a text, and a
softmax over the whole vocabulary says which word comes next. Embedding and softmax weights are cut
into as many shards as there are servers, by rows; a lookup fetches rows from the server that has
them, and the full softmax multiplies on the servers, where the weights are. ``--softmax sampled``
trains with the true word and some drawn at random instead of all. The state of a piece of text goes
on to the next. The text is made here: every word has some likely successors.

    python examples/language_model.py                                  one process, no MPI
    python examples/language_model.py --softmax sampled
    python -m hpcflow run -n 4 --ps 2 examples/language_model.py       2 servers, 2 workers

Prints the loss and words per second now and then, and at the end the perplexity by the full
softmax on new text, beside the least that is possible.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hpcflow as tf

REPORTS, SUCCESSORS = 5, 4


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--softmax", choices=["full", "sampled"], default="full")
    parser.add_argument("--samples", type=int, default=64, help="words of the sampled softmax")
    parser.add_argument("--words", type=int, default=2000, help="of the vocabulary")
    parser.add_argument("--units", type=int, default=128, help="of the LSTM and the embedding")
    parser.add_argument("--batch", type=int, default=32, help="texts of a step")
    parser.add_argument("--unroll", type=int, default=20, help="words of each")
    parser.add_argument("--steps", type=int, default=500, help="training steps of all workers")
    return parser.parse_args()


class Text:
    """Texts of words of which some follow each other often."""

    def __init__(self, words: int, batch: int, seed: int) -> None:
        language = np.random.default_rng(0)
        self.successors = language.integers(words, size=(words, SUCCESSORS))
        self.random = np.random.default_rng(seed)
        self.last = self.random.integers(words, size=batch)

    def piece(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The next words ``[batch, length]`` of every text, and the words after each."""
        words = [self.last]
        for _ in range(length):
            chosen = self.random.integers(SUCCESSORS, size=len(self.last))
            words.append(self.successors[words[-1], chosen])
        self.last = words[-1]
        pieces = np.stack(words, 1)
        return pieces[:, :-1], pieces[:, 1:]


class Model:
    """The tensors and operations that training uses."""

    def __init__(self, args: argparse.Namespace, shards: int) -> None:
        self.inputs = tf.placeholder(tf.int64, [args.batch, args.unroll], name="inputs")
        self.targets = tf.placeholder(tf.int64, [args.batch, args.unroll], name="targets")
        by_rows = tf.fixed_size_partitioner(shards)
        shape = [args.words, args.units]
        embedding = tf.get_variable("embedding", shape, partitioner=by_rows,
                                    initializer=tf.random_uniform_initializer(-0.1, 0.1))
        weights = tf.get_variable("softmax_weights", shape, partitioner=by_rows)
        biases = tf.get_variable("softmax_biases", [args.words], partitioner=by_rows,
                                 initializer=tf.zeros_initializer())
        cell = tf.nn.rnn_cell.LSTMCell(args.units)
        self.start = cell.zero_state(args.batch, tf.float32)
        values = tf.nn.embedding_lookup(embedding, self.inputs, partition_strategy="div")
        outputs, self.state = tf.nn.dynamic_rnn(cell, values, initial_state=self.start)
        rows = tf.reshape(outputs, [-1, args.units])
        words = tf.reshape(self.targets, [-1])
        self.full = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=words, logits=self.logits(rows, list(weights), list(biases))))
        self.loss = self.full
        if args.softmax == "sampled":
            self.loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(
                list(weights), list(biases), words[:, None], rows, args.samples, args.words,
                partition_strategy="div"))
        self.step = tf.train.get_or_create_global_step()
        self.train = tf.train.AdamOptimizer(5e-3).minimize(
            self.loss, self.step, colocate_gradients_with_ops=True)

    @staticmethod
    def logits(rows: tf.Tensor, weights: list[tf.Variable], biases: list[tf.Variable],
               ) -> tf.Tensor:
        """The logits of all words; each shard's are computed where the shard is."""
        parts = []
        for weight, bias in zip(weights, biases):
            with tf.colocate_with(weight):
                parts.append(tf.matmul(rows, weight, transpose_b=True) + bias)
        return tf.concat(parts, 1)


def learn(session: tf.train.MonitoredSession, model: Model, text: Text,
          args: argparse.Namespace, shown: bool) -> None:
    """Train until all workers together have made the steps."""
    number, begun, state = 0, time.perf_counter(), session.run(model.start)
    while not session.should_stop():
        inputs, targets = text.piece(args.unroll)
        feeds = {model.inputs: inputs, model.targets: targets, model.start: state}
        _, loss, state, step = session.run(
            [model.train, model.loss, model.state, model.step], feeds)
        number += 1
        if shown and number % max(args.steps // REPORTS, 1) == 0:
            rate = number * inputs.size / (time.perf_counter() - begun)
            print(f"step {step}  loss {loss:.3f}  {rate:,.0f} words/s", flush=True)


def test(session: tf.Session, model: Model, args: argparse.Namespace) -> float:
    """The perplexity on new text."""
    text, state, losses = Text(args.words, args.batch, seed=1), session.run(model.start), []
    for _ in range(10):
        inputs, targets = text.piece(args.unroll)
        loss, state = session.run([model.full, model.state], {
            model.inputs: inputs, model.targets: targets, model.start: state})
        losses.append(loss)
    return float(np.exp(np.mean(losses[1:])))


def main() -> None:
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    tf.set_random_seed(1)
    servers = task.cluster.num_tasks("ps") if "ps" in task.cluster.jobs else 1
    is_chief = task.index == 0
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        model = Model(args, servers)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    text = Text(args.words, args.batch, seed=2 + task.index)
    with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks,
                                           log_step_count_steps=None) as session:
        learn(session, model, text, args, shown=is_chief)
    if is_chief:
        with tf.Session(server.target) as session:  # variables outlive sessions on the servers
            print(f"the least perplexity is {SUCCESSORS}")
            print(f"perplexity: {test(session, model, args):.2f}")


if __name__ == "__main__":
    main()
