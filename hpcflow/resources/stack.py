"""A stack of tensors."""

from __future__ import annotations

from typing import Any

from hpcflow.errors import InvalidArgumentError, ResourceExhaustedError
from hpcflow.resources.handles import StepHandle


class Stack(StepHandle):
    """Values, last in first out; at most `max_size` of them (any number if negative)."""

    __slots__ = ("max_size", "values", "closed", "__weakref__")

    def __init__(self, name: str, max_size: int = -1) -> None:
        super().__init__(name)
        self.max_size = max_size
        self.values: list[Any] = []
        self.closed = False

    def push(self, value: Any) -> Any:
        """Put `value` on top, and return it."""
        if self.closed:
            raise self._closed()
        if 0 <= self.max_size <= len(self.values):
            raise ResourceExhaustedError(
                None, None, f"Stack[{self.name}] overflowed its max_size ({self.max_size})")
        self.values.append(value)
        return value

    def pop(self) -> Any:
        """Take the value on top away, and return it."""
        if self.closed:
            raise self._closed()
        if not self.values:
            raise InvalidArgumentError(
                None, None, f"Stack[{self.name}] is empty when calling Pop().")
        return self.values.pop()

    def close(self) -> None:
        """Drop the values; the stack cannot be used any more."""
        self.closed = True
        self.values.clear()

    release = close

    def _closed(self) -> InvalidArgumentError:
        return InvalidArgumentError(None, None, f"Stack[{self.name}] has already been closed.")
