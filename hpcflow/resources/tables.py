"""Lookup tables from keys to values."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from hpcflow.resources.handles import SharedHandle
from hpcflow.shapes import format_shape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

Dims = tuple[int, ...]


class LookupTable(SharedHandle):
    """A table that changes at any time; values are scalars or have the shape `value_dims`.

    Args:
        name: for messages.
        key_dtype, value_dtype: element types.
        value_dims: shape of one value.
        key_dims: shape of one key.
    """

    kind = "MutableHashTable"

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType, value_dims: Dims = (),
                 key_dims: Dims = ()) -> None:
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_dims = value_dims
        self.key_dims = key_dims
        self._items: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def properties(self) -> dict[str, Any]:
        """The kind, and the types and shapes of keys and values."""
        return {"type": self.kind, "key type": self.key_dtype.name,
                "value type": self.value_dtype.name, "shape of values": self.value_dims,
                "shape of keys": self.key_dims}

    def size(self) -> int:
        """The number of keys."""
        with self._lock:
            return len(self._items)

    # ------------------------------------------------------------ reading

    def find(self, keys: np.ndarray | bytes, default: TensorLike) -> Any:
        """The value of every key, `default` (one, or one per key) where there is none."""
        flat, dims = self._flat_keys(keys)
        defaults = self._defaults(default, dims, len(flat))
        with self._lock:
            items = self._items
            out = np.empty((len(flat), *self.value_dims), self.value_dtype.np)
            for i, key in enumerate(flat):
                out[i] = items.get(key, defaults[i])
        out = out.reshape((*dims, *self.value_dims))
        return out if out.ndim else out[()]

    def _defaults(self, default: TensorLike, dims: Dims, count: int) -> Any:
        array = np.asarray(default, self.value_dtype.np)
        if array.size == int(np.prod(self.value_dims)) and array.ndim <= len(self.value_dims) + 1:
            return np.broadcast_to(array.reshape(self.value_dims), (count, *self.value_dims))
        if array.shape == (*dims, *self.value_dims):
            return array.reshape((count, *self.value_dims))
        raise InvalidArgumentError(
            None, None, f"Expected shape {format_shape(self.value_dims)} or "
            f"{format_shape((*dims, *self.value_dims))} for default value, got "
            f"{format_shape(array.shape)}")

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """All keys, and their values in the same order."""
        with self._lock:
            keys = np.empty((len(self._items), *self.key_dims), self.key_dtype.np)
            values = np.empty((len(self._items), *self.value_dims), self.value_dtype.np)
            for i, (key, value) in enumerate(self._items.items()):
                keys[i] = np.reshape(key, self.key_dims) if self.key_dims else key
                values[i] = value
        return keys, values

    # ------------------------------------------------------------ writing

    def insert(self, keys: np.ndarray | bytes, values: np.ndarray | np.generic) -> None:
        """Add keys, or give those that exist new values."""
        pairs = self._pairs(keys, values)
        with self._lock:
            self._items.update(pairs)

    def remove(self, keys: np.ndarray) -> None:
        """Forget these keys, as far as the table has them."""
        flat, _ = self._flat_keys(keys)
        with self._lock:
            for key in flat:
                self._items.pop(key, None)

    def replace(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Forget everything, then insert."""
        pairs = self._pairs(keys, values)
        with self._lock:
            self._items = dict(pairs)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items = {}

    def _pairs(self, keys: np.ndarray | bytes,
               values: np.ndarray | np.generic) -> list[tuple[Any, Any]]:
        return self._paired(*self._flat_keys(keys), values)

    def _paired(self, flat: list[Any], dims: Dims,
                values: np.ndarray | np.generic) -> list[tuple[Any, Any]]:
        array = np.asarray(values, self.value_dtype.np)
        if array.shape != (*dims, *self.value_dims):
            raise InvalidArgumentError(
                None, None, f"Expected shape {format_shape((*dims, *self.value_dims))} for value, "
                f"got {format_shape(array.shape)}")
        rows = array.reshape((len(flat), *self.value_dims))
        return list(zip(flat, rows.tolist() if not self.value_dims else rows.copy(), strict=True))

    def _flat_keys(self, keys: TensorLike) -> tuple[list[Any], Dims]:
        """The keys as hashable values, and their shape."""
        array = np.asarray(keys, self.key_dtype.np)
        if not self.key_dims:
            return array.reshape(-1).tolist(), array.shape
        split = array.ndim - len(self.key_dims)
        if split < 0 or array.shape[split:] != self.key_dims:
            raise InvalidArgumentError(
                None, None, f"Expected keys of shape {format_shape(self.key_dims)}, got "
                f"{format_shape(array.shape)}")
        dims = array.shape[:split]
        flat = array.reshape(-1, int(np.prod(self.key_dims)))
        return [tuple(row) for row in flat.tolist()], dims


class StaticTable(LookupTable):
    """A table that is filled once, by its initializer."""

    kind = "HashTable"

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self._initialized = False

    def initialize(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Fill the table; doing so again with the same data changes nothing.

        Raises ``FailedPreconditionError`` for other data, or a key with two values.
        """
        if np.ndim(keys) != 1 or np.shape(keys) != np.shape(values):
            raise InvalidArgumentError(
                None, None, "The keys and values of a table must be two vectors of one length, got "
                f"{format_shape(np.shape(keys))} and {format_shape(np.shape(values))}")
        pairs = self._pairs(keys, values)
        items: dict[Any, Any] = {}
        for key, value in pairs:
            if items.setdefault(key, value) != value:
                raise FailedPreconditionError(
                    None, None, f"HashTable has different value for same key. Key {_show(key)} has "
                    f"{_show(items[key])} and trying to add value {_show(value)}")
        with self._lock:
            if self._initialized and items != self._items:
                raise FailedPreconditionError(
                    None, None, "Table was already initialized with different data.")
            self._items = items
            self._initialized = True

    def _check_initialized(self) -> None:
        if not self._initialized:
            raise FailedPreconditionError(None, None,
                                          f"Table not initialized: '{self.name}'")

    def size(self) -> int:
        """The number of keys; 0 before the initializer ran."""
        return super().size() if self._initialized else 0

    def find(self, keys: np.ndarray | bytes, default: Any) -> Any:
        """The value of every key, `default` where there is none."""
        self._check_initialized()
        return super().find(keys, default)

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """All keys, and their values in the same order."""
        self._check_initialized()
        return super().export()

    def insert(self, keys: TensorLike, values: TensorLike) -> None:
        """Not possible: ``UnimplementedError``."""
        raise UnimplementedError(
            None, None, f"Table '{self.name}' is filled by its initializer, once: nothing can be "
            "inserted; use a MutableHashTable")

    def remove(self, keys: object) -> None:
        """Not possible: ``UnimplementedError``."""
        raise UnimplementedError(
            None, None, f"Table '{self.name}' is filled by its initializer, once: nothing can be "
            "removed; use a MutableHashTable")

    def replace(self, keys: Any, values: Any) -> None:
        """As :meth:`initialize`."""
        self.initialize(keys, values)

    def clear(self) -> None:
        """Forget everything: the table is not initialized."""
        super().clear()
        self._initialized = False


def _show(value: int | float) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
