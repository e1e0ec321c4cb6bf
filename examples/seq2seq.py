"""A translation model with attention, buckets and loops, whose layers are on different ranks.

Sequence to sequence learning as in 1.x: sentences of different lengths go into batches of about
equal ones (buckets of a data set), a bidirectional LSTM reads them, and a decoder of several layers
with Bahdanau's attention writes the translation, both as loops whose length depends on the
data. Layers are dealt out over the ranks: one client builds one graph, and each iteration of the
loops passes from rank to rank, forwards and backwards. The "language" to translate into has the
words of a sentence in reverse, each replaced by another.

    python examples/seq2seq.py                              one process, no MPI
    python -m hpcflow run -n 2 examples/seq2seq.py          layers on two ranks

Prints the loss now and then, a translation, and at the end the share of words that the greedy
decoder translates rightly in new sentences.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf

seq2seq = tf.contrib.seq2seq
PAD, GO, END, FIRST = 0, 1, 2, 3  # the first word that means something
LENGTHS, BUCKETS, REPORTS = (3, 10), [6, 9], 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=20, help="of both languages")
    parser.add_argument("--units", type=int, default=64, help="of each layer")
    parser.add_argument("--layers", type=int, default=2, help="of the decoder")
    parser.add_argument("--batch", type=int, default=32, help="sentences of a step")
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    return parser.parse_args()


def sentence(random: np.random.Generator, words: int) -> tuple[np.ndarray, np.ndarray]:
    """A sentence, and its translation."""
    source = random.integers(FIRST, words, random.integers(*LENGTHS))
    return source, FIRST + (source[::-1] - FIRST + 7) % (words - FIRST)


def data(words: int, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Batches of sentences of about equal length, filled up with `PAD`."""

    def sentences():
        random = np.random.default_rng(0)
        while True:
            yield sentence(random, words)

    made = tf.data.Dataset.from_generator(sentences, (tf.int32, tf.int32), ([None], [None]))
    made = made.apply(tf.data.experimental.bucket_by_sequence_length(
        lambda source, target: tf.size(source), BUCKETS, [batch] * (len(BUCKETS) + 1)))
    return made.prefetch(2).make_one_shot_iterator().get_next()


class Translator:
    """The model, with a training and a greedy decoder over the same variables."""

    def __init__(self, args: argparse.Namespace, devices: list[str]) -> None:
        self.args, self.devices = args, devices
        with tf.device(devices[0]):
            source, target = data(args.words, args.batch)
            self.source = tf.placeholder_with_default(source, [None, None], name="source")
            self.target = tf.placeholder_with_default(target, [None, None], name="target")
            memory, lengths = self.encode()
        with tf.device(devices[-1]):
            self.table = tf.get_variable("target_words", [args.words, args.units])
            attention = seq2seq.BahdanauAttention(args.units, memory, lengths)
            top = seq2seq.AttentionWrapper(self.lstm(), attention, args.units)
        below = [tf.nn.rnn_cell.DeviceWrapper(self.lstm(), devices[n % len(devices)])
                 for n in range(args.layers - 1)]
        # The attention looks at the output of the layers below; the words come from it.
        self.cell = tf.nn.rnn_cell.MultiRNNCell(
            [*below, tf.nn.rnn_cell.DeviceWrapper(top, devices[-1])])
        self.start = self.cell.zero_state(tf.shape(self.source)[0], tf.float32)
        self.projection = tf.layers.Dense(args.words, use_bias=False, name="words")
        with tf.device(devices[-1]):
            self.loss = self.training_loss()
            self.translation = self.greedy()
        optimizer = tf.train.AdamOptimizer(5e-3)
        gradients, variables = zip(*optimizer.compute_gradients(
            self.loss, colocate_gradients_with_ops=True))
        clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
        self.train = optimizer.apply_gradients(zip(clipped, variables))

    def lstm(self) -> tf.nn.rnn_cell.LSTMCell:
        return tf.nn.rnn_cell.LSTMCell(self.args.units)

    def encode(self) -> tuple[tf.Tensor, tf.Tensor]:
        """What the encoder makes of every word, and the lengths of the sentences."""
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(self.source, PAD), tf.int32), 1)
        table = tf.get_variable("source_words", [self.args.words, self.args.units])
        both, _ = tf.nn.bidirectional_dynamic_rnn(
            self.lstm(), self.lstm(), tf.nn.embedding_lookup(table, self.source),
            lengths, dtype=tf.float32)
        return tf.concat(both, 2), lengths

    def decode(self, helper: seq2seq.Helper, most: tf.Tensor | None = None,
               ) -> seq2seq.BasicDecoderOutput:
        decoder = seq2seq.BasicDecoder(self.cell, helper, self.start, self.projection)
        with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
            return seq2seq.dynamic_decode(decoder, maximum_iterations=most)[0]

    def training_loss(self) -> tf.Tensor:
        """The loss per word, when the decoder is given the right word before."""
        rows = tf.shape(self.target)[0]
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(self.target, PAD), tf.int32), 1) + 1
        given = tf.concat([tf.fill([rows, 1], GO), self.target], 1)
        ended = tf.concat([self.target, tf.fill([rows, 1], PAD)], 1)
        ended += END * tf.one_hot(lengths - 1, tf.shape(ended)[1], dtype=tf.int32)
        helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(self.table, given), lengths)
        weights = tf.sequence_mask(lengths, tf.shape(ended)[1], tf.float32)
        return seq2seq.sequence_loss(self.decode(helper).rnn_output, ended, weights)

    def greedy(self) -> tf.Tensor:
        """The likeliest word after the likeliest word, up to the end of the longest sentence."""
        starts = tf.fill([tf.shape(self.source)[0]], GO)
        helper = seq2seq.GreedyEmbeddingHelper(self.table, starts, END)
        return self.decode(helper, 2 * tf.shape(self.source)[1]).sample_id


def share_right(session: tf.Session, model: Translator, words: int) -> float:
    """The share of words that are translated rightly in new sentences."""
    random, right, count = np.random.default_rng(1), 0, 0
    for number in range(50):
        source, target = sentence(random, words)
        said = session.run(model.translation, {model.source: [source]})[0]
        if number == 0:
            print(f"{source} -> {said[:-1]}")
        right += sum(a == b for a, b in zip(said, target))
        count += len(target)
    return right / count


def main() -> None:
    """Rank 0 is the client; the others serve its steps."""
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.index:
        server.join()
        return
    ranks = task.cluster.num_tasks(task.job)
    tf.set_random_seed(1)
    model = Translator(args, [f"/job:{task.job}/task:{rank}" for rank in range(ranks)])
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        for step in range(1, args.steps + 1):
            _, loss = session.run([model.train, model.loss])
            if step % max(args.steps // REPORTS, 1) == 0:
                print(f"step {step}  loss {loss:.3f}", flush=True)
        print(f"words translated rightly: {share_right(session, model, args.words):.3f}")


if __name__ == "__main__":
    main()
