"""Data sets that make elements: of tensors, of numbers, of what a function of the graph returns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from hpcflow.host.tuning import files as tuning
from hpcflow.resources.datasets.base import INFINITE, Dataset, Dims, Element, Function, Run
from hpcflow.resources.datasets.shuffling import Seeds


class TensorDataset(Dataset):
    """One element."""

    def __init__(self, types: list[DType], shapes: list[Dims], components: Element) -> None:
        super().__init__(types, shapes)
        self.components = components

    def _pass(self, run: Run) -> Iterator[Element]:
        return iter([self.components])

    def cardinality(self) -> int:
        """One."""
        return 1


class SliceDataset(Dataset):
    """The slices of arrays along their first dimension."""

    def __init__(self, types: list[DType], shapes: list[Dims], components: Element) -> None:
        super().__init__(types, shapes)
        sizes = [len(c) for c in components if np.ndim(c)]
        if len(sizes) < len(components):
            raise InvalidArgumentError(None, None, "All components must be at least 1-dimensional")
        for i, size in enumerate(sizes):
            if size != sizes[0]:
                raise InvalidArgumentError(
                    None, None, "All components must have the same size in the 0th dimension; "
                    f"component {i} has {size}, component 0 has {sizes[0]}")
        self.components = components

    def _pass(self, run: Run) -> Iterator[Element]:
        return zip(*[iter(c) for c in self.components], strict=True)

    def cardinality(self) -> int:
        """The first dimension of the arrays."""
        return len(self.components[0])


class SparseSliceDataset(Dataset):
    """The rows of a sparse tensor, each as the indices, values and shape of a sparse tensor."""

    def __init__(self, value_type: DType, indices: np.ndarray, values: np.ndarray,
                 shape: np.ndarray) -> None:
        rest = len(shape) - 1
        super().__init__([dtypes.int64, value_type, dtypes.int64],
                         [(None, rest), (None,), (rest,)])
        if len(indices) != len(values):
            raise InvalidArgumentError(
                None, None, f"The SparseTensor has {len(indices)} indices and {len(values)} "
                "values; there must be as many of both")
        rows = indices[:, 0]
        if (np.diff(rows) < 0).any():
            raise UnimplementedError(
                None, None, "The SparseTensor must be ordered in the batch dimension; handling "
                "arbitrarily ordered input is not currently supported.")
        self.indices, self.values, self.shape = indices, values, shape
        self._ends = np.searchsorted(rows, np.arange(int(shape[0]) + 1))

    def _pass(self, run: Run) -> Iterator[Element]:
        ends, rest = self._ends.tolist(), self.shape[1:]
        for begin, end in pairwise(ends):
            yield self.indices[begin:end, 1:], self.values[begin:end], rest

    def cardinality(self) -> int:
        """The first dimension of the sparse tensor: rows without values count, too."""
        return int(self.shape[0])


class RangeDataset(Dataset):
    """The int64 numbers from `start` to below `stop`."""

    def __init__(self, types: list[DType], shapes: list[Dims], start: int, stop: int,
                 step: int) -> None:
        if not step:
            raise InvalidArgumentError(None, None, "step must be a non-zero integer.")
        super().__init__(types, shapes)
        self.numbers = range(start, stop, step)

    def _pass(self, run: Run) -> Iterator[Element]:
        # Blocks: numbers of an array are made several times faster than one by one.
        numbers, dtype = self.numbers, self.types[0].np
        for first in range(0, len(numbers), tuning.SOURCE_BLOCK):
            part = numbers[first : first + tuning.SOURCE_BLOCK]
            yield from zip(np.arange(part.start, part.stop, part.step, dtype=dtype))

    def cardinality(self) -> int:
        """The length of the range."""
        return len(self.numbers)


class RandomDataset(Dataset):
    """Random int64 numbers below 2**32 without end; seeds of zero give others in every pass."""

    def __init__(self, types: list[DType], shapes: list[Dims], seeds: Seeds) -> None:
        super().__init__(types, shapes)
        self.seeds = seeds

    def _pass(self, run: Run) -> Iterator[Element]:
        for number in self.seeds.next(run):
            yield (np.int64(number),)

    def cardinality(self) -> int:
        """INFINITE."""
        return INFINITE


class GeneratorDataset(Dataset):
    """A data set of what calls of ``next(state)`` return, until one is out of range.

    Args:
        begin: makes the state of a pass.
        following: gives an element of the state.
        end: is called when a pass is over, or given up.
    """

    def __init__(self, types: list[DType], shapes: list[Dims], begin: Function,
                 following: Function, end: Function) -> None:
        super().__init__(types, shapes)
        self.begin, self.following, self.end = begin, following, end

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Generated(self, run)


class _Generated:
    """One pass over a :class:`GeneratorDataset`."""

    def __init__(self, dataset: GeneratorDataset, run: Run) -> None:
        self._begin = run.function(dataset.begin)
        self._following = run.function(dataset.following)
        self._end = run.function(dataset.end)
        self._state: tuple | None = None
        self._over = False

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        if self._over:
            raise StopIteration
        if self._state is None:
            self._state = self._begin()
        try:
            return self._following(*self._state)
        except OutOfRangeError:
            self._finish()
            raise StopIteration from None

    def _finish(self) -> None:
        if not self._over and self._state is not None:
            self._over = True
            state, self._state = self._state, None
            self._end(*state)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._finish()


