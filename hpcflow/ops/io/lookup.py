"""Lookup tables: op types, and the initializer of all tables of a graph."""

from __future__ import annotations

import logging
from typing import Any

from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, resource_handle, scalar, with_rank
from hpcflow.ops.common.grouping import group

__all__ = ["initialize_all_tables", "tables_initializer"]

_HANDLE = "table_handle: Ref(string)"
_ATTRS = ("container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; "
          "key_dtype: type; value_dtype: type")


# What hands the table to a branch of a cond or to the body of a loop as it is.
_PASSING = {"Switch", "RefSwitch", "Enter", "RefEnter", "Identity", "RefIdentity"}


def _table_of(op: Operation) -> Operation:
    """The op that holds the table `op` works on, also inside of conditionals and loops."""
    table = op.inputs[0].op
    while table.type in _PASSING:
        table = table.inputs[0].op
    return table


def _value_dims(op: Operation) -> Dims:
    """The shape of one value, if the table is in this graph."""
    table = _table_of(op)
    kind = table.type.removesuffix("V2")
    if kind in ("HashTable", "MutableHashTable"):
        return ()
    if kind not in ("MutableHashTableOfTensors", "MutableDenseHashTable"):
        return None
    shape = table.attr("value_shape")
    return None if shape is None else shape._dims


def _find_shape(op: Operation) -> list[Dims]:
    keys, value, table = op.input_dims(1), _value_dims(op), _table_of(op)
    if keys is None or value is None:
        return [None]
    if table.type.startswith("MutableDenseHashTable"):
        empty = table.input_dims(0)
        if empty is None:
            return [None]
        keys = keys[: len(keys) - len(empty)]
    return [(*keys, *value)]


def _export_shapes(op: Operation) -> list[Dims]:
    table, value = _table_of(op), _value_dims(op)
    key: Dims = ()
    if table.type.startswith("MutableDenseHashTable"):
        key = table.input_dims(0)
    return [None if key is None else (None, *key), None if value is None else (None, *value)]


def _file_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "filename")
    return []


def _initialize_shape(op: Operation) -> list[Dims]:
    keys = with_rank(op.input_dims(1), 1, "The shape of the keys")
    values = with_rank(op.input_dims(2), 1, "The shape of the values")
    merge_dim(keys[0], values[0])
    return []


# The second version of each op type differs in its handle alone.
for _version, _handle in (("", _HANDLE), ("V2", "table_handle: resource")):
    register_op(f"HashTable{_version}", "", _handle, _ATTRS, shape=resource_handle, stateful=True)
    register_op(f"MutableHashTable{_version}", "", _handle, _ATTRS, shape=resource_handle,
                stateful=True)
    register_op(f"MutableHashTableOfTensors{_version}", "", _handle,
                f"{_ATTRS}; value_shape: shape = []", shape=resource_handle, stateful=True)
    register_op(f"InitializeTable{_version}", f"{_handle}; keys: Tkey; values: Tval", "",
                "Tkey: type; Tval: type", shape=_initialize_shape, stateful=bool(_version))
    register_op(f"InitializeTableFromTextFile{_version}", f"{_handle}; filename: string", "",
                "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; "
                "delimiter: string = '\t'", shape=_file_shape, stateful=bool(_version))
    register_op(f"LookupTableFind{_version}", f"{_handle}; keys: Tin; default_value: Tout",
                "values: Tout", "Tin: type; Tout: type", shape=_find_shape,
                stateful=bool(_version))
    for _op_type in ("Insert", "Import"):
        register_op(f"LookupTable{_op_type}{_version}", f"{_handle}; keys: Tin; values: Tout", "",
                    "Tin: type; Tout: type", stateful=bool(_version))
    register_op(f"LookupTableRemove{_version}", f"{_handle}; keys: Tin", "", "Tin: type",
                stateful=bool(_version))
    register_op(f"LookupTableSize{_version}", _handle, "size: int64", shape=scalar,
                stateful=bool(_version))
    register_op(f"LookupTableExport{_version}", _handle, "keys: Tkeys; values: Tvalues",
                "Tkeys: type; Tvalues: type", shape=_export_shapes, stateful=bool(_version))
    not_differentiable(*(f"{_name}{_version}" for _name in (
        "HashTable", "MutableHashTable", "MutableHashTableOfTensors", "InitializeTable",
        "InitializeTableFromTextFile", "LookupTableFind", "LookupTableInsert", "LookupTableRemove",
        "LookupTableImport", "LookupTableSize", "LookupTableExport")))
_DENSE = (f"{_ATTRS}; value_shape: shape = []; initial_num_buckets: int = 131072; "
          "max_load_factor: float = 0.8")
register_op("MutableDenseHashTable", "empty_key: key_dtype", _HANDLE, _DENSE, shape=resource_handle,
            stateful=True)
register_op("MutableDenseHashTableV2", "empty_key: key_dtype; deleted_key: key_dtype",
            "table_handle: resource", _DENSE, shape=resource_handle, stateful=True)
not_differentiable("MutableDenseHashTable", "MutableDenseHashTableV2")


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return an operation that initializes all tables of the default graph; does nothing if it has
    none."""
    initializers = get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*initializers, name=name) if initializers else raw_ops.NoOp(name=name)


def initialize_all_tables(*args: Any, **kwargs: Any) -> Operation:
    """The old name of :func:`tables_initializer`."""
    logging.getLogger("hpcflow").warning(
        "initialize_all_tables is deprecated; use tables_initializer")
    return tables_initializer(*args, **kwargs)
