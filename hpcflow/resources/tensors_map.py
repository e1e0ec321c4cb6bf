"""Values left with a task under numbers, until they are taken."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from hpcflow.errors import InvalidArgumentError


class TensorsMap:
    """Numbers to values; every value can be taken once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._values: dict[int, Any] = {}
        self._next = 0

    def add(self, values: list) -> range:
        """Keep `values`; returns their numbers."""
        with self._lock:
            numbers = range(self._next, self._next + len(values))
            self._next = numbers.stop
            self._values.update(zip(numbers, values, strict=True))
        return numbers

    def take(self, numbers: Iterable[int]) -> list:
        """The values, which are gone then; ``InvalidArgumentError``, and nothing is gone, if one is
        unknown or is named twice."""
        wanted = list(numbers)
        with self._lock:
            missing = [n for n in wanted if n not in self._values]
            if missing or len(set(wanted)) < len(wanted):
                raise InvalidArgumentError(
                    None, None, f"Unable to find SparseTensor: {missing[0]} in map: "
                    f"'{self.name}'" if missing else f"'{self.name}': a handle is given twice")
            return [self._values.pop(n) for n in wanted]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
