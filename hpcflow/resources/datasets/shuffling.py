"""Data sets whose elements come in a random order, the one that TensorFlow 1.x draws for a seed."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.resources.datasets.base import Dataset, Dims, Element, Run
from hpcflow.resources.datasets.order import Derived, RepeatDataset

#: Random numbers of 32 bits without end, for two seeds.
Draws = Callable[[int, int], Iterator[int]]


class Seeds:
    """Where passes get their random numbers: each two seeds drawn from one sequence for every place
    of a data set in a run; where both seeds are zero, the run's own.

    With `same` every pass gets the same numbers, those of the seeds themselves.
    """

    def __init__(self, seed: int, seed2: int, draws: Draws, same: bool = False) -> None:
        self._seeds, self._draws, self._same = (seed, seed2), draws, same
        self._sequences: weakref.WeakKeyDictionary[Any, dict[tuple, Iterator[int]]] = (
            weakref.WeakKeyDictionary())
        self._lock = threading.Lock()

    def next(self, run: Run) -> Iterator[int]:
        """The random numbers of the next pass, which is part of a run."""
        if not any(self._seeds):
            return iter(functools.partial(run.generator(self, self._same).getrandbits, 32), None)
        if self._same:
            return self._draws(*self._seeds)
        with self._lock:
            places = self._sequences.setdefault(run.shared, {})
            if run.place not in places:
                places[run.place] = self._draws(*self._seeds)
            return self._draws(next(places[run.place]), next(places[run.place]))

    def for_all_passes(self) -> Seeds | None:
        """What draws for all passes at once; None if each has the same numbers, or any."""
        if self._same or not any(self._seeds):
            return None
        return Seeds(*self._seeds, self._draws, same=True)


class ShuffleDataset(Derived):
    """Elements drawn from a buffer of the next ones, in `count` passes (without end if negative).

    An element of a pass comes before all of the next pass, of which the buffer may hold some.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 seeds: Seeds, count: int = 1) -> None:
        if size <= 0:
            raise InvalidArgumentError(None, None, "buffer_size must be greater than zero.")
        super().__init__(source, types, shapes)
        self.size, self.seeds, self.count = size, seeds, count

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Shuffled(self, run)

    def cardinality(self) -> int:
        """As many as the source has, in each pass."""
        return RepeatDataset(self.source, self.types, self.shapes, self.count).cardinality()

    def repeated(self, count: int) -> Dataset:
        """`count` of these passes. With seeds the passes share a sequence of random numbers, as
        they do in 1.x, which makes one data set of the two."""
        seeds = self.seeds.for_all_passes() if self.count == 1 else None
        if seeds is None:
            return RepeatDataset(self, self.types, self.shapes, count)
        return ShuffleDataset(self.source, self.types, self.shapes, self.size, seeds, count)


class _Shuffled:
    """The passes over a :class:`ShuffleDataset`.

    The buffer is a ring: an element that is taken leaves its place to the first, and the place of
    the first to the next that comes.
    """

    def __init__(self, dataset: ShuffleDataset, run: Run) -> None:
        self._source, self._run, self._size = dataset.source, run, dataset.size
        self._draws = dataset.seeds.next(run)
        self._left = dataset.count  # passes that have not begun
        self._current: Iterator[Element] | None = None
        self._found = True  # an element since the last pass began
        self._buffer: list[Element] = []
        self._first = self._next = 0  # places of the first element, and after the last
        self._ends: deque[int] = deque()  # where the passes end that are in the buffer whole

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        buffer, size = self._buffer, self._size
        while self._next - self._first < size and self._advance():
            pass
        while self._ends and self._ends[0] == self._first:
            self._ends.popleft()
        if self._first == self._next:
            raise StopIteration
        end = self._ends[0] if self._ends else self._next
        chosen = (self._first + next(self._draws) % (end - self._first)) % size
        element, buffer[chosen] = buffer[chosen], buffer[self._first % size]
        buffer[self._first % size] = ()
        self._first += 1
        return element

    def _advance(self) -> bool:
        """Put the next element into the buffer, or begin the next pass; False if all is over."""
        if self._current is None:
            # Without end over nothing would never return.
            if not self._left or self._left < 0 and not self._found:
                return False
            self._run.check()
            self._current, self._found = self._source.iterate(self._run), False
            self._left -= 1
        for element in self._current:
            self._found = True
            if len(self._buffer) < self._size:
                self._buffer.append(element)
            else:
                self._buffer[self._next % self._size] = element
            self._next += 1
            return True
        self._current = None
        self._ends.append(self._next)
        return True
