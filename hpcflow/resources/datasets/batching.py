"""Data sets of batches: elements below each other, padded where their shapes differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import DataLossError, InvalidArgumentError, OpError
from hpcflow.resources.datasets.base import Dataset, Dims, Element, Run, show
from hpcflow.resources.datasets.order import Derived, WindowDataset


def stacked(column: tuple, dtype: DType, component: int = 0) -> np.ndarray:
    """The values of one component below each other."""
    first = column[0]
    dims = np.shape(first)
    if not dims:
        if dtype.np.kind != "O":
            try:
                return np.array(column, dtype.np)
            except (ValueError, TypeError):
                raise _different(column, dims, component) from None
        return _objects(column)
    if any([np.shape(v) != dims for v in column]):
        raise _different(column, dims, component)
    return np.stack(column)


def _objects(column: tuple) -> np.ndarray:
    result = np.empty(len(column), object)
    for i, value in enumerate(column):
        if np.shape(value):
            raise _different(column, (), 0)
        result[i] = value
    return result


def _different(column: tuple, dims: tuple, component: int) -> InvalidArgumentError:
    index, other = next((i, v) for i, v in enumerate(column) if np.shape(v) != dims)
    return InvalidArgumentError(
        None, None, f"Cannot batch tensors with different shapes in component {component}. First "
        f"element had shape {show(dims)} and element {index} had shape {show(np.shape(other))}.")


class _Batching(Derived):
    """Batches of `size` elements of the source; the last may have fewer, or be left out."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 drop_remainder: bool) -> None:
        if size <= 0:
            raise InvalidArgumentError(None, None, "Batch size must be greater than zero.")
        super().__init__(source, types, shapes)
        self.size, self.drop_remainder = size, drop_remainder

    def cardinality(self) -> int:
        """What the source has by the size: rounded up, or down where a smaller one is left out."""
        return self._counted(
            lambda n: n // self.size if self.drop_remainder else -(-n // self.size))


class BatchDataset(_Batching):
    """So many elements below each other; the last batch may have fewer, or be left out.

    With `whole` an element that cannot be computed takes its whole batch with it.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 drop_remainder: bool, whole: bool = False) -> None:
        super().__init__(source, types, shapes, size, drop_remainder)
        self._whole = whole

    def _pass(self, run: Run) -> Iterator[Element]:
        groups = _WholeGroups if self._whole else _Groups
        return map(self._joined, groups(self.source.iterate(run), self.size,
                                        self.drop_remainder))

    def _joined(self, elements: list[Element]) -> Element:
        try:
            return _below_each_other(elements, self.types)
        except InvalidArgumentError as e:
            if not self._whole:
                raise
            raise InvalidArgumentError(None, None, "Cannot add tensor to the batch: number of "
                                       f"elements does not match. {e.message}") from None


def _below_each_other(elements: list[Element], types: list[DType]) -> Element:
    """One element of what has the same place in all."""
    return tuple([stacked(column, dtype, i) for i, (column, dtype) in enumerate(
        zip(zip(*elements, strict=True), types, strict=True))])


class _Groups:
    """Lists of the next elements; the last may be shorter, or dropped."""

    def __init__(self, source: Iterator[Element], size: int, drop_remainder: bool) -> None:
        self._source, self._size = source, size
        self._least = size if drop_remainder else 1

    def __iter__(self) -> Iterator[list[Element]]:
        return self

    def __next__(self) -> list[Element]:
        group = list(islice(self._source, self._size))
        if len(group) < self._least:
            raise StopIteration
        return group


class _WholeGroups(_Groups):
    """Groups that end where they would without an error of one of their elements."""

    def __next__(self) -> list[Element]:
        group: list[Element] = []
        error: OpError | None = None
        for _ in range(self._size):
            try:
                group.append(next(self._source))
            except StopIteration:
                break
            except OpError as e:
                error = error or e
        if error is not None:
            raise error
        if len(group) < self._least:
            raise StopIteration
        return group


class SlidingWindowDataset(WindowDataset):
    """Windows of elements, all of them whole, each as one element: below each other."""

    def _joined(self, elements: list[Element]) -> Element:
        return _below_each_other(elements, self.types)


class PaddedBatchDataset(_Batching):
    """Batches of elements that are padded to a common shape.

    Args:
        padded: per component its padded dims; -1 for as many as the largest of a batch has.
        values: what is padded with.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 padded: list[tuple[int, ...]], values: tuple, drop_remainder: bool) -> None:
        super().__init__(source, types, shapes, size, drop_remainder)
        for dims in padded:
            if any(d < -1 for d in dims):
                raise InvalidArgumentError(None, None, "Every dimension of padded_shapes must be "
                                           f"at least -1, but {show(dims)} is not")
        self.padded, self.values = padded, values

    def _pass(self, run: Run) -> Iterator[Element]:
        return map(self._joined, _Groups(self.source.iterate(run), self.size,
                                         self.drop_remainder))

    def _joined(self, elements: list[Element]) -> Element:
        columns = zip(*elements, strict=True)
        return tuple([_padded(column, t, i, dims, value) for i, (column, t, dims, value) in
                      enumerate(zip(columns, self.types, self.padded, self.values, strict=True))])


def _padded(column: tuple, dtype: DType, component: int, dims: tuple[int, ...],
            value: np.generic | bytes) -> np.ndarray:
    shapes = [np.shape(v) for v in column]
    for shape in shapes:
        if len(shape) != len(dims):
            raise InvalidArgumentError(
                None, None, "All elements in a batch must have the same rank as the padded shape "
                f"for component{component}: expected rank {len(dims)} but got element with rank "
                f"{len(shape)}")
    full = []
    for axis, size in enumerate(dims):
        largest = max([s[axis] for s in shapes])
        if size >= 0 and largest > size:
            raise DataLossError(
                None, None, f"Attempted to pad to a smaller size than the input element: component "
                f"{component} has {largest} in dimension {axis}, to be padded to {size}")
        full.append(largest if size < 0 else size)
    result = np.empty((len(column), *full), dtype.np)
    result[...] = value  # np.full would take final zeros off a string
    for i, (item, shape) in enumerate(zip(column, shapes, strict=True)):
        place: tuple = (i, *[slice(n) for n in shape])
        result[place] = item
    return result


class SparseBatchDataset(_Batching):
    """So many elements of one component as one sparse tensor: its indices, values and shape.

    `row_shape` bounds the elements; -1 stands for the largest of a batch.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], size: int,
                 row_shape: tuple[int, ...]) -> None:
        super().__init__(source, types, shapes, size, False)
        self.row_shape = row_shape

    def _pass(self, run: Run) -> Iterator[Element]:
        return map(self._joined, _Groups(self.source.iterate(run), self.size, False))

    def _joined(self, elements: list[Element]) -> Element:
        rows = [np.asarray(row) for row, in elements]
        for row in rows:
            self._check(row.shape)
        places = [np.stack([np.full(row.size, i), *np.indices(row.shape).reshape(
            row.ndim, row.size)], 1) for i, row in enumerate(rows)]
        dims = [max((row.shape[k] for row in rows), default=0) if most < 0 else most
                for k, most in enumerate(self.row_shape)]
        made = np.empty(3, object)
        made[0] = np.concatenate(places).astype(np.int64)
        made[1] = np.concatenate([row.reshape(-1) for row in rows])
        made[2] = np.array([len(rows), *dims], np.int64)
        return (made,)

    def _check(self, dims: tuple[int, ...]) -> None:
        bounds = show(tuple(None if d < 0 else d for d in self.row_shape))
        if len(dims) != len(self.row_shape):
            raise InvalidArgumentError(None, None, f"Input element had shape {show(dims)} that is "
                                       f"incompatible with the row shape {bounds}")
        if any(0 <= most < n for n, most in zip(dims, self.row_shape, strict=True)):
            raise DataLossError(None, None, f"Input element had shape {show(dims)} that is larger "
                                f"than the row shape {bounds}")


class UnbatchDataset(Derived):
    """The slices of the elements along their first dimension."""

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Slices(self.source.iterate(run))


class _Slices:
    def __init__(self, source: Iterator[Element]) -> None:
        self._source = source
        self._current: Iterator[Element] = iter(())

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        while True:
            for element in self._current:
                return element
            components = next(self._source)
            sizes = {len(c) for c in components if np.ndim(c)}
            if not all(np.ndim(c) for c in components):
                raise InvalidArgumentError(None, None, "Input element must have a non-scalar value "
                                           "in each component.")
            if len(sizes) > 1:
                raise InvalidArgumentError(None, None, "Input element must have the same batch "
                                           "size in each component. Component sizes: "
                                           f"{sorted(sizes)}")
            self._current = zip(*[iter(c) for c in components], strict=True)
