"""Columns of ids: by a hash, a vocabulary, the number itself, weighted, crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.lookup import index_table_from_file, index_table_from_tensor
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Features,
    Ids,
    check_is,
    check_key,
)
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


class _KeyColumn(CategoricalColumn):
    """Ids made of one feature, `key`, of strings or integers, `dtype`."""

    key: str
    dtype: dtypes.DType

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its feature."""
        return self.key

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration: any number of values for the feature."""
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> SparseTensor:
        """Return the ids of the feature's values."""
        given = features.sparse(self.key)
        kind = given.values.dtype.base_dtype
        if (kind is dtypes.string) != (self.dtype is dtypes.string) or (
                kind is not dtypes.string and not kind.is_integer):
            raise ValueError(f"Column dtype and SparseTensors dtype must be compatible. key: "
                             f"{self.key}, column dtype: {self.dtype.name}, tensor dtype: "
                             f"{kind.name}")
        return _changed(given, self._ids_of(given.values))

    def _ids_of(self, values: Nest) -> Any:
        raise NotImplementedError


class _Hashed(_KeyColumn):
    def _ids_of(self, values: Any) -> Any:
        text = values if self.dtype is dtypes.string else as_string(values)
        return string_to_hash_bucket_fast(text, self.buckets, name="lookup")


class _Vocabulary(_KeyColumn):
    vocabulary: tuple
    default_value: int
    oov: int

    def _ids_of(self, values: Any) -> Any:
        if self.dtype is not dtypes.string:
            values = cast(values, dtypes.int64)
        kind = dtypes.string if self.dtype is dtypes.string else dtypes.int64
        table = index_table_from_tensor(
            convert_to_tensor(list(self.vocabulary), kind), self.oov, self.default_value,
            name=f"{self.key}_lookup")
        return table.lookup(values)


class _VocabularyFile(_KeyColumn):
    path: str
    size: int
    default_value: int
    oov: int

    def _ids_of(self, values: Any) -> Any:
        kind = self.dtype
        if kind is not dtypes.string:
            values, kind = cast(values, dtypes.int64), dtypes.int64
        table = index_table_from_file(
            self.path, self.oov, self.size, self.default_value, key_dtype=kind,
            name=f"{self.key}_lookup")
        return table.lookup(values)


class _Identity(_KeyColumn):
    default_value: int | None

    def _ids_of(self, values: Any) -> Any:
        values = cast(values, dtypes.int64)
        count = convert_to_tensor(self.buckets, dtypes.int64)
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
    return _Hashed(key=key, buckets=hash_bucket_size,
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
    kind = _check_key_type(dtype or found, f"column_name: {key} vocabulary")
    if (kind is dtypes.string) != (found is dtypes.string):
        raise ValueError(f"dtype {kind.name} and vocabulary dtype {found.name} do not match, "
                         f"column_name: {key}")
    return _Vocabulary(key=key, vocabulary=values, dtype=kind, default_value=default_value,
                       oov=num_oov_buckets, buckets=len(values) + num_oov_buckets)


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
    return _VocabularyFile(
        key=key, path=vocabulary_file, size=vocabulary_size, oov=num_oov_buckets,
        default_value=-1 if default_value is None else default_value,
        dtype=_check_key_type(dtype, f"column_name: {key}"),
        buckets=vocabulary_size + num_oov_buckets)


def same_kind(columns: Sequence[CategoricalColumn]) -> None:
    """Raise ``ValueError`` unless columns that share embeddings make ids in the same way."""
    kinds = [type(c.source if isinstance(c, _Weighted) else c).__name__ for c in columns]
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
    return _Identity(key=key, buckets=num_buckets, default_value=default_value,
                     dtype=dtypes.int64)


class _Weighted(CategoricalColumn):
    source: CategoricalColumn
    weight_key: str
    dtype: dtypes.DType

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source.name}_weighted_by_{self.weight_key}"

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        spec = self.source._parse_example_spec
        if self.weight_key in spec:
            raise ValueError(f"Parse config {spec[self.weight_key]} already exists for "
                             f"{self.weight_key}.")
        return {**spec, self.weight_key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> Ids:
        weights = features.sparse(self.weight_key, 0)  # a weight of 0 stands for none
        if weights.values.dtype.base_dtype is not dtypes.float32:
            weights = _changed(weights, cast(weights.values, dtypes.float32))
        return Ids(self.source.ids(features).id_tensor, weights)

    def ids(self, features: Features) -> Ids:
        return features.of(self)


def weighted_categorical_column(categorical_column: CategoricalColumn, weight_feature_key: str,
                                dtype: DTypeLike = dtypes.float32) -> CategoricalColumn:
    """The ids of another column with the weights of a feature, as many for each example.

    Raises ``ValueError`` for a `dtype` that is no number.
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {kind and kind.name} is not convertible to float.")
    return _Weighted(source=categorical_column, weight_key=weight_feature_key, dtype=kind,
                     buckets=categorical_column._num_buckets)


class _Crossed(CategoricalColumn):
    keys: tuple
    hash_key: int | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return "_X_".join(sorted(k if isinstance(k, str) else k.name for k in self._leaves()))

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: VarLenFeature(dtypes.string)} if isinstance(key, str)
                        else key._parse_example_spec)
        return spec

    def transform(self, features: Features) -> SparseTensor:
        parts: list[Any] = []
        for key in self._leaves():
            if isinstance(key, str):
                parts.append(features.raw(key))
                continue
            ids, weights = key.ids(features)
            if weights is not None:
                raise ValueError("crossed_column does not support weight_tensor, but the given "
                                 f"column populates weight_tensor. Given column: {key.name}")
            parts.append(ids)
        return sparse_cross_hashed(parts, self.buckets, self.hash_key)

    def _leaves(self) -> list:
        """Return the keys to cross; a crossed column among them is replaced by its own keys."""
        found: list[Any] = []
        for key in self.keys:
            found.extend(key._leaves() if isinstance(key, _Crossed) else [key])
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
            check_is(CategoricalColumn, key, "Unsupported key type. All keys must be either "
                     "string, or categorical column")
        if isinstance(key, _Hashed):
            raise ValueError("categorical_column_with_hash_bucket is not supported for crossing. "
                             f"Hashing before crossing will increase probability of collision. "
                             f"Instead, use the feature name as a string. Given: {key}")
    return _Crossed(keys=tuple(keys), buckets=hash_bucket_size, hash_key=hash_key)
