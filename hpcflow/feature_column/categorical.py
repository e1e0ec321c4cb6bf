"""Columns of ids: by a hash, a vocabulary, the number itself, weighted, crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.lookup import index_table_from_file, index_table_from_tensor
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column.column import (
    OF_IDS,
    CategoricalColumn,
    Ids,
    buckets_of,
    check_is,
    check_key,
    ids_of,
    spec_of,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.own import OwnIds
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import Nest
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.constants import fill
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.indexing import where
from hpcflow.ops.arrays.shape_ops import shape
from hpcflow.ops.flow.checks import assert_greater_equal, assert_less
from hpcflow.ops.io.example_features import VarLenFeature
from hpcflow.ops.math.comparison import greater_equal, less, logical_and
from hpcflow.ops.sparse.sparse_cross import sparse_cross_hashed
from hpcflow.ops.strings.strings import as_string, string_to_hash_bucket_fast

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


def _changed(ids: SparseTensor, values: Tensor) -> SparseTensor:
    return SparseTensor(ids.indices, values, ids.dense_shape)


def _check_key_type(dtype: DTypeLike, what: str) -> dtypes.DType:
    kind = dtypes.as_dtype(dtype)
    if kind is not dtypes.string and not kind.is_integer:
        raise ValueError(f"dtype must be string or integer. dtype: {kind.name}, {what}")
    return kind


class _KeyColumn(OwnIds):
    """Ids made of one feature, `key`, of strings or integers, `dtype`."""

    key: str
    dtype: dtypes.DType
    _mismatch = "Column dtype and SparseTensors dtype must be compatible"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration: any number of values for the feature."""
        return {self.key: VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the ids of the feature's values."""
        given = transformation_cache.sparse(self.key)
        kind = given.values.dtype.base_dtype
        _check_key_type(kind, f"column_name: {self.key}")
        if (kind is dtypes.string) != (self.dtype is dtypes.string):
            raise ValueError(f"{self._mismatch}. key: {self.key}, column dtype: "
                             f"{self.dtype.name}, tensor dtype: {kind.name}")
        return _changed(given, self._ids_of(given.values))

    def _ids_of(self, values: Nest) -> Any:
        raise NotImplementedError


class HashedCategoricalColumn(_KeyColumn):
    """Ids that are hashes."""

    hash_bucket_size: int
    _fields = ("key", "hash_bucket_size", "dtype")

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        return self.hash_bucket_size

    def _ids_of(self, values: Any) -> Any:
        text = values if self.dtype is dtypes.string else as_string(values)
        return string_to_hash_bucket_fast(text, self.hash_bucket_size, name="lookup")


class VocabularyListCategoricalColumn(_KeyColumn):
    """Ids that are positions in a list."""

    vocabulary_list: tuple
    default_value: int
    num_oov_buckets: int
    _fields = ("key", "vocabulary_list", "dtype", "default_value", "num_oov_buckets")

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _ids_of(self, values: Any) -> Any:
        if self.dtype is not dtypes.string:
            values = cast(values, dtypes.int64)
        kind = dtypes.string if self.dtype is dtypes.string else dtypes.int64
        table = index_table_from_tensor(
            convert_to_tensor(list(self.vocabulary_list), kind), self.num_oov_buckets,
            self.default_value, name=f"{self.key}_lookup")
        return table.lookup(values)


class VocabularyFileCategoricalColumn(_KeyColumn):
    """Ids that are numbers of lines in a file."""

    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    default_value: int
    _fields = ("key", "vocabulary_file", "vocabulary_size", "num_oov_buckets", "dtype",
               "default_value")

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        return self.vocabulary_size + self.num_oov_buckets

    def _ids_of(self, values: Any) -> Any:
        kind = self.dtype
        if kind is not dtypes.string:
            values, kind = cast(values, dtypes.int64), dtypes.int64
        table = index_table_from_file(
            self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size, self.default_value,
            key_dtype=kind, name=f"{self.key}_lookup")
        return table.lookup(values)


class IdentityCategoricalColumn(_KeyColumn):
    """Ids that are the integers themselves."""

    number_buckets: int
    default_value: int | None
    dtype = dtypes.int64
    _mismatch = "Invalid input, not integer"
    _fields = ("key", "number_buckets", "default_value")

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        return self.number_buckets

    def _ids_of(self, values: Any) -> Any:
        values = cast(values, dtypes.int64)
        count = convert_to_tensor(self.number_buckets, dtypes.int64)
        zero = convert_to_tensor(0, dtypes.int64)
        if self.default_value is not None:
            inside = logical_and(greater_equal(values, zero), less(values, count))
            other = fill(shape(values), convert_to_tensor(self.default_value, dtypes.int64))
            return where(inside, values, other)
        with control_dependencies([
                assert_less(values, count, name="assert_less_than_num_buckets", data=(
                    f'Bucket index for categorical column "{self.key}" exceeds number of buckets',
                    values, count)),
                assert_greater_equal(values, zero, name="assert_greater_or_equal_0", data=(
                    f'Negative bucket index for categorical column "{self.key}"', values))]):
            return identity(values)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int,
                                        dtype: DTypeLike = dtypes.string) -> CategoricalColumn:
    """Ids that are hashes, below `hash_bucket_size`, of strings or integers.

    Raises ``ValueError`` for no buckets, or another `dtype`.
    """
    check_key(key)
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError("hash_bucket_size must be at least 1. hash_bucket_size: "
                         f"{hash_bucket_size}, key: {key}")
    return HashedCategoricalColumn(
        key=key, hash_bucket_size=hash_bucket_size,
        dtype=_check_key_type(dtype, f"column_name: {key}"))


def categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence[Any],
                                            dtype: DTypeLike | None = None, default_value: int = -1,
                                            num_oov_buckets: int = 0) -> CategoricalColumn:
    """Ids that are positions in a list of strings or integers.

    Args:
        key: the feature.
        vocabulary_list: the values.
        dtype: of the feature; by default that of the list.
        default_value: the id of other values.
        num_oov_buckets: other values have as many more ids, by their hashes, instead.

    Raises ``ValueError`` for a list that is empty or has duplicates, other types, or both a
    default and buckets.
    """
    check_key(key)
    values = () if vocabulary_list is None else tuple(np.asarray(vocabulary_list).tolist())
    if not values:
        raise ValueError(f"vocabulary_list {vocabulary_list!r} must be non-empty, column_name: "
                         f"{key}")
    if len(set(values)) != len(values):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list!r}, column_name: "
                         f"{key}")
    _check_default(key, default_value, -1, num_oov_buckets)
    found = dtypes.string if isinstance(values[0], (str, bytes)) else dtypes.int64
    if found is dtypes.int64 and not all(isinstance(v, int) for v in values):
        raise ValueError("vocabulary dtype must be string or integer, column_name: "
                         f"{key}. Given: {vocabulary_list!r}")
    kind = _check_key_type(dtype or found, f"column_name: {key} vocabulary")
    if (kind is dtypes.string) != (found is dtypes.string):
        raise ValueError(f"dtype {kind.name} and vocabulary dtype {found.name} do not match, "
                         f"column_name: {key}")
    return VocabularyListCategoricalColumn(
        key=key, vocabulary_list=values, dtype=kind, default_value=default_value,
        num_oov_buckets=num_oov_buckets)


def categorical_column_with_vocabulary_file(
        key: str, vocabulary_file: str, vocabulary_size: int | None = None,
        num_oov_buckets: int = 0, default_value: int | None = None,
        dtype: DTypeLike = dtypes.string) -> CategoricalColumn:
    """Ids that are numbers of lines in a file; arguments as of the column of a list.

    `vocabulary_size` lines count, all by default. Raises ``ValueError`` for no file or size, or
    both a default and buckets.
    """
    check_key(key)
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    _check_default(key, default_value, None, num_oov_buckets)
    if vocabulary_size is None:
        from hpcflow.platform import gfile

        with gfile.GFile(vocabulary_file) as lines:
            vocabulary_size = sum(1 for _ in lines)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    return VocabularyFileCategoricalColumn(
        key=key, vocabulary_file=vocabulary_file, vocabulary_size=vocabulary_size,
        num_oov_buckets=num_oov_buckets,
        default_value=-1 if default_value is None else default_value,
        dtype=_check_key_type(dtype, f"column_name: {key}"))


def same_kind(columns: Sequence[CategoricalColumn]) -> None:
    """Raise ``ValueError`` unless columns that share embeddings make ids in the same way."""
    kinds = [type(c.categorical_column if isinstance(c, WeightedCategoricalColumn) else c).__name__
             for c in columns]
    for column, kind in zip(columns, kinds):
        if kind != kinds[0]:
            raise ValueError("To use shared_embedding_column, all categorical_columns must have "
                             "the same type, or be weighted_categorical_column of the same type. "
                             f"Given column: {columns[0]} of type: {kinds[0]} does not match given "
                             f"column: {column} of type: {kind}")


def _check_default(key: str, default: int | None, none: int | None, buckets: int) -> None:
    if buckets and default != none:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {buckets} in {key}.")


def categorical_column_with_identity(key: str, num_buckets: int,
                                     default_value: int | None = None) -> CategoricalColumn:
    """Ids that are the integers themselves, below `num_buckets`.

    Others become `default_value`, or are an ``InvalidArgumentError`` in the step. Raises
    ``ValueError`` for no buckets, or a default that is no id.
    """
    check_key(key)
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), "
                         f"column_name {key}")
    return IdentityCategoricalColumn(
        key=key, number_buckets=num_buckets, default_value=default_value)


class WeightedCategoricalColumn(OwnIds):
    """The ids of another column, with weights."""

    categorical_column: Any
    weight_feature_key: str
    dtype: dtypes.DType
    _fields = ("categorical_column", "weight_feature_key", "dtype")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The names of the column and of the weights."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def num_buckets(self) -> int:
        """As the column of the ids."""
        return buckets_of(self.categorical_column)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the ids, and that of the weights."""
        spec, key = spec_of(self.categorical_column), self.weight_feature_key
        if key in spec:
            raise ValueError(f"Parse config {spec[key]} already exists for {key}.")
        return {**spec, key: VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Ids:
        """Return the ids and their weights."""
        # A weight of 0 stands for none.
        weights = transformation_cache.sparse(self.weight_feature_key, 0)
        kind = weights.values.dtype.base_dtype
        if not (kind.is_integer or kind.is_floating):
            raise ValueError(f"Bad dtype of the weights {self.weight_feature_key}: {kind.name} is "
                             "not convertible to float")
        if kind is not dtypes.float32:
            weights = _changed(weights, cast(weights.values, dtypes.float32))
        ids = ids_of(self.categorical_column, transformation_cache, state_manager)
        return Ids(ids.id_tensor, weights)

    def get_sparse_tensors(self, transformation_cache: Features, state_manager: Any) -> Ids:
        """Return the ids and their weights."""
        return transformation_cache.get(self, state_manager)


def weighted_categorical_column(categorical_column: CategoricalColumn, weight_feature_key: str,
                                dtype: DTypeLike = dtypes.float32) -> CategoricalColumn:
    """The ids of another column with the weights of a feature, as many for each example.

    Raises ``ValueError`` for a `dtype` that is no number.
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {kind and kind.name} is not convertible to float.")
    return WeightedCategoricalColumn(
        categorical_column=categorical_column, weight_feature_key=weight_feature_key, dtype=kind)


class CrossedColumn(OwnIds):
    """Ids that are hashes of combinations."""

    keys: tuple
    hash_bucket_size: int
    hash_key: int | None
    _fields = ("keys", "hash_bucket_size", "hash_key")

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        return self.hash_bucket_size

    @property
    def name(self) -> str:  # type: ignore[override]
        """The names of what is crossed."""
        return "_X_".join(sorted(k if isinstance(k, str) else k.name for k in self._leaves()))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configurations of what is crossed."""
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: VarLenFeature(dtypes.string)} if isinstance(key, str)
                        else spec_of(key))
        return spec

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the ids."""
        parts: list[Any] = []
        for key in self._leaves():
            if isinstance(key, str):
                parts.append(transformation_cache.raw(key))
                continue
            ids, weights = ids_of(key, transformation_cache, state_manager)
            if weights is not None:
                raise ValueError("crossed_column does not support weight_tensor, but the given "
                                 f"column populates weight_tensor. Given column: {key.name}")
            parts.append(ids)
        return sparse_cross_hashed(parts, self.hash_bucket_size, self.hash_key)

    def _leaves(self) -> list:
        """Return the keys to cross; a crossed column among them is replaced by its own keys."""
        found: list[Any] = []
        for key in self.keys:
            found.extend(key._leaves() if isinstance(key, CrossedColumn) else [key])
        return found


def crossed_column(keys: Sequence[Any], hash_bucket_size: int,
                   hash_key: int | None = None) -> CategoricalColumn:
    """Ids that are hashes of all combinations of the values of features.

    Args:
        keys: two or more features, or columns of ids, but none by hashes: name their feature.
        hash_bucket_size: the ids are below it.
        hash_key: what the hashes begin with.

    Raises ``ValueError`` for anything else.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not isinstance(keys, (list, tuple)) or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str):
            check_is(OF_IDS, key, "Unsupported key type. All keys must be either "
                     "string, or categorical column")
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError("categorical_column_with_hash_bucket is not supported for crossing. "
                             f"Hashing before crossing will increase probability of collision. "
                             f"Instead, use the feature name as a string. Given: {key}")
    return CrossedColumn(
        keys=tuple(keys), hash_bucket_size=hash_bucket_size, hash_key=hash_key)
