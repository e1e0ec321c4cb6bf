"""native_values: the values of a loop that runs outside of the interpreter, and the functions that
make some of others.

A value in rows is a matrix for each iteration; see ``native_memory`` for where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.native.native_memory import FIXED, SCRATCH, Slot
from hpcflow.loops import llvm_functions
from hpcflow.loops.call_list import Operand, Product
from hpcflow.loops.meanings import MEANINGS, SELECT, SYNONYMS

_DTYPES = ("float32", "float64")


class Unfit(Exception):
    """A loop, or its values, cannot be called."""


class Value(NamedTuple):
    """A value in memory: in rows, or the same for all rows."""

    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    strides: tuple[int, ...]
    offset: int = 0

    def part(self, start: int, columns: int) -> Value:
        """Return some columns of a matrix, as a view."""
        return self._replace(shape=(self.shape[0], columns),
                             offset=self.offset + start * self.strides[1])

    def over(self, rows: int, columns: int) -> Operand:
        """Return the operand that is the value, broadcast to `rows` and `columns`."""
        shape, strides = (1, 1, *self.shape)[-2:], (0, 0, *self.strides)[-2:]
        if shape[0] not in (1, rows) or shape[1] not in (1, columns) or len(self.shape) > 2:
            raise Unfit
        row, column = [0 if n == 1 else s for n, s in zip(shape, strides)]
        return Operand(self.slot, row if rows > 1 else columns * column, column, self.offset)


class Apply(NamedTuple):
    """``made = function(*inputs)`` over rows of `columns` elements of `dtype`; the function is one
    of the table of meanings."""

    function: str
    dtype: str
    columns: int
    inputs: tuple[Operand, ...]
    made: Operand


class Values:
    """The values of a loop, and the calls of an iteration that make them.

    The methods raise Unfit for what a loop outside of the interpreter cannot do.

    Attributes:
        loop: its steps.
        rows: of all values in rows.
        slots: the places of values.
        made: what an iteration computes.
        values: of the names that are known so far.
        fixed: the names from outside whose values the calls read.
    """

    rows: int

    def __init__(self, loop: Any, outside: dict[str, Any]) -> None:
        self.loop = loop
        self.slots: list[Slot] = []
        self.made: list[Apply | Product] = []
        self.values: dict[str, Value] = {}
        self.fixed: list[str] = []
        self._outside = outside
        self._constants = loop.program.globals

    def value_outside(self, name: str) -> Any:
        """Return the value that a name has before the loop; raises Unfit for a scalar of the
        loop."""
        if name in self._outside:
            return self._outside[name]
        if name in self.loop.made:  # by a scalar of the loop
            raise Unfit
        return self._constants[name]

    def value(self, name: str) -> Value:
        """Return the value of a name, in rows or from outside."""
        found = self.values.get(name)
        if found is None:
            value = self.value_outside(name)
            if not isinstance(value, (np.ndarray, np.generic)):
                raise Unfit
            self.fixed.append(name)
            found = self.values[name] = self.add(
                Slot(FIXED, name), value.shape, value.dtype, value.strides)
        return found

    def new_rows(self, shape: tuple, dtype: np.dtype) -> Value:
        """Add a matrix in rows that lives for an iteration."""
        return self.add_rows(SCRATCH, None, shape, dtype)

    def add(self, slot: Slot, shape: tuple, dtype: np.dtype, strides: tuple) -> Value:
        """Add a value with a slot of its own."""
        if dtype.name not in _DTYPES and (dtype != np.bool_ or shape != (self.rows,)):
            raise Unfit
        self.slots.append(slot)
        return Value(shape, dtype, len(self.slots) - 1, strides)

    def add_rows(self, kind: int, source: Any, shape: tuple, dtype: np.dtype) -> Value:
        """Add a contiguous matrix in rows, in a slot of this kind."""
        if len(shape) != 2 or shape[0] != self.rows or not shape[1]:
            raise Unfit
        return self.add(Slot(kind, source, shape, dtype), shape, dtype,
                         (shape[1] * dtype.itemsize, dtype.itemsize))

    def call(self, function: str, inputs: Sequence[Any], made: Value | None = None) -> Value:
        """Note a call of a function of values and constants; the last value has its dtype."""
        dtype = next(v.dtype for v in reversed(inputs) if isinstance(v, Value))
        values = [v if isinstance(v, Value) else self.constant(v, dtype) for v in inputs]
        function = SYNONYMS.get(function, function)
        if function != SELECT and not (
                llvm_functions.supports(function, dtype.name) and not MEANINGS[function].is_test
                and all([v.dtype == dtype for v in values])):
            raise Unfit
        shape = np.broadcast_shapes(*[v.shape for v in values])
        made = self.new_rows(shape, dtype) if made is None else made
        if made.shape != shape:
            raise Unfit
        rows, columns = shape
        self.made.append(Apply(function, dtype.name, columns, tuple(
            [v.over(rows, columns) for v in values]), made.over(rows, columns)))
        return made

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        """Add a constant that is known when the calls are made."""
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype != dtype or (
                not isinstance(value, (np.ndarray, np.generic, float, int))):
            raise Unfit
        array = np.array(value, dtype)
        return self.add(Slot(FIXED, array), array.shape, array.dtype, array.strides)


class Note(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that notes which ufuncs are applied to it."""

    def __init__(self, layout: Values, value: Value) -> None:
        self.layout = layout
        self.value = value
        self.shape, self.dtype, self.ndim = value.shape, value.dtype, len(value.shape)
        self.size = 1  # so small that no kernel takes it in pieces

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None,
                        **options: Any) -> Note:
        made = None
        if out is not None and out[0] is not None:
            if not isinstance(out[0], Note):
                raise Unfit
            made = out[0].value
        if method != "__call__" or options or ufunc.nout != 1:
            raise Unfit
        given = [i.value if isinstance(i, Note) else i for i in inputs]
        return Note(self.layout, self.layout.call(ufunc.__name__, given, made))
