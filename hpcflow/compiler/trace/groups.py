"""Groups of lines that are one program: which lines may be together, and the program itself.

All lines of a group are over one shape, that of its elements. Where some values have fewer
dimensions, these are the first ones (numbers of rows) or the last ones (of columns), so that the
shape falls into rows and columns. Where NumPy may have to run the lines too, in blocks of the first
axis, a value is cut into blocks or is not, whichever line reads it: such a group is *in blocks*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.trace import recipes
from hpcflow.compiler.trace.views import Dims, View, is_joining, joined
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
    """A program with the names of its arrays: inputs, outputs, and those of the checks; and of its
    arguments, where None stands for the size of the first axis. Its rows are the first
    `split` dimensions of `shape`."""

    program: Program
    inputs: list[Input]
    outputs: list[Output]
    shape: Dims
    split: int
    checks: list[LabelCheck]
    arguments: list[str | None]


class Limits(NamedTuple):
    """How much a loop reads at most: arrays of all elements, and all inputs."""

    arrays: int
    inputs: int


class Group:
    """Lines that make one program; see the module. `views` are names that are parts of others; a
    group in blocks has `limits`."""

    def __init__(self, views: Mapping[str, View], limits: Limits | None = None) -> None:
        self.views = views
        self.limits = limits
        self.in_blocks = limits is not None
        self.read: dict[str, str] = {}  # name from outside -> how it is read; of groups in blocks
        self.viewed: dict[str, View] = {}  # the inputs that are read where they lie in others
        self.lines: list[Line] = []
        self.shape: Dims = ()
        self.split: int | None = None
        self.spaces: dict[str, str] = {}  # of the names that it makes
        self.final: set[str] = set()  # names that need a reduction over all rows
        self.has_rows = self.has_columns = False

    def add(self, line: Line) -> bool:
        """Take `line`, which `may_join`, if it fits."""
        kept = (self.shape, self.split, dict(self.spaces), set(self.final), self.has_rows,
                self.has_columns, dict(self.viewed), dict(self.read))
        if self._take(line) and self._is_one_loop():
            self.lines.append(line)
            return True
        (self.shape, self.split, self.spaces, self.final, self.has_rows, self.has_columns,
         self.viewed, self.read) = kept
        return False

    def _is_one_loop(self) -> bool:
        """True if one launch, or one loop, can compute what the group has."""
        if self.limits is not None:
            return (self.split is None or None not in self.shape[1:]) and (
                len(self.read) <= self.limits.inputs and self.limits.arrays >= sum(
                    [space == FULL for space in self.read.values()]))
        return not (self.has_rows and self.has_columns)

    def is_flat(self) -> bool:
        """True if all is element-wise over one shape, so that rows and columns do not matter."""
        return self.split is None and not (self.has_rows or self.has_columns)

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
        names = operands(line)
        own = any(n in self.spaces for n in names)
        final = any(n in self.final for n in names)
        for space in (FULL, ROW, COLUMN, SINGLE):
            if not self._is_of(space, dims) or not own and space != FULL or (
                    final and space in (FULL, ROW)):
                continue
            split = self.split
            if all(self._fits(name, place(source.dims[index], dims), space)
                   for name, (source, index) in zip(names, line.node.inputs)):
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
        if found is None or not self._reads(name, space if found.space == FULL else found.space):
            return False
        own = self.spaces.get(name)
        if space == FULL:
            if found.space == FULL and own is None:
                self._view(name)
            return own in (None, found.space) and self._fits_split(found.split)
        if own is not None:
            return own == space and found.space in (FULL, SINGLE) or own == found.space == SINGLE
        return found.space in (FULL, SINGLE)

    def _reads(self, name: str, space: str) -> bool:
        """True if a name from outside may be read as one of `space`."""
        if name in self.spaces or not self.in_blocks:
            return True
        return self.read.setdefault(name, space) == space

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
        if self.spaces.get(name, FULL) != FULL or not self._reads(name, FULL):
            return False
        rank = len(dims)
        by_row = axes != tuple(range(len(axes)))
        if by_row and axes != tuple(range(rank - len(axes), rank)):
            return False
        split = rank - len(axes) if by_row else len(axes)
        is_open = None in (dims[split:] if by_row else dims[:split])
        if is_open and not self.in_blocks or None in dims[1:] or not self._fits_reduction(split):
            return False
        if name not in self.spaces:
            self._view(name)
        self.has_rows, self.has_columns = self.has_rows or by_row, self.has_columns or not by_row
        space = ROW if by_row else COLUMN if split < rank else SINGLE
        self._make(line, space, not by_row)
        return True

    def _fits_reduction(self, split: int) -> bool:
        """True if so many leading dimensions may be those that a reduction leaves, or takes; a loop
        reduces all dimensions in rows and columns, wherever it has these."""
        return self.in_blocks and split == len(self.shape) or self._fits_split(split)

    def _make(self, line: Line, space: str, final: bool) -> None:
        for target in line.targets:
            self.spaces[target] = space
            if final:
                self.final.add(target)

    # ------------------------------------------------------------ the program

    def build(self, outputs: Sequence[str], places: Mapping[str, str] | None = None) -> Built:
        """The program, with stores of the names `outputs`, into the inputs that are their `places`
        or into arrays of their own; raises :class:`UntraceableError`."""
        return _Writer(self).build(outputs, places or {})

    def values(self, builder: Builder, given: dict[str, int]) -> dict[str, int]:
        """The values of all lines in another program, of those of what they read."""
        return _Writer(self, builder, given).values_of_lines()


def operands(line: Line) -> list[str]:
    """What a line computes with: neither axes nor shapes."""
    has_one = line.node.type in recipes.REDUCTIONS or line.node.type == "BroadcastTo"
    return line.arguments[:1] if has_one else line.arguments


def may_join(line: Line, in_blocks: bool, supports: Callable[[Program], bool]) -> bool:
    """True if `line` is of a kind that programs are made of, or those that run in blocks, and there
    is code for it."""
    b, node = line.bound, line.node
    if b is None or b.kernel is None or b.function is None or b.kernel.mode != SYNC:
        return False
    kernel = b.kernel
    if kernel.host_outputs or not _are_plain(node, in_blocks):
        return False
    if is_joining(line):
        return is_own(kernel) and not in_blocks
    if not is_own(kernel) or 0 in kernel.host_inputs or len(line.arguments) != len(node.inputs):
        return False
    if node.type in recipes.ROW_OPS:
        return not in_blocks
    if node.type == "Select" and node.inputs[0][0].dims[node.inputs[0][1]] not in (
            (), node.dims[0]):  # a vector chooses among rows
        return False
    if node.type == "BroadcastTo":
        return None not in node.dims[0] and node.dtypes[0].name != "bool"
    if node.type in recipes.REDUCTIONS:
        return recipes.reduces(node)
    return kernel.elementwise and not kernel.host_inputs and _has_code(line, supports)


def _are_plain(node: Node, in_blocks: bool) -> bool:
    """True if all that a node reads and makes has a dtype of programs, and dims that are known."""
    every = [s.dtypes[i] for s, i in node.inputs] + list(node.dtypes)
    dims = [s.dims[i] for s, i in node.inputs] + list(node.dims)
    return not any(d._is_ref_dtype for d in node.dtypes) and all(
        d.base_dtype.name in _TYPES for d in every) and all(
        d is not None and 0 not in d and (in_blocks or None not in d[1:]) for d in dims)


def _has_code(line: Line, supports: Callable[[Program], bool]) -> bool:
    """True if an element-wise line has a program that is supported."""
    b = Builder(1)
    assert line.bound is not None and line.bound.kernel is not None
    try:
        given = [b.load(b.array(s.dtypes[i].base_dtype.name), DENSE) for s, i in line.node.inputs]
        for value in recipes.elementwise(b, line.node, line.bound.kernel, given):
            b.store(b.array(b.dtype(value)), DENSE, value)
    except UntraceableError:
        return False
    return supports(b.program())


class _Writer:
    """Writes the program of a group, or its lines into the program of a `builder`."""

    def __init__(self, group: Group, builder: Builder | None = None,
                 given: dict[str, int] | None = None) -> None:
        self.group = group
        self.split = len(group.shape) if group.split is None else group.split
        columns = group.shape[self.split:]
        self.builder = builder or Builder(math.prod(columns))  # type: ignore[arg-type]
        self.values: dict[str, int] = given or {}
        self.arrays: dict[str, int] = {}
        self.inputs: list[Input] = []
        self.arguments: list[str | None] = []
        self.count: int | None = None  # the argument that is the size of the first axis
        self.joined: dict[str, list[tuple[Map, int]]] = {}
        self.checks: list[LabelCheck] = []
        self.wrong: list[int] = []  # of each check

    def build(self, outputs: Sequence[str], places: Mapping[str, str]) -> Built:
        """See `Group.build`."""
        self.values_of_lines()
        made = {t: (recipes.reduced_dims(line.node) if line.node.type in recipes.REDUCTIONS
                    else line.node.dims[i], line.node.dtypes[i].base_dtype.name)
                for line in self.group.lines for i, t in enumerate(line.targets)}
        found = [Output(n, *made[n]) for n in outputs]
        for output in found:
            array = self.arrays[places[output.name]] if output.name in places else (
                self.builder.array(output.dtype))
            for where, value in self.joined.get(output.name) or [
                    (_MAPS[self.group.spaces[output.name]], self.values[output.name])]:
                self.builder.store(array, where, value)
        for value in self.wrong:
            self.builder.store(self.builder.array("bool"), PER_ROW, value)
        return Built(self.builder.program(), self.inputs, found, self.group.shape, self.split,
                     self.checks, self.arguments)

    def values_of_lines(self) -> dict[str, int]:
        """See `Group.values`."""
        for line in self.group.lines:
            self.values.update(zip(line.targets, self._line(line)))
        return self.values

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
            return [self._reduction(line)]
        space = self.group.spaces[line.targets[0]]
        if space == JOINED:
            parts = joined(node, self.group.shape)
            assert parts is not None
            values = [self._operand(line, i, FULL) for i in range(parts.parts)]
            self.joined[line.targets[0]] = list(zip(parts.maps, values))
            return []
        given = []
        for i, (_, (source, index)) in enumerate(zip(operands(line), node.inputs)):
            found = place(source.dims[index], node.dims[0])
            assert found is not None
            given.append(self._operand(line, i, space if found.space == FULL else found.space))
        if node.type == "BroadcastTo":
            return given
        assert line.bound is not None and line.bound.kernel is not None
        return recipes.elementwise(b, node, line.bound.kernel, given)

    def _reduction(self, line: Line) -> int:
        shape, space = self.group.shape, self.group.spaces[line.targets[0]]
        reduced = {ROW: shape[self.split:], COLUMN: shape[: self.split], SINGLE: shape}[space]
        by_row = space == ROW or space == SINGLE and self.builder.columns > 1
        return recipes.reduction(self.builder, line.node, self._operand(line, 0, FULL),
                                 lambda dtype: self._size(reduced, dtype), by_row, space != ROW)

    def _size(self, dims: Dims, dtype: str) -> int:
        """How many elements these dims have."""
        b = self.builder
        known = b.constant(math.prod([d for d in dims if d is not None]), dtype)
        if None not in dims:
            return known
        if self.count is None:
            self.count = b.argument("int64")
            self.arguments.append(None)
        return b.apply("multiply", b.cast(self.count, dtype), known)

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
        if self.group.in_blocks and dims == ():
            self.values[name] = self.builder.argument(dtype)
            self.arguments.append(name)
            return self.values[name]
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
