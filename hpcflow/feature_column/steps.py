"""Sequences of ids: their column, their lengths, and columns that must or must not be of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.feature_column.column import Ids, buckets_of, ids_of, spec_of
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.own import OwnIds
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.math.segments import unsorted_segment_max
from hpcflow.ops.sparse.sparse_layout import sparse_reshape


class SequenceCategoricalColumn(OwnIds):
    """A column with ids for each step."""

    categorical_column: Any
    _fields = ("categorical_column",)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the column of ids."""
        return spec_of(self.categorical_column)

    @property
    def num_buckets(self) -> int:
        """As the column of ids."""
        return buckets_of(self.categorical_column)

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the ids as the column of ids makes them."""
        return ids_of(self.categorical_column, transformation_cache, state_manager)

    def get_sparse_tensors(self, transformation_cache: Features, state_manager: Any) -> Ids:
        """Return the ids ``[batch, time, any number]``, and weights where they have some."""
        ids, weights = ids_of(self.categorical_column, transformation_cache, state_manager)
        return Ids(_of_steps(ids), None if weights is None else _of_steps(weights))


def _of_steps(given: SparseTensor) -> SparseTensor:
    """Ids ``[batch, time, any number]`` of ids ``[batch, time]``."""
    if given.get_shape().ndims == 3:
        return given
    sizes: Any = concat([given.dense_shape, [1]], 0)
    return sparse_reshape(given, sizes[:3])


def lengths_of(given: SparseTensor, elements: int = 1) -> Tensor:
    """Return the number of steps, int64, of each sequence ``[batch, time, ...]``.

    `elements` positions of the second dimension are one step.
    """
    places: Any = given.indices
    sizes: Any = given.dense_shape
    row, position = places[:, 0], places[:, 1]
    steps: Any = raw_ops.FloorDiv(position, np.int64(elements))
    longest = unsorted_segment_max(steps + np.int64(1), row, sizes[0])
    return raw_ops.Maximum(longest, np.int64(0))


def check_no_sequence(column: Any, what: str) -> None:
    """Raise ``ValueError`` if a column of numbers is made of ids of sequences."""
    source = column.categorical_column
    if isinstance(source, SequenceCategoricalColumn):
        raise ValueError(
            f"In {what}: {column.name}. categorical_column must not be of type "
            "SequenceCategoricalColumn. Columns of sequences are read by SequenceFeatures or "
            f"sequence_input_layer, other layers read categorical_column_with_*. Given: {source}")


def check_sequence(column: Any, what: str) -> None:
    """Raise ``ValueError`` unless a column of numbers is made of ids of sequences."""
    source = column.categorical_column
    if not isinstance(source, SequenceCategoricalColumn):
        raise ValueError(
            f"In {what}: {column.name}. categorical_column must be of type "
            "SequenceCategoricalColumn to use SequenceFeatures. Use a "
            f"sequence_categorical_column_with_* function. Given: {source}")
