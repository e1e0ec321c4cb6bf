"""Word vectors by skip-grams and noise contrastive estimation.

The program of the word2vec tutorial of 1.x, over parameter servers: from a word its neighbours in
the text are predicted, with a loss that compares them with words drawn at random, so that a step
touches only some rows of the vectors. The vectors are cut into shards, one on each server; only the
rows of a batch and their gradients travel. The text is made here: sentences are about one of
several topics, and most of their words are the topic's own. Vectors of words of one topic should
come to lie together.

    python examples/word2vec.py                                one process, no MPI
    python -m hpcflow run -n 3 --ps 1 examples/word2vec.py     a server, two workers

Prints the loss now and then, and at the end the share of words whose nearest word is of the same
topic.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf

TOPICS, WINDOW, REPORTS = 10, 3, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=500, help="of the vocabulary")
    parser.add_argument("--size", type=int, default=32, help="of a vector")
    parser.add_argument("--batch", type=int, default=256, help="pairs of words of a step")
    parser.add_argument("--samples", type=int, default=32, help="random words of a step")
    parser.add_argument("--steps", type=int, default=2000, help="training steps of all workers")
    return parser.parse_args()


def text(words: int, length: int, seed: int) -> np.ndarray:
    """Numbers of words; a word's topic is the remainder of its number by `TOPICS`."""
    random = np.random.default_rng(seed)
    topics = np.repeat(random.integers(TOPICS, size=length // 20 + 1), 20)[:length]
    ranks = (words // TOPICS * random.power(0.6, length)).astype(np.int64)
    own = ranks * TOPICS + topics
    return np.where(random.random(length) < 0.8, own, random.integers(words, size=length))


def batch(corpus: np.ndarray, random: np.random.Generator, count: int,
          ) -> tuple[np.ndarray, np.ndarray]:
    """Words ``[count]``, and for each a neighbour ``[count, 1]``."""
    places = random.integers(WINDOW, len(corpus) - WINDOW, count)
    offsets = random.integers(1, WINDOW + 1, count) * random.choice([-1, 1], count)
    return corpus[places], corpus[places + offsets][:, None]


def main() -> None:
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    tf.set_random_seed(1)
    shards = task.cluster.num_tasks("ps") if "ps" in task.cluster.jobs else 1
    by_rows, is_chief = tf.fixed_size_partitioner(shards), task.index == 0
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        words = tf.placeholder(tf.int64, [None], name="words")
        neighbours = tf.placeholder(tf.int64, [None, 1], name="neighbours")
        shape = [args.words, args.size]
        vectors = tf.get_variable("vectors", shape, partitioner=by_rows,
                                  initializer=tf.random_uniform_initializer(-1.0, 1.0))
        weights = tf.get_variable("nce_weights", shape, partitioner=by_rows, initializer=(
            tf.truncated_normal_initializer(stddev=args.size**-0.5)))
        biases = tf.get_variable("nce_biases", [args.words], partitioner=by_rows,
                                 initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.nn.nce_loss(
            list(weights), list(biases), neighbours, tf.nn.embedding_lookup(
                list(vectors), words, partition_strategy="div"),
            args.samples, args.words, partition_strategy="div"))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdagradOptimizer(0.5).minimize(loss, step)
        everything = tf.nn.l2_normalize(tf.convert_to_tensor(vectors), 1)
        nearness = tf.matmul(everything, everything, transpose_b=True)

    corpus = text(args.words, 50_000, seed=0)
    random = np.random.default_rng(task.index)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    losses = []
    with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks,
                                           log_step_count_steps=None) as session:
        while not session.should_stop():
            inputs, labels = batch(corpus, random, args.batch)
            _, value, number = session.run([train, loss, step],
                                           {words: inputs, neighbours: labels})
            losses.append(value)
            if is_chief and len(losses) % max(args.steps // REPORTS, 1) == 0:
                print(f"step {number}  loss {np.mean(losses[-100:]):.3f}", flush=True)
    if is_chief:
        with tf.Session(server.target) as session:  # variables outlive sessions on the servers
            near = session.run(nearness)
        np.fill_diagonal(near, -1)
        frequent = np.bincount(corpus, minlength=args.words) >= 20
        nearest = np.where(frequent, near, -1).argmax(1)[frequent]
        same = nearest % TOPICS == np.flatnonzero(frequent) % TOPICS
        print(f"nearest words of the same topic: {same.mean():.3f}")


if __name__ == "__main__":
    main()
