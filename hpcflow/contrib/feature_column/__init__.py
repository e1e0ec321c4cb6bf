"""``contrib.feature_column``: columns of sequences, and the layer that reads them."""

from hpcflow.feature_column import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)
from hpcflow.feature_column.sequence import concatenate_context_input, sequence_input_layer
