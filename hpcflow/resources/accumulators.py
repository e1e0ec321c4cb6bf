"""Accumulators: averages of gradients that are fresh enough, for synchronous training.

A gradient carries the number of the step it was computed in; one that is older than the
accumulator's own step number is dropped. Whoever takes the average waits until enough gradients
have come, and taking it begins the accumulator's next step. (Chen et al., "Revisiting Distributed
Synchronous SGD", 2016.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.effects import Effect, Undoing
from hpcflow.resources.waiting import WaitingLine
from hpcflow.shapes import ShapeLike, TensorShape, format_shape

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


class Accumulator(WaitingLine):
    """A base of dense and sparse accumulators: counting, step numbers, waiting.

    Args:
        name: for messages.
        dtype: element type of the gradients.
        shape: what every gradient's shape must be compatible with.
        averages: whether the result is the mean of the gradients, or else their sum.
    """

    kind = "ConditionalAccumulator"

    def __init__(self, name: str, dtype: DType, shape: TensorShape, averages: bool = True) -> None:
        super().__init__(name)
        self.averages = averages
        self.dtype = dtype
        self.shape = shape
        self.global_step = 0
        self.count = 0

    def properties(self) -> dict[str, Any]:
        """The kind, the gradients, and what is made of them."""
        return {"type": self.kind, "element type": self.dtype.name, "shape": str(self.shape),
                "reduction type": "MEAN" if self.averages else "SUM"}

    def num_accumulated(self) -> int:
        """The number of gradients since the last average was taken."""
        with self.lock:
            return self.count

    def set_global_step(self, step: int) -> None:
        """Set the step number; gradients of earlier steps are dropped from now on."""
        with self.lock:
            if step < self.global_step:
                logging.getLogger("hpcflow").warning(
                    "%s '%s': the global step is set from %d back to %d", self.kind, self.name,
                    self.global_step, step)
            self.global_step = step

    def apply(self, local_step: int, gradient: tuple) -> None:
        """Add a gradient computed in step `local_step`, unless it is stale.

        Raises ``InvalidArgumentError`` if its shape does not fit.
        """
        with self.lock:
            if local_step < self.global_step:
                return
            self._check(*gradient)
            self._add(*gradient)
            self.count += 1
        self.serve()

    def take(self, num_required: int, done: Callable[[Any], None]) -> Attempt:
        """``done(outputs)`` with the average, once `num_required` gradients have come.

        Raises ``InvalidArgumentError`` unless `num_required` is positive.
        """
        if num_required <= 0:
            raise InvalidArgumentError(
                None, None, f"Argument num_required must be positive, but was {num_required}")

        attempt = _Take(self, num_required, done)
        self.join(attempt)
        return attempt

    def effect(self, attempt: Attempt) -> Effect:
        """Return the effect of a take, for a step that may end without its results: the gradients
        go back, unless another average was taken since."""
        def words(count: int) -> str:
            return f"the average of {count} gradients of {self.kind} '{self.name}'" * (count > 0)

        def undo() -> str:
            self.cancel(attempt)
            with self.lock:
                left = attempt.undo()
            self.serve()
            return words(left)

        return Undoing(undo, lambda: words(attempt.count()))

    def _check(self, *gradient: Any) -> None:
        """Raise ``InvalidArgumentError`` unless the gradient fits."""
        raise NotImplementedError

    def _add(self, *gradient: Any) -> None:
        """Add the gradient; the first one if ``count`` is 0."""
        raise NotImplementedError

    def _average(self) -> tuple[tuple, Callable[[], None]]:
        """The outputs of taking the average, and a function that adds again what was added so far,
        and is now forgotten."""
        raise NotImplementedError


class _Take(Attempt):
    """A take of an average, to be put back while nobody has seen it."""

    __slots__ = ("_accumulator", "_required", "_put_back", "_step", "_count")

    def __init__(self, accumulator: Accumulator, required: int,
                 done: Callable[[Any], None]) -> None:
        self.done, self.over = done, False
        self._accumulator, self._required = accumulator, required
        self._put_back: Callable[[], None] = lambda: None
        self._step = self._count = 0

    def advance(self) -> tuple | None:
        """Begin the accumulator's next step, if enough gradients have come: the average of the
        last one. Its lock is held."""
        accumulator = self._accumulator
        if accumulator.count < self._required:
            return None
        average, self._put_back = accumulator._average()
        self._count, accumulator.count = accumulator.count, 0
        accumulator.global_step += 1
        self._step = accumulator.global_step
        return average

    def undo(self) -> int:
        """Go back to the step before; how many gradients stay taken. The lock is held."""
        accumulator = self._accumulator
        if self._count and accumulator.global_step == self._step:
            self._put_back()
            accumulator.count += self._count
            accumulator.global_step -= 1
            self._count = 0
        return self._count

    def count(self) -> int:
        """The number of gradients."""
        return self._count


class DenseAccumulator(Accumulator):
    """Averages dense gradients."""

    _sum: Any

    def _check(self, gradient: Tensor) -> None:
        dims = np.shape(gradient)
        if dims == (self._sum.shape if self.count else self.shape.dims_tuple):
            return
        expected = TensorShape(self._sum.shape) if self.count else self.shape
        if self.count or not expected.is_compatible_with(dims):
            raise InvalidArgumentError(
                None, None, f"Shape mismatch: expected {format_shape(expected)}, got "
                f"{format_shape(dims)}")

    def _add(self, gradient: Tensor) -> None:
        if self.count:
            self._sum += gradient
        else:
            self._sum = np.array(gradient, dtype=self.dtype.np)

    def _average(self) -> tuple[tuple, Callable[[], None]]:
        total, self._sum, count = self._sum, np.empty(0, self.dtype.np), self.count
        # Whole numbers are the only ones that a division cannot give back.
        kept = total.copy() if self.averages and total.dtype.kind in "iu" else None
        if self.averages:
            _divide(total, total.dtype.type(count))

        def put_back() -> None:
            summed = kept if kept is not None else (
                total * total.dtype.type(count) if self.averages else total.copy())
            self._sum = summed + self._sum if self.count else np.asarray(summed)

        return (total if total.ndim else total[()],), put_back


class SparseAccumulator(Accumulator):
    """Averages gradients of some rows: each row over the gradients that have it.

    Rows that one gradient has several times are added first. ``shape`` is that of the dense tensor.
    """

    kind = "SparseConditionalAccumulator"

    _indices: Any
    _rows: Any
    _times: Any

    def _check(self, indices: Any, values: Any, shape: ShapeLike) -> None:
        indices, values, shape = np.asarray(indices), np.asarray(values), np.asarray(shape)
        if indices.ndim != 1:
            raise InvalidArgumentError(
                None, None, "Input indices should be vector but received shape: "
                f"{format_shape(indices.shape)}")
        if values.ndim < 1:
            raise InvalidArgumentError(None, None, "Values cannot be 0-dimensional.")
        if len(indices) != len(values):
            raise InvalidArgumentError(None, None, f"Expected {len(indices)} non-empty input "
                                       f"values, got {len(values)}")
        declared = [] if self.shape.ndims is None else self.shape.as_list()
        if shape.size:
            self._check_shape(shape, values, declared)
        self._check_indices(indices, shape, declared)
        if len(indices):
            self._check_rows(values.shape, declared)

    def _check_indices(self, indices: np.ndarray, shape: np.ndarray, declared: list) -> None:
        rows = declared[0] if declared and declared[0] is not None else None
        if rows is None and shape.size and shape[0] >= 0:
            rows = int(shape[0])
        outside = (indices < 0) | (False if rows is None else indices >= rows)
        if outside.any():
            where = int(np.flatnonzero(outside)[0])
            raise InvalidArgumentError(
                None, None, f"Shape mismatch: index of slice {where} exceeded limits of shape; "
                f"index is {indices[where]} exceeded {rows}")

    def _check_rows(self, dims: tuple[int, ...], declared: list) -> None:
        """The values of every row must begin with the declared dims, and have those of earlier
        gradients."""
        if self.count and len(self._rows):
            expected, least = self._rows.shape, ""
        else:
            expected, least = declared, "at least "
        if len(dims) < len(expected) or (not least and len(dims) > len(expected)):
            raise InvalidArgumentError(
                None, None, f"Shape mismatch: expected values rank {least}{len(expected)}, got "
                f"{len(dims)}")
        for i, (want, have) in enumerate(zip(expected[1:], dims[1:], strict=False), 1):
            if want is not None and want != have:
                raise InvalidArgumentError(
                    None, None, f"Shape mismatch: expected values dim {i} to be {want}, got {have}")

    def _check_shape(self, shape: np.ndarray, values: np.ndarray, declared: list) -> None:
        """A gradient's own dense shape must agree with the declared one and with its values."""
        if shape.ndim != 1 or len(shape) < len(declared):
            raise InvalidArgumentError(
                None, None, f"Shape mismatch: expected shape rank at least {len(declared)}, got "
                f"{shape.size}")
        wanted = declared + [None] * (len(shape) - len(declared))
        if len(values):
            wanted[1:] = [b if a is None else a for a, b in
                          zip_longest(wanted[1:], values.shape[1:len(shape)])]
        for i, (want, have) in enumerate(zip(wanted, shape.tolist(), strict=True)):
            if want is not None and have >= 0 and want != have:
                raise InvalidArgumentError(
                    None, None, f"Shape mismatch: expected shape dim {i} to be {want}, got {have}")

    def _add(self, indices: Any, values: Any, shape: ShapeLike) -> None:
        unique, rows = _summed(np.asarray(indices), np.asarray(values, self.dtype.np))
        if not self.count or not len(self._indices):
            if not self.count or len(unique):
                self._indices, self._rows = unique, rows
                self._times = np.ones(len(unique), np.int64)
            return
        if not len(unique):
            return
        self._merge(unique, rows, 1)

    def _merge(self, indices: np.ndarray, rows: np.ndarray, times: Any) -> None:
        """Add rows, each of which was added so many times."""
        both = np.union1d(self._indices, indices)
        total = np.zeros((len(both), *rows.shape[1:]), rows.dtype)
        counts = np.zeros(len(both), np.int64)
        for index, part, n in ((self._indices, self._rows, self._times), (indices, rows, times)):
            positions = np.searchsorted(both, index)
            total[positions] += part
            counts[positions] += n
        self._indices, self._rows, self._times = both, total, counts

    def _average(self) -> tuple[tuple, Callable[[], None]]:
        rows, times = self._rows, self._times
        factor = times.astype(rows.dtype).reshape(-1, *[1] * (rows.ndim - 1))
        kept = rows.copy() if self.averages and rows.dtype.kind in "iu" else None
        if self.averages:
            _divide(rows, factor)
        first: Any = -1
        if self.shape.ndims and self.shape.as_list()[0] is not None:
            first = self.shape.as_list()[0]
        shape = np.array([first, *rows.shape[1:]], np.int64)
        indices = self._indices

        def put_back() -> None:
            summed = kept if kept is not None else rows * factor if self.averages else rows.copy()
            if self.count and len(self._indices):
                self._merge(indices, summed, times)
            else:
                self._indices, self._rows, self._times = indices, summed, times

        self._indices, self._rows = indices[:0], rows[:0]
        return (indices, rows, shape), put_back


def _summed(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct indices in order, and per index the sum of its rows; both fresh arrays."""
    unique, positions = np.unique(indices, return_inverse=True)
    rows = np.zeros((len(unique), *values.shape[1:]), values.dtype)
    if len(unique) == len(indices):
        rows[positions.reshape(-1)] = values
    else:
        np.add.at(rows, positions.reshape(-1), values)
    return unique.astype(np.int64), rows


def _divide(total: np.ndarray, by: Any) -> None:
    """Divide in place; integers towards zero."""
    if total.dtype.kind in "iu":
        np.copyto(total, np.trunc(total / by), casting="unsafe")
    else:
        total /= by
