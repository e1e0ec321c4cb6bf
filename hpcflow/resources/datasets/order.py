"""Data sets with the elements of others: fewer, more often, in another order, side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import FailedPreconditionError, InvalidArgumentError, OpError
from hpcflow.resources.datasets.base import INFINITE, UNKNOWN, Dataset, Dims, Element, Run


class Derived(Dataset):
    """A data set over another one."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims]) -> None:
        super().__init__(types, shapes)
        self.source = source

    def _counted(self, count: Callable[[int], int]) -> int:
        """``count(number of elements of the source)``, where that is a known number."""
        number = self.source.cardinality()
        return number if number < 0 else count(number)


class _WithCount(Derived):
    """A data set over another one, made with a number `count`."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 count: int) -> None:
        super().__init__(source, types, shapes)
        self.count = count


class RepeatDataset(_WithCount):
    """Several passes, or (for a negative count) passes without end."""

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Repeated(self, run)

    def cardinality(self) -> int:
        """As many as the source has, in each pass; INFINITE without end, 0 of nothing."""
        number = self.source.cardinality()
        if not number or not self.count:
            return 0
        return INFINITE if self.count < 0 else self._counted(lambda n: n * self.count)


class _Repeated:
    def __init__(self, dataset: RepeatDataset, run: Run) -> None:
        self._source, self._run = dataset.source, run
        self._left = dataset.count
        self._current: Iterator[Element] = iter(())
        self._found = True  # an element since the last pass began

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        while True:
            for element in self._current:
                self._found = True
                return element
            # Without end over nothing would never return.
            if not self._left or self._left < 0 and not self._found:
                raise StopIteration
            self._run.check()
            self._left -= self._left > 0
            self._found = False
            self._current = self._source.iterate(self._run)


class TakeDataset(_WithCount):
    """The first elements; all for a negative count."""

    def _pass(self, run: Run) -> Iterator[Element]:
        elements = self.source.iterate(run)
        return elements if self.count < 0 else islice(elements, self.count)

    def cardinality(self) -> int:
        """As many as the source has, up to the count: all of an endless one are no more."""
        number = self.source.cardinality()
        if number == INFINITE and self.count >= 0:
            return self.count
        return self._counted(lambda n: n if self.count < 0 else min(n, self.count))


class SkipDataset(_WithCount):
    """All but the first elements; none for a negative count."""

    def _pass(self, run: Run) -> Iterator[Element]:
        if self.count < 0:
            return iter(())
        elements = self.source.iterate(run)
        return islice(elements, self.count, None) if self.count else elements

    def cardinality(self) -> int:
        """What the source has beyond the count; nothing is beyond a negative one."""
        return self._counted(lambda n: max(0, n - self.count) if self.count >= 0 else 0)


class ShardDataset(Derived):
    """Every `count`-th element, from number `index` on."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], count: int,
                 index: int) -> None:
        if count <= 0:
            raise InvalidArgumentError(None, None, "Number of shards must be greater than zero "
                                       f"(currently num_shards = {count}).")
        if not 0 <= index < count:
            raise InvalidArgumentError(None, None, "Index must be between 0 and "
                                       f"{count - 1} (currently index = {index}).")
        super().__init__(source, types, shapes)
        self.count, self.index = count, index

    def _pass(self, run: Run) -> Iterator[Element]:
        return islice(self.source.iterate(run), self.index, None, self.count)

    def cardinality(self) -> int:
        """Its part of what the source has."""
        return self._counted(lambda n: len(range(self.index, n, self.count)))


class CountedDataset(_WithCount):
    """The elements of `source`, of which there must be `count`: ``FailedPreconditionError`` where
    there are more, or fewer."""

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Counted(self.source.iterate(run), self.count)

    def cardinality(self) -> int:
        """What is asserted."""
        return self.count


class _Counted:
    def __init__(self, source: Iterator[Element], count: int) -> None:
        self._source, self._count, self._seen = source, count, 0

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        try:
            element = next(self._source)
        except StopIteration:
            if self._count not in (self._seen, UNKNOWN):
                raise self._wrong(f"contained {self._seen} elements") from None
            raise
        self._seen += 1
        if 0 <= self._count < self._seen:
            raise self._wrong(f"contained at least {self._seen} elements")
        return element

    def _wrong(self, found: str) -> FailedPreconditionError:
        expected = "an infinite number of" if self._count == INFINITE else self._count
        return FailedPreconditionError(None, None, f"Input dataset was expected to contain "
                                       f"{expected} elements but {found}.")


class ConcatenateDataset(Dataset):
    """The elements of one, then those of the other."""

    def __init__(self, first: Dataset, second: Dataset, types: list[DType],
                 shapes: list[Dims]) -> None:
        super().__init__(types, shapes)
        self.parts = (first, second)

    def _pass(self, run: Run) -> Iterator[Element]:
        return chain.from_iterable(p.iterate(run.at(i)) for i, p in enumerate(self.parts))

    def cardinality(self) -> int:
        """The sum of both; INFINITE if one is, whatever the other is."""
        numbers = [part.cardinality() for part in self.parts]
        for kind in (INFINITE, UNKNOWN):
            if kind in numbers:
                return kind
        return sum(numbers)


class ZipDataset(Dataset):
    """Elements side by side, as long as all have one."""

    def __init__(self, parts: tuple[Dataset, ...], types: list[DType],
                 shapes: list[Dims]) -> None:
        super().__init__(types, shapes)
        self.parts = parts

    def _pass(self, run: Run) -> Iterator[Element]:
        sources = [part.iterate(run.at(i)) for i, part in enumerate(self.parts)]
        return map(_joined, zip(*sources))

    def cardinality(self) -> int:
        """The least of all; UNKNOWN if one is, as it may be that."""
        numbers = [part.cardinality() for part in self.parts]
        if UNKNOWN in numbers:
            return UNKNOWN
        return min((n for n in numbers if n != INFINITE), default=INFINITE)


def _joined(elements: tuple[Element, ...]) -> Element:
    return tuple(chain.from_iterable(elements))


class DirectedDataset(Dataset):
    """Elements of the parts whose numbers another data set gives; a part that has ended is passed
    over."""

    def __init__(self, choices: Dataset, parts: tuple[Dataset, ...], types: list[DType],
                 shapes: list[Dims]) -> None:
        super().__init__(types, shapes)
        self.choices, self.parts = choices, parts

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Directed(self.choices.iterate(run.at(0)),
                         [p.iterate(run.at(i)) for i, p in enumerate(self.parts, 1)])


class _Directed:
    def __init__(self, choices: Iterator[Element], parts: list[Iterator[Element]]) -> None:
        self._choices = choices
        self._parts: dict[int, Iterator[Element]] = dict(enumerate(parts))
        self._count = len(parts)

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        while self._parts:
            (number,) = next(self._choices)
            if not 0 <= number < self._count:
                raise InvalidArgumentError(
                    None, None, f"Selector index out of range: {number} >= {self._count}")
            for element in self._parts.get(int(number), ()):
                return element
            self._parts.pop(int(number), None)
        raise StopIteration


class UniqueDataset(Derived):
    """Each element once."""

    def _pass(self, run: Run) -> Iterator[Element]:
        seen: set[Any] = set()

        def is_new(element: Element) -> bool:
            (value,) = element
            dims = np.shape(value)
            key = (dims, *np.ravel(value).tolist()) if dims else value
            known = key in seen
            seen.add(key)
            return not known

        return filter(is_new, self.source.iterate(run))


class CacheDataset(Derived):
    """The elements of the first full pass, kept in memory."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims]) -> None:
        super().__init__(source, types, shapes)
        self.elements: list[Element] | None = None

    def _pass(self, run: Run) -> Iterator[Element]:
        if self.elements is not None:
            return iter(self.elements)
        return _Filling(self, self.source.iterate(run))

    def cardinality(self) -> int:
        """As many as the source has."""
        return self.source.cardinality()


class _Filling:
    """The first pass over a cache."""

    def __init__(self, cache: Any, source: Iterator[Element]) -> None:
        self._cache, self._source = cache, source
        self._elements: list[Element] = []

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        try:
            element = next(self._source)
        except StopIteration:
            self._cache.elements = self._elements
            raise
        self._elements.append(element)
        return element


class WindowDataset(Derived):
    """Windows of elements: each element is a data set per component."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 shift: int, stride: int, drop_remainder: bool) -> None:
        for name, value in (("size", size), ("shift", shift), ("stride", stride)):
            if value <= 0:
                raise InvalidArgumentError(None, None, f"Window {name} must be greater than zero.")
        super().__init__(source, types, shapes)
        self.size, self.shift, self.stride = size, shift, stride
        self.drop_remainder = drop_remainder

    def _pass(self, run: Run) -> Iterator[Element]:
        return map(self._joined, _Windows(self, self.source.iterate(run)))

    def _joined(self, elements: list[Element]) -> Element:
        """What a window gives of its elements."""
        return tuple([ListDataset([t], [s], [(v,) for v in column]) for t, s, column in zip(
            self.source.types, self.source.shapes, zip(*elements, strict=True), strict=True)])

    def cardinality(self) -> int:
        """A window for every `shift` elements, but for those at the end that would not be whole, if
        they are left out."""
        least = (self.size - 1) * self.stride + 1 if self.drop_remainder else 1
        return self._counted(lambda n: len(range(least, n + 1, self.shift)))


class _Windows:
    """The lists of the elements of windows."""

    def __init__(self, dataset: WindowDataset, source: Iterator[Element]) -> None:
        self._dataset, self._source = dataset, source
        self._buffer: deque[Element | OpError] = deque()  # errors in the place of elements
        self._skip = 0  # elements between windows

    def __iter__(self) -> Iterator[list[Element]]:
        return self

    def __next__(self) -> list[Element]:
        dataset, buffer = self._dataset, self._buffer
        span = (dataset.size - 1) * dataset.stride + 1
        while self._skip:
            self._next()
            self._skip -= 1
        while len(buffer) < span:
            try:
                buffer.append(self._next())
            except StopIteration:
                break
        if not buffer or len(buffer) < span and dataset.drop_remainder:
            raise StopIteration
        window = list(buffer)[:: dataset.stride]
        self._skip = max(0, dataset.shift - len(buffer))
        for _ in range(min(dataset.shift, len(buffer))):
            buffer.popleft()
        elements = []
        for element in window:
            if isinstance(element, OpError):
                raise element
            elements.append(element)
        return elements

    def _next(self) -> Element | OpError:
        """The next element, or the error that is in its place."""
        try:
            return next(self._source)
        except OpError as error:
            return error


class ListDataset(Dataset):
    """Elements that are there already."""

    def __init__(self, types: list[DType], shapes: list[Dims], elements: list[Element]) -> None:
        super().__init__(types, shapes)
        self.elements = elements

    def _pass(self, run: Run) -> Iterator[Element]:
        return iter(self.elements)

    def cardinality(self) -> int:
        """The length of the list."""
        return len(self.elements)
