"""Which loops a program of the form becomes, and what is kept between them.

A program of few columns is one loop over its rows, in which the columns are written out: vectors
are made of rows. Any other is a loop over rows, in which there is a loop over columns for each
phase: that of a phase computes what reductions of the next phase, sums of columns and stores need
of it. A value that varies in the row and that a later phase needs is computed anew there, unless
this costs more than to keep it in memory of a row.
"""

from __future__ import annotations

from typing import NamedTuple

from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.form import (
    DENSE,
    ColumnReduce,
    Constant,
    Elementwise,
    Extent,
    Load,
    Program,
    RowReduce,
    Store,
    extents,
    leading_to,
    operands_of,
)
from hpcflow.loops.meanings import CAST, MEANINGS, NARROW, SELECT, SYNONYMS

# What it costs to compute a value, in simple instructions, and from where on it is kept.
_COSTS = {"divide": 4, "reciprocal": 4, "sqrt": 4}
_FUNCTION_COST, _KEPT_COST = 12, 5
#: The number of the loop over columns before the rows.
BEFORE = -1


class Sinks(NamedTuple):
    """What a loop over columns is for: the numbers of reductions and stores."""

    reductions: list[int]
    sums: list[int]
    stores: list[int]


def supports(program: Program) -> bool:
    """True if there is code for all of a program."""
    steps = program.instructions
    return _are_separate(program) and all(_has_code(program, s) for s in steps) and not any(
        isinstance(s, Store) and s.map.row == 0 and not e.is_final and (e.phase or e.rows)
        for s, e in zip(steps, extents(program)))


def _has_code(program: Program, step: object) -> bool:
    if not isinstance(step, Elementwise):
        return True
    given = program.instructions[step.operands[0]].dtype
    if step.function == CAST:
        return llvm_math.can_cast(given, step.dtype)
    return llvm_functions.supports(step.function, given)


def _are_separate(program: Program) -> bool:
    """True if no element is read after it was written: an array that is written to is read
    nowhere, or where it is written."""
    stored, steps = program.stored(), program.instructions
    if any(isinstance(s, ColumnReduce) for s in steps) and any(
            isinstance(s, Store) and s.map.row == 0 and s.array in program.loaded()
            for s in steps):
        return False
    for array in stored & program.loaded():
        maps = {s.map for s in steps if isinstance(s, (Load, Store)) and s.array == array}
        if len(maps) > 1 or any(m.row == 0 for m in maps):
            return False
    return True


def supports_exactly(name: str, dtype: str) -> bool:
    """True if NumPy's ufunc `name` on `dtype` may be part of a program, and has NumPy's bits."""
    name = SYNONYMS.get(name, name)
    return name in MEANINGS and MEANINGS[name].ulps == 0 and llvm_functions.supports(name, dtype)


def is_exact(program: Program) -> bool:
    """True if the results have the bits of NumPy: no function is approximate, and no sum of numbers
    with a fraction is taken."""
    return all(_is_exact(s) for s in program.instructions)


def _is_exact(step: object) -> bool:
    if isinstance(step, Elementwise):
        return step.function in (CAST, SELECT) or MEANINGS[step.function].ulps == 0
    if isinstance(step, (RowReduce, ColumnReduce)):
        return step.dtype not in llvm_math.FLOATS
    return True


class Plan:
    """The loops of a program.

    Attributes:
        is_unrolled: the columns are written out in a loop over rows.
        is_grouped: several rows are computed together, as only their sums are needed.
        uniform: the values that are the same everywhere.
        rowwise: of each phase, the values that are the same in a row.
        sinks: of each phase, what its loop over columns is for.
        row_sums: the reductions of columns of what is the same in a row: of one column.
        kept: value -> the loop in which it is put into memory of a row.
        streams: the arrays that are read row after row.
        lent: value that is kept -> the store in whose place it is until that is done.
        final: the values that need a reduction of columns, these left out.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.instructions
        self.extents = extents(program)
        self.is_unrolled = program.columns == 1 or self._fills_no_vectors()
        numbers = range(len(self.steps))
        self.sums = [i for i in numbers if isinstance(self.steps[i], ColumnReduce)]
        self.stores = [i for i in numbers if isinstance(self.steps[i], Store)]
        plain = [i for i in numbers if not isinstance(self.steps[i], (Store, RowReduce,
                                                                      ColumnReduce))]
        same = [i for i in plain if not self.extents[i].columns and not self.extents[i].is_final]
        self.uniform = [i for i in same if not self.extents[i].rows and not self.extents[i].phase]
        self.phases = 1 + max(
            (self.extents[i].phase for i in numbers if not self.extents[i].is_final), default=0)
        self.rowwise = [[i for i in same if self.extents[i].phase == phase
                         and i not in set(self.uniform)] for phase in range(self.phases)]
        self.final = [i for i in plain if self.extents[i].is_final]
        self.row_sums = [i for i in self.sums if self.width(i) < program.columns]
        self.sinks = self._all_sinks()
        self.streams = sorted({s.array for s in self.steps
                               if isinstance(s, Load) and s.map == DENSE})
        self.kept: dict[int, int] = {}
        self.lent: dict[int, int] = {}
        shared = any(e.columns and not e.rows for e in self.extents)
        self.is_grouped = self.phases == 1 and not self.is_unrolled and not self.row_sums and bool(
            self.sums or shared and program.columns <= tuning.FORM_MOST_GROUPED)
        if not self.is_unrolled:
            self._keep()
            self._lend()

    def _fills_no_vectors(self) -> bool:
        """True where a row is too short for vectors of columns, or a function of a number of each
        row would take as long as the row."""
        columns = self.program.columns
        if columns > tuning.FORM_MOST_UNROLLED or not any(
                isinstance(s, RowReduce) for s in self.steps):
            return False
        return columns < 16 or columns % 8 != 0 or any(
            isinstance(s, Elementwise) and s.function in llvm_functions.FUNCTIONS
            and not e.columns for s, e in zip(self.steps, self.extents))

    def _all_sinks(self) -> list[Sinks]:
        found = [Sinks([], [], []) for _ in range(self.phases)]
        for i, step in enumerate(self.steps):
            if isinstance(step, RowReduce):
                found[self.extents[i].phase - 1].reductions.append(i)
            elif isinstance(step, ColumnReduce) and i not in self.row_sums:
                found[self.extents[step.operand].phase].sums.append(i)
            elif isinstance(step, Store) and self._is_in_rows(step) and step.map.column != 0:
                in_place = step.array in self.program.loaded()
                phase = self.phases - 1 if in_place else self.extents[step.operand].phase
                found[phase].stores.append(i)
        return found

    def width(self, i: int) -> int:
        """The columns of a reduction of columns."""
        return self.program.columns if self.extents[i].columns else 1

    def _is_in_rows(self, step: Store) -> bool:
        return step.map.row != 0 and not self.extents[step.operand].is_final

    def row_stores(self) -> list[int]:
        """The stores of a number for each row."""
        return [i for i in self.stores if self._is_in_rows(self._store(i))
                and self._store(i).map.column == 0]

    def single_stores(self, is_final: bool) -> list[int]:
        """The stores of what is the same in all rows, and needs a reduction of columns or not."""
        return [i for i in self.stores if not self._is_in_rows(self._store(i))
                and self.extents[self._store(i).operand].is_final == is_final]

    def _store(self, i: int) -> Store:
        step = self.steps[i]
        assert isinstance(step, Store)
        return step

    def operands(self, sinks: Sinks) -> list[int]:
        """The values that a loop is for."""
        return [operands_of(self.steps[i])[0]
                for i in (*sinks.reductions, *sinks.sums, *sinks.stores)]

    def needed(self, wanted: list[int], loop: int) -> list[int]:
        """The values that a loop over columns computes, or reads, to have those `wanted`."""
        return leading_to(self.steps, wanted, self.is_inside,
                          lambda i: self.kept.get(i, loop) == loop)

    def is_inside(self, i: int) -> bool:
        """True if a value is computed in loops over columns."""
        extent: Extent = self.extents[i]
        return (extent.columns or extent.is_final) and not isinstance(self.steps[i], ColumnReduce)

    # ------------------------------------------------------------ what is kept

    def _keep(self) -> None:
        """Decide what is kept, for each loop in its order: the last values on the way to what it
        needs that an earlier loop has, and that cost enough."""
        home: dict[int, int] = {}
        for loop, sinks in enumerate(self.sinks):
            wanted = {i for i in self.operands(sinks) if self.is_inside(i)}
            for i in reversed(range(len(self.steps))):
                if i not in wanted or i in self.kept:
                    continue
                place = BEFORE if not self.extents[i].rows and not self.extents[i].phase else (
                    home.get(i, loop))
                if place != loop and self._cost(i) >= _KEPT_COST:
                    self.kept[i] = place
                    continue
                wanted.update(o for o in operands_of(self.steps[i]) if self.is_inside(o))
            for i in wanted:
                home.setdefault(i, loop)

    def _lend(self) -> None:
        """Find stores of the last loop in whose places values may be kept."""
        arrays = [self._store(i).array for i in self.stores]
        free = [i for i in self.sinks[-1].stores if self._store(i).map.column and self._store(
            i).array not in self.program.loaded() and arrays.count(self._store(i).array) == 1]
        for value, loop in self.kept.items():
            dtype = self.steps[value].dtype
            if loop == BEFORE or dtype in NARROW or dtype == "bool":
                continue
            place = next((i for i in free if self.steps[i].dtype == dtype), None)
            if place is not None:
                free.remove(place)
                self.lent[value] = place

    def _cost(self, i: int) -> int:
        """What it costs to compute a value in one more loop."""
        return sum(map(self._own_cost, leading_to(self.steps, [i], self.is_inside)))

    def _own_cost(self, i: int) -> int:
        step = self.steps[i]
        if isinstance(step, Constant):
            return 0
        if not isinstance(step, Elementwise):
            return 1
        if step.function in llvm_functions.FUNCTIONS:
            return _FUNCTION_COST
        return _COSTS.get(step.function, 1)
