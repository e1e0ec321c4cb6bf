"""Programs of data sets without random order: the sequences of their elements."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scenarios import scenario


def _sequence(tf: Any, session: Any, dataset: Any, most: int = 40) -> list:
    """The elements, errors as the names of their classes."""
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    session.run(iterator.initializer)
    found: list = []
    for _ in range(most):
        try:
            found.append(session.run(following))
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.OpError as error:
            found.append(type(error).__name__)
    return found


@scenario
def dataset_order(tf: Any, session: Any) -> list:
    data = tf.data.Dataset
    ten, pairs = data.range(10), data.from_tensor_slices((np.arange(4), ["a", "b", "c", "d"]))
    return [_sequence(tf, session, d) for d in (
        ten.take(3).repeat(2).concatenate(data.range(2, 12, 4)), ten.skip(7), ten.shard(4, 1),
        data.zip((ten, {"p": pairs})).map(lambda x, p: (x + p["p"][0], p["p"][1])),
        data.from_tensors((1.5, [1, 2])).repeat(2), pairs.cache().repeat(2), ten.prefetch(2),
        ten.window(3, shift=2, stride=2).flat_map(lambda w: w.batch(3)))] + [
        session.run(tf.data.experimental.cardinality(d)) for d in (
            ten.batch(3), ten.repeat(), ten.filter(lambda x: x > 3), data.zip((ten, ten.take(4))))]


@scenario
def dataset_batches(tf: Any, session: Any) -> list:
    data = tf.data.Dataset
    rows = data.range(1, 6).map(lambda n: (tf.fill([n], n), tf.fill([n], "x")))
    zero = tf.constant(7, tf.int64)
    return [_sequence(tf, session, d) for d in (
        data.range(5).batch(2), data.range(5).batch(2, drop_remainder=True), rows.batch(2),
        rows.padded_batch(2, ([None], [6]), (zero, "-")), rows.padded_batch(3, ([3], [None])),
        rows.padded_batch(2, ([None], [None]), drop_remainder=True),
        data.range(10).batch(4).apply(tf.data.experimental.unbatch()),
        data.range(10).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 4)))]


@scenario
def dataset_functions(tf: Any, session: Any) -> list:
    data = tf.data.Dataset
    ten = data.range(10)
    fails = ten.map(lambda x: tf.check_numerics(1 / tf.cast(x - 4, tf.float32), "here"))
    scan = tf.data.experimental.scan(np.int64(1), lambda s, x: (s + x, s * x))
    return [_sequence(tf, session, d) for d in (
        ten.filter(lambda x: tf.equal(x % 3, 1)), ten.flat_map(lambda x: data.range(x)).take(20),
        ten.map(lambda x: tf.while_loop(lambda i: i < 50, lambda i: i * 2 + 1, [x])),
        ten.map(lambda x: tf.cond(x > 4, lambda: x * 2, lambda: -x), num_parallel_calls=3),
        ten.interleave(lambda x: data.from_tensors(x).repeat(x), 3, 2).take(30), fails,
        fails.apply(tf.data.experimental.ignore_errors()), ten.apply(scan),
        ten.apply(tf.data.experimental.take_while(lambda x: x < 4)),
        ten.map(lambda x: x % 4).apply(tf.data.experimental.unique()),
        ten.apply(tf.data.experimental.group_by_window(
            lambda x: x % 3, lambda key, window: window.batch(2), 2)),
        tf.data.experimental.choose_from_datasets(
            [ten, data.range(50, 53)], data.range(12).map(lambda x: x % 2)))] + [
        session.run(ten.reduce(np.int64(0), lambda s, x: s * 2 + x)),
        session.run(tf.data.experimental.get_single_element(ten.skip(9)))]


@scenario
def dataset_sparse(tf: Any, session: Any) -> list:
    data = tf.data.Dataset
    sparse = tf.SparseTensor([[0, 0], [1, 1], [2, 0]], [1.0, 2.0, 3.0], [3, 2])
    rows = data.from_tensor_slices((sparse, [1, 2, 3]))
    return [_sequence(tf, session, d) for d in (
        rows, rows.map(lambda s, i: (s, i * 2)).batch(2), data.from_tensors(sparse),
        data.from_sparse_tensor_slices(sparse),
        data.from_generator(lambda: iter([[1], [2, 3]]), tf.int64, [None]).repeat(2))]


@scenario
def dataset_files(tf: Any, session: Any) -> list:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "lines.txt")
        Path(path).write_bytes(b"one\ntwo\r\n\nlast")
        fixed = str(Path(folder) / "fixed")
        Path(fixed).write_bytes(b"habcdefghiff")
        records = str(Path(folder) / "records")
        with tf.python_io.TFRecordWriter(records) as writer:
            for i in range(3):
                writer.write(b"%d" % i)
        read: list[Callable[[], Any]] = [
            lambda: tf.data.TextLineDataset([path, path]), lambda: tf.data.TFRecordDataset(records),
            lambda: tf.data.FixedLengthRecordDataset([fixed], 3, 1, 2)]
        return [_sequence(tf, session, make()) for make in read]


@scenario
def dataset_iterators(tf: Any, session: Any) -> list:
    data = tf.data.Dataset
    one, two = data.range(3), data.range(10, 14)
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    following = iterator.get_next()
    values: list = []
    for dataset in (one, two):
        session.run(iterator.make_initializer(dataset))
        values += [session.run(following) for _ in range(2)]
    handle = tf.placeholder(tf.string, [])
    chosen = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    handles = [session.run(tf.data.make_one_shot_iterator(d).string_handle()) for d in (one, two)]
    return values + [session.run(chosen, {handle: handles[i]}) for i in (0, 1, 1, 0)]


@scenario
def dataset_tables(tf: Any, session: Any) -> list:
    """Values of tables; where rows end is the reference's matter."""
    experimental = tf.data.experimental
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table.csv"
        path.write_text('a,b,c\n1,2.5,x\n,4.5,"y,\n""z"\n5,NA,\n')
        rows = [experimental.CsvDataset(str(path), defaults, header=True, **options)
                for defaults, options in (
                    ([[7], [1.5], [""]], {"na_value": "NA"}),
                    ([tf.string, tf.float64], {"select_cols": [0, 1]}),
                    ([tf.int32, [0.0], tf.string], {}))]
        found = [_sequence(tf, session, d) for d in rows]
        for options in ({"num_epochs": 1}, {"num_epochs": 1, "label_name": "c"},
                        {"num_epochs": 2, "select_columns": ["a", "c"]},
                        {"column_defaults": [tf.int64, [""], [""]], "num_epochs": 1,
                         "ignore_errors": True}):
            data = experimental.make_csv_dataset(str(path), 2, shuffle=False, na_value="NA",
                                                 **options)
            found.append([_flat(batch) for batch in _sequence(tf, session, data)])
        return found


def _flat(batch: Any) -> list:
    """The columns of a batch by their names."""
    if isinstance(batch, str):
        return [batch]
    if isinstance(batch, tuple):
        return [_flat(batch[0]), batch[1]]
    return [batch[name] for name in sorted(batch)]


@scenario
def dataset_caches(tf: Any, session: Any) -> list:
    with tempfile.TemporaryDirectory() as directory:
        name = str(Path(directory) / "cache")
        pairs = tf.data.Dataset.from_tensor_slices((np.arange(4), ["a", "b", "c", "d"]))
        return [_sequence(tf, session, pairs.cache(name).repeat(2)),
                _sequence(tf, session, pairs.take(1).cache(name))]


@scenario
def iterator_checkpoints(tf: Any, session: Any) -> list:
    """What comes after a restore is what came after the save."""
    data = tf.data.Dataset.range(20).shuffle(5, seed=2).repeat(2).batch(3)
    iterator = tf.data.make_initializable_iterator(data)
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    following = iterator.get_next()
    session.run(iterator.initializer)
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "model")
        for _ in range(4):
            session.run(following)
        saver.save(session, path, write_meta_graph=False)
        first = [session.run(following) for _ in range(4)]
        saver.restore(session, path)
        second = [session.run(following) for _ in range(4)]
    return [np.array_equal(a, b) for a, b in zip(first, second)]
