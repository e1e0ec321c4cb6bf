"""Columns of sequences, and the layer that reads them for recurrent networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column import categorical
from hpcflow.feature_column.column import CategoricalColumn, Column, Features, Ids, check_is
from hpcflow.feature_column.dense import _Embedding, _Indicator
from hpcflow.feature_column.reading import _collections_of, _columns_of
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.flow.checks import assert_equal
from hpcflow.ops.io.example_features import VarLenFeature
from hpcflow.ops.math.segments import unsorted_segment_max
from hpcflow.ops.sparse.sparse_layout import sparse_reshape, sparse_tensor_to_dense
from hpcflow.ops.state.variable_scope import variable_scope


class _Steps(NamedTuple):
    """A sequence column's values ``[batch, time, size]`` and the lengths of the sequences."""

    values: Tensor
    lengths: Tensor


class SequenceCategoricalColumn(CategoricalColumn):
    """A column with one id for each step."""

    source: CategoricalColumn

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return self.source.name

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the column of ids."""
        return self.source._parse_example_spec

    def transform(self, features: Features) -> Any:
        """The ids, ``[batch, time]``."""
        return self.source.ids(features).id_tensor

    def ids(self, features: Features) -> Ids:
        """Raise ``ValueError``: layers that do not read sequences would add up the steps."""
        raise ValueError(f"{self.name} is a column of sequences: read it by sequence_input_layer, "
                         "in an embedding_column or indicator_column")


class _SequenceNumeric(Column):
    key: str
    shape: tuple
    default_value: float
    dtype: dtypes.DType
    normalizer: Callable | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> Any:
        given = features.raw(self.key)
        if not is_sparse(given):
            raise ValueError("The corresponding Tensor of a sequence numeric column must be a "
                             f"SparseTensor. key: {self.key}")
        if self.normalizer is not None:
            given = self.normalizer(given)
        values = cast(given.values, dtypes.float32)
        return SparseTensor(given.indices, values, given.dense_shape)


def _wrapped(source: CategoricalColumn) -> SequenceCategoricalColumn:
    return SequenceCategoricalColumn(source=source, buckets=source._num_buckets)


def sequence_categorical_column_with_identity(key: str, num_buckets: int,
                                              default_value: int | None = None) -> Column:
    """As ``categorical_column_with_identity``, with an id for each step of a sequence."""
    return _wrapped(categorical.categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(key: str, hash_bucket_size: int,
                                                 dtype: DTypeLike = dtypes.string) -> Column:
    """As ``categorical_column_with_hash_bucket``, with an id for each step of a sequence."""
    return _wrapped(categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_file(
        key: str, vocabulary_file: str, vocabulary_size: int | None = None,
        num_oov_buckets: int = 0, default_value: int | None = None,
        dtype: DTypeLike = dtypes.string) -> Column:
    """As ``categorical_column_with_vocabulary_file``, with an id for each step of a sequence."""
    return _wrapped(categorical.categorical_column_with_vocabulary_file(
        key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype))


def sequence_categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence[Any],
                                                     dtype: DTypeLike | None = None,
                                                     default_value: int = -1,
                                                     num_oov_buckets: int = 0) -> Column:
    """As ``categorical_column_with_vocabulary_list``, with an id for each step of a sequence."""
    return _wrapped(categorical.categorical_column_with_vocabulary_list(
        key, vocabulary_list, dtype, default_value, num_oov_buckets))


def sequence_numeric_column(key: str, shape: Any = (1,), default_value: float = 0.0,
                            dtype: DTypeLike = dtypes.float32,
                            normalizer_fn: Callable | None = None) -> Column:
    """Numbers of sequences, `shape` of them for each step.

    Args:
        key: the feature, sparse.
        shape: of one step's numbers.
        default_value: fills up shorter sequences.
        dtype: of the feature.
        normalizer_fn: ``f(feature)``, a function of the sparse tensor, what the column has instead.

    Raises ``ValueError`` for another shape or `dtype`, ``TypeError`` for what is no integer or
    cannot be called.
    """
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    for size in sizes:
        if not isinstance(size, (int, np.integer)):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind.name}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return _SequenceNumeric(key=key, shape=sizes, default_value=default_value, dtype=kind,
                            normalizer=normalizer_fn)


def sequence_input_layer(features: Mapping[str, Any], feature_columns: Iterable[Column],
                         weight_collections: Iterable[str] | None = None,
                         trainable: bool = True) -> tuple[Tensor, Tensor]:
    """Return the values of columns of sequences beside each other, and the lengths.

    Args:
        features: name -> sparse tensor ``[batch, time]``.
        feature_columns: numbers of sequences; indicators and embeddings of ids of sequences.
        weight_collections: collections for the variables besides the usual ones.
        trainable: whether variables are trained.

    Returns float32 ``[batch, time, numbers of all columns]`` and int64 ``[batch]``, which all
    columns must agree about. Raises ``ValueError`` for other columns.
    """
    columns = _columns_of(feature_columns)
    collections = _collections_of(weight_collections)
    with variable_scope(None, "sequence_input_layer", list(features.values())):
        read, found = Features(features), []
        for column in columns:
            with variable_scope(None, column.scope_name):
                found.append(_steps_of(column, read, trainable, collections))
        lengths = _agreed([f.lengths for f in found])
        return concat([f.values for f in found], -1), lengths


def _steps_of(column: Any, features: Features, trainable: bool, collections: list) -> _Steps:
    if isinstance(column, _SequenceNumeric):
        return _numbers(column, features)
    check_is((_Embedding, _Indicator), column, "All feature_columns must be of type "  # type: ignore[arg-type]
             "_SequenceDenseColumn. You can wrap a sequence_categorical_column with an "
             "embedding_column or indicator_column")
    check_is(SequenceCategoricalColumn, column.source, f"In {column.name}: its column of ids must "
             "be a sequence_categorical_column")
    ids = column.source.transform(features)
    dims = raw_ops.Unpack(ids.dense_shape, num=2)
    if isinstance(column, _Indicator):
        values = one_hot(sparse_tensor_to_dense(ids, -1), column.size)
    else:
        steps = sparse_reshape(ids, stack([dims[0] * dims[1], np.int64(1)]))
        values = safe_embedding_lookup_sparse(
            column.table(trainable, collections), steps, None, column.combiner,
            max_norm=column.max_norm, name=f"{column.name}_weights")
    values = reshape(values, stack([*dims, np.int64(column.size)]))
    known = constant_value(ids.dense_shape)
    values.set_shape([*((None, None) if known is None else known), column.size])
    return _Steps(values, _lengths(ids, 1))


def _numbers(column: _SequenceNumeric, features: Features) -> _Steps:
    given, size = features.of(column), math.prod(column.shape)
    dense: Any = sparse_tensor_to_dense(given, np.float32(column.default_value))
    rows = raw_ops.Unpack(given.dense_shape, num=2)[0]
    values = reshape(dense, stack([rows, np.int64(-1), np.int64(size)]))
    dims = constant_value(given.dense_shape)
    batch, longest = (None, None) if dims is None else dims
    values.set_shape([batch, longest and -(-longest // size), size])
    return _Steps(values, _lengths(given, size))


def _lengths(given: SparseTensor, size: int) -> Tensor:
    """The number of steps of each sequence, of `size` elements each."""
    row, position = raw_ops.Unpack(given.indices, num=2, axis=1)
    rows = raw_ops.Unpack(given.dense_shape, num=2)[0]
    steps: Any = raw_ops.FloorDiv(position, np.int64(size))
    longest = unsorted_segment_max(steps + np.int64(1), row, rows)
    return raw_ops.Maximum(longest, np.int64(0))


def _agreed(lengths: list[Tensor]) -> Tensor:
    checks = [assert_equal(lengths[0], other, message="sequences of columns differ in length")
              for other in lengths[1:]]
    with control_dependencies(checks):
        return identity(lengths[0]) if checks else lengths[0]
