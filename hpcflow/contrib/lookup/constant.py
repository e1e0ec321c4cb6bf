"""Tables that an initializer fills once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.contrib.lookup.interface import KeyValueTypes, LookupInterface
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    colocate_with,
    get_default_graph,
    init_scope,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops


def _outside_of_loops() -> AbstractContextManager:
    """A table is made, and filled, once: outside of the loops and branches of here."""
    inside = get_default_graph()._control_flow_context is not None
    return init_scope() if inside else nullcontext()


class HashTable(LookupInterface):
    """A table that `initializer` fills, once; run ``hf.tables_initializer()``.

    Args:
        initializer: one of this module's initializers.
        default_value: value of keys that the table does not have.
        shared_name: share the table under this name between sessions; by default tables that are
            filled from one file in one way are shared.
        name: name of the op.
    """

    def __init__(self, initializer: Any, default_value: TensorLike, shared_name: str | None = None,
                 name: str | None = None) -> None:
        with _outside_of_loops(), name_scope(name, "hash_table") as scope:
            handle = raw_ops.HashTable(
                key_dtype=initializer.key_dtype, value_dtype=initializer.value_dtype,
                shared_name=shared_name or _shared_name(initializer), name=scope,
                container=get_default_graph()._container)
            super().__init__(initializer.key_dtype, initializer.value_dtype, default_value, handle)
            self._init = initializer.initialize(self)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values in the same order."""
        keys, values = self._op("LookupTableExport", name or f"{self._name}_Export",
                                Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        return keys, values

    @property
    def init(self) -> Operation:
        """The op that fills the table."""
        return self._init

    @property
    def initializer(self) -> Operation:
        """The op that fills the table."""
        return self._init


def _shared_name(initializer: Any) -> str:
    """A name of all that the initializer fills a table with; empty if it may be different data."""
    name = getattr(initializer, "_shared_name", "")
    return name and (f"{name}_{initializer.key_dtype.name}_{initializer.value_dtype.name}"
                     f"_{initializer._delimiter}")


class StaticHashTable(HashTable):
    """As :class:`HashTable`, without a shared name."""

    def __init__(self, initializer: Any, default_value: TensorLike,
                 name: str | None = None) -> None:
        super().__init__(initializer, default_value, name=name)


StaticHashTableV1 = StaticHashTable


class KeyValueTensorInitializer:
    """Fills a table from a vector of keys and one of values."""

    def __init__(self, keys: TensorLike, values: TensorLike, key_dtype: DTypeLike | None = None,
                 value_dtype: Any = None, name: str | None = None) -> None:
        with _outside_of_loops(), name_scope(name, "key_value_init") as scope:
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
    """Special column numbers of a TextFileInitializer: the whole line, or its line number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(KeyValueTypes):
    """Fills a table from the lines of a text file.

    Args:
        filename: the file, read by the task that holds the table.
        key_dtype, value_dtype: dtypes of the table.
        key_index, value_index: the column of the keys and of the values, or a member of
            :class:`TextFileIndex`: the whole line (a string), or its number (an int64).
        vocab_size: number of lines to read; all if None.
        delimiter: what separates columns.
        name: name scope of the op.

    Raises ``ValueError`` for an index and a dtype that do not go together, and without a file.
    """

    def __init__(self, filename: TensorLike, key_dtype: DTypeLike, key_index: int,
                 value_dtype: DTypeLike, value_index: int, vocab_size: int | None = None,
                 delimiter: str = "\t", name: str | None = None) -> None:
        super().__init__(key_dtype, value_dtype)
        for what, dtype, index in (("key", self._key_dtype, key_index),
                                   ("value", self._value_dtype, value_index)):
            _check_column(what, dtype, index)
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("filename: expected the name of a file, got nothing")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename = filename
        self._columns = (key_index, value_index)
        self._vocab_size = -1 if vocab_size is None else vocab_size
        self._delimiter = delimiter
        self._name = name

    @property
    def _shared_name(self) -> str:
        """A name that says what the table is filled with."""
        file = self._filename if isinstance(self._filename, str) else repr(self._filename)
        size = "" if self._vocab_size == -1 else f"_{self._vocab_size}"
        return f"hash_table_{file}{size}_{self._columns[0]}_{self._columns[1]}"

    def initialize(self, table: LookupInterface) -> Operation:
        """Return the op that fills `table`, added to the graph's table initializers."""
        with name_scope(self._name, "text_file_init"), colocate_with(table.table_ref.op):
            filename = convert_to_tensor(self._filename, dtypes_lib.string, "asset_filepath")
            op = raw_ops.InitializeTableFromTextFile(
                table_handle=table.table_ref, filename=filename, key_index=self._columns[0],
                value_index=self._columns[1], vocab_size=self._vocab_size,
                delimiter=self._delimiter)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        if filename.op.type == "Const":  # else no file is known that belongs to the graph
            add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return op


def _check_column(what: str, dtype: DType, index: int) -> None:
    if index < -2:
        raise ValueError(f"Invalid {what} index {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes_lib.int64:
        raise ValueError(f"Signature mismatch. The {what} dtype of line numbers must be int64, got "
                         f"{dtype.name}.")
    keys = what == "key" and dtype.is_integer
    if index == TextFileIndex.WHOLE_LINE and dtype is not dtypes_lib.string and not keys:
        raise ValueError(f"Signature mismatch. The {what} dtype of whole lines must be string"
                         f"{' or an integer' if what == 'key' else ''}, got {dtype.name}.")


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines (or columns) of a text file."""

    def __init__(self, filename: TensorLike, key_column_index: int = TextFileIndex.LINE_NUMBER,
                 value_column_index: int = TextFileIndex.WHOLE_LINE,
                 vocab_size: int | None = None, delimiter: str = "\t",
                 name: str = "text_file_string_table_init") -> None:
        super().__init__(filename, dtypes_lib.int64, key_column_index, dtypes_lib.string,
                         value_column_index, vocab_size, delimiter, name)


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines (or columns) of a text file to line numbers."""

    def __init__(self, filename: TensorLike, key_column_index: int = TextFileIndex.WHOLE_LINE,
                 value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None,
                 delimiter: str = "\t", name: str = "text_file_id_table_init",
                 key_dtype: DTypeLike = dtypes_lib.string) -> None:
        super().__init__(filename, key_dtype, key_column_index, dtypes_lib.int64,
                         value_column_index, vocab_size, delimiter, name)
