"""Arrays that are not computed before they are needed, and then block by block.

The gradient of a training update is often the last of some element-wise operations (scaled,
clipped, with a penalty added) and read once, by the update. Where it is handed over as a
:class:`Deferred`, the update computes it a block at a time, in cache, or in the very loop that it
is compiled to: an array as large as the variable is neither written nor read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from hpcflow.loops.form import Builder


class Source(Protocol):
    """An object that can compute a deferred array."""

    dtype: np.dtype

    @property
    def is_exact(self) -> bool:
        """True if it has a form as a program, which gives the same bits."""

    def write(self, builder: Builder, arrays: list[int], numbers: list[int]) -> int:
        """The value of an element in a program, of those of the arrays and the numbers."""

    def __hash__(self) -> int:
        """Each has its own."""

    def compute(self, arrays: list, numbers: tuple) -> Any:
        """The array that the operations make of `arrays`."""

    def compute_into(self, target: object, arrays: list, numbers: tuple) -> None:
        """The same for blocks of `arrays`, in this thread."""


class Deferred:
    """The array that `source` makes of `arrays`, which have its shape, and `numbers`."""

    __slots__ = ("source", "arrays", "numbers", "shape", "_value")

    def __init__(self, source: Source, arrays: list, numbers: tuple) -> None:
        self.source = source
        self.arrays = arrays
        self.numbers = numbers
        self.shape = arrays[0].shape
        self._value: Any = None

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array."""
        return self.source.dtype

    def value(self) -> Any:
        """The array itself. What it is made of is not referred to any more."""
        if self._value is None:
            self._value = self.source.compute(self.arrays, self.numbers)
            self.arrays = []
        return self._value

    def reads(self, array: np.ndarray) -> bool:
        """True if the array is yet to be computed, and from `array` among others."""
        return any(a is array for a in self.arrays)

    def flat(self) -> list:
        """Return the arrays that it is made of, as vectors; empty if it is computed already."""
        return [a.reshape(-1) for a in self.arrays]
