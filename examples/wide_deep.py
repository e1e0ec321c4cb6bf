"""Wide and deep: a linear model and a network over the same columns, with sharded embeddings.

The recommender of Cheng and others (2016). Feature columns say what becomes of the data: the wide
part learns a weight for every user, item and pair of segment and genre, by Ftrl; the deep part
learns an embedding of each user and item, and a network over them, by Adagrad. The embeddings, by
far the most of the parameters, are cut into shards by rows, over all parameter servers; a step
fetches and updates only the rows that its batch names. The clicks are made here: users and items
have hidden tastes, and some segments like some genres.

    python examples/wide_deep.py                               one process, no MPI
    python -m hpcflow run -n 4 --ps 2 examples/wide_deep.py    2 servers, 2 workers

Prints the loss now and then, and at the end the area under the curve (AUC) on new clicks.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpcflow as tf

column = tf.feature_column
SEGMENTS, GENRES, REPORTS = 6, 8, 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--size", type=int, default=8, help="of an embedding")
    parser.add_argument("--batch", type=int, default=128, help="clicks of a step")
    parser.add_argument("--steps", type=int, default=1500, help="training steps of all workers")
    return parser.parse_args()


class Clicks:
    """What users did with items that they were shown."""

    def __init__(self, users: int, items: int, seed: int) -> None:
        world = np.random.default_rng(0)
        self.user_tastes = world.normal(size=(users, 2))
        self.item_tastes = world.normal(size=(items, 2))
        self.segments = world.integers(SEGMENTS, size=users)
        self.genres = world.integers(GENRES, size=items)
        self.liking = world.normal(size=(SEGMENTS, GENRES))
        self.random = np.random.default_rng(seed)

    def batch(self, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Columns ``[count]`` by name, and whether each was clicked (1) or not (0)."""
        user = self.random.integers(len(self.user_tastes), size=count)
        item = self.random.integers(len(self.item_tastes), size=count)
        score = (self.user_tastes[user] * self.item_tastes[item]).sum(1)
        score += 2 * self.liking[self.segments[user], self.genres[item]]
        clicked = self.random.random(count) < 1 / (1 + np.exp(-1.5 * score))
        columns = {"user": user, "item": item, "segment": self.segments[user].astype(str),
                   "genre": self.genres[item].astype(str), "hour": self.random.random(count)}
        return columns, clicked.astype(np.float32)[:, None]


def build(features: dict[str, tf.Tensor], args: argparse.Namespace, shards: int,
          ) -> tuple[tf.Tensor, tf.Tensor]:
    """The logits ``[batch, 1]`` of the wide part and of the deep part."""
    user = column.categorical_column_with_identity("user", args.users)
    item = column.categorical_column_with_identity("item", args.items)
    segment = column.categorical_column_with_vocabulary_list(
        "segment", [str(number) for number in range(SEGMENTS)])
    genre = column.categorical_column_with_hash_bucket("genre", 50)
    pair = column.crossed_column(["segment", "genre"], 200)
    with tf.variable_scope("wide"):
        wide = column.linear_model(features, [user, item, pair])
    with tf.variable_scope("deep", partitioner=tf.fixed_size_partitioner(shards)):
        values = column.input_layer(features, [
            column.embedding_column(user, args.size), column.embedding_column(item, args.size),
            column.indicator_column(segment), column.embedding_column(genre, 4),
            column.numeric_column("hour")])
    with tf.variable_scope("deep/network"):
        for units in (64, 32):
            values = tf.layers.dense(values, units, tf.nn.relu)
        return wide, tf.layers.dense(values, 1)


def main() -> None:
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    tf.set_random_seed(1)
    shards = task.cluster.num_tasks("ps") if "ps" in task.cluster.jobs else 1
    is_chief = task.index == 0
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        features = {name: tf.placeholder(kind, [None], name=name) for name, kind in (
            ("user", tf.int64), ("item", tf.int64), ("segment", tf.string),
            ("genre", tf.string), ("hour", tf.float32))}
        labels = tf.placeholder(tf.float32, [None, 1], name="labels")
        wide, deep = build(features, args, shards)
        logits = wide + deep
        loss = tf.losses.sigmoid_cross_entropy(labels, logits)
        step = tf.train.get_or_create_global_step()
        parts = [tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, name)
                 for name in ("wide", "deep")]
        by_part = (tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
                   tf.train.AdagradOptimizer(0.1))
        updates = [optimizer.minimize(loss, var_list=variables)
                   for optimizer, variables in zip(by_part, parts)]
        with tf.control_dependencies(updates):
            train = tf.assign_add(step, 1).op
        auc, count = tf.metrics.auc(labels, tf.sigmoid(logits), num_thresholds=1000)

    scaffold = tf.train.Scaffold(local_init_op=tf.group(
        tf.tables_initializer(), tf.local_variables_initializer()))
    clicks = Clicks(args.users, args.items, seed=2 + task.index)
    losses: list[float] = []
    with tf.train.MonitoredTrainingSession(
            server.target, is_chief, scaffold=scaffold, log_step_count_steps=None,
            hooks=[tf.train.StopAtStepHook(last_step=args.steps)]) as session:
        while not session.should_stop():
            columns, clicked = clicks.batch(args.batch)
            feeds = {features[name]: values for name, values in columns.items()}
            _, value, number = session.run([train, loss, step], {**feeds, labels: clicked})
            losses.append(value)
            if is_chief and len(losses) % max(args.steps // REPORTS, 1) == 0:
                print(f"step {number}  loss {np.mean(losses[-100:]):.3f}", flush=True)
    if is_chief:
        columns, clicked = Clicks(args.users, args.items, seed=1).batch(5000)
        feeds = {features[name]: values for name, values in columns.items()}
        with tf.Session(server.target) as session:  # variables outlive sessions on the servers
            session.run([tf.tables_initializer(), tf.local_variables_initializer()])
            session.run(count, {**feeds, labels: clicked})
            print(f"AUC: {session.run(auc):.3f}")


if __name__ == "__main__":
    main()
