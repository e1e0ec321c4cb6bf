"""Tables between words and their positions in a vector or a file."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.base.keywords import also_called
from hpcflow.contrib.lookup.constant import (
    HashTable,
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from hpcflow.contrib.lookup.hashing import FastHashSpec, HasherSpec, IdTableWithHashBuckets
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value


def _with_buckets(table: HashTable, num_oov_buckets: int, hasher_spec: HasherSpec,
                  key_dtype: DType, name: str) -> Any:
    if not num_oov_buckets:
        return table
    return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, name, key_dtype)


def _check_buckets(num_oov_buckets: int) -> None:
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got "
                         f"{num_oov_buckets}.")


@also_called(vocabulary_list="mapping")
def index_table_from_tensor(mapping: TensorLike | None, num_oov_buckets: int = 0,
                            default_value: int = -1, hasher_spec: HasherSpec = FastHashSpec,
                            dtype: DTypeLike = dtypes_lib.string, name: str | None = None) -> Any:
    """Return a table from the elements of the vector `mapping` to their positions, int64.

    With `num_oov_buckets` other keys have as many more ids, by a hash; else the default. `dtype`
    is that of elements that are no tensor yet. Raises ``ValueError`` without a mapping, or for a
    negative number of buckets, ``TypeError`` for elements that are neither strings nor integers.
    """
    if mapping is None:
        raise ValueError("vocabulary_list must be specified: mapping must be specified.")
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


def _elements(mapping: TensorLike, dtype: DType) -> Tensor:
    """`mapping` as a tensor: of its own type if it has one, else of `dtype` if that holds it."""
    if hasattr(mapping, "dtype"):
        return convert_to_tensor(mapping)
    try:
        return convert_to_tensor(mapping, dtype)
    except TypeError:
        return convert_to_tensor(mapping)


@also_called(vocabulary_list="mapping")
def index_to_string_table_from_tensor(mapping: TensorLike, default_value: str = "UNK",
                                      name: str | None = None) -> HashTable:
    """Return a table from positions, int64, to the strings of the vector `mapping`."""
    if mapping is None:
        raise ValueError("vocabulary_list must be specified: mapping must be specified.")
    values = convert_to_tensor(mapping, dtypes_lib.string)
    return HashTable(KeyValueTensorInitializer(_positions(values), values), default_value,
                     name=name)


def index_to_string(tensor: TensorLike, mapping: TensorLike, default_value: str = "UNK",
                    name: str | None = None) -> Tensor:
    """Return the strings of the vector `mapping` at the positions in `tensor`.

    The table joins the collection TABLE_INITIALIZERS.
    """
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)


def string_to_index(tensor: TensorLike, mapping: TensorLike, default_value: int = -1,
                    name: str | None = None) -> Tensor:
    """Return the positions in the vector `mapping` of the strings in `tensor`: int64."""
    table = index_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)


def _positions(vector: Tensor) -> Tensor:
    count = raw_ops.Cast(raw_ops.Size(vector), DstT=dtypes_lib.int64)
    zero, one = (convert_to_tensor(i, dtypes_lib.int64) for i in (0, 1))
    return raw_ops.Range(zero, count, one)


def index_table_from_file(vocabulary_file: Any = None, num_oov_buckets: int = 0,
                          vocab_size: int | None = None, default_value: int = -1,
                          hasher_spec: HasherSpec = FastHashSpec,
                          key_dtype: DTypeLike = dtypes_lib.string, name: str | None = None,
                          key_column_index: int = TextFileIndex.WHOLE_LINE,
                          value_column_index: int = TextFileIndex.LINE_NUMBER,
                          delimiter: str = "\t") -> Any:
    """Return a table from the lines of a file to their numbers, int64.

    The columns, which `delimiter` separates, may be others: `key_column_index` tells that of the
    keys, `value_column_index` that of the values; see :class:`TextFileIndex`. With
    `num_oov_buckets` other keys have as many more ids, by a hash; else the default. Raises
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
        if key_column_index == TextFileIndex.WHOLE_LINE and stored is not dtypes_lib.string:
            key_column_index = 0
        table = HashTable(
            TextFileIdTableInitializer(vocabulary_file, key_column_index, value_column_index,
                                       vocab_size, delimiter, key_dtype=stored), default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, key_dtype, scope)


def _check_file(vocabulary_file: TensorLike, vocab_size: int | None) -> None:
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        file: Any = vocabulary_file
        if isinstance(file, Tensor):
            known: Any = constant_value(file)
            file = "?" if known is None else known.item().decode()
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}. vocabulary_file: "
                         f"{file}")


def index_to_string_table_from_file(vocabulary_file: str, vocab_size: int | None = None,
                                    default_value: str = "UNK", name: str | None = None,
                                    key_column_index: int = TextFileIndex.LINE_NUMBER,
                                    value_column_index: int = TextFileIndex.WHOLE_LINE,
                                    delimiter: str = "\t") -> HashTable:
    """Return a table from line numbers, int64, to the lines of a file, or between other columns as
    :func:`index_table_from_file`. Raises ``ValueError`` without a file, or for an empty
    vocabulary."""
    _check_file(vocabulary_file, vocab_size)
    return HashTable(TextFileStringTableInitializer(
        vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter),
        default_value, name=name)
