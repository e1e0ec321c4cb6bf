"""Programs of columns of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import scenario


def _sequence_layer(tf: Any) -> Any:
    """What reads columns of sequences: a function here, a layer in the reference."""
    if tf.__name__ == "hpcflow":
        return tf.contrib.feature_column.sequence_input_layer
    return lambda features, columns: tf.keras.experimental.SequenceFeatures(columns)(features)


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
    values, lengths = _sequence_layer(tf)(features, used)
    hashed = columns.sequence_categorical_column_with_hash_bucket("words", 5)
    other, _ = _sequence_layer(tf)(features, [columns.indicator_column(hashed)])
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    return [*session.run([values, lengths, other]), [d or -1 for d in values.shape.as_list()]]
