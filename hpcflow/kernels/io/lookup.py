"""Kernels of lookup tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import NotFoundError, OutOfRangeError
from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.registry import RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.dense_tables import DenseTable
from hpcflow.resources.tables import LookupTable, StaticTable
from hpcflow.shapes import format_shape

_WHOLE_LINE, _LINE_NUMBER = -2, -1


def _shared(node: KernelNode, make: Callable[[str], LookupTable]) -> LookupTable:
    return shared(node, "table", make)


@kernel("HashTable", "HashTableV2", device="CPU", mode=RESOURCE)
def _static(node: KernelNode) -> LookupTable:
    return _shared(node, lambda name: StaticTable(
        name, node.attr("key_dtype"), node.attr("value_dtype")))


@kernel("MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors",
        "MutableHashTableOfTensorsV2", device="CPU", mode=RESOURCE)
def _mutable(node: KernelNode) -> LookupTable:
    shape = node.attr("value_shape")
    dims = () if shape is None else tuple(shape.as_list())
    if "OfTensors" in node.op_type and len(dims) != 1:
        raise invalid(f"Default value must be a vector, got shape {format_shape(dims)}")
    return _shared(node, lambda name: LookupTable(
        name, node.attr("key_dtype"), node.attr("value_dtype"), dims))


@kernel("MutableDenseHashTable", "MutableDenseHashTableV2", device="CPU", mode=RESOURCE)
def _dense(node: KernelNode) -> LookupTable:
    reserved = [node.constant(i) for i in range(2 if node.op_type.endswith("V2") else 1)]
    buckets = node.attr("initial_num_buckets")
    if any(key is None for key in reserved):
        raise invalid("MutableDenseHashTable: the empty_key and deleted_key must be constants")
    if buckets < 1 or buckets & (buckets - 1):
        raise invalid(f"Number of buckets must be a power of 2, got: {buckets}")
    load = node.attr("max_load_factor")
    if not 0 < load < 1:
        raise invalid(f"max_load_factor must be between 0 and 1, got: {load}")
    dims = tuple(node.attr("value_shape").as_list())
    return _shared(node, lambda name: DenseTable(
        name, node.attr("key_dtype"), node.attr("value_dtype"), dims,
        [np.asarray(key) for key in reserved], buckets, load))


def _check_types(table: LookupTable, key: Any, value: Any) -> None:
    if table.key_dtype != key or table.value_dtype != value:
        raise invalid(f"Table '{table.name}' maps {table.key_dtype.name} to "
                      f"{table.value_dtype.name}, the op {key.name} to {value.name}")


@kernel("LookupTableFind", "LookupTableFindV2", device="CPU")
def _find(node: KernelNode) -> Callable:
    key, value = node.attr("Tin"), node.attr("Tout")

    def run(table: LookupTable, keys: Any, default: Any) -> Any:
        _check_types(table, key, value)
        return table.find(keys, default)

    return run


@kernel("LookupTableInsert", "LookupTableInsertV2", device="CPU")
def _insert(node: KernelNode) -> Callable:
    key, value = node.attr("Tin"), node.attr("Tout")

    def run(table: LookupTable, keys: Any, values: Any) -> None:
        _check_types(table, key, value)
        table.insert(keys, values)

    return run


@kernel("LookupTableRemove", "LookupTableRemoveV2", device="CPU")
def _remove(node: KernelNode) -> Callable:
    key = node.attr("Tin")

    def run(table: LookupTable, keys: Any) -> None:
        _check_types(table, key, table.value_dtype)
        table.remove(keys)

    return run


@kernel("LookupTableImport", "LookupTableImportV2", device="CPU")
def _import(node: KernelNode) -> Callable:
    key, value = node.attr("Tin"), node.attr("Tout")

    def run(table: LookupTable, keys: Any, values: Any) -> None:
        _check_types(table, key, value)
        if isinstance(table, StaticTable):
            table.initialize(keys, values)
        else:
            table.replace(keys, values)

    return run


@kernel("LookupTableSize", "LookupTableSizeV2", device="CPU")
def _size(node: KernelNode) -> Callable:
    return lambda table: np.int64(table.size())


@kernel("LookupTableExport", "LookupTableExportV2", device="CPU")
def _export(node: KernelNode) -> Callable:
    key, value = node.attr("Tkeys"), node.attr("Tvalues")

    def run(table: LookupTable) -> tuple:
        _check_types(table, key, value)
        return table.export()

    return run


# ---------------------------------------------------------------- initializers


def _static_table(table: LookupTable) -> StaticTable:
    if not isinstance(table, StaticTable):
        raise invalid(f"Table '{table.name}' is a {table.kind}: only a HashTable has an "
                      "initializer")
    return table


@kernel("InitializeTable", "InitializeTableV2", device="CPU")
def _initialize(node: KernelNode) -> Callable:
    key, value = node.attr("Tkey"), node.attr("Tval")

    def run(table: LookupTable, keys: Any, values: Any) -> None:
        _check_types(table, key, value)
        if not np.size(keys):
            raise invalid(f"Table '{table.name}': keys and values cannot be empty tensors.")
        _static_table(table).initialize(keys, values)

    return run


@kernel("InitializeTableFromTextFile", "InitializeTableFromTextFileV2", device="CPU")
def _initialize_from_file(node: KernelNode) -> Callable:
    columns = (node.attr("key_index"), node.attr("value_index"))
    size, delimiter = node.attr("vocab_size"), node.attr("delimiter")

    def run(table: LookupTable, filename: bytes) -> None:
        static = _static_table(table)
        path = bytes(filename).decode()
        for what, column, dtype in zip(("Key", "Value"), columns,
                                       (table.key_dtype, table.value_dtype), strict=True):
            if column == _LINE_NUMBER and dtype.name != "int64":
                raise invalid(f"{what} index for line number requires table {what.lower()} dtype "
                              f"of int64, got {dtype.name}")
        lines = _lines(path, size)
        static.initialize(*[
            _column(lines, column, dtype, delimiter, path) for column, dtype in
            zip(columns, (table.key_dtype, table.value_dtype), strict=True)])

    return run


def _lines(path: str, size: int) -> list[bytes]:
    """The first `size` lines (all if it is -1)."""
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError as e:
        raise NotFoundError(None, None, f"{path}; {e.strerror}") from None
    if not lines:
        raise OutOfRangeError(None, None, f"The vocabulary file {path} is empty")
    if size >= 0:
        if len(lines) < size:
            raise invalid(f"Invalid vocab_size in {path}: expected {size} but got {len(lines)}")
        lines = lines[:size]
    return lines


def _column(lines: list[bytes], column: int, dtype: Any, delimiter: bytes,
            path: str) -> np.ndarray:
    if column == _LINE_NUMBER:
        return np.arange(len(lines), dtype=np.int64)
    out = np.empty(len(lines), dtype.np)
    for number, line in enumerate(lines):
        field = line if column == _WHOLE_LINE else _field(line, column, delimiter, number, path)
        try:
            out[number] = field if dtype.name == "string" else dtype.np.type(field.decode())
        except (ValueError, OverflowError):
            raise invalid(f"Field {field.decode(errors='replace')} in line {number} is not a valid "
                          f"{dtype.name}.") from None
    return out


def _field(line: bytes, column: int, delimiter: bytes, number: int, path: str) -> bytes:
    fields = line.split(delimiter)
    if len(fields) <= column:
        raise invalid(f"Invalid number of columns in {path} line {number} "
                      f"({line.decode(errors='replace')}): expected at least {column + 1} got "
                      f"{len(fields)}")
    return fields[column]
