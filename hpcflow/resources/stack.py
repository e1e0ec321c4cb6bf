"""A stack of tensors."""

from __future__ import annotations

from typing import Any

from hpcflow.errors import InvalidArgumentError, ResourceExhaustedError
from hpcflow.resources.handles import StepHandle


class Stack(StepHandle):
    """Values, last in first out; at most `max_size` of them (any number if negative)."""

    __slots__ = ("max_size", "values", "closed", "whole", "__weakref__")

    def __init__(self, name: str, max_size: int = -1) -> None:
        super().__init__(name)
        self.max_size = max_size
        self.values: list[Any] = []
        self.closed = False
        self.whole: Any = None  # if its first rows are the values, an array

    def push(self, value: Any) -> Any:
        """Put `value` on top, and return it."""
        if self.closed:
            raise self._closed()
        if 0 <= self.max_size <= len(self.values):
            raise ResourceExhaustedError(
                None, None, f"Stack[{self.name}] overflowed its max_size ({self.max_size})")
        self.values.append(value)
        self.whole = None
        return value

    def pop(self) -> Any:
        """Take the value on top away, and return it."""
        if self.closed:
            raise self._closed()
        if not self.values:
            raise InvalidArgumentError(
                None, None, f"Stack[{self.name}] is empty when calling Pop().")
        return self.values.pop()

    def push_rows(self, rows: Any) -> None:
        """Put the rows of an array on top, one after the other; there is room for them."""
        self.whole = None if self.values else rows
        self.values.extend(rows)

    def peek(self, count: int) -> Any:
        """Up to `count` values from the top, as they would be popped: a list, or the rows of an
        array."""
        end, whole = len(self.values), self.whole
        return self.values[: -count - 1 : -1] if whole is None else (
            whole[max(end - count, 0) : end][::-1])

    def drop(self, count: int) -> None:
        """Take `count` values away that are there."""
        del self.values[len(self.values) - count :]
        if not self.values:
            self.whole = None

    def close(self) -> None:
        """Drop the values; the stack cannot be used any more."""
        self.closed = True
        self.whole = None
        self.values.clear()

    release = close

    def _closed(self) -> InvalidArgumentError:
        return InvalidArgumentError(None, None, f"Stack[{self.name}] has already been closed.")
