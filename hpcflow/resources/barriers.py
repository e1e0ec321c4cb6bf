"""Barriers: tuples whose components come one by one, by key, and leave when they are complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from hpcflow.resources.effects import Effect
from hpcflow.resources.handles import SharedHandle
from hpcflow.resources.queue_kinds import PriorityQueue
from hpcflow.resources.queues import Attempt, component_properties
from hpcflow.shapes import TensorShape, format_shape

_FIRST_INDEX = -(1 << 63)


class _Complete(PriorityQueue):
    """The complete elements, in the order in which their keys came first."""

    kind = "Barrier"


class Barrier(SharedHandle):
    """Joins components by key.

    Args:
        name: for messages.
        types: dtype of every component.
        shapes: shape of every component; empty where they are not known.
    """

    kind = "Barrier"

    def __init__(self, name: str, types: list[DType], shapes: list[TensorShape]) -> None:
        self.name = name
        self.types = list(types)
        self.shapes = list(shapes)
        scalar = TensorShape([])
        every = [scalar, scalar, *shapes] if shapes else []
        self._complete = _Complete(name, [dtypes.int64, dtypes.string, *types], every, -1)
        self._lock = self._complete._lock
        self._incomplete: dict[bytes, tuple[int, list]] = {}
        self._next_index = _FIRST_INDEX
        self._closed = self._cancelled = False
        self._moving = 0  # insertions whose complete elements are on their way to those

    def ready_size(self) -> int:
        """The number of complete elements."""
        return self._complete.size()

    def incomplete_size(self) -> int:
        """The number of elements of which components are missing."""
        with self._lock:
            return len(self._incomplete)

    def properties(self) -> dict[str, Any]:
        """The components."""
        return component_properties(self.types, self.shapes)

    def insert_many(self, component: int, keys: Any, values: Any) -> None:
        """Give the component `component` of each of `keys` its value, a slice of `values`.

        Raises ``InvalidArgumentError`` for wrong shapes or a component that a key has already,
        ``CancelledError`` once the barrier is closed and the keys are new, or incomplete elements
        were dropped. Keys before a wrong one are inserted.
        """
        keys = np.asarray(keys, object)
        self._check(component, keys, values)
        complete: list[tuple] = []
        with self._lock:
            self._moving += 1
        try:
            with self._lock:
                self._check_open(len(keys))
                is_new = any(key not in self._incomplete for key in keys.tolist())
                for key, value in zip(keys.tolist(), values, strict=True):
                    element = self._insert(key, component, _copied(value))
                    if element is not None:
                        complete.append(element)
                self._next_index += is_new
        finally:
            for element in complete:
                self._complete.enqueue(element, lambda outcome: None)
            with self._lock:
                self._moving -= 1
            self._close_if_drained()

    def _check_open(self, count: int) -> None:
        if self._cancelled or (self._closed and count and not self._incomplete):
            raise CancelledError(
                None, None, f"Barrier '{self.name}' is closed. Pending enqueues cancelled: "
                f"{self._cancelled}. Number of new insertions: {count}. Number of incomplete "
                f"keys: {len(self._incomplete)}.")

    def _close_if_drained(self) -> None:
        """Once no element can become complete any more, takers that wait are told."""
        with self._lock:
            drained = self._closed and not self._incomplete and not self._moving
        if drained:
            self._complete.close(self._cancelled)

    def _check(self, component: int, keys: np.ndarray, values: Any) -> None:
        if not 0 <= component < len(self.types):
            raise InvalidArgumentError(
                None, None, f"The component ID is out of range {component} > num_components "
                f"({len(self.types)})")
        dims = np.shape(values)
        if len(keys) and not np.size(values):
            raise InvalidArgumentError(
                None, None, "Tensors with no elements are not supported: barrier "
                f"'{self.name}' received shape {format_shape(dims)}")
        if keys.ndim != 1 or not dims or dims[0] != len(keys):
            raise InvalidArgumentError(
                None, None, f"Barrier '{self.name}': expected as many values as keys, got keys of "
                f"shape {format_shape(keys.shape)} and values of shape {format_shape(dims)}")
        if self.shapes and not self.shapes[component].is_compatible_with(dims[1:]):
            raise InvalidArgumentError(
                None, None, f"Barrier '{self.name}': shape mismatch in component {component}: "
                f"expected {format_shape(self.shapes[component])}, got {format_shape(dims[1:])}")

    def _insert(self, key: bytes, component: int, value: Any) -> tuple | None:
        """Add a component; return the element if it is complete now, else None."""
        found = self._incomplete.get(key)
        if found is None:
            if self._closed:
                raise CancelledError(
                    None, None, f"Barrier '{self.name}' is closed, but a new key came: {key!r}")
            found = self._incomplete[key] = (self._next_index, [None] * len(self.types))
        index, parts = found
        if parts[component] is not None:
            raise InvalidArgumentError(
                None, None, f"Key {key.decode(errors='replace')} already has a value for component "
                f"{component} in barrier '{self.name}'")
        parts[component] = value
        if any(p is None for p in parts):
            return None
        del self._incomplete[key]
        return (np.int64(index), key, *parts)

    def take_many(self, count: int, allow_small_batch: bool,
                  done: Callable[[Any], None]) -> Attempt:
        """``done((indices, keys, *components))`` with `count` complete elements, once there are.

        With `allow_small_batch` a closed barrier gives what is complete. ``OutOfRangeError`` when
        no more can come.
        """
        with self._lock:
            count = self._obtainable(count, allow_small_batch) if self._closed else count
        return self._complete.dequeue_many(count, done, allow_small_batch)

    def _obtainable(self, count: int, allow_small_batch: bool) -> int:
        """Return the number of elements to wait for once the barrier is closed."""
        total = len(self._complete._elements)
        if allow_small_batch:
            count = min(count, total)
        else:
            total += len(self._incomplete)
        if total < max(count, 1):
            raise OutOfRangeError(
                None, None, f"Barrier '{self.name}' is closed and has insufficient elements "
                f"(requested {count}, total size {total})")
        return count

    def cancel(self, attempt: Attempt) -> None:
        """Stop a take that waits."""
        self._complete.cancel(attempt)

    def effect(self, attempt: Attempt) -> Effect:
        """Return the effect of a take, for a step that may end without its results."""
        return self._complete.effect(attempt)

    def close(self, cancel_pending: bool = False) -> None:
        """Take no new keys; with `cancel_pending` drop the incomplete elements too.

        Raises ``CancelledError`` if it is closed already, unless this is the first call to cancel.
        """
        with self._lock:
            if self._closed and (self._cancelled or not cancel_pending):
                raise CancelledError(None, None, f"Barrier '{self.name}' is already closed.")
            self._closed = True
            self._cancelled = cancel_pending
            if cancel_pending:
                self._incomplete.clear()
        self._close_if_drained()

    def clear(self) -> None:
        """The container is cleared: whoever waits is cancelled."""
        self._complete.clear()


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
