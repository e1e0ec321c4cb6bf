"""Groups of lines that are one program: which lines may be together, and the program itself.

All lines of a group are over one shape, that of its elements. Where some values have fewer
dimensions, these are the first ones (numbers of rows) or the last ones (of columns), so that the
shape falls into rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.device.views import Dims, View, is_joining, joined
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.trace import recipes
from hpcflow.kernels.registry import SYNC, is_own
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Map, Program
from hpcflow.loops.meanings import FLOATS, INTEGERS
from hpcflow.loops.tracing import UntraceableError

# JOINED is what is stored in parts, and read by no other line of the program.
FULL, ROW, COLUMN, SINGLE, JOINED = "full", "row", "column", "single", "joined"
_MAPS = {FULL: DENSE, ROW: PER_ROW, COLUMN: PER_COLUMN, SINGLE: ONE}
_TYPES = FLOATS | INTEGERS | {"bool"}


class Place(NamedTuple):
    """How the elements of a value lie among those of a shape: FULL, SINGLE, or ROW or COLUMN, with
    the number of dimensions that are rows."""

    space: str
    split: int | None = None


def place(dims: Dims, shape: Dims) -> Place | None:
    """Where a value of `dims` is used when it is broadcast to `shape`; None if that is neither by
    rows nor by columns."""
    if dims == shape:
        return Place(FULL)
    if all(d == 1 for d in dims):
        return Place(SINGLE)
    if len(dims) > len(shape):
        return None
    padded = (1,) * (len(shape) - len(dims)) + tuple(dims)
    first = next(i for i, d in enumerate(padded) if d != 1)
    if padded[first:] == shape[first:]:
        return Place(COLUMN, first)
    last = max(i for i, d in enumerate(padded) if d != 1) + 1
    return Place(ROW, last) if padded[:last] == shape[:last] else None


class Input(NamedTuple):
    """A name that a group reads from outside: the dims of the array."""

    name: str
    dims: Dims


class Output(NamedTuple):
    """A name that a group makes for others."""

    name: str
    dims: Dims
    dtype: str


class LabelCheck(NamedTuple):
    """An input with a class number for each row, and the line that reads it. The program has one
    more output for it: what tells for each row whether the number is wrong."""

    labels: str
    classes: int
    line: Line


class Built(NamedTuple):
    """A program with the names of its arrays: inputs, outputs, and those of the checks. Its rows
    are the first `split` dimensions of `shape`."""

    program: Program
    inputs: list[Input]
    outputs: list[Output]
    shape: Dims
    split: int
    checks: list[LabelCheck]


class Group:
    """Lines that make one program; see the module. `views` are names that are parts of others."""

    def __init__(self, views: Mapping[str, View] | None = None) -> None:
        self.views = views or {}
        self.viewed: dict[str, View] = {}  # the inputs that are read where they lie in others
        self.lines: list[Line] = []
        self.shape: Dims = ()
        self.split: int | None = None
        self.spaces: dict[str, str] = {}  # of the names that it makes
        self.final: set[str] = set()  # names that need a reduction over all rows
        self.has_rows = self.has_columns = False

    def add(self, line: Line) -> bool:
        """Take `line`, if it fits."""
        kept = (self.shape, self.split, dict(self.spaces), set(self.final), self.has_rows,
                self.has_columns, dict(self.viewed))
        if may_join(line) and self._take(line) and not (self.has_rows and self.has_columns):
            self.lines.append(line)
            return True
        (self.shape, self.split, self.spaces, self.final, self.has_rows, self.has_columns,
         self.viewed) = kept
        return False

    def _take(self, line: Line) -> bool:
        node = line.node
        if node.type in recipes.ROW_OPS:
            return self._take_row_op(line, recipes.ROW_OPS[node.type])
        if node.type in recipes.REDUCTIONS:
            return self._take_reduction(line)
        if is_joining(line):
            return self._take_joining(line)
        return self._take_elementwise(line)

    def _fits_split(self, split: int | None) -> bool:
        if split is None or self.split == split:
            return True
        if self.split is not None:
            return False
        self.split = split
        return True

    def _begin(self, shape: Dims) -> bool:
        """True if `shape` is that of the elements."""
        if not self.lines:
            self.shape = shape
        return shape == self.shape

    # ------------------------------------------------------------ kinds of lines

    def _take_elementwise(self, line: Line) -> bool:
        dims = line.node.dims[0]
        if not self.lines:
            self.shape = dims
        own = any(n in self.spaces for n in line.arguments)
        final = any(n in self.final for n in line.arguments)
        for space in (FULL, ROW, COLUMN, SINGLE):
            if not self._is_of(space, dims) or not own and space != FULL or (
                    final and space in (FULL, ROW)):
                continue
            split = self.split
            if all(self._fits(name, place(source.dims[index], dims), space)
                   for name, (source, index) in zip(line.arguments, line.node.inputs)):
                self._make(line, space, final)
                return True
            self.split = split
        return False

    def _is_of(self, space: str, dims: Dims) -> bool:
        """True if values of `space` may have these dims."""
        if space == FULL:
            return dims == self.shape
        if self.split is None:
            return False
        rows, columns = self.shape[: self.split], self.shape[self.split:]
        if space == ROW:
            return dims in (rows, rows + (1,) * len(columns))
        if space == COLUMN:
            return dims in (columns, (1,) * len(rows) + columns)
        return all(d == 1 for d in dims)

    def _fits(self, name: str, found: Place | None, space: str) -> bool:
        """True if an operand, placed in the dims of its line, is there for a line of `space`."""
        if found is None:
            return False
        own = self.spaces.get(name)
        if space == FULL:
            if found.space == FULL and own is None:
                self._view(name)
            return own in (None, found.space) and self._fits_split(found.split)
        if own is not None:
            return own == space and found.space in (FULL, SINGLE) or own == found.space == SINGLE
        return found.space in (FULL, SINGLE)

    def _view(self, name: str) -> None:
        """Read an input where it lies in another, if the program has the rows for that."""
        view = self.views.get(name)
        if view is not None and self._fits_split(view.split):
            self.viewed[name] = view

    def _take_joining(self, line: Line) -> bool:
        found = joined(line.node, self.shape) if self.lines else None
        if found is None or not self._fits_split(found.split):
            return False
        names = line.arguments[: found.parts]
        if not any(n in self.spaces for n in names) or any(
                n in self.final or self.spaces.get(n, FULL) != FULL for n in names):
            return False
        for name in names:
            if name not in self.spaces:
                self._view(name)
        self.spaces[line.targets[0]] = JOINED
        return True

    def _take_row_op(self, line: Line, op: recipes.RowRecipe) -> bool:
        node = line.node
        source, index = node.inputs[0]
        dims = source.dims[index]
        if not dims or not self._begin(dims) or not self._fits_split(len(dims) - 1):
            return False
        for i, (name, (other, at)) in enumerate(zip(line.arguments, node.inputs)):
            wanted = ROW if i in op.row_inputs else FULL
            shape = dims[:-1] if wanted == ROW else dims
            if other.dims[at] != shape or self.spaces.get(name, wanted) != wanted:
                return False
            if wanted == ROW and (name in self.spaces or constant_value((other, at)) is not None):
                return False  # labels are checked, so they are an array
            if wanted == FULL and name not in self.spaces:
                self._view(name)
        self.has_rows = True
        for i, target in enumerate(line.targets):
            self.spaces[target] = ROW if i in op.row_outputs else FULL
        return True

    def _take_reduction(self, line: Line) -> bool:
        node, name = line.node, line.arguments[0]
        source, index = node.inputs[0]
        dims, axes = source.dims[index], recipes.reduced_axes(node)
        if not axes or not dims or name in self.final or not self._begin(dims):
            return False
        if self.spaces.get(name, FULL) != FULL:
            return False
        rank = len(dims)
        by_row = axes != tuple(range(len(axes)))
        if by_row and axes != tuple(range(rank - len(axes), rank)):
            return False
        split = rank - len(axes) if by_row else len(axes)
        reduced = dims[split:] if by_row else dims[:split]
        if None in reduced or not self._fits_split(split):
            return False
        if name not in self.spaces:
            self._view(name)
        self.has_rows, self.has_columns = self.has_rows or by_row, self.has_columns or not by_row
        space = ROW if by_row else COLUMN if split < rank else SINGLE
        self._make(line, space, not by_row)
        return True

    def _make(self, line: Line, space: str, final: bool) -> None:
        for target in line.targets:
            self.spaces[target] = space
            if final:
                self.final.add(target)

    # ------------------------------------------------------------ the program

    def build(self, outputs: Sequence[str]) -> Built:
        """The program, with stores of the names `outputs`; raises :class:`UntraceableError`."""
        return _Writer(self).build(outputs)


def may_join(line: Line) -> bool:
    """True if `line` is of a kind that programs are made of."""
    b = line.bound
    if b is None or b.kernel is None or b.function is None or b.kernel.mode != SYNC:
        return False
    node, kernel = line.node, b.kernel
    if is_joining(line):
        return is_own(kernel) and not kernel.host_outputs and _are_plain(node)
    if not is_own(kernel) or kernel.host_outputs or 0 in kernel.host_inputs or (
            len(line.arguments) != len(node.inputs)):
        return False
    if not _are_plain(node):
        return False
    if node.type in recipes.ROW_OPS:
        return True
    if node.type in recipes.REDUCTIONS:
        return recipes.reduces(node)
    return kernel.elementwise and not kernel.host_inputs and _is_traceable(line)


def _are_plain(node: Node) -> bool:
    """True if all that a node reads and makes has a dtype of programs, and dims that are known."""
    every = [s.dtypes[i] for s, i in node.inputs] + list(node.dtypes)
    dims = [s.dims[i] for s, i in node.inputs] + list(node.dims)
    return not any(d._is_ref_dtype for d in node.dtypes) and all(
        d.base_dtype.name in _TYPES for d in every) and all(map(_is_known, dims))


def _is_known(dims: Dims | None) -> bool:
    """True if at most the first dimension is open, and none is zero."""
    return dims is not None and None not in dims[1:] and 0 not in dims


def _is_traceable(line: Line) -> bool:
    b = Builder(1)
    assert line.bound is not None and line.bound.kernel is not None
    try:
        given = [b.load(b.array(s.dtypes[i].base_dtype.name), DENSE) for s, i in line.node.inputs]
        recipes.elementwise(b, line.node, line.bound.kernel, given)
    except UntraceableError:
        return False
    return True


class _Writer:
    """Writes the program of a group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.split = len(group.shape) if group.split is None else group.split
        columns = group.shape[self.split:]
        self.builder = Builder(math.prod(columns))  # type: ignore[arg-type]
        self.values: dict[str, int] = {}
        self.arrays: dict[str, int] = {}
        self.inputs: list[Input] = []
        self.joined: dict[str, list[tuple[Map, int]]] = {}
        self.checks: list[LabelCheck] = []
        self.wrong: list[int] = []  # of each check

    def build(self, outputs: Sequence[str]) -> Built:
        """See `Group.build`."""
        dims: dict[str, tuple[Dims, str]] = {}
        for line in self.group.lines:
            self.values.update(zip(line.targets, self._line(line)))
            for i, target in enumerate(line.targets):
                dims[target] = (line.node.dims[i], line.node.dtypes[i].base_dtype.name)
        found = [Output(n, *dims[n]) for n in outputs]
        for output in found:
            array = self.builder.array(output.dtype)
            for where, value in self.joined.get(output.name) or [
                    (_MAPS[self.group.spaces[output.name]], self.values[output.name])]:
                self.builder.store(array, where, value)
        for value in self.wrong:
            self.builder.store(self.builder.array("bool"), PER_ROW, value)
        return Built(self.builder.program(), self.inputs, found, self.group.shape, self.split,
                     self.checks)

    def _line(self, line: Line) -> list[int]:
        node, b = line.node, self.builder
        if node.type in recipes.ROW_OPS:
            op = recipes.ROW_OPS[node.type]
            given = [self._operand(line, i, ROW if i in op.row_inputs else FULL)
                     for i in range(len(line.arguments))]
            if op.row_inputs:
                self._check_labels(line, given[1])
            return op.recipe(b, node, given)
        if node.type in recipes.REDUCTIONS:
            value, split = self._operand(line, 0, FULL), self.split
            by_row = self.group.spaces[line.targets[0]] == ROW
            reduced = self.group.shape[split:] if by_row else self.group.shape[:split]
            return [recipes.reduction(b, node, value, math.prod(reduced), by_row)]  # type: ignore[arg-type]
        space = self.group.spaces[line.targets[0]]
        if space == JOINED:
            parts = joined(node, self.group.shape)
            assert parts is not None
            values = [self._operand(line, i, FULL) for i in range(parts.parts)]
            self.joined[line.targets[0]] = list(zip(parts.maps, values))
            return []
        given = []
        for i, (source, index) in enumerate(node.inputs):
            found = place(source.dims[index], node.dims[0])
            assert found is not None
            given.append(self._operand(line, i, space if found.space == FULL else found.space))
        assert line.bound is not None and line.bound.kernel is not None
        return recipes.elementwise(b, node, line.bound.kernel, given)

    def _check_labels(self, line: Line, labels: int) -> None:
        b = self.builder
        number = b.cast(labels, "int64")
        self.wrong.append(b.apply(
            "logical_or", b.apply("less", number, b.constant(0, "int64")),
            b.apply("greater_equal", number, b.constant(b.columns, "int64"))))
        self.checks.append(LabelCheck(line.arguments[1], b.columns, line))

    def _operand(self, line: Line, index: int, space: str) -> int:
        name, (source, port) = line.arguments[index], line.node.inputs[index]
        if name in self.values:
            return self.values[name]
        dtype, dims = source.dtypes[port].base_dtype.name, source.dims[port]
        number = uniform(constant_value((source, port)))
        if number is not None:
            return self.builder.constant(number, dtype)
        where, view = _MAPS[space], self.group.viewed.get(name)
        if view is not None and space == FULL:
            name, dims, where = view.source, view.dims, view.map
        if name not in self.arrays:
            self.arrays[name] = self.builder.array(dtype)
            self.inputs.append(Input(name, dims))
        return self.builder.load(self.arrays[name], where)


def uniform(value: Any) -> float | int | bool | None:
    """The number that all elements of a constant are, or None."""
    if value is None or not np.size(value):
        return None
    flat = np.asarray(value).reshape(-1)
    first = flat[0]
    if flat.dtype.kind in "biu":
        same = bool((flat == first).all())
    else:  # by their bits: -0 is not 0
        same = flat.tobytes() == np.full(flat.shape, first, flat.dtype).tobytes()
    return first.item() if same else None
