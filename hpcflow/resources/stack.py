"""A stack of tensors."""

from __future__ import annotations

from typing import Any

from hpcflow.errors import InvalidArgumentError, ResourceExhaustedError
from hpcflow.resources.handles import StepHandle


class Stack(StepHandle):
    """Values, last in first out; at most `max_size` of them (any number if negative)."""

    __slots__ = ("max_size", "closed", "whole", "_values", "_are_rows", "__weakref__")

    def __init__(self, name: str, max_size: int = -1) -> None:
        super().__init__(name)
        self.max_size = max_size
        self.closed = False
        self.whole: Any = None  # if its first rows are the values, an array
        self._values: list[Any] = []
        self._are_rows = False  # the values are those of `whole`, and not in the list yet

    @property
    def values(self) -> list[Any]:
        """The values, that on top the last."""
        if self._are_rows:
            self._values.extend(self.whole)
            self._are_rows = False
        return self._values

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
        if self._are_rows or self._values:
            self.values.extend(rows)
            self.whole = None
        else:
            self.whole, self._are_rows = rows, len(rows) > 0

    def peek(self, count: int) -> Any:
        """Up to `count` values from the top, as they would be popped: a list, or the rows of an
        array."""
        whole = self.whole
        if whole is None:
            return self._values[: -count - 1 : -1]
        end = len(whole if self._are_rows else self._values)
        return whole[max(end - count, 0) : end][::-1]

    def drop(self, count: int) -> None:
        """Take `count` values away that are there."""
        if self._are_rows and count == len(self.whole):
            self._are_rows = False
        else:
            del self.values[len(self.values) - count :]
        if not self._are_rows and not self._values:
            self.whole = None

    def close(self) -> None:
        """Drop the values; the stack cannot be used any more."""
        self.closed = True
        self.whole = None
        self._are_rows = False
        self._values.clear()

    release = close

    def _closed(self) -> InvalidArgumentError:
        return InvalidArgumentError(None, None, f"Stack[{self.name}] has already been closed.")
