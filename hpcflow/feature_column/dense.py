"""Columns of numbers: numbers, buckets, and indicators of ids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column.column import (
    OF_IDS,
    CategoricalColumn,
    Column,
    EarlierCategoricalColumn,
    Ids,
    Steps,
    buckets_of,
    check_is,
    check_key,
    ids_of,
    spec_of,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.own import OwnDense, OwnIds, OwnSequence
from hpcflow.feature_column.steps import check_no_sequence, check_sequence, lengths_of
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.io.example_features import FixedLenFeature
from hpcflow.ops.math.comparison import greater_equal
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.sparse.sparse_changes import sparse_merge
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.shapes import TensorShape


class NumericColumn(OwnDense):
    """Numbers as they are."""

    key: str
    shape: tuple
    default_value: Any
    dtype: dtypes.DType
    normalizer_fn: Callable | None
    _fields = ("key", "shape", "default_value", "dtype", "normalizer_fn")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration: as many numbers as the shape has."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the numbers, float32."""
        given = transformation_cache.raw(self.key)
        if is_sparse(given):
            raise ValueError("The corresponding Tensor of numerical column must be a Tensor. "
                             f"SparseTensor is not supported. key: {self.key}")
        numbers = given if self.normalizer_fn is None else self.normalizer_fn(given)
        return cast(numbers, dtypes.float32)

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of an example's numbers."""
        return TensorShape(self.shape)

    def get_dense_tensor(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the numbers."""
        return transformation_cache.get(self, state_manager)


def numeric_column(key: str, shape: Any = (1,), default_value: TensorLike | None = None,
                   dtype: DTypeLike = dtypes.float32,
                   normalizer_fn: Callable | None = None) -> Column:
    """Numbers as they are.

    Args:
        key: the feature.
        shape: of one example's numbers, an integer or several.
        default_value: for examples without the feature when they are parsed: one number, or an
            array of `shape`.
        dtype: of the feature.
        normalizer_fn: ``f(numbers)``, what the column has instead.

    Raises ``ValueError`` for a shape that is no shape, another `dtype`, or a default that does not
    fit, ``TypeError`` for one that is not of the type or a normalizer that cannot be called.
    """
    check_key(key)
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
    return NumericColumn(
        key=key, shape=sizes, dtype=kind, normalizer_fn=normalizer_fn,
        default_value=_default(default_value, sizes, kind, key))


def _default(value: Any, shape: tuple, dtype: dtypes.DType, key: str) -> Any:
    """The default of one example, as nested tuples."""
    if value is None:
        return None
    given = np.asarray(value)
    if given.dtype.kind not in "iuf" or (given.dtype.kind == "f" and dtype.is_integer):
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, "
                        f"dtype: {dtype.name}, key: {key}")
    if given.ndim and given.shape != shape:
        raise ValueError(f"The shape of default_value must be equal to given shape. default_value: "
                         f"{value}, shape: {shape}, key: {key}")
    return _nested(np.broadcast_to(given, shape).tolist())


def _nested(value: Sequence[float] | float) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


class BucketizedColumn(OwnIds, OwnDense):
    """Bucket numbers of the numbers of another column."""

    source_column: NumericColumn
    boundaries: tuple
    _fields = ("source_column", "boundaries")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of the numbers."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the column of the numbers."""
        return spec_of(self.source_column)

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the bucket numbers, int32."""
        numbers = transformation_cache.get(self.source_column, state_manager)
        return raw_ops.Bucketize(numbers, boundaries=[float(b) for b in self.boundaries])

    @property
    def variable_shape(self) -> TensorShape:
        """The numbers' shape, and one more than there are boundaries."""
        return TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self) -> int:
        """Buckets of all numbers together."""
        return (len(self.boundaries) + 1) * math.prod(self.source_column.shape)

    def get_dense_tensor(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return each number's bucket as a vector with a one."""
        return one_hot(transformation_cache.get(self, state_manager), len(self.boundaries) + 1)

    def get_sparse_tensors(self, transformation_cache: Features, state_manager: Any) -> Ids:
        """Return an id for each number; each position in the vector has ids of its own."""
        places = math.prod(self.source_column.shape)
        own = np.arange(places, dtype=np.int32) * (len(self.boundaries) + 1)
        ids = raw_ops.Add(
            reshape(transformation_cache.get(self, state_manager), [-1, places]), own)
        rows = raw_ops.Unpack(raw_ops.Shape(ids, out_type=dtypes.int64), num=2)[0]
        row = raw_ops.Range(np.int64(0), rows, np.int64(1))
        pairs = raw_ops.Pack([
            reshape(raw_ops.Tile(raw_ops.ExpandDims(row, np.int32(1)),
                                 np.array([1, places], np.int32)), [-1]),
            raw_ops.Tile(np.arange(places, dtype=np.int64), reshape(rows, [1]))], axis=1)
        return Ids(SparseTensor(pairs, cast(reshape(ids, [-1]), dtypes.int64),
                                raw_ops.Pack([rows, np.int64(places)])))


def bucketized_column(source_column: Column, boundaries: Sequence[float]) -> Column:
    """Return a column of bucket numbers: the ranges between `boundaries`, lower bounds included.

    Raises ``ValueError`` for another source than a numeric column of a vector, or boundaries that
    do not ascend.
    """
    check_is(NumericColumn, source_column, "source_column must be a column generated with "
             "numeric_column()")
    assert isinstance(source_column, NumericColumn)
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    limits = tuple(boundaries or ()) if isinstance(boundaries, (list, tuple)) else ()
    if not limits or any(a >= b for a, b in itertools.pairwise(limits)):
        raise ValueError("boundaries must not be empty: boundaries must be a sorted list. Given: "
                         f"{boundaries}")
    return BucketizedColumn(source_column=source_column, boundaries=limits)


class IndicatorColumn(OwnDense, OwnSequence):
    """The counts of ids, or the sums of their weights."""

    categorical_column: CategoricalColumn | EarlierCategoricalColumn
    _fields = ("categorical_column",)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the column of ids."""
        return spec_of(self.categorical_column)

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the counts, with the batch, and the time of sequences, first."""
        ids, weights = ids_of(self.categorical_column, transformation_cache, state_manager)
        size = buckets_of(self.categorical_column)
        if weights is None:
            return reduce_sum(one_hot(sparse_tensor_to_dense(ids, -1), size), -2)
        return _sums(ids, weights, size)

    @property
    def variable_shape(self) -> TensorShape:
        """One row of all ids."""
        return TensorShape([1, buckets_of(self.categorical_column)])

    def get_dense_tensor(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the counts. Raises ``ValueError`` for ids of sequences."""
        check_no_sequence(self, "indicator_column")
        return transformation_cache.get(self, state_manager)

    def get_sequence_dense_tensor(self, transformation_cache: Features,
                                  state_manager: Any) -> Steps:
        """Return the counts of each step. Raises ``ValueError`` unless ids are of sequences."""
        check_sequence(self, "indicator_column")
        counts = transformation_cache.get(self, state_manager)
        ids = ids_of(self.categorical_column, transformation_cache, state_manager)
        return Steps(counts, lengths_of(ids.id_tensor))


def _sums(ids: SparseTensor, weights: SparseTensor, size: int) -> Any:
    """The sums of the weights of each id; ids of -1 stand for none."""
    there = greater_equal(ids.values, np.int64(0))
    known = SparseTensor(ids.indices, raw_ops.Maximum(ids.values, np.int64(0)), ids.dense_shape)
    counted = raw_ops.Select(there, weights.values, raw_ops.ZerosLike(weights.values))
    merged = sparse_merge(known, SparseTensor(weights.indices, counted, weights.dense_shape), size,
                          already_sorted=True)
    return raw_ops.ScatterNd(merged.indices, merged.values, merged.dense_shape)


def indicator_column(categorical_column: CategoricalColumn) -> Column:
    """Return a dense column that counts each id (or sums its weights): a multi-hot vector."""
    check_is(OF_IDS, categorical_column, "categorical_column must be a categorical column")
    return IndicatorColumn(categorical_column=categorical_column)
