"""Ids for keys that a table does not have, chosen by hashing the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes as dtypes_lib
from hpcflow.contrib.lookup.constant import HashTable
from hpcflow.contrib.lookup.interface import KeyValueTypes, LookupInterface
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse


class HasherSpec(NamedTuple):
    """A hash function for keys without an entry: its name, and its key if it is a keyed one."""

    hasher: str
    key: tuple[int, int] | None


FastHashSpec = HasherSpec("fasthash", None)


def StrongHashSpec(key: Sequence[int]) -> HasherSpec:
    """The specification of a keyed hash function; `key` is a pair of integers. Raises
    ``ValueError`` for another number of them, ``TypeError`` unless they are integers."""
    if len(key) != 2:
        raise ValueError(f"key must have size 2, got {key!r}")
    if not all(isinstance(k, (int, np.integer)) for k in key):
        raise TypeError(f"Invalid key {key!r}. Must be unsigned integer values.")
    return HasherSpec("stronghash", (int(key[0]), int(key[1])))


class IdTableWithHashBuckets(KeyValueTypes):
    """A table of ids that gives each missing key one of `num_oov_buckets` further ids, chosen by a
    hash of the key.

    Args:
        table: a table with int64 values, or None: all keys are hashed.
        num_oov_buckets: the number of ids for keys that the table does not have.
        hasher_spec: :data:`FastHashSpec`, or what :func:`StrongHashSpec` returns.
        name: begins the names of the ops.
        key_dtype: type of the keys: strings, or integers.

    Raises ``ValueError`` without a table and buckets, ``TypeError`` for keys or values of other
    types.
    """

    def __init__(self, table: LookupInterface | None, num_oov_buckets: int,
                 hasher_spec: HasherSpec = FastHashSpec, name: str | None = None,
                 key_dtype: DTypeLike | None = None) -> None:
        if table is None and num_oov_buckets <= 0:
            raise ValueError("If the table is None, num_oov_buckets must be greater than 0.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec!r}")
        if table is not None and table.value_dtype is not dtypes_lib.int64:
            raise TypeError(f"The values of the table must be int64, got {table.value_dtype.name}")
        default = dtypes_lib.string if table is None else table.key_dtype
        super().__init__(key_dtype or default, dtypes_lib.int64)
        if not (self._key_dtype is dtypes_lib.string or self._key_dtype.is_integer):
            raise TypeError("Invalid key_dtype, expected one of integer or string, got "
                            f"{self._key_dtype.name}")
        self._table = table
        self._buckets = num_oov_buckets
        self._hasher = hasher_spec
        self._name = name.split("/")[-2] if name and name.endswith("/") else name or "hash_bucket"

    @property
    def name(self) -> str:
        """The prefix of the names of the ops."""
        return self._name

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table; None without one."""
        return None if self._table is None else self._table.table_ref

    @property
    def init(self) -> Operation:
        """The op that fills the table."""
        table: Any = self._table
        return raw_ops.NoOp() if table is None else table.init

    initializer = init

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of ids, int64."""
        with name_scope(name, f"{self._name}_Size"):
            buckets = convert_to_tensor(self._buckets, dtypes_lib.int64)
            return buckets if self._table is None else raw_ops.Add(self._table.size(), buckets)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the ids of `keys`, a tensor or a sparse tensor, int64.

        Raises ``TypeError`` for keys of another type.
        """
        if is_sparse(keys):
            keys = to_sparse(keys)
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        with name_scope(name, f"{self._name}_Lookup"):
            keys = convert_to_tensor(keys)
            if keys.dtype.base_dtype is not self._key_dtype:
                raise TypeError(f"Signature mismatch. Keys must be dtype {self._key_dtype.name}, "
                                f"got {keys.dtype.base_dtype.name}.")
            if self._table is None:
                return self._hashed(keys)
            if self._table.key_dtype is dtypes_lib.int64:
                keys = raw_ops.Cast(keys, DstT=dtypes_lib.int64)
            ids = self._table.lookup(keys)
            if not self._buckets:
                return ids
            known = raw_ops.NotEqual(ids, self._table.default_value)
            hashed = raw_ops.Add(self._hashed(keys), self._table.size())
            return raw_ops.Select(condition=known, t=ids, e=hashed)

    def _hashed(self, keys: Tensor) -> Tensor:
        text = keys if keys.dtype.base_dtype is dtypes_lib.string else raw_ops.AsString(keys)
        if self._hasher.hasher == "fasthash":
            return raw_ops.StringToHashBucketFast(text, num_buckets=self._buckets,
                                                  name="hash_bucket")
        if self._hasher.hasher != "stronghash":
            raise ValueError(f"Unknown hasher {self._hasher.hasher!r}")
        return raw_ops.StringToHashBucketStrong(text, num_buckets=self._buckets,
                                                key=list(self._hasher.key or ()),
                                                name="hash_bucket")


class StaticVocabularyTable(IdTableWithHashBuckets):
    """A table from words to ids, which `initializer` fills once, with buckets for other words.

    Args:
        initializer: fills the table, with int64 values; None: all words are hashed.
        num_oov_buckets: the number of ids for words that the table does not have.
        lookup_key_dtype: type of the words; that of the initializer's keys if None.
        name: begins the names of the ops.

    Raises ``ValueError`` without buckets, ``TypeError`` for keys or values of other types.
    """

    def __init__(self, initializer: Any, num_oov_buckets: int,
                 lookup_key_dtype: DTypeLike | None = None, name: str | None = None) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(f"num_oov_buckets must be greater than 0, got {num_oov_buckets}.")
        table = None if initializer is None else HashTable(initializer, -1)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


StaticVocabularyTableV1 = StaticVocabularyTable
