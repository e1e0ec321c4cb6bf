"""Data sets that call functions of the graph for each element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, starmap, takewhile
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError, OpError, OutOfRangeError
from hpcflow.resources.datasets.base import (
    AUTOTUNE,
    UNKNOWN,
    Dataset,
    Dims,
    Element,
    Function,
    Run,
)
from hpcflow.resources.datasets.order import Derived, ListDataset

#: Makes of a function one that ends the sequence, or raises, where the function is out of range.
Limit = Callable[[Callable[..., tuple]], Callable[..., tuple]]


def ending(function: Callable[..., tuple]) -> Callable[..., tuple]:
    """`function`, which ends the sequence when it is out of range."""

    def call(*inputs: Any) -> tuple:
        try:
            return function(*inputs)
        except OutOfRangeError:
            raise StopIteration from None

    return call


def refusing(function: Callable[..., tuple]) -> Callable[..., tuple]:
    """`function`, which may not be out of range: that is an error of the element."""

    def call(*inputs: Any) -> tuple:
        try:
            return function(*inputs)
        except OutOfRangeError as error:
            raise InvalidArgumentError(None, None, "Function invocation produced OutOfRangeError: "
                                       f"{error.message}") from None

    return call


class MapDataset(Derived):
    """A data set of the results of a function of each element."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function) -> None:
        super().__init__(source, types, shapes)
        self.function = function

    def _pass(self, run: Run) -> Iterator[Element]:
        # In starmap, as the sequence goes on after an error of the function.
        return starmap(ending(run.function(self.function)), self.source.iterate(run))


class FilterDataset(Derived):
    """The elements for which a function is true."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function) -> None:
        super().__init__(source, types, shapes)
        self.function = function

    def _pass(self, run: Run) -> Iterator[Element]:
        return filter(self._chosen(run), self.source.iterate(run))

    def _chosen(self, run: Run) -> Callable[[Element], bool]:
        call = run.function(self.function)

        def chosen(element: Element) -> bool:
            (result,) = call(*element)
            if getattr(result, "shape", ()) != ():
                raise InvalidArgumentError(None, None, "Filter predicate `f` must return a scalar "
                                           "bool.")
            return bool(result)

        return chosen


class TakeWhileDataset(FilterDataset):
    """The elements before the first for which a function is false."""

    def _pass(self, run: Run) -> Iterator[Element]:
        return takewhile(self._chosen(run), self.source.iterate(run))


class FlatMapDataset(Derived):
    """The elements of the data sets that a function returns, one after the other."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function) -> None:
        super().__init__(source, types, shapes)
        self.function = function

    def _pass(self, run: Run) -> Iterator[Element]:
        return chain.from_iterable(starmap(opening(run, self.function), self.source.iterate(run)))


def opening(run: Run, function: Function) -> Callable[..., Iterator[Element]]:
    """A function of an element that goes over the data set that `function` makes of it."""
    call = ending(run.function(function))

    def open_one(*element: Any) -> Iterator[Element]:
        (dataset,) = call(*element)
        if not isinstance(dataset, Dataset):
            raise InvalidArgumentError(None, None, "The function must return a single scalar of "
                                       "dtype DT_VARIANT that stands for a dataset.")
        return dataset.iterate(run)

    return open_one


class InterleaveDataset(Derived):
    """Blocks of elements of several data sets that a function makes, in turn."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function, cycle: int, block: int) -> None:
        cycle = cycle_of(cycle)
        for name, value in (("cycle_length", cycle), ("block_length", block)):
            if value <= 0:
                raise InvalidArgumentError(None, None, f"{name} must be greater than zero.")
        super().__init__(source, types, shapes)
        self.function, self.cycle, self.block = function, cycle, block

    def _pass(self, run: Run) -> Iterator[Element]:
        sources = starmap(opening(run, self.function), self.source.iterate(run))
        return Interleaved(sources, self.cycle, self.block)


def cycle_of(length: int) -> int:
    """The number of data sets at a time: any that is given, else one for all machines, as the
    order of the elements follows from it."""
    return 4 if length == AUTOTUNE else length


class Interleaved:
    """Elements of the iterators that `sources` gives, `cycle` of them at a time.

    With `counted`, an error takes the place of an element in its block, and a source that cannot be
    had is one of a single error; otherwise the block goes on behind an error.
    """

    def __init__(self, sources: Iterator[Iterator[Element]], cycle: int, block: int,
                 counted: bool = False) -> None:
        self._sources, self._block, self._counted = sources, block, counted
        self._open: list[Iterator[Element] | None] = [None] * cycle
        self._at = self._taken = 0
        self._ended = False

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        places, empty = self._open, 0
        while empty < len(places):
            current = places[self._at]
            if current is None and not self._ended:
                current = places[self._at] = self._next_source()
                self._ended = current is None
            if current is None:
                empty += 1
                self._advance()
                continue
            empty = 0
            try:
                element = next(current)
            except StopIteration:
                places[self._at] = None
                self._advance()
                continue
            except OpError:
                if self._counted:
                    self._take()
                raise
            self._take()
            return element
        raise StopIteration

    def _next_source(self) -> Iterator[Element] | None:
        try:
            return next(self._sources, None)
        except OpError as e:
            if self._counted:
                return _Failing(e)
            raise

    def _take(self) -> None:
        self._taken += 1
        if self._taken == self._block:
            self._advance()

    def _advance(self) -> None:
        self._at = (self._at + 1) % len(self._open)
        self._taken = 0


class _Failing:
    """An iterator that raises an error, and ends."""

    def __init__(self, error: OpError) -> None:
        self._error: OpError | None = error

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        error, self._error = self._error, None
        if error is None:
            raise StopIteration
        raise error


class ScanDataset(Derived):
    """A data set of what a function of the state and the element returns besides the next state."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function, initial: tuple, limit: Limit) -> None:
        super().__init__(source, types, shapes)
        self.function, self.initial, self._limit = function, initial, limit

    def _pass(self, run: Run) -> Iterator[Element]:
        call, count = self._limit(run.function(self.function)), len(self.initial)
        state = self.initial

        def advance(*element: Any) -> Element:
            nonlocal state
            results = call(*state, *element)
            state = results[:count]
            return results[count:]

        return starmap(advance, self.source.iterate(run))

    def cardinality(self) -> int:
        """As many as the source has; UNKNOWN if the function may end the data set before."""
        return self.source.cardinality() if self._limit is refusing else UNKNOWN


class IgnoreErrorsDataset(Derived):
    """The elements that can be had; those that fail are left out."""

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Lenient(self.source.iterate(run), run)


class _Lenient:
    def __init__(self, source: Iterator[Element], run: Run) -> None:
        self._source, self._run = source, run

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        while True:
            self._run.check()
            try:
                return next(self._source)
            except OpError:
                continue


class GroupByWindowDataset(Derived):
    """Elements of equal keys in windows, each of which a function makes a data set of.

    Args:
        key: gives the key (int64) of an element.
        size: gives the size of the windows of a key.
        reduce: makes a data set of a key and a window.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], key: Function,
                 size: Function, reduce: Function) -> None:
        super().__init__(source, types, shapes)
        self.key, self.size, self.reduce = key, size, reduce

    def _pass(self, run: Run) -> Iterator[Element]:
        return chain.from_iterable(_KeyWindows(self, run))


class _KeyWindows:
    """The data sets of the windows, in the order in which these are full."""

    def __init__(self, dataset: GroupByWindowDataset, run: Run) -> None:
        self._dataset, self._run = dataset, run
        self._source = dataset.source.iterate(run)
        self._key = run.function(dataset.key)
        self._size = run.function(dataset.size)
        self._open = opening(run, dataset.reduce)
        self._windows: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}

    def __iter__(self) -> Iterator[Iterator[Element]]:
        return self

    def __next__(self) -> Iterator[Element]:
        for element in self._source:
            (key,) = self._key(*element)
            window = self._windows.setdefault(int(key), [])
            if not window:
                self._sizes[int(key)] = self._window_size(key)
            window.append(element)
            if len(window) == self._sizes[int(key)]:
                return self._closed(key)
        if not self._windows:
            raise StopIteration
        return self._closed(min(self._windows))

    def _window_size(self, key: np.generic) -> int:
        (size,) = self._size(key)
        if size <= 0:
            raise InvalidArgumentError(None, None, "Window size must be greater than zero, but got "
                                       f"{int(size)}.")
        return int(size)

    def _closed(self, key: np.generic | int) -> Iterator[Element]:
        source = self._dataset.source
        elements = self._windows.pop(int(key))
        return self._open(np.int64(key),
                          ListDataset(source.types, source.shapes, elements))


class GroupByReducerDataset(Derived):
    """One element for each key, in the order of the keys, of all elements that have it.

    Args:
        key: gives the key (int64) of an element.
        begin: gives the first state of a key.
        reduce: makes the next state of the state and an element.
        finish: makes an element of the last state.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], key: Function,
                 begin: Function, reduce: Function, finish: Function) -> None:
        super().__init__(source, types, shapes)
        self.key, self.begin, self.reduce, self.finish = key, begin, reduce, finish

    def _pass(self, run: Run) -> Iterator[Element]:
        key, begin, reduce, finish = map(run.function,
                                         (self.key, self.begin, self.reduce, self.finish))
        states: dict[int, tuple] = {}
        for element in self.source.iterate(run):
            run.check()
            (found,) = key(*element)
            state = states[int(found)] if int(found) in states else begin(found)
            states[int(found)] = reduce(*state, *element)
        for _, state in sorted(states.items(), key=lambda item: item[0]):
            yield finish(*state)


def reduced(dataset: Dataset, function: Function, initial: tuple, run: Run) -> tuple:
    """The last state that `function` makes of the state before and an element."""
    call, state = run.function(function), initial
    for element in dataset.iterate(run):
        run.check()
        state = call(*state, *element)
    return state


def single(dataset: Dataset, run: Run) -> Element:
    """The only element; ``InvalidArgumentError`` if there are none or several."""
    elements = list(islice(dataset.iterate(run), 2))
    if not elements:
        raise InvalidArgumentError(None, None, "Dataset was empty.")
    if len(elements) > 1:
        raise InvalidArgumentError(None, None, "Dataset had more than one element.")
    return elements[0]
