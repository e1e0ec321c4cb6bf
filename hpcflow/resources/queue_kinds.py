"""Queues whose elements leave in another order, or as batches of padded components."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.resources.attempts import Element
from hpcflow.resources.queues import Queue

# The random numbers of a queue that shuffles: long enough for places to be equally likely.
_DRAW_BITS, _DRAWS = 48, 256


class RandomShuffleQueue(Queue):
    """Elements leave in random order; `min_after_dequeue` stay behind until it is closed."""

    kind = "RandomShuffleQueue"
    is_in_order = False

    def __init__(self, name: str, types: list, shapes: list, capacity: int,
                 min_after_dequeue: int, generator: np.random.Generator,
                 seeds: tuple[int, ...] = ()) -> None:
        _check_kept(min_after_dequeue, capacity)
        self.min_after_dequeue = min_after_dequeue
        self.seeds = seeds
        self._generator = generator
        self._draws: list[int] = []
        super().__init__(name, types, shapes, capacity)

    def properties(self) -> dict[str, Any]:
        """Those of every queue, the number that stays behind, and the seeds if there are any."""
        return {**super().properties(), "min_after_dequeue": self.min_after_dequeue,
                "random seeds": self.seeds if any(self.seeds) else None}

    def _make_store(self) -> None:
        self._elements = []

    def _take(self, count: int, taken: list[Element]) -> None:
        elements, draws = self._elements, self._draws
        for _ in range(count):
            if not draws:
                draws = self._draw()
            last = elements.pop()
            chosen = draws.pop() * (len(elements) + 1) >> _DRAW_BITS
            if chosen < len(elements):
                last, elements[chosen] = elements[chosen], last
            taken.append(last)

    def _draw(self) -> list[int]:
        """Many random numbers of so many bits."""
        self._draws = self._generator.integers(
            1 << _DRAW_BITS, size=_DRAWS, dtype=np.uint64).tolist()
        return self._draws

    def _put_back(self, elements: list[Element]) -> None:
        self._elements.extend(elements)

    def _available(self) -> int:
        kept = 0 if self.closed else self.min_after_dequeue
        return len(self._elements) - kept


def _check_kept(kept: int, capacity: int) -> None:
    """Raise ``InvalidArgumentError`` unless something may be taken besides what stays behind."""
    if kept < 0:
        raise InvalidArgumentError(None, None, f"min_after_dequeue {kept} must be >= 0")
    if 0 <= capacity <= kept:
        raise InvalidArgumentError(
            None, None, f"min_after_dequeue {kept} must be < capacity {capacity}")


class PaddingFIFOQueue(Queue):
    """Batches components of different sizes by padding them with zeros to the largest."""

    kind = "PaddingFIFOQueue"

    def _check_can_batch(self, up_to: bool) -> None:
        """Every shape has a known rank, so every batch can be padded."""

    def _batch(self, elements: list[Element]) -> Element:
        if not elements:
            return tuple([np.empty((0, *[d or 0 for d in s.as_list()]), t.np)
                          for t, s in zip(self.types, self.shapes, strict=True)])
        return tuple([_pad([e[i] for e in elements], t) for i, t in enumerate(self.types)])


class PriorityQueue(Queue):
    """The first component is an int64 priority; the lowest goes first, equal ones in order."""

    kind = "PriorityQueue"
    is_in_order = False

    def _make_store(self) -> None:
        self._elements = []
        self._serial = 0

    def _store(self, elements: list[Element]) -> None:
        for element in elements:
            self._serial += 1
            heapq.heappush(self._elements, (int(element[0]), self._serial, element))

    def _take(self, count: int, taken: list[Element]) -> None:
        for _ in range(count):
            taken.append(heapq.heappop(self._elements)[-1])

    def _put_back(self, elements: list[Element]) -> None:
        for back, element in enumerate(reversed(elements)):
            heapq.heappush(self._elements, (int(element[0]), -1 - back, element))

    def _remove(self, elements: list[Element]) -> bool:
        wanted = {id(e) for e in elements}
        kept = [entry for entry in self._elements if id(entry[-1]) not in wanted]
        if len(kept) + len(wanted) > len(self._elements):
            return False
        heapq.heapify(kept)
        self._elements = kept
        return True


def _pad(values: list, dtype: DType) -> np.ndarray:
    shapes = [np.shape(v) for v in values]
    largest = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    blank: Any = b"" if dtype.name == "string" else 0
    out = np.full((len(values), *largest), blank, dtype.np)
    for i, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        part = (slice(i, i + 1), *[slice(n) for n in shape])
        out[part] = value
    return out
