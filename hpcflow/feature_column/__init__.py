"""Columns: what models read of a dict of features, and the layers that read them.

Columns are descriptions; ``input_layer`` and ``linear_model`` build what they describe.
"""

from hpcflow.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
    crossed_column,
    weighted_categorical_column,
)
from hpcflow.feature_column.dense import bucketized_column, indicator_column, numeric_column
from hpcflow.feature_column.embeddings import embedding_column, shared_embedding_columns
from hpcflow.feature_column.reading import (
    input_layer,
    linear_model,
    make_parse_example_spec,
)
from hpcflow.feature_column.sequence import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)

__all__ = [
    "bucketized_column", "categorical_column_with_hash_bucket",
    "categorical_column_with_identity", "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list", "crossed_column", "embedding_column",
    "indicator_column", "input_layer", "linear_model", "make_parse_example_spec",
    "numeric_column", "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column", "shared_embedding_columns", "weighted_categorical_column",
]  # fmt: skip
