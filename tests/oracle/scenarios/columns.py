"""Programs of columns of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import scenario


def _sparse(tf: Any, rows: list, dtype: Any) -> Any:
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2),
                           np.array([v for row in rows for v in row], dtype),
                           [len(rows), max(map(len, rows))])


@scenario
def columns_of_sequences(tf: Any, session: Any) -> list:
    columns = tf.feature_column
    features = {"words": _sparse(tf, [["a", "c", "b"], [], ["zz", "a"]], object),
                "ids": _sparse(tf, [[3, 0, 1], [], [2, 2]], np.int64),
                "numbers": _sparse(tf, [[1.0, 2, 3, 4, 5, 6], [], [7, 8, 9, 10]], np.float32)}
    words = columns.sequence_categorical_column_with_vocabulary_list(
        "words", ["a", "b", "c"], num_oov_buckets=1)
    ids = columns.sequence_categorical_column_with_identity("ids", 4)
    table = tf.constant_initializer(np.arange(12).reshape(4, 3) / 8)
    used = [columns.embedding_column(words, 3, initializer=table), columns.indicator_column(ids),
            columns.sequence_numeric_column("numbers", 2, -1.0, normalizer_fn=lambda x: x * 2)]
    values, lengths = tf.keras.experimental.SequenceFeatures(used)(features)
    hashed = columns.sequence_categorical_column_with_hash_bucket("words", 5)
    other, _ = tf.keras.experimental.SequenceFeatures(
        [columns.indicator_column(hashed)])(features)
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    return [*session.run([values, lengths, other]), [d or -1 for d in values.shape.as_list()]]


@scenario
def columns_in_layers_of_models(tf: Any, session: Any) -> list:
    columns = tf.feature_column
    several = tf.SparseTensor([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]], np.array([3, 0, 1, 2]),
                              [2, 2, 2])
    features = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "several": several,
                "words": _sparse(tf, [["a", "zz", "b"], ["b"]], object),
                "weights": _sparse(tf, [[0.5, 2.0, -1.0], [3.0]], np.float32)}
    words = columns.categorical_column_with_vocabulary_list("words", ["a", "b", "c"])
    numbers = columns.numeric_column("x", [2, 2])
    table = tf.constant_initializer(np.arange(12).reshape(4, 3) / 8)
    weighted = columns.weighted_categorical_column(words, "weights")
    used = [numbers, columns.indicator_column(weighted)]
    dense = tf.keras.layers.DenseFeatures(used)
    steps = tf.keras.experimental.SequenceFeatures([columns.embedding_column(
        columns.sequence_categorical_column_with_identity("several", 4), 3, initializer=table)])
    results = [dense(features), dense(features), *steps(features)]
    results += [columns.input_layer(features, used), columns.linear_model(features, [words])]
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    return [*session.run(results), results[0].shape.as_list(), [v.name for v in steps.weights]]
