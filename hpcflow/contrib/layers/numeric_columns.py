"""Columns of numbers of ``contrib.layers``, their buckets, and crossed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import hpcflow as hf
from hpcflow import dtypes
from hpcflow.contrib.layers.columns import FeatureColumn, OfIds, SparseColumn
from hpcflow.contrib.layers.crossing import crossed_hashes
from hpcflow.contrib.layers.dense_columns import check_checkpoint
from hpcflow.dtypes import DType
from hpcflow.feature_column.column import EarlierDenseColumn, Ids
from hpcflow.feature_column.features import Features
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.sparse.sparse_layout import sparse_where
from hpcflow.shapes import TensorShape


class _RealValuedFields(NamedTuple):
    column_name: str
    dimension: int
    default_value: tuple | None
    dtype: DType
    normalizer: Callable | None


class _RealValuedColumn(FeatureColumn, EarlierDenseColumn, _RealValuedFields):
    _unnamed = ("normalizer",)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.column_name

    @property
    def config(self) -> dict[str, Any]:
        default = None if self.default_value is None else list(self.default_value)
        return {self.column_name: hf.FixedLenFeature([self.dimension], self.dtype, default)}

    @property
    def normalizer_fn(self) -> Callable | None:
        return self.normalizer

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    def _transform_feature(self, inputs: Features) -> Any:
        numbers = inputs.get(self.column_name)
        return hf.to_float(numbers if self.normalizer is None else self.normalizer(numbers))

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None,
                          trainable: bool | None = None) -> Any:
        return inputs.get(self)


def real_valued_column(column_name: str, dimension: int = 1, default_value: Any = None,
                       dtype: Any = dtypes.float32, normalizer: Callable | None = None) -> Any:
    """The numbers of a feature, as float32.

    An example has `dimension` of them. Others as of ``hf.feature_column.numeric_column``.
    """
    dtype = dtypes.as_dtype(dtype)
    if not isinstance(dimension, int):
        raise TypeError(f"dimension must be an integer. dimension: {dimension}, column_name: "
                        f"{column_name}")
    if dimension < 1:
        raise ValueError(f"dimension must be greater than 0. dimension: {dimension}, column_name: "
                         f"{column_name}")
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, column_name: "
                         f"{column_name}")
    return _RealValuedColumn(column_name, dimension, _defaults(
        default_value, dimension, dtype, column_name), dtype, normalizer)


def _defaults(given: Any, dimension: int, dtype: DType, name: str) -> tuple | None:
    if given is None:
        return None
    if isinstance(given, list) and len(given) != dimension:
        raise ValueError("The length of default_value must be equal to dimension. default_value: "
                         f"{given}, dimension: {dimension}, column_name: {name}")
    values = given if isinstance(given, list) else [given] * dimension
    kinds = int if dtype.is_integer else (int, float)
    if not all(isinstance(value, kinds) for value in values):
        raise TypeError(f"default_value must be compatible with dtype. default_value: {given}, "
                        f"dtype: {dtype}, column_name: {name}")
    return tuple(value if dtype.is_integer else float(value) for value in values)


class _BucketizedFields(NamedTuple):
    source_column: Any
    boundaries: tuple


class _BucketizedColumn(OfIds, EarlierDenseColumn, _BucketizedFields):
    combiner = "sum"

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source_column.name}_bucketized"

    @property
    def length(self) -> int:
        return len(self.boundaries) + 1

    @property
    def config(self) -> dict[str, Any]:
        return self.source_column.config

    @property
    def _num_buckets(self) -> int:
        return self.length * self.source_column.dimension

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([self._num_buckets])

    def _transform_feature(self, inputs: Features) -> Any:
        return raw_ops.Bucketize(inputs.get(self.source_column),
                                 boundaries=[float(b) for b in self.boundaries])

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None,
                          trainable: bool | None = None) -> Any:
        return hf.reshape(hf.one_hot(hf.cast(inputs.get(self), dtypes.int64), self.length),
                       [-1, self._num_buckets])

    def _get_sparse_tensors(self, inputs: Features, weight_collections: Any = None,
                            trainable: bool | None = None) -> Ids:
        places = self.source_column.dimension
        ids = hf.cast(hf.reshape(inputs.get(self), [-1, places]), dtypes.int64) + (
            np.arange(places, dtype=np.int64) * self.length)
        return Ids(sparse_where(ids, hf.greater_equal(ids, np.int64(0))))


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """Return a column of bucket numbers: the ranges between `boundaries`, lower bounds included.

    Raises ``TypeError`` for another source than a column of numbers, ``ValueError`` for boundaries
    that are none or do not ascend; equal ones count once.
    """
    if not isinstance(source_column, _RealValuedColumn):
        raise TypeError("source_column must be an instance of _RealValuedColumn. source_column: "
                        f"{source_column}")
    if not isinstance(boundaries, (list, tuple)) or not boundaries:
        raise ValueError(f"boundaries must be a non-empty list or tuple. boundaries: {boundaries}")
    if list(boundaries) != sorted(boundaries):
        raise ValueError(f"boundaries must be a sorted list. boundaries: {boundaries}")
    return _BucketizedColumn(source_column, tuple(dict.fromkeys(boundaries)))


class _CrossedFields(NamedTuple):
    columns: tuple
    hash_bucket_size: int
    hash_key: int | None
    combiner: str
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None


class _CrossedColumn(OfIds, _CrossedFields):
    @property
    def name(self) -> str:  # type: ignore[override]
        return "_X_".join(sorted(column.name for column in self.columns))

    @property
    def length(self) -> int:
        return self.hash_bucket_size

    @property
    def config(self) -> dict[str, Any]:
        return {key: value for column in self.columns for key, value in column.config.items()}

    def _transform_feature(self, inputs: Features) -> Any:
        parts = [inputs.get(column.name) if isinstance(column, SparseColumn)
                 else column._get_sparse_tensors(inputs).id_tensor for column in self._leaves()]
        return crossed_hashes(parts, self.hash_bucket_size, self.hash_key)

    def _leaves(self) -> list:
        """Return the columns to cross; a crossed one among them is replaced by its own."""
        return [leaf for column in self.columns for leaf in (
            column._leaves() if isinstance(column, _CrossedColumn) else [column])]


def crossed_column(columns: Iterable, hash_bucket_size: int, combiner: str = "sum",
                   ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
                   hash_key: int | None = None) -> Any:
    """Ids that are hashes of all combinations of the values of columns.

    Args:
        columns: two or more columns of ids, of buckets, or crossed ones.
        hash_bucket_size: the ids are below it.
        combiner: of an example's ids in linear models.
        ckpt_to_load_from, tensor_name_in_ckpt: a checkpoint to begin with, and its variable.
        hash_key: what the hashes begin with; None for the hashes of early releases.

    Raises ``TypeError`` for other columns, ``ValueError`` for fewer of them or of buckets.
    """
    columns = tuple(columns)
    for column in columns:
        if not isinstance(column, (SparseColumn, _CrossedColumn, _BucketizedColumn)):
            raise TypeError("columns must be a set of _SparseColumn, _CrossedColumn, or "
                            f"_BucketizedColumn instances. (column {column} is a "
                            f"{type(column).__name__})")
    if len(columns) < 2:
        raise ValueError(f"columns must contain at least 2 elements. columns: {columns}")
    if hash_bucket_size < 2:
        raise ValueError("hash_bucket_size must be at least 2. hash_bucket_size: "
                         f"{hash_bucket_size}")
    check_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    return _CrossedColumn(tuple(sorted(columns, key=lambda c: c.name)), hash_bucket_size, hash_key,
                          combiner, ckpt_to_load_from, tensor_name_in_ckpt)
