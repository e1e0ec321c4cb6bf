"""Lookup tables: constant ones with their initializers, and ones that change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, colocate_with, get_default_graph, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.other_names import also_called
from hpcflow.shapes import as_shape
from hpcflow.train.saveable import SaveableObject, SaveSpec

__all__ = [
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "MutableDenseHashTable",
    "MutableHashTable",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]


class LookupInterface:
    """What all tables share: a handle, the dtypes, ``size`` and ``lookup``."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, table_ref: Tensor,
                 value_shape: Any = ()) -> None:
        self._key_dtype = dtypes_lib.as_dtype(key_dtype)
        self._value_dtype = dtypes_lib.as_dtype(value_dtype)
        self._table_ref = table_ref
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        self._default_value.get_shape().assert_is_compatible_with(as_shape(value_shape))
        self._name = table_ref.op.name.split("/")[-1]

    @property
    def table_ref(self) -> Tensor:
        """The handle of the table."""
        return self._table_ref

    @property
    def name(self) -> str:
        """The last part of the name of the table's op."""
        return self._name

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._value_dtype

    @property
    def default_value(self) -> Tensor:
        """The value of keys that the table does not have."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys, int64."""
        return self._op("LookupTableSize", name or f"{self._name}_Size")

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the values of `keys`, the default where the table has none.

        Of a sparse tensor's keys the values at the same places are returned, sparse too.
        Raises ``TypeError`` for keys of another type, when run ``FailedPreconditionError`` if the
        table is to be initialized first.
        """
        if is_sparse(keys):
            keys = to_sparse(keys)
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        keys = self._checked(keys, self._key_dtype, "keys")
        return self._op("LookupTableFind", name or f"{self._name}_Lookup", keys=keys,
                        default_value=self._default_value)

    def _checked(self, value: Any, dtype: DType, what: str) -> Tensor:
        if isinstance(value, Tensor) and value.dtype.base_dtype != dtype:
            raise TypeError(f"Signature mismatch: the {what} of table '{self._name}' must be "
                            f"{dtype.name}, got {value.dtype.name}")
        return convert_to_tensor(value, dtype)

    def _op(self, op_type: str, name: str, **keywords: Any) -> Any:
        version = "V2" if self._table_ref.dtype is dtypes_lib.resource else ""
        with get_default_graph().colocate_with(self._table_ref.op):
            return getattr(raw_ops, op_type + version)(table_handle=self._table_ref, name=name,
                                                       **keywords)


# ---------------------------------------------------------------- constant tables


class HashTable(LookupInterface):
    """A table that `initializer` fills, once; run ``hf.tables_initializer()``.

    Args:
        initializer: one of this module's initializers.
        default_value: value of keys that the table does not have.
        shared_name: share the table under this name between sessions.
        name: name of the op.
    """

    def __init__(self, initializer: Any, default_value: Any, shared_name: str | None = None,
                 name: str | None = None) -> None:
        with name_scope(name, "hash_table") as scope:
            handle = raw_ops.HashTable(
                key_dtype=initializer.key_dtype, value_dtype=initializer.value_dtype,
                shared_name=shared_name or "", name=scope,
                container=get_default_graph()._container)
            super().__init__(initializer.key_dtype, initializer.value_dtype, default_value, handle)
            self._init = initializer.initialize(self)

    @property
    def init(self) -> Operation:
        """The op that fills the table."""
        return self._init

    @property
    def initializer(self) -> Operation:
        """The op that fills the table."""
        return self._init


StaticHashTable = StaticHashTableV1 = HashTable  # what later releases call it


class KeyValueTensorInitializer:
    """Fills a table from a vector of keys and one of values."""

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None,
                 name: str | None = None) -> None:
        with name_scope(name, "key_value_init") as scope:
            self._keys = convert_to_tensor(keys, key_dtype, "keys")
            self._values = convert_to_tensor(values, value_dtype, "values")
            self._name = scope

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._keys.dtype.base_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._values.dtype.base_dtype

    def initialize(self, table: LookupInterface) -> Operation:
        """Return the op that fills `table`, added to the graph's table initializers."""
        with name_scope(self._name), colocate_with(table.table_ref.op):
            op = raw_ops.InitializeTable(table_handle=table.table_ref, keys=self._keys,
                                         values=self._values)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


class TextFileIndex:
    """What of a line is a key or value, besides the number of a column."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer:
    """Fills a table from the lines of a text file.

    Args:
        filename: the file, read by the task that holds the table.
        key_dtype, value_dtype: dtypes of the table.
        key_index, value_index: the column of the keys and of the values, or a member of
            :class:`TextFileIndex`: the whole line (a string), or its number (an int64).
        vocab_size: number of lines to read; all if None.
        delimiter: what separates columns.
        name: name scope of the op.

    Raises ``ValueError`` for an index and a dtype that do not go together.
    """

    def __init__(self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any,
                 value_index: int, vocab_size: int | None = None, delimiter: str = "\t",
                 name: str | None = None) -> None:
        self._key_dtype = dtypes_lib.as_dtype(key_dtype)
        self._value_dtype = dtypes_lib.as_dtype(value_dtype)
        for what, dtype, index in (("key", self._key_dtype, key_index),
                                   ("value", self._value_dtype, value_index)):
            _check_column(what, dtype, index)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename = filename
        self._columns = (key_index, value_index)
        self._vocab_size = -1 if vocab_size is None else vocab_size
        self._delimiter = delimiter
        self._name = name

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._value_dtype

    def initialize(self, table: LookupInterface) -> Operation:
        """Return the op that fills `table`, added to the graph's table initializers."""
        with name_scope(self._name, "text_file_init"), colocate_with(table.table_ref.op):
            filename = convert_to_tensor(self._filename, dtypes_lib.string, "asset_filepath")
            op = raw_ops.InitializeTableFromTextFile(
                table_handle=table.table_ref, filename=filename, key_index=self._columns[0],
                value_index=self._columns[1], vocab_size=self._vocab_size,
                delimiter=self._delimiter)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return op


def _check_column(what: str, dtype: DType, index: int) -> None:
    if index < -2:
        raise ValueError(f"Invalid {what} index {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes_lib.int64:
        raise ValueError(f"Signature mismatch. The {what} dtype of line numbers must be int64, got "
                         f"{dtype.name}.")
    if index == TextFileIndex.WHOLE_LINE and dtype is not dtypes_lib.string:
        raise ValueError(f"Signature mismatch. The {what} dtype of whole lines must be string, got "
                         f"{dtype.name}.")


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines (or columns) of a text file."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
                 value_column_index: int = TextFileIndex.WHOLE_LINE,
                 vocab_size: int | None = None, delimiter: str = "\t",
                 name: str = "text_file_string_table_init") -> None:
        super().__init__(filename, dtypes_lib.int64, key_column_index, dtypes_lib.string,
                         value_column_index, vocab_size, delimiter, name)


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines (or columns) of a text file to line numbers."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
                 value_column_index: int = TextFileIndex.LINE_NUMBER,
                 vocab_size: int | None = None, delimiter: str = "\t",
                 name: str = "text_file_id_table_init", key_dtype: Any = dtypes_lib.string) -> None:
        super().__init__(filename, key_dtype, key_column_index, dtypes_lib.int64,
                         value_column_index, vocab_size, delimiter, name)


# ---------------------------------------------------------------- ids from hashes


class HasherSpec(NamedTuple):
    """How keys without an entry are hashed: the name of a hash function, and its key."""

    hasher: str
    key: tuple[int, int] | None


FastHashSpec = HasherSpec("fasthash", None)


def StrongHashSpec(key: Sequence[int]) -> HasherSpec:
    """The keyed hash function with `key`, two numbers. Raises ``ValueError`` for another number of
    them, ``TypeError`` unless they are integers."""
    if len(key) != 2:
        raise ValueError(f"key must have size 2, got {key!r}")
    if not all(isinstance(k, (int, np.integer)) for k in key):
        raise TypeError(f"Invalid key {key!r}. Must be unsigned integer values.")
    return HasherSpec("stronghash", (int(key[0]), int(key[1])))


class IdTableWithHashBuckets:
    """The ids of a table, and for keys that it does not have one of `num_oov_buckets` more ids,
    chosen by a hash of the key.

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
                 key_dtype: Any = None) -> None:
        if table is None and num_oov_buckets <= 0:
            raise ValueError("If the table is None, num_oov_buckets must be greater than 0.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec!r}")
        if table is not None and table.value_dtype is not dtypes_lib.int64:
            raise TypeError(f"The values of the table must be int64, got {table.value_dtype.name}")
        default = dtypes_lib.string if table is None else table.key_dtype
        self._key_dtype = dtypes_lib.as_dtype(key_dtype or default)
        if not (self._key_dtype is dtypes_lib.string or self._key_dtype.is_integer):
            raise TypeError("Invalid key_dtype, expected one of integer or string, got "
                            f"{self._key_dtype.name}")
        self._table = table
        self._buckets = num_oov_buckets
        self._hasher = hasher_spec
        self._name = name.split("/")[-2] if name and name.endswith("/") else name or "hash_bucket"

    @property
    def name(self) -> str:
        """What the names of the ops begin with."""
        return self._name

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the ids, int64."""
        return dtypes_lib.int64

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
            return raw_ops.StringToHashBucketFast(text, num_buckets=self._buckets)
        if self._hasher.hasher != "stronghash":
            raise ValueError(f"Unknown hasher {self._hasher.hasher!r}")
        return raw_ops.StringToHashBucketStrong(text, num_buckets=self._buckets,
                                                key=list(self._hasher.key or ()))


def _with_buckets(table: HashTable, num_oov_buckets: int, hasher_spec: HasherSpec,
                  key_dtype: DType, name: str) -> Any:
    if not num_oov_buckets:
        return table
    return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, name, key_dtype)


def _check_buckets(num_oov_buckets: int) -> None:
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got "
                         f"{num_oov_buckets}.")


# ---------------------------------------------------------------- positions


@also_called(vocabulary_list="mapping")
def index_table_from_tensor(mapping: Any, num_oov_buckets: int = 0, default_value: int = -1,
                            hasher_spec: HasherSpec = FastHashSpec,
                            dtype: Any = dtypes_lib.string, name: str | None = None) -> Any:
    """Return a table from the elements of the vector `mapping` to their positions, int64.

    With `num_oov_buckets` other keys have as many more ids, by a hash; else the default. `dtype`
    is that of elements that are no tensor yet. Raises ``ValueError`` without a mapping, or for a
    negative number of buckets, ``TypeError`` for elements that are neither strings nor integers.
    """
    if mapping is None:
        raise ValueError("mapping must be specified.")
    _check_buckets(num_oov_buckets)
    with name_scope(name, "string_to_index") as scope:
        keys = _elements(mapping, dtypes_lib.as_dtype(dtype))
        key_dtype = keys.dtype.base_dtype
        if key_dtype is not dtypes_lib.string:
            if not key_dtype.is_integer:
                raise TypeError("Expected strings or integers, got values of dtype "
                                f"{key_dtype.name}")
            keys = raw_ops.Cast(keys, DstT=dtypes_lib.int64) if num_oov_buckets else keys
        table = HashTable(KeyValueTensorInitializer(keys, _positions(keys)), default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, key_dtype, scope)


def _elements(mapping: Any, dtype: DType) -> Tensor:
    """`mapping` as a tensor: of its own type if it has one, else of `dtype` if that holds it."""
    if hasattr(mapping, "dtype"):
        return convert_to_tensor(mapping)
    try:
        return convert_to_tensor(mapping, dtype)
    except TypeError:
        return convert_to_tensor(mapping)


@also_called(vocabulary_list="mapping")
def index_to_string_table_from_tensor(mapping: Any, default_value: str = "UNK",
                                      name: str | None = None) -> HashTable:
    """Return a table from positions, int64, to the strings of the vector `mapping`."""
    if mapping is None:
        raise ValueError("mapping must be specified.")
    values = convert_to_tensor(mapping, dtypes_lib.string)
    return HashTable(KeyValueTensorInitializer(_positions(values), values), default_value,
                     name=name)


def _positions(vector: Tensor) -> Tensor:
    count = raw_ops.Cast(raw_ops.Size(vector), DstT=dtypes_lib.int64)
    zero, one = (convert_to_tensor(i, dtypes_lib.int64) for i in (0, 1))
    return raw_ops.Range(zero, count, one)


def index_table_from_file(vocabulary_file: Any = None, num_oov_buckets: int = 0,
                          vocab_size: int | None = None, default_value: int = -1,
                          hasher_spec: HasherSpec = FastHashSpec,
                          key_dtype: Any = dtypes_lib.string, name: str | None = None) -> Any:
    """Return a table from the lines of a file to their numbers, int64.

    With `num_oov_buckets` other keys have as many more ids, by a hash; else the default. Raises
    ``ValueError`` without a file, for a negative number of buckets or an empty vocabulary,
    ``TypeError`` for keys that are neither strings nor integers.
    """
    _check_file(vocabulary_file, vocab_size)
    _check_buckets(num_oov_buckets)
    key_dtype = dtypes_lib.as_dtype(key_dtype)
    if key_dtype is not dtypes_lib.string and not key_dtype.is_integer:
        raise TypeError("Only integer and string keys are supported.")
    with name_scope(name, "string_to_index") as scope:
        stored = key_dtype if key_dtype is dtypes_lib.string else dtypes_lib.int64
        column = TextFileIndex.WHOLE_LINE if stored is dtypes_lib.string else 0
        table = HashTable(
            TextFileIdTableInitializer(vocabulary_file, vocab_size=vocab_size,
                                       key_column_index=column, key_dtype=stored),
            default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, key_dtype, scope)


def _check_file(vocabulary_file: Any, vocab_size: int | None) -> None:
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.")


def index_to_string_table_from_file(vocabulary_file: Any, vocab_size: int | None = None,
                                    default_value: str = "UNK",
                                    name: str | None = None) -> HashTable:
    """Return a table from line numbers, int64, to the lines of a file. Raises ``ValueError``
    without a file, or for an empty vocabulary."""
    _check_file(vocabulary_file, vocab_size)
    return HashTable(TextFileStringTableInitializer(vocabulary_file, vocab_size=vocab_size),
                     default_value, name=name)


# ---------------------------------------------------------------- tables that change


class _MutableTable(LookupInterface):
    """A table with ``insert`` and ``export``, which Savers save if it is a checkpoint's part."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, table_ref: Tensor,
                 value_shape: Any, checkpoint: bool) -> None:
        super().__init__(key_dtype, value_dtype, default_value, table_ref, value_shape)
        if checkpoint:
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, _TableSaveable(self))

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an op that adds keys, or gives those that exist new values."""
        keys = self._checked(keys, self._key_dtype, "keys")
        values = self._checked(values, self._value_dtype, "values")
        return self._op("LookupTableInsert", name or f"{self._name}_Insert", keys=keys,
                        values=values)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values in the same order."""
        keys, values = self._op("LookupTableExport", name or f"{self._name}_Export",
                                Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        return keys, values

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Return an op that forgets keys, as far as the table has them."""
        keys = self._checked(keys, self._key_dtype, "keys")
        return self._op("LookupTableRemove", name or f"{self._name}_Remove", keys=keys)

    def restored(self, keys: Tensor, values: Tensor) -> Operation:
        """Return an op that makes these keys and values the content of the table."""
        return self._op("LookupTableImport", f"{self._name}_Import", keys=keys, values=values)


class _TableSaveable(SaveableObject):
    """The keys and values of a table, as two tensors of a checkpoint."""

    def __init__(self, table: _MutableTable) -> None:
        self._table, name = table, table.table_ref.op.name
        keys, values = table.export()
        specs = [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")]
        super().__init__(table.table_ref.op, specs, name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list | None) -> Operation:
        """Return the operation that fills the table."""
        return self._table.restored(*restored_tensors)


class MutableHashTable(_MutableTable):
    """A table that steps change; it starts empty.

    Args:
        key_dtype, value_dtype: the types.
        default_value: value of keys that the table does not have; its shape is that of all values.
        shared_name: share the table under this name between sessions.
        name: name of the op.
        checkpoint: let Savers save the content by default.
    """

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any,
                 shared_name: str | None = None, name: str = "MutableHashTable",
                 checkpoint: bool = True) -> None:
        default = convert_to_tensor(default_value, dtypes_lib.as_dtype(value_dtype))
        shape = default.get_shape()
        common = {"key_dtype": key_dtype, "value_dtype": value_dtype, "name": name,
                  "shared_name": shared_name or "", "container": get_default_graph()._container}
        if shape.ndims == 0:
            handle = raw_ops.MutableHashTable(**common)
        else:
            handle = raw_ops.MutableHashTableOfTensors(value_shape=shape, **common)
        super().__init__(key_dtype, value_dtype, default, handle, shape, checkpoint)


class MutableDenseHashTable(_MutableTable):
    """A table that steps change, with a key, `empty_key`, that must not be used.

    Keys may be vectors, of the shape of `empty_key`. Args: `initial_num_buckets` (a power of two)
    is accepted for the 1.x API; `deleted_key`, another key that must not be used, is given where
    keys are to be removed; the others as of :class:`MutableHashTable`.
    """

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any,
                 initial_num_buckets: int | None = None, shared_name: str | None = None,
                 name: str = "MutableDenseHashTable", checkpoint: bool = True,
                 deleted_key: Any = None) -> None:
        default = convert_to_tensor(default_value, dtypes_lib.as_dtype(value_dtype))
        shape, key_dtype = default.get_shape(), dtypes_lib.as_dtype(key_dtype)
        common: dict[str, Any] = {
            "empty_key": convert_to_tensor(empty_key, key_dtype), "value_dtype": value_dtype,
            "value_shape": shape, "shared_name": shared_name or "", "name": name,
            "initial_num_buckets": initial_num_buckets or 131072,
            "container": get_default_graph()._container}
        if deleted_key is None:
            handle = raw_ops.MutableDenseHashTable(**common)
        else:
            handle = raw_ops.MutableDenseHashTableV2(
                deleted_key=convert_to_tensor(deleted_key, key_dtype), **common)
        super().__init__(key_dtype, value_dtype, default, handle, shape, checkpoint)
