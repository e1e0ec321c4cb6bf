"""Columns of ids of ``contrib.layers``: what models read of a dict of features.

They are columns of earlier releases for the layers of ``hf.feature_column``, too. Their classes are
called as those of 1.x: layers read columns in the order of what they print.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.feature_column.categorical import (
    HashedCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
)
from hpcflow.feature_column.column import EarlierCategoricalColumn, EarlierColumn, Ids
from hpcflow.feature_column.features import Features
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.casting import to_float
from hpcflow.ops.io.example_features import VarLenFeature
from hpcflow.ops.sparse.sparse_layout import sparse_concat
from hpcflow.ops.strings.strings import as_string, string_to_hash_bucket_strong


class FeatureColumn(EarlierColumn):
    """A column: `name`, `key`, which no other column of a layer may have, and `config`, how
    ``hf.parse_example`` reads its features."""

    _unnamed: tuple[str, ...] = ()  # fields that the key leaves out

    @property
    def key(self) -> str:
        """What the column prints, without functions."""
        fields: Any = self
        if not self._unnamed:
            return str(self)
        told = ", ".join(f"{name}={value}" for name, value in zip(fields._fields, fields)
                         if name not in self._unnamed)
        return f"{type(self).__name__}({told})"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with which ``hf.parse_example`` reads the features of the column."""
        raise NotImplementedError(f"{type(self).__name__} must define config")

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.config


class OfIds(FeatureColumn, EarlierCategoricalColumn):
    """A column of any number of ids for each example; the weights of a linear model's ids are
    combined by `combiner`."""

    combiner: str

    @property
    def length(self) -> int:
        """One more than the largest id."""
        raise NotImplementedError(f"{type(self).__name__} must define length")

    @property
    def _num_buckets(self) -> int:
        return self.length

    def _get_sparse_tensors(self, inputs: Features, weight_collections: Any = None,
                            trainable: bool | None = None) -> Ids:
        return Ids(inputs.get(self))


class OfColumn(FeatureColumn):
    """A column made of the ids of another one, `sparse_id_column`."""

    sparse_id_column: Any

    @property
    def length(self) -> int:
        """One more than the largest id."""
        return self.sparse_id_column.length

    @property
    def config(self) -> dict[str, Any]:
        """The parsing configuration of the ids."""
        return self.sparse_id_column.config


class _Lookup(NamedTuple):
    vocabulary_file: str | None
    keys: tuple | None
    num_oov_buckets: int
    vocab_size: int
    default_value: int


class _SparseFields(NamedTuple):
    column_name: str
    is_integerized: bool
    bucket_size: int | None
    lookup_config: _Lookup | None
    combiner: str
    dtype: DType


class SparseColumn(OfIds, _SparseFields):
    """Ids made of a feature of strings or integers."""

    hash_keys: list | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its feature."""
        return self.column_name

    @property
    def length(self) -> int:
        """One more than the largest id."""
        if self.bucket_size is not None:
            return self.bucket_size
        assert self.lookup_config is not None
        return self.lookup_config.vocab_size + self.lookup_config.num_oov_buckets

    @property
    def config(self) -> dict[str, Any]:
        """The parsing configuration: any number of values for the feature."""
        return {self.column_name: VarLenFeature(self.dtype)}


def _sparse(kind: type, name: str, combiner: str, dtype: Any, size: int | None = None,
            lookup: _Lookup | None = None, integers: bool = False) -> Any:
    dtype = dtypes.as_dtype(dtype)
    if integers and not dtype.is_integer:
        raise ValueError(f"dtype must be an integer if is_integerized is True. dtype: {dtype}, "
                         f"column_name: {name}.")
    if dtype is not dtypes.string and not dtype.is_integer:
        raise ValueError(f"dtype must be string or integer. dtype: {dtype}, column_name: {name}")
    if size is None and lookup is None:
        raise ValueError(f"one of bucket_size or lookup_config must be set. column_name: {name}")
    if size is not None and size < 1:
        raise ValueError(f"bucket_size must be at least 1. bucket_size: {size}, column_name: "
                         f"{name}")
    return kind(name, integers, size, lookup, combiner, dtype)


class _SparseColumnIntegerized(SparseColumn):
    def _transform_feature(self, inputs: Features) -> Any:
        given = inputs.sparse(self.column_name)
        return SparseTensor(given.indices, given.values % np.array(
            self.bucket_size, given.values.dtype.np), given.dense_shape)


class _SparseColumnHashed(SparseColumn):
    def _transform_feature(self, inputs: Features) -> Any:
        if not self.hash_keys:
            return HashedCategoricalColumn(self.column_name, self.bucket_size,
                                           self.dtype).transform_feature(inputs, None)
        given = inputs.sparse(self.column_name)
        words = as_string(given.values) if self.dtype.is_integer else given.values
        return sparse_concat(1, [SparseTensor(
            given.indices, string_to_hash_bucket_strong(words, self.length, key),
            given.dense_shape) for key in self.hash_keys])


class _SparseColumnKeys(SparseColumn):
    def _transform_feature(self, inputs: Features) -> Any:
        assert self.lookup_config is not None
        return VocabularyListCategoricalColumn(
            self.column_name, self.lookup_config.keys, self.dtype,
            self.lookup_config.default_value, 0).transform_feature(inputs, None)


class _SparseColumnVocabulary(SparseColumn):
    def _transform_feature(self, inputs: Features) -> Any:
        lookup = self.lookup_config
        assert lookup is not None
        return VocabularyFileCategoricalColumn(
            self.column_name, lookup.vocabulary_file, lookup.vocab_size, lookup.num_oov_buckets,
            self.dtype, lookup.default_value).transform_feature(inputs, None)


def sparse_column_with_integerized_feature(column_name: str, bucket_size: int,
                                           combiner: str = "sum",
                                           dtype: Any = dtypes.int64) -> Any:
    """Ids that are the integers themselves, modulo `bucket_size`.

    `combiner` ("sum", "mean" or "sqrtn") is that of an example's ids in linear models. Raises
    ``ValueError`` for no buckets, or another `dtype`.
    """
    if bucket_size is None:
        raise ValueError("bucket_size must be set if is_integerized is True. column_name: "
                         f"{column_name}")
    return _sparse(_SparseColumnIntegerized, column_name, combiner, dtype, bucket_size,
                   integers=True)


def sparse_column_with_hash_bucket(column_name: str, hash_bucket_size: int, combiner: str = "sum",
                                   dtype: Any = dtypes.string,
                                   hash_keys: list | None = None) -> Any:
    """Ids that are hashes, below `hash_bucket_size`, of strings or integers.

    With `hash_keys`, pairs of integers, each value has an id by each key. Others as of
    :func:`sparse_column_with_integerized_feature`.
    """
    if hash_keys is not None:
        if not isinstance(hash_keys, list) or not hash_keys:
            raise ValueError("hash_keys must be a non-empty list.")
        if any(not isinstance(pair, list) or len(pair) != 2
               or not all(isinstance(k, int) for k in pair) for pair in hash_keys):
            raise ValueError("Each element of hash_keys must be a pair of integers.")
    column = _sparse(_SparseColumnHashed, column_name, combiner, dtype, hash_bucket_size)
    column.hash_keys = hash_keys
    return column


def sparse_column_with_keys(column_name: str, keys: Iterable, default_value: int = -1,
                            combiner: str = "sum", dtype: Any = dtypes.string) -> Any:
    """Ids that are positions among `keys`; `default_value` is that of others, -1 for none."""
    keys = tuple(keys)
    return _sparse(_SparseColumnKeys, column_name, combiner, dtype,
                   lookup=_Lookup(None, keys, 0, len(keys), default_value))


def sparse_column_with_vocabulary_file(column_name: str, vocabulary_file: str,
                                       num_oov_buckets: int = 0, vocab_size: int | None = None,
                                       default_value: int = -1, combiner: str = "sum",
                                       dtype: Any = dtypes.string) -> Any:
    """Ids that are numbers of lines in a file, of which `vocab_size` count.

    Other values have `num_oov_buckets` more ids, by their hashes, or the default one. Raises
    ``ValueError`` without `vocab_size`.
    """
    if vocab_size is None:
        raise ValueError(f"vocab_size should be defined. column_name: {column_name}")
    return _sparse(_SparseColumnVocabulary, column_name, combiner, dtype, lookup=_Lookup(
        vocabulary_file, None, num_oov_buckets, vocab_size, default_value))


class _WeightedFields(NamedTuple):
    sparse_id_column: Any
    weight_column_name: str
    dtype: DType


class _WeightedSparseColumn(OfColumn, OfIds, _WeightedFields):
    """The ids of another column, with weights."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.sparse_id_column.name}_weighted_by_{self.weight_column_name}"

    @property
    def combiner(self) -> str:  # type: ignore[override]
        return self.sparse_id_column.combiner

    @property
    def config(self) -> dict[str, Any]:
        return {**self.sparse_id_column.config, self.weight_column_name: VarLenFeature(self.dtype)}

    def _transform_feature(self, inputs: Features) -> Any:
        weights = inputs.sparse(self.weight_column_name, 0)
        if not self.dtype.is_floating:
            weights = SparseTensor(weights.indices, to_float(weights.values), weights.dense_shape)
        return Ids(inputs.get(self.sparse_id_column), weights)

    def _get_sparse_tensors(self, inputs: Features, weight_collections: Any = None,
                            trainable: bool | None = None) -> Ids:
        return inputs.get(self)


def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str,
                           dtype: Any = dtypes.float32) -> Any:
    """The ids of another column with the weights of a feature, as many for each example.

    Raises ``ValueError`` for a `dtype` that is no number.
    """
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype is not convertible to float. Given {dtype}")
    return _WeightedSparseColumn(sparse_id_column, weight_column_name, dtype)
