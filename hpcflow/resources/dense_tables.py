"""Lookup tables with keys for what is empty and what was removed, and a number of buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.resources.tables import Dims, LookupTable
from hpcflow.shapes import format_shape


class DenseTable(LookupTable):
    """A table with keys that must not be used, as hash tables with open addressing need them: one
    for what is empty, and another for what was removed if keys can be removed.

    The keys are found by a dictionary. The buckets are counted, because an exported table has all
    of them: first the keys, then what was removed, then what is empty.

    Args:
        reserved: the empty key, and the deleted key if there is one.
        buckets: number of buckets at first; it doubles while inserted keys would fill more than
            the share `most_load`.
    """

    kind = "MutableDenseHashTable"

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType, value_dims: Dims,
                 reserved: list[np.ndarray], buckets: int, most_load: float) -> None:
        super().__init__(name, key_dtype, value_dtype, value_dims, reserved[0].shape)
        if reserved[-1].shape != reserved[0].shape:
            raise InvalidArgumentError(
                None, None, "Empty and deleted keys must have same shape, got shapes: "
                f"{format_shape(reserved[0].shape)} and {format_shape(reserved[-1].shape)}")
        self._reserved = [super(DenseTable, self)._flat_keys(key)[0][0] for key in reserved]
        if len(set(self._reserved)) < len(reserved):
            raise InvalidArgumentError(None, None, "Empty and deleted keys cannot be equal: "
                                       f"{self._reserved[0]!r}")
        self._first_buckets = self._buckets = buckets
        self._most_load = most_load
        self._removed: list[Any] = []  # the values of what was removed

    def properties(self) -> dict[str, Any]:
        """Those of every table, and the keys that must not be used."""
        return {**super().properties(), "reserved keys": self._reserved}

    def insert(self, keys: np.ndarray | bytes, values: np.ndarray | np.generic) -> None:
        """Add keys, or give those that exist new values; there are more buckets where all of them
        as new ones would fill too many."""
        pairs = self._pairs(keys, values)
        with self._lock:
            wanted = len(self._items) + len(pairs)
            while wanted > self._buckets * self._most_load:
                self._buckets *= 2
                self._removed = []
            self._items.update(pairs)
            del self._removed[max(self._buckets - len(self._items), 0):]

    def remove(self, keys: np.ndarray) -> None:
        """Forget these keys, as far as the table has them."""
        flat, _ = self._flat_keys(keys)
        with self._lock:
            self._removed += [self._items.pop(key) for key in flat if key in self._items]

    def replace(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Take buckets as :meth:`export` has given them."""
        pairs = self._paired(*super()._flat_keys(keys), values)
        with self._lock:
            self._items = {key: value for key, value in pairs if key not in self._reserved}
            self._removed = [v for key, v in pairs if key in self._reserved[1:]]
            self._buckets = max(len(pairs), 1)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items, self._removed, self._buckets = {}, [], self._first_buckets

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values of all buckets: those in use, what was removed, what is empty."""
        keys, values = super().export()
        with self._lock:
            removed, count = list(self._removed), self._buckets
        all_keys = np.empty((count, *self.key_dims), self.key_dtype.np)
        all_values = np.zeros((count, *self.value_dims), self.value_dtype.np)
        if all_values.dtype == object:
            all_values.fill(b"")
        for i, key in enumerate(self._reserved):
            all_keys[len(keys) if i else 0:] = np.reshape(key, self.key_dims)
        all_keys[len(keys) + len(removed):] = np.reshape(self._reserved[0], self.key_dims)
        all_keys[:len(keys)], all_values[:len(keys)] = keys, values
        for i, value in enumerate(removed, len(keys)):
            all_values[i] = value
        return all_keys, all_values

    def _flat_keys(self, keys: Any) -> tuple[list[Any], Dims]:
        array = np.asarray(keys, self.key_dtype.np)
        wanted = (len(array) if array.ndim else 1, *self.key_dims)
        if array.size != int(np.prod(wanted)):
            raise InvalidArgumentError(None, None, f"Expected key shape {format_shape(wanted)} got "
                                       f"{format_shape(array.shape)}")
        flat, dims = super()._flat_keys(keys)
        for what, key in zip(("empty_key", "deleted_key"), self._reserved, strict=False):
            if key in flat:
                raise InvalidArgumentError(
                    None, None, f"Using the {what} as a table key is not allowed: {key!r} in "
                    f"table '{self.name}'")
        return flat, dims
