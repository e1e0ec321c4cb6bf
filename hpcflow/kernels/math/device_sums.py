"""Reductions of large arrays of a device by generated kernels.

They spread a long sum over the whole device, which the array module does not do for the sums of
columns. Axes that lie apart are reduced one after the other. Small arrays, and axes in the middle
of others, are left to the array module.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops.cuda import Launch, Programs
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Program
from hpcflow.loops.meanings import NARROW, numpy_dtype, wide_dtype

_NAMES = {"float16", "bfloat16", "float32", "float64", "int32", "int64"}


class Reducer:
    """Sums, maxima or minima of arrays of one device; sums of narrow floats in float32.

    Programs are made for the lengths of rows that occur, up to a number of them.
    """

    def __init__(self, device: Any, function: str, squares: bool = False) -> None:
        self._xp = device.xp
        self._programs: Programs | None = getattr(device, "programs", None)
        self._function, self._squares = function, squares
        self._known: dict[tuple[str, str, int, bool], Launch] = {}

    def __call__(self, x: Any, axis: Any = None, dtype: Any = None, keep: bool = False) -> Any:
        """``xp.sum(x, axis, dtype, keepdims=keep)``, or that of the squares; without a dtype in
        that of `x`."""
        if dtype is None and x.dtype.name in NARROW:
            return self(x, axis, np.float32, keep).astype(x.dtype)
        wide = np.dtype(dtype or x.dtype)
        if self._programs is None or x.size < tuning.REDUCTION_DEVICE or (
                x.dtype.name not in _NAMES) or wide != numpy_dtype(wide_dtype(x.dtype.name)):
            return self._by_module(x, axis, wide, keep)
        axes = set(range(x.ndim) if axis is None else (
            a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis)))
        dims = tuple([1 if i in axes else d for i, d in enumerate(x.shape)
                      if keep or i not in axes])
        squares = self._squares
        for outer, reduced, inner in _steps(x.shape, axes):
            x = self._step(x, outer, reduced, inner, wide, squares)
            squares = False
        return x.reshape(dims)

    def _step(self, x: Any, outer: int, reduced: int, inner: int, wide: np.dtype,
              squares: bool) -> Any:
        """`x` of [outer, reduced, inner] reduced to [outer, inner]."""
        by_row = inner == 1 and outer > 1
        launch = None
        if outer == 1 or by_row:
            launch = self._launch(by_row, x.dtype.name, reduced if by_row else inner, squares)
        if launch is None:
            return self._by_module(x.reshape(outer, reduced, inner), 1, wide, False, squares)
        assert self._programs is not None
        out = self._xp.empty(outer if by_row else inner, wide)
        launch((outer if by_row else reduced,), ([self._programs.dense(x), out],))
        return out

    def _launch(self, by_row: bool, dtype: str, columns: int, squares: bool) -> Launch | None:
        key = ("row" if by_row else "column", dtype, columns, squares)
        found = self._known.get(key)
        if found is None and len(self._known) < tuning.REDUCTION_PROGRAMS:
            assert self._programs is not None
            program = _program(self._function, by_row, dtype, columns, squares)
            found = self._known[key] = self._programs.prepare((program,))
        return found

    def _by_module(self, x: Any, axis: Any, wide: np.dtype, keep: bool,
                   squares: bool | None = None) -> Any:
        xp = self._xp
        if self._squares if squares is None else squares:
            x = xp.square(x.astype(wide, copy=False))
        if self._function == "sum":
            return xp.sum(x, axis=axis, dtype=wide, keepdims=keep)
        return getattr(xp, self._function)(x, axis=axis, keepdims=keep)


def _steps(dims: tuple[int, ...], axes: set[int]) -> list[tuple[int, int, int]]:
    """[outer, reduced, inner] of one reduction after the other; the last axes first, as what is
    left of these is least."""
    runs = [(reduced, math.prod(d for _, d in sizes)) for reduced, sizes in itertools.groupby(
        [(i in axes, d) for i, d in enumerate(dims) if d > 1], lambda run: run[0])]
    steps = []
    for at in reversed(range(len(runs))):
        if runs[at][0]:
            before, after = (math.prod(n for _, n in part) for part in (runs[:at], runs[at + 1:]))
            steps.append((before, runs.pop(at)[1], after))
    return steps


def _program(function: str, by_row: bool, dtype: str, columns: int, squares: bool) -> Program:
    """(x, out)."""
    b = Builder(columns)
    x = b.load(b.array(dtype), DENSE)
    x = b.cast(x, wide_dtype(dtype))
    x = b.apply("square", x) if squares else x
    total = b.reduce_row(function, x) if by_row else b.reduce_columns(function, x)
    b.store(b.array(b.dtype(x)), PER_ROW if by_row else PER_COLUMN if columns > 1 else ONE, total)
    return b.program()


def reducer(device: Any, function: str) -> Callable[..., Any]:
    """The reduction ``f(x, axis, dtype, keep)`` of a device's arrays: sum, max or min."""
    return Reducer(device, function)
