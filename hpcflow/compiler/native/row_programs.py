"""row_programs: groups of lines that compute rows of matrices become programs of the form of loops.

A group fits if its values are of four kinds: of the same shape, one number for each row of the last
axis, one for each column, and scalars. What it reduces is the last axis, or all the others, or all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hpcflow.compiler.native.row_blocks import END_UFUNCS, End
from hpcflow.compiler.trace import recipes
from hpcflow.host import memory
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import is_own
from hpcflow.loops import compiling, llvm_plan, strided_copy
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Map
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.tracing import UntraceableError

if TYPE_CHECKING:
    from hpcflow.compiler.native.row_fusion import RowGroup
    from hpcflow.compiler.regions.lower import Line

#: What a value is: an element for each place, one for each row, one for each column, or a number.
FULL, COLUMN, VECTOR, NUMBER = "full", "column", "vector", "number"
_MAPS = {FULL: DENSE, COLUMN: PER_ROW, VECTOR: PER_COLUMN, NUMBER: ONE}
#: The reductions of rows and columns that programs have, by op type.
_REDUCTIONS = ("Sum", "Mean", "Max", "Min")


class _Output(NamedTuple):
    """An array that a run makes: its dims, the first of which may be unknown, and its dtype."""

    dims: tuple
    dtype: np.dtype


class RowLoop:
    """``run(rowed, whole)`` computes the outputs of a group: what has rows, then the ends.

    Args:
        loop: the program.
        arrays, numbers: which of the inputs of the group its arrays and arguments are.
        full: the input that tells how many rows there are.
        row_count: the rows of the program for an index of axis 0.
        outputs: of the program.
        takes_count: its last argument is the size of axis 0.
    """

    def __init__(self, loop: FormLoop, arrays: list[int], numbers: list[int], full: int,
                 row_count: int, outputs: list[_Output], takes_count: bool) -> None:
        self.loop = loop
        self.is_exact = loop.is_exact
        self._arrays = arrays
        self._numbers = numbers
        self._full = full
        self._row_count = row_count
        self._outputs = outputs
        self._takes_count = takes_count
        self._has_numbers = any(o.dims == () for o in outputs)
        self._forms: dict[int, list[tuple[tuple[int, ...], np.dtype]]] = {}

    def compiled(self) -> compiling.Compiled | None:
        """The loop, which may yet have to be compiled; None where there shall be none."""
        return self.loop.compiled()

    def run(self, found: compiling.Compiled, inputs: tuple) -> list | None:
        """Return the results of the loop for the inputs of the group; None if it does not take
        them.

        There is little here, since the caches hold what the lines before have computed.
        """
        count = inputs[self._full].shape[0]
        made = [memory.empty(dims, dtype)
                for dims, dtype in self._forms.get(count) or self._new_form(count)]
        given = [strided_copy.in_order(inputs[p]) for p in self._arrays]
        numbers = [inputs[p][()] for p in self._numbers]
        if self._takes_count:
            numbers.append(count)
        try:
            self.loop.run(found, count * self._row_count, [*given, *made], numbers)
        except TypeError:  # an array that is not aligned
            return None
        if self._has_numbers:
            return [m[()] if m.ndim == 0 else m for m in made]
        return made

    def _new_form(self, count: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """The dims and dtypes of the outputs for so many indices of axis 0."""
        if len(self._forms) >= tuning.ROWS_MOST_FORMS:
            self._forms.clear()
        form = self._forms[count] = [
            (tuple([count if d is None else d for d in o.dims]), o.dtype) for o in self._outputs]
        return form


def loop_of(group: RowGroup, outputs: list[str],
            operands: Callable[[Line], list[str]]) -> RowLoop | None:
    """The loop for a group; None if it does not fit. `operands` are what a line computes with."""
    try:
        return _Fitting(group, outputs, operands).loop()
    except (_Unfit, UntraceableError):
        return None


class _Unfit(Exception):
    """The group has something that has no place in a loop."""


def _demand(condition: bool) -> None:
    if not condition:
        raise _Unfit


class _Fitting:
    """Finds what kinds the values of a group are, and writes the program."""

    def __init__(self, group: RowGroup, outputs: list[str],
                 operands: Callable[[Line], list[str]]) -> None:
        self.group = group
        self.operands = operands
        self.outputs = outputs
        every = [*group.rowed.values(), *(line.node.dims[0] for name, line in group.made.items()
                                          if name not in group.ends)]
        self.dims = max(every, key=lambda d: (len(d), math.prod(d[1:])))
        self.kinds = {n: self._kind_of_rowed(d) for n, d in group.rowed.items()}
        self.given = {**group.rowed, **group.whole}
        self.count: int | None = None  # the argument that is the size of axis 0

    def _kind_of_rowed(self, dims: tuple) -> str:
        if dims == self.dims:
            return FULL
        _demand(len(self.dims) > 1 and dims in ((*self.dims[:-1], 1), self.dims[:-1]))
        return COLUMN

    # ------------------------------------------------------------ kinds

    def loop(self) -> RowLoop:
        """Return the loop of the group; see `loop_of`."""
        for line in self.group.lines:
            self.kinds[line.targets[0]] = self._kind(line)
        names = [n for n in self.given if n in self.kinds]
        _demand(FULL in [self.kinds[n] for n in names])
        flat = {self.kinds[n] for n in [*names, *self.group.made]} <= {FULL, NUMBER}
        _demand(flat or self.dims[-1] is not None)
        return self._written(names, 1 if flat else self.dims[-1])

    def _kind(self, line: Line) -> str:
        """The kind of a line's value; checks those of what it reads."""
        node, arguments = line.node, self.operands(line)
        end = self.group.ends.get(line.targets[0])
        if end is not None:
            rank = len(self.dims)
            _demand(node.type in _REDUCTIONS and self.kinds.get(arguments[0]) == FULL
                    and end.axes in (tuple(range(rank)), tuple(range(rank - 1))))
            return NUMBER if len(end.axes) == rank else VECTOR
        kind = self._kind_of_rowed(node.dims[0])
        if node.type in END_UFUNCS:
            _demand(node.type in _REDUCTIONS and kind == COLUMN
                    and self.kinds.get(arguments[0]) == FULL)
            return kind
        for name in arguments:
            self._check_use(name, kind, node.dims[0])
        return kind

    def _check_use(self, name: str, kind: str, dims: tuple) -> None:
        """A step with a result of `kind` and `dims` reads the value."""
        if name in self.group.whole:
            of_whole = self.group.whole[name]
            found = NUMBER if of_whole == () else VECTOR
            _demand(found == NUMBER or kind == FULL and of_whole[-1:] == self.dims[-1:]
                    and set(of_whole[:-1]) <= {1} and len(of_whole) <= len(self.dims))
            self.kinds[name] = found
            return
        own = self.group.made[name].node.dims[0] if name in self.group.made else self.given[name]
        if self.kinds[name] == COLUMN:
            _demand(own == (dims if kind == COLUMN else (*self.dims[:-1], 1)))
        else:
            _demand(kind == FULL)

    # ------------------------------------------------------------ the program

    def _written(self, names: list[str], columns: int) -> RowLoop:
        b = Builder(columns)
        arrays = [n for n in names if self.kinds[n] != NUMBER]
        numbers = [n for n in names if self.kinds[n] == NUMBER]
        values = {n: b.load(b.array(self._dtype(n)), self._map(n)) for n in arrays}
        values |= {n: b.argument(self._dtype(n)) for n in numbers}
        for line in self.group.lines:
            values[line.targets[0]] = self._value(b, line, values)
        ends = [n for n in self.outputs if n in self.group.ends]
        made = [n for n in self.outputs if n not in self.group.ends] + ends
        for n in made:
            b.store(b.array(b.dtype(values[n])), self._map(n), values[n])
        program = b.program()
        _demand(llvm_plan.supports(program))
        every = list(self.given)
        return RowLoop(FormLoop(program), [every.index(n) for n in arrays],
                       [every.index(n) for n in numbers],
                       every.index(next(n for n in names if self.kinds[n] == FULL)),
                       math.prod(self.dims[1:]) // columns, [self._output(n) for n in made],
                       self.count is not None)

    def _dtype(self, name: str) -> str:
        return np.dtype(self.group.types[name]).name

    def _map(self, name: str) -> Map:
        return _MAPS[self.kinds[name]]

    def _output(self, name: str) -> _Output:
        node = self.group.made[name].node
        _demand(node.dims[0] is not None)
        return _Output(node.dims[0], node.dtypes[0].np)

    def _value(self, b: Builder, line: Line, values: dict[str, int]) -> int:
        node, kernel = line.node, line.bound.kernel  # type: ignore[union-attr]
        assert kernel is not None
        given = [values[name] for name in self.operands(line)]
        end = self.group.ends.get(line.targets[0])
        if end is not None:
            return self._end(b, node.type, end, given[0])
        if node.type in END_UFUNCS:
            _demand(is_own(kernel))
            return recipes.reduction(b, node, given[0], self.dims[-1], True)
        if node.type == "BroadcastTo":
            return given[0]
        (found,) = recipes.elementwise(b, node, kernel, given)
        return found

    def _end(self, b: Builder, op_type: str, end: End, value: int) -> int:
        """A reduction over all but the last axis, or over all."""
        name = {"Max": "max", "Min": "min"}.get(op_type, "sum")
        is_of_all = len(end.axes) == len(self.dims)
        if is_of_all and b.columns > 1:
            value = b.reduce_row(name, value)
        total = b.reduce_columns(name, value)
        if op_type != "Mean":
            return total
        dtype, dims = b.dtype(total), self.dims[1:] if is_of_all else self.dims[1:-1]
        if self.count is None:
            self.count = b.argument(dtype)
        count = b.apply("multiply", self.count, b.constant(math.prod(dims), dtype))
        return b.apply("divide", total, count)
