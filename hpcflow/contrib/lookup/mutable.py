"""Tables that steps change."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.contrib.lookup.interface import LookupInterface
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.train.saveable import SaveableObject, SaveSpec


class _MutableTable(LookupInterface):
    """A table with ``insert`` and ``export``, which Savers save if it is a checkpoint's part."""

    def __init__(self, key_dtype: DType, value_dtype: DTypeLike, default_value: TensorLike,
                 table_ref: Tensor, value_shape: Any, checkpoint: bool) -> None:
        super().__init__(key_dtype, value_dtype, default_value, table_ref, value_shape)
        self._saveable = _TableSaveable(self, self.table_ref.op.name)
        self._saveables: dict[str, _TableSaveable] = {}
        if checkpoint:
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self._saveable)

    def _checkpoint_saveable(self, name: str) -> SaveableObject:
        """The content of the table, under the names of checkpoints of objects."""
        if name not in self._saveables:
            self._saveables[name] = _TableSaveable(self, name)
        return self._saveables[name]

    def _checked(self, value: TensorLike, dtype: DType, what: str) -> Tensor:
        return convert_to_tensor(value, dtype)

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Operation:
        """Return an op that adds keys, or gives those that exist new values."""
        keys = convert_to_tensor(keys, self._key_dtype)
        values = convert_to_tensor(values, self._value_dtype)
        return self._op("LookupTableInsert", name or f"{self._name}_Insert", keys=keys,
                        values=values)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values in the same order."""
        keys, values = self._op("LookupTableExport", name or f"{self._name}_Export",
                                Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        return keys, values

    def remove(self, keys: TensorLike, name: str | None = None) -> Operation:
        """Return an op that forgets keys, as far as the table has them."""
        keys = super()._checked(keys, self._key_dtype, "keys")
        return self._op("LookupTableRemove", name or f"{self._name}_Remove", keys=keys)

    def restored(self, keys: Tensor, values: Tensor) -> Operation:
        """Return an op that makes these keys and values the content of the table."""
        return self._op("LookupTableImport", f"{self._name}_Import", keys=keys, values=values)


class _TableSaveable(SaveableObject):
    """The keys and values of a table, as two tensors of a checkpoint."""

    def __init__(self, table: _MutableTable, name: str) -> None:
        self._table = table
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

    def __init__(self, key_dtype: DType, value_dtype: DTypeLike, default_value: TensorLike,
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

    def __init__(self, key_dtype: DType, value_dtype: DTypeLike, default_value: TensorLike,
                 empty_key: TensorLike, initial_num_buckets: int | None = None,
                 shared_name: str | None = None, name: str = "MutableDenseHashTable",
                 checkpoint: bool = True, deleted_key: TensorLike | None = None) -> None:
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
