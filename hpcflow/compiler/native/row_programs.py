"""row_programs: groups of lines that compute rows of matrices become compiled loops.

A group fits if all its values are of one floating-point type and of four kinds (see ``row_loops``):
of the same shape, one number for each row of the last axis, one for each column, and scalars. What
it reduces is the last axis, or all the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.compiler.native.row_blocks import END_UFUNCS, End
from hpcflow.host import memory
from hpcflow.host.tuning import compiler as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.loops import compiling, parallel_for, row_loops
from hpcflow.loops.row_loops import COLUMN, FULL, NUMBER, VECTOR, RowProgram, RowStep

if TYPE_CHECKING:
    from hpcflow.compiler.native.row_fusion import RowGroup
    from hpcflow.compiler.regions.lines import Line

_TYPES = ("float32", "float64")


class _Form(NamedTuple):
    """The sizes of a loop's run over arrays of one shape.

    Attributes:
        shape: of FULL values.
        outputs: the shapes of the outputs that are no ends.
        columns, rows: of the loop.
        block, blocks: the rows that are added up apart, and how many such blocks there are.
        width: how many numbers are the sums of a block.
        step: the rows that a thread takes at once.
    """

    shape: tuple[int, ...]
    outputs: list[tuple[int, ...]]
    columns: int
    rows: int
    block: int
    blocks: int
    width: int
    step: int


class RowLoop:
    """``run(rowed, whole)`` computes the outputs of a group: FULL and COLUMN values, then ends.

    Args:
        program: the loop.
        positions: which of the inputs of the group each argument of the loop is.
        dims: those of FULL values; the first may be unknown.
        outputs: the dims of each output that is no end.
        ends: the reductions over axis 0.
    """

    def __init__(self, program: RowProgram, positions: list[int], dims: tuple,
                 outputs: list[tuple], ends: list[End]) -> None:
        self.program = program
        self.dims = dims
        self.outputs = outputs
        self.ends = ends
        self.dtype = np.dtype(program.dtype)
        self.kinds = list(program.inputs.values())
        self.calls = program.addresses()
        self.is_exact = program.is_exact
        self._arguments = [(p, kind != NUMBER) for p, kind in zip(positions, self.kinds)]
        self._full = positions[self.kinds.index(FULL)]
        self._forms: dict[int, _Form] = {}
        self._found: compiling.Compiled | None = None

    def compiled(self) -> compiling.Compiled | None:
        """The loop, which may yet have to be compiled; None where there shall be none."""
        if not (compiling.enabled() if self.is_exact else compiling.approximates()):
            return None
        found = self._found
        if found is None or found.function is None:
            found = self._found = compiling.compiled(self.program)
        return found

    def run(self, found: compiling.Compiled, inputs: tuple) -> list | None:
        """Return the results of the loop for the inputs of the group; None if it does not take
        them.

        There is little here, since the caches hold what the lines before have computed.
        """
        given = [inputs[p].reshape(-1) if is_array else inputs[p][()]
                 for p, is_array in self._arguments]
        count = inputs[self._full].shape[0]
        form = self._forms.get(count) or self._new_form(count)
        made = [memory.empty(dims, self.dtype) for dims in form.outputs]
        sums = [np.zeros(form.blocks * form.width, self.dtype) for _ in self.ends]
        arrays = [*given, *[m.reshape(-1) for m in made], *sums, self.calls]
        try:
            if form.step == form.rows:
                found.function(*arrays, 0, form.rows, form.block, form.columns)  # type: ignore[misc]
            else:
                uses = (parallel_for.WHOLE * len(arrays) + parallel_for.START + parallel_for.STOP
                        + parallel_for.WHOLE * 2)
                parallel_for.run(found, form.rows, form.step, uses,
                           [*arrays, 0, 0, form.block, form.columns])
        except TypeError:  # an array that is not aligned
            return None
        for end, parts in zip(self.ends, sums):
            made.append(_total(end, parts, form))
        return made

    def _new_form(self, count: int) -> _Form:
        if len(self._forms) >= tuning.ROWS_MOST_FORMS:
            self._forms.clear()
        form = self._forms[count] = self._form(count)
        return form

    def _form(self, count: int) -> _Form:
        """Return the sizes of the loop's run over `count` indices of axis 0."""
        shape = (count, *self.dims[1:])
        size = math.prod(shape)
        columns = tuning.ROWS_PIECE if self.program.flat else shape[-1]
        rows = -(-size // columns)
        outputs = [(count, *dims[1:]) for dims in self.outputs]
        row_bytes = columns * self.dtype.itemsize * (self.kinds.count(FULL) + len(outputs))
        block = parallel_for.block_rows(rows, row_bytes)
        if self.ends:  # of so many rows each, however many threads there are
            blocks = tuning.ROWS_SUM_BLOCKS
            block = rows if size < tuning.ROWS_PIECE * blocks else -(-rows // blocks)
        is_small = rows * row_bytes < loops_tuning.PARALLEL_LARGE_BYTES
        return _Form(shape, outputs, columns, rows, block, -(-rows // block),
                     1 if self.program.flat else columns, rows if is_small else block)


def _total(end: End, parts: np.ndarray, form: _Form) -> Any:
    """The result of an end, from the sums of the columns of each block."""
    shape, total = form.shape, parts
    if len(end.axes) == len(shape):
        total = np.add.reduce(parts, None, end.dtype)
    elif form.blocks > 1:
        total = np.add.reduce(parts.reshape(-1, form.width), 0, end.dtype)
    if end.op_type == "Mean":
        total = total / end.dtype.type(math.prod(shape[a] for a in end.axes))
    if end.keep_dims:
        return total.reshape([1 if a in end.axes else n for a, n in enumerate(shape)])
    return total


def loop_of(group: RowGroup, outputs: list[str],
            operands: Callable[[Line], list[str]]) -> RowLoop | None:
    """The loop for a group; None if it does not fit. `operands` are what a line computes with."""
    try:
        return _Fitting(group, outputs, operands).loop()
    except _Unfit:
        return None


class _Unfit(Exception):
    """The group has something that has no place in a loop."""


def _demand(condition: bool) -> None:
    if not condition:
        raise _Unfit


class _Fitting:
    """Finds what kinds the values of a group are."""

    def __init__(self, group: RowGroup, outputs: list[str],
                 operands: Callable[[Line], list[str]]) -> None:
        self.group = group
        self.operands = operands
        self.outputs = outputs
        every = [*group.rowed.values(), *(line.node.dims[0] for name, line in group.made.items()
                                          if name not in group.ends)]
        self.dims = max(every, key=lambda d: (len(d), math.prod(d[1:])))
        self.dtype = self._dtype()
        self.kinds = {n: self._kind_of_rowed(d) for n, d in group.rowed.items()}
        self.given = {**group.rowed, **group.whole}

    def _dtype(self) -> str:
        found = {self.group.types[a] for line in self.group.lines for a in self.operands(line)}
        found |= {line.node.dtypes[0].np for line in self.group.lines}
        _demand(len(found) == 1)
        (dtype,) = found
        name = np.dtype(dtype).name
        _demand(name in _TYPES)
        return name

    def _kind_of_rowed(self, dims: tuple) -> str:
        if dims == self.dims:
            return FULL
        _demand(len(self.dims) > 1 and dims in ((*self.dims[:-1], 1), self.dims[:-1]))
        return COLUMN

    def loop(self) -> RowLoop:
        """Return the loop of the group; see `loop_of`."""
        steps = [self._step(line) for line in self.group.lines]
        names = [n for n in self.given if n in self.kinds]
        _demand(FULL in [self.kinds[n] for n in names])
        ends = [n for n in self.outputs if n in self.group.ends]
        _demand([s.target for s in steps if s.ends] == ends)
        flat = not any(s.reduces for s in steps) and {self.kinds[n] for n in names} <= {
            FULL, NUMBER} and all(len(self.group.ends[n].axes) == len(self.dims) for n in ends)
        _demand(flat or (len(self.dims) > 1 and self.dims[-1] >= tuning.ROWS_FEWEST_COLUMNS))
        others = [n for n in self.outputs if n not in self.group.ends]
        local = {n: f"v{i}" for i, n in enumerate([*names, *self.group.made])}
        program = RowProgram(
            self.dtype, tuple([(local[n], self.kinds[n]) for n in names]),
            tuple([s._replace(target=local[s.target],
                              arguments=tuple([local[a] for a in s.arguments])) for s in steps]),
            tuple([local[n] for n in others]), flat)
        every = list(self.given)
        return RowLoop(program, [every.index(n) for n in names], self.dims,
                       [self.group.made[n].node.dims[0] for n in others],
                       [self.group.ends[n] for n in ends])

    def _step(self, line: Line) -> RowStep:
        node, target, arguments = line.node, line.targets[0], tuple(self.operands(line))
        end = self.group.ends.get(target)
        if end is not None:
            _demand(end.op_type in ("Sum", "Mean") and self.kinds.get(arguments[0]) == FULL
                    and end.axes in (tuple(range(len(self.dims))),
                                     tuple(range(len(self.dims) - 1))))
            self.kinds[target] = VECTOR
            return RowStep(target, node.type, arguments, VECTOR, ends=True)
        kind = self.kinds[target] = self._kind_of_rowed(node.dims[0])
        if node.type in END_UFUNCS:
            _demand(node.type in row_loops.REDUCTIONS and kind == COLUMN
                    and self.kinds.get(arguments[0]) == FULL)
            return RowStep(target, node.type, arguments, kind, reduces=True)
        for name in arguments:
            self._check_use(name, kind, node.dims[0])
        function = line.bound.function  # type: ignore[union-attr]
        name = function.__name__ if isinstance(function, np.ufunc) else node.type
        name = "positive" if name == "BroadcastTo" else name
        _demand(row_loops.supports(name, len(arguments), kind, self.dtype))
        return RowStep(target, name, arguments, kind)

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
