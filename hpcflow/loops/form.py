"""The form of compiled loops: a typed program over rows x columns.

A program is a list of instructions, each of which is a value that later ones name by its number.
It is run by a back end: :mod:`~hpcflow.loops.form_numpy` (the reference),
:mod:`~hpcflow.loops.llvm_code` or :mod:`~hpcflow.loops.cuda_code`. A softmax of rows of ten
numbers::

    b = Builder(columns=10)
    x = b.load(b.array("float32"), DENSE)
    shifted = b.apply("subtract", x, b.reduce_row("max", x))
    e = b.apply("exp", shifted)
    y = b.apply("divide", e, b.reduce_row("sum", e))
    b.store(b.array("float32"), DENSE, y)
    program = b.program()

The number of rows is that of each run; all else is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hpcflow.loops.meanings import CAST, MEANINGS, REDUCTIONS, SELECT, SYNONYMS, numpy_dtype


class Map(NamedTuple):
    """Where an element lies: at ``offset + row * r + column * c`` of its array's memory, in
    elements. A `row` of None stands for the number of columns."""

    row: int | None
    column: int
    offset: int = 0


DENSE, PER_ROW, PER_COLUMN, ONE = Map(None, 1), Map(1, 0), Map(0, 1), Map(0, 0)


class Load(NamedTuple):
    """The element of an array."""

    array: int
    map: Map
    dtype: str


class Constant(NamedTuple):
    """A number that is part of the program."""

    value: float | int | bool
    dtype: str


class Argument(NamedTuple):
    """A number that is given to each run."""

    number: int
    dtype: str


class Column(NamedTuple):
    """The number of the column."""

    dtype: str


class Elementwise(NamedTuple):
    """A function of the table of meanings, ``select`` or ``cast``."""

    function: str
    operands: tuple[int, ...]
    dtype: str


class RowReduce(NamedTuple):
    """A reduction of each row."""

    function: str
    operand: int
    dtype: str


class ColumnReduce(NamedTuple):
    """A reduction of each column; no value of single rows may depend on it."""

    function: str
    operand: int
    dtype: str


class Store(NamedTuple):
    """Put a value into an array: once for each row if its map has rows, and for each column."""

    array: int
    map: Map
    operand: int
    dtype: str


Instruction = Load | Constant | Argument | Column | Elementwise | RowReduce | ColumnReduce | Store


class Program(NamedTuple):
    """See the module. `arrays` and `arguments` are the dtypes of what a run is given."""

    columns: int
    arrays: tuple[str, ...]
    arguments: tuple[str, ...]
    instructions: tuple[Instruction, ...]

    def __str__(self) -> str:
        arrays = ", ".join(f"a{i}: {t}" for i, t in enumerate(self.arrays))
        lines = [f"program of {self.columns} columns ({arrays})"]
        for i, step in enumerate(self.instructions):
            fields = ", ".join(f"{k}={v}" for k, v in step._asdict().items() if k != "dtype")
            lines.append(f"  v{i}: {step.dtype} = {type(step).__name__}({fields})")
        return "\n".join(lines)

    def stored(self) -> set[int]:
        """The arrays that are written to."""
        return {s.array for s in self.instructions if isinstance(s, Store)}

    def loaded(self) -> set[int]:
        """The arrays that are read."""
        return {s.array for s in self.instructions if isinstance(s, Load)}


class Extent(NamedTuple):
    """Over what a value varies, and what must be complete before it is known.

    Attributes:
        rows, columns: it may differ between rows, or columns.
        phase: the number of reductions of rows on the longest way to it from a reduction of
            columns, if there is one, or else from the beginning.
        is_final: it depends on a reduction of columns.
    """

    rows: bool
    columns: bool
    phase: int
    is_final: bool


def operands_of(step: Instruction) -> tuple[int, ...]:
    """The values that an instruction reads."""
    if isinstance(step, Elementwise):
        return step.operands
    if isinstance(step, (RowReduce, ColumnReduce, Store)):
        return (step.operand,)
    return ()


def leading_to(steps: Sequence[Instruction], wanted: Iterable[int],
               counts: Callable[[int], object] = lambda _: True,
               is_made: Callable[[int], bool] = lambda _: True) -> list[int]:
    """The values `wanted`, and all that lead to those that are made: of what counts, in order."""
    found = {i for i in wanted if counts(i)}
    for i in reversed(range(len(steps))):
        if i in found and is_made(i):
            found.update(o for o in operands_of(steps[i]) if counts(o))
    return sorted(found)


def extents(program: Program) -> list[Extent]:
    """The extent of every value; that of a store is its operand's."""
    found: list[Extent] = []
    for step in program.instructions:
        given = [found[i] for i in operands_of(step)]
        phase = max((e.phase for e in given), default=0)
        rows, columns = any(e.rows for e in given), any(e.columns for e in given)
        final = any(e.is_final for e in given)
        if isinstance(step, Load):
            rows, columns = step.map.row != 0, step.map.column != 0 and program.columns > 1
        elif isinstance(step, Column):
            columns = program.columns > 1
        elif isinstance(step, RowReduce):
            columns, phase = False, phase + 1
        elif isinstance(step, ColumnReduce):
            rows, final, phase = False, True, 0
        found.append(Extent(rows, columns, phase, final))
    return found


class MalformedError(ValueError):
    """A program breaks a rule of the form."""


def verify(program: Program) -> None:
    """Raise :class:`MalformedError` for a program that no back end could run."""
    dtypes = [s.dtype for s in program.instructions]
    for i, step in enumerate(program.instructions):
        given = operands_of(step)
        if any(not 0 <= o < i or isinstance(program.instructions[o], Store) for o in given):
            raise MalformedError(f"v{i} reads what is not a value before it")
        if isinstance(step, (Load, Store)) and program.arrays[step.array] != step.dtype:
            raise MalformedError(f"v{i} is {step.dtype}, its array {program.arrays[step.array]}")
        if isinstance(step, Argument) and program.arguments[step.number] != step.dtype:
            raise MalformedError(f"v{i} is {step.dtype}, its argument "
                                 f"{program.arguments[step.number]}")
        wrong = _wrong_types(step, [dtypes[o] for o in given])
        if wrong:
            raise MalformedError(f"v{i}: {wrong}")
    _verify_extents(program)


def _wrong_types(step: Instruction, given: list[str]) -> str:
    if isinstance(step, (RowReduce, ColumnReduce)):
        return "" if step.function in REDUCTIONS and given == [step.dtype] else (
            f"no reduction {step.function} of {given} is {step.dtype}")
    if isinstance(step, Store):
        return "" if given == [step.dtype] else f"stores {given[0]} as {step.dtype}"
    if not isinstance(step, Elementwise):
        return ""
    if step.function == CAST:
        return "" if len(given) == 1 else "casts one value"
    if step.function == SELECT:
        return "" if given == ["bool", step.dtype, step.dtype] else f"selects of {given}"
    meaning = MEANINGS.get(step.function)
    if meaning is None:
        return f"there is no function {step.function}"
    if len(set(given)) != 1 or given[0] not in meaning.types:
        return f"{step.function} takes no {given}"
    wanted = "bool" if meaning.is_test else given[0]
    return "" if step.dtype == wanted else f"{step.function} of {given} is not {step.dtype}"


def _verify_extents(program: Program) -> None:
    found = extents(program)
    for i, (step, extent) in enumerate(zip(program.instructions, found)):
        if extent.is_final and extent.rows:
            raise MalformedError(f"v{i} is of single rows and needs a reduction of all")
        if extent.is_final and extent.phase:
            raise MalformedError(f"v{i} needs a reduction of rows before one of columns")
        if isinstance(step, ColumnReduce) and found[step.operand].is_final:
            raise MalformedError(f"v{i} reduces what is reduced already")
        if isinstance(step, Store) and extent.is_final and step.map.row:
            raise MalformedError(f"v{i} stores a reduction of columns in every row")
        if isinstance(step, Store) and (extent.rows and step.map.row == 0
                                        or extent.columns and step.map.column == 0):
            raise MalformedError(f"v{i} stores many numbers at one place")


class Builder:
    """Writes a program; equal instructions become one."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._arrays: list[str] = []
        self._arguments: list[str] = []
        self._steps: list[Instruction] = []
        self._stores: list[Store] = []
        # By their class too: a reduction of rows equals one of columns, as tuples.
        self._known: dict[tuple[type, Any], int] = {}

    def array(self, dtype: str) -> int:
        """One more array."""
        self._arrays.append(dtype)
        return len(self._arrays) - 1

    def argument(self, dtype: str) -> int:
        """One more number that is given to each run."""
        self._arguments.append(dtype)
        return self._put(Argument(len(self._arguments) - 1, dtype))

    def dtype(self, value: int) -> str:
        """The dtype of a value."""
        return self._steps[value].dtype

    def load(self, array: int, where: Map) -> int:
        """The element of an array."""
        return self._put(Load(array, where, self._arrays[array]))

    def constant(self, value: float | int | bool, dtype: str) -> int:
        """A number, rounded to the dtype."""
        value = numpy_dtype(dtype).type(value).item()
        key = Constant, f"{dtype} {value!r}"  # as text, for 0 equals -0 and True
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._steps)
            self._steps.append(Constant(value, dtype))
        return found

    def column(self, dtype: str = "int64") -> int:
        """The number of the column."""
        return self._put(Column(dtype))

    def apply(self, function: str, *operands: int) -> int:
        """An element-wise function of the table, of values of one dtype."""
        function = SYNONYMS.get(function, function)
        meaning = MEANINGS[function]
        dtype = "bool" if meaning.is_test else self.dtype(operands[0])
        return self._put(Elementwise(function, operands, dtype))

    def select(self, test: int, x: int, y: int) -> int:
        """`x` where the test is true, else `y`."""
        return self._put(Elementwise(SELECT, (test, x, y), self.dtype(x)))

    def cast(self, value: int, dtype: str) -> int:
        """The value as one of another dtype."""
        if self.dtype(value) == dtype:
            return value
        return self._put(Elementwise(CAST, (value,), dtype))

    def reduce_row(self, function: str, value: int) -> int:
        """A reduction of each row."""
        return self._put(RowReduce(function, value, self.dtype(value)))

    def reduce_columns(self, function: str, value: int) -> int:
        """A reduction of each column."""
        return self._put(ColumnReduce(function, value, self.dtype(value)))

    def store(self, array: int, where: Map, value: int) -> None:
        """Put a value into an array, after everything is computed."""
        self._stores.append(Store(array, where, value, self._arrays[array]))

    def program(self) -> Program:
        """The program, verified; its stores come last."""
        made = Program(self.columns, tuple(self._arrays), tuple(self._arguments),
                       tuple(_needed(self._steps, self._stores)))
        verify(made)
        return made

    def _put(self, step: Instruction) -> int:
        key = type(step), step
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._steps)
            self._steps.append(step)
        return found


def _needed(steps: Sequence[Instruction], stores: Sequence[Store]) -> list[Instruction]:
    """The steps that lead to a store, with their new numbers, and the stores."""
    numbers: dict[int, int] = {}
    kept: list[Instruction] = []
    for i in leading_to(steps, [s.operand for s in stores]):
        numbers[i] = len(kept)
        kept.append(_renumbered(steps[i], numbers))
    return [*kept, *(_renumbered(s, numbers) for s in stores)]


def _renumbered(step: Instruction, numbers: dict[int, int]) -> Instruction:
    if isinstance(step, Elementwise):
        return step._replace(operands=tuple([numbers[o] for o in step.operands]))
    if isinstance(step, (RowReduce, ColumnReduce, Store)):
        return step._replace(operand=numbers[step.operand])
    return step
