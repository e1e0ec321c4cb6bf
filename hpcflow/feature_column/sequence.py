"""Columns of sequences, and the layer that reads them for recurrent networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column import categorical
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Column,
    EarlierSequenceDenseColumn,
    SequenceDenseColumn,
    Steps,
    check_is,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.managers import StateManager
from hpcflow.feature_column.own import OwnSequence
from hpcflow.feature_column.reading import model_collections, sorted_columns
from hpcflow.feature_column.steps import SequenceCategoricalColumn, lengths_of
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.flow.checks import assert_equal
from hpcflow.ops.io.example_features import VarLenFeature
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.shapes import TensorShape


class SequenceNumericColumn(OwnSequence):
    """Numbers of sequences."""

    key: str
    shape: tuple
    default_value: float
    dtype: dtypes.DType
    normalizer_fn: Callable | None
    _fields = ("key", "shape", "default_value", "dtype", "normalizer_fn")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration: any number of values for the feature."""
        return {self.key: VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the numbers, a sparse tensor of float32."""
        given = transformation_cache.raw(self.key)
        if not is_sparse(given):
            raise ValueError("The corresponding Tensor of a sequence numeric column must be a "
                             f"SparseTensor. key: {self.key}")
        if self.normalizer_fn is not None:
            given = self.normalizer_fn(given)
        return SparseTensor(given.indices, cast(given.values, dtypes.float32), given.dense_shape)

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of one step's numbers."""
        return TensorShape(self.shape)

    def get_sequence_dense_tensor(self, transformation_cache: Features,
                                  state_manager: Any) -> Steps:
        """Return the numbers ``[batch, time, *shape]`` and the lengths."""
        given = transformation_cache.get(self, state_manager)
        dense: Any = sparse_tensor_to_dense(given, np.float32(self.default_value))
        values = reshape(dense, stack([given.dense_shape[0], np.int64(-1),
                                       *(np.int64(n) for n in self.shape)]))
        # A feature of three dimensions has the steps in the second one.
        elements = 1 if given.get_shape().ndims == 3 else math.prod(self.shape)
        dims = constant_value(given.dense_shape)
        batch, longest = (None, None) if dims is None else (dims[0], math.prod(dims[1:]))
        values.set_shape([batch, longest and -(-longest // math.prod(self.shape)), *self.shape])
        return Steps(values, lengths_of(given, elements))


def _wrapped(source: CategoricalColumn) -> SequenceCategoricalColumn:
    return SequenceCategoricalColumn(categorical_column=source)


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
    return SequenceNumericColumn(key=key, shape=sizes, default_value=default_value, dtype=kind,
                                 normalizer_fn=normalizer_fn)


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
    columns = sorted_columns(feature_columns)
    collections = model_collections(weight_collections)
    with variable_scope(None, "sequence_input_layer", list(features.values())):
        read, found = Features(features), []
        for column in columns:
            check_is(EarlierSequenceDenseColumn, column, "All feature_columns must be of type "
                     "_SequenceDenseColumn. You can wrap a sequence_categorical_column with an "
                     "embedding_column or indicator_column")
            with variable_scope(None, column._var_scope_name):
                found.append(column._get_sequence_dense_tensor(read, collections, trainable))
        return joined(columns, found)


def steps_of(column: Any, features: Features, manager: StateManager) -> Steps:
    """Return a column's steps. Raises ``ValueError`` for one that has none."""
    check_is(SequenceDenseColumn, column, "All feature_columns must be of type "
             "SequenceDenseColumn")
    return Steps(*column.get_sequence_dense_tensor(features, manager))


def joined(columns: Sequence[Any], found: Sequence[Steps]) -> tuple[Tensor, Tensor]:
    """Return the numbers ``[batch, time, all]`` of several columns, and the lengths."""
    values = []
    for column, steps in zip(columns, found):
        dense = steps.dense_tensor
        width = TensorShape(column.variable_shape).num_elements()
        shape = raw_ops.Shape(dense, out_type=dtypes.int32)
        flat = reshape(dense, stack([shape[0], shape[1], np.int32(width or 0)]))
        flat.set_shape([*dense.shape.as_list()[:2], width] if dense.shape.ndims else
                       [None, None, width])
        values.append(flat)
    return concat(values, -1), _agreed([f.sequence_length for f in found])


def concatenate_context_input(context_input: TensorLike, sequence_input: TensorLike) -> Tensor:
    """Return the numbers of each step ``[batch, time, a + b]``: its own, then those of the example.

    Args:
        context_input: float32 ``[batch, b]``.
        sequence_input: float32 ``[batch, time, a]``.

    Raises ``ValueError`` for other ranks, ``TypeError`` for other types.
    """
    context, sequence = convert_to_tensor(context_input), convert_to_tensor(sequence_input)
    for tensor, rank, what in ((sequence, 3, "sequence_input"), (context, 2, "context_input")):
        if tensor.shape.ndims not in (None, rank):
            raise ValueError(f"{what} must have rank {rank}, its shape is {tensor.shape}")
        if tensor.dtype.base_dtype is not dtypes.float32:
            raise TypeError(f"{what} must have dtype float32, got {tensor.dtype.name}")
    steps = raw_ops.Shape(sequence, out_type=dtypes.int32)[1]
    many = raw_ops.Tile(raw_ops.ExpandDims(context, np.int32(1)),
                        stack([np.int32(1), steps, np.int32(1)]))
    return concat([sequence, many], 2)


def _agreed(lengths: list[Tensor]) -> Tensor:
    checks = [assert_equal(lengths[0], other, message="sequences of columns differ in length")
              for other in lengths[1:]]
    with control_dependencies(checks):
        return identity(lengths[0]) if checks else lengths[0]
