"""The LLVM back end of the form: machine code of a program, as one loop that Python can call.

The loop is called with (*arrays, *arguments, *parts, first, last, block, blocks). It computes the
rows from `first` to before `last`. There is an array of `parts` for each reduction of columns, with
a row for each block of `block` rows, in which the reductions of just these rows are added to what
is there (see `start_of`); where `blocks` is not zero, the parts of so many blocks are joined, in
their order, and what follows from them is stored. So the bits do not depend on which thread
computes which block. What loops they become says :mod:`~hpcflow.loops.llvm_plan`.

Elements of one number may be read and written through several arrays, if these are the same: a
value is stored only after it is computed. No array that is written to may overlap another else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import PLACE, Array, Code, Kind, Number
from hpcflow.loops.form import (
    DENSE,
    Argument,
    Column,
    ColumnReduce,
    Constant,
    Elementwise,
    Load,
    Map,
    Program,
    RowReduce,
    Store,
)
from hpcflow.loops.llvm_loops import PAGE, Loops
from hpcflow.loops.llvm_plan import BEFORE, Plan, Sinks
from hpcflow.loops.llvm_reductions import Reduction, Totals
from hpcflow.loops.meanings import CAST, NARROW, wide_dtype

_PIECE = 4096  # rows that are summed in registers
_AT_ONCE = 8  # rows that are added up before their sum is
_SHORT = 64  # columns
_STACK = 1 << 15  # bytes of scratch that lie there
_INDICES = 4  # arguments after the parts


def code_of(name: str, program: Program) -> Code:
    """The code of a program; for `name` see `direct_code.code_from`."""
    kinds = _kinds(program)
    return code_from(name, kinds, lambda function: _Writer(function, program, kinds).write())


def _kinds(program: Program) -> list[Kind]:
    """What the loop of a program is called with."""
    stored = program.stored()
    arrays = [Array("uint16" if t in NARROW else t, PLACE, i in stored)
              for i, t in enumerate(program.arrays)]
    numbers = [Number("int8" if t == "bool" else wide_dtype(t)) for t in program.arguments]
    parts = [Array(wide_dtype(s.dtype), PLACE, True) for s in program.instructions
             if isinstance(s, ColumnReduce)]
    return [*arrays, *numbers, *parts, *[Number("int64")] * _INDICES]


class _Writer(Loops):
    """Writes the loop of a program."""

    def __init__(self, function: Any, program: Program, kinds: Sequence[Kind]) -> None:
        super().__init__(function, kinds)
        self.program = program
        self.lines = program.instructions
        self.plan = Plan(program)
        given = [g[0] if isinstance(k, Array) else g for g, k in zip(self.given, kinds)]
        count, total = len(program.arrays), len(program.arrays) + len(program.arguments)
        self.arrays, self.numbers = given[:count], given[count:total]
        self.parts = dict(zip(self.plan.sums, given[total:]))
        self.first, self.last, self.block, self.blocks = given[-_INDICES:]
        self.fixed: dict[int, Any] = {}  # the values that are known where code is written
        self.scratch: dict[int, Any] = {}
        self.is_deep = any([isinstance(s, Elementwise) and s.function in llvm_functions.FUNCTIONS
                            for s in self.lines])
        self.row: Any = self.word(0)
        self.part: Any = self.word(0)  # the number of the block

    def write(self) -> None:
        """Write it."""
        release = self._allocate()
        self._emit(self.plan.uniform, self.fixed, self.word(0))
        before = [i for i, loop in self.plan.kept.items() if loop == BEFORE]
        if before:
            self._columns(BEFORE, before, Sinks([], [], []))
        self._once()
        if self.plan.sums:
            self._by_blocks()
        else:
            self._rows(self.first, self.last)
        if self.plan.sums:
            with self.builder.if_then(self.builder.icmp_signed(">", self.blocks, self.word(0))):
                self._finish()
        for pointer in release:
            self.free(pointer)
        self.builder.ret(self.word(0))

    def _allocate(self) -> list[Any]:
        """Memory of a row for each value that is kept; what is to be freed."""
        columns = self.program.columns
        kinds = {i: llvm_math.memory_type(wide_dtype(self.lines[i].dtype))
                 for i in self.plan.kept if i not in self.plan.lent}
        size = sum(columns * llvm_math.item_size(kind) for kind in kinds.values())
        for i, kind in kinds.items():
            self.scratch[i] = (self.stack(kind, columns) if size <= _STACK
                               else self.malloc(kind, columns))
        return [] if size <= _STACK else list(self.scratch.values())

    # ------------------------------------------------------------ loops

    def _by_blocks(self) -> None:
        """The rows, block by block."""
        b = self.builder
        start = b.udiv(self.first, self.block)
        end = b.udiv(b.add(self.last, b.sub(self.block, self.word(1))), self.block)
        with self.steps(start, end) as self.part:
            begin = self.extreme("maximum", self.first, b.mul(self.part, self.block))
            following = b.mul(b.add(self.part, self.word(1)), self.block)
            self._rows(begin, self.extreme("minimum", self.last, following))

    def _rows(self, first: Any, last: Any) -> None:
        if self.plan.is_grouped:
            b = self.builder
            whole = b.sub(last, b.urem(b.sub(last, first), self.word(_AT_ONCE)))
            for begin, end, count in ((first, whole, _AT_ONCE), (whole, last, 1)):
                with self.steps(begin, end, count) as row:
                    self._group_of_rows(count, row)
        elif not self.plan.is_unrolled:
            with self.steps(first, last) as self.row:
                self._row()
        elif not self.plan.sums:
            with self.parallel(), self.steps(first, last) as self.row:
                self._unrolled()
        else:
            with self.steps(first, last, _PIECE) as begin:
                self._piece(begin, last)

    def _row(self) -> None:
        self._fetch_ahead()
        outer = dict(self.fixed)
        for phase, sinks in enumerate(self.plan.sinks):
            self._emit(self.plan.rowwise[phase], self.fixed, self.word(0))
            if any(sinks):
                self._columns(phase, [], sinks)
        for i in self.plan.row_sums:
            self._add_to_part(i, self.fixed, self.word(0))
        for i in self.plan.row_stores():
            self._store(i, self.fixed, self.word(0))
        self.fixed = outer

    def _fetch_ahead(self) -> None:
        """Ask for rows that come soon: what the hardware fetches on its own ends where a page does,
        which is a large part of what such a row needs."""
        for array in self.plan.streams:
            place = self._place(array, DENSE, self.word(0))
            size = self.program.columns * llvm_math.item_size(place.type.pointee)
            if size <= PAGE:
                self.prefetch(place, PAGE, size)

    def _group_of_rows(self, count: int, row: Any) -> None:
        """Some rows, which are added up before their sum is: columns are read and written once for
        all of them."""
        b, (sinks,) = self.builder, self.plan.sinks
        needed = self.plan.needed(self.plan.operands(sinks), 0)
        rows = [b.add(row, self.word(k)) for k in range(count)]
        outer = []
        for self.row in rows:
            local = dict(self.fixed)
            self._emit(self.plan.rowwise[0], local, self.word(0))
            outer.append(local)
        with self._each_column() as column:
            inner = [dict(local) for local in outer]
            for self.row, local in zip(rows, inner):
                self._emit(needed, local, column, 0)
            for i in sinks.sums:
                total = self._reduction(i).of_pairs(b, [v[self._operand(i)] for v in inner])
                self._add_to_part(i, {self._operand(i): total}, column)
            for self.row, local in zip(rows, inner):
                for i in sinks.stores:
                    self._store(i, local, column)
        for self.row, local in zip(rows, outer):
            for i in self.plan.row_stores():
                self._store(i, local, self.word(0))

    @contextmanager
    def _each_column(self) -> Iterator[Any]:
        """A loop over the columns, whose body is what is written meanwhile."""
        end = self.word(self.program.columns)
        with self.parallel(end.constant < _SHORT), self.steps(self.word(0), end) as column:
            yield column

    def _columns(self, loop: int, keep: list[int], sinks: Sinks) -> None:
        """A loop over the columns."""
        wanted = [*keep, *self.plan.operands(sinks)]
        needed = self.plan.needed(wanted, loop)
        totals = Totals(self, [self._reduction(i) for i in sinks.reductions])
        with self._each_column() as column:
            totals.begin()
            local = dict(self.fixed)
            self._emit(needed, local, column, loop)
            for i in sinks.sums:
                self._add_to_part(i, local, column)
            for i in sinks.stores:
                self._store(i, local, column)
            totals.join([local[self._operand(i)] for i in sinks.reductions])
        for i, total in zip(sinks.reductions, totals.results()):
            self.fixed[i] = llvm_math.rounded(self.builder, total, self.lines[i].dtype)

    def _unrolled(self) -> list[dict[int, Any]]:
        """A row whose columns are written out one by one, in a loop whose vectors are of rows; the
        values of each column."""
        columns = [self.word(c) for c in range(self.program.columns)]
        local = [dict(self.fixed) for _ in columns]
        for i, step in enumerate(self.lines):
            if isinstance(step, (Store, ColumnReduce)) or i in local[0] or (
                    self.plan.extents[i].is_final):
                continue
            made = [self._value_or_total(i, local, c) for c in (
                columns if self.plan.extents[i].columns else columns[:1])]
            for values, value in zip(local, made * (len(columns) // len(made))):
                values[i] = value
        for i in self.plan.row_stores():
            self._store(i, local[0], columns[0])
        for values, column in zip(local, columns):
            for i in [i for sinks in self.plan.sinks for i in sinks.stores]:
                self._store(i, values, column)
        return local

    def _value_or_total(self, i: int, local: list[dict[int, Any]], column: Any) -> Any:
        step = self.lines[i]
        if not isinstance(step, RowReduce):
            return self._value(i, local[column.constant], column)
        total = self._reduction(i).of(self.builder, [v[self._operand(i)] for v in local])
        return llvm_math.rounded(self.builder, total, self.lines[i].dtype)

    def _piece(self, begin: Any, last: Any) -> None:
        """Some of the rows that are written out, whose sums are added up."""
        places = [(i, c) for i in self.plan.sums for c in range(self.plan.width(i))]
        totals = Totals(self, [self._reduction(i) for i, _ in places])
        end = self.extreme("minimum", last, self.builder.add(begin, self.word(_PIECE)))
        with self.parallel(), self.steps(begin, end) as self.row:
            totals.begin()
            values = self._unrolled()
            totals.join([values[c][self._operand(i)] for i, c in places])
        for (i, c), total in zip(places, totals.results()):
            self._add_to_part(i, {self._operand(i): total}, self.word(c))

    def _once(self) -> None:
        """Store what is the same in all rows, where the first row is computed."""
        stores = self.plan.single_stores(False)
        if not stores:
            return
        with self.builder.if_then(
                self.builder.icmp_signed("==", self.first, self.word(0))):
            self._store_columns(stores, [])

    def _store_columns(self, stores: list[int], totals: list[int]) -> None:
        """Store for each column, or once, what may need the `totals`."""
        with self._each_column() as column:
            local = dict(self.fixed)
            for i in totals:
                local[i] = self._total(i, column)
            wanted = self.plan.needed([self._operand(i) for i in stores], BEFORE)
            self._emit(wanted, local, column, BEFORE)
            for i in stores:
                self._store(i, local, column)

    # ------------------------------------------------------------ reductions

    def _operand(self, i: int) -> int:
        step = self.lines[i]
        assert isinstance(step, (RowReduce, ColumnReduce, Store))
        return step.operand

    def _reduction(self, i: int) -> Reduction:
        step = self.lines[i]
        assert isinstance(step, (RowReduce, ColumnReduce))
        return Reduction(step.function, step.dtype)

    def _add_to_part(self, i: int, values: dict[int, Any], column: Any) -> None:
        place = self._part_place(i, self.part, column)
        total = self._reduction(i).of(
            self.builder, [self.load(place), values[self._operand(i)]])
        self.store(total, place)

    def _part_place(self, i: int, block: Any, column: Any) -> Any:
        b, width = self.builder, self.word(self.plan.width(i))
        return b.gep(self.parts[i], [b.add(b.mul(block, width), column)])

    def _finish(self) -> None:
        """Join the parts of all blocks into the first, and store what follows."""
        self.row = self.part = self.word(0)
        with self.steps(self.word(1), self.blocks) as number:
            for width in sorted({self.plan.width(i) for i in self.plan.sums}):
                self._join_block(number, width)
        self._store_columns(self.plan.single_stores(True), self.plan.sums)

    def _join_block(self, number: Any, width: int) -> None:
        sums = [i for i in self.plan.sums if self.plan.width(i) == width]
        with self.parallel(), self.steps(self.word(0), self.word(width)) as column:
            for i in sums:
                value = self.load(self._part_place(i, number, column))
                self._add_to_part(i, {self._operand(i): value}, column)

    def _total(self, i: int, column: Any) -> Any:
        at = column if self.plan.width(i) > 1 else self.word(0)
        total = self.load(self._part_place(i, self.word(0), at))
        return llvm_math.rounded(self.builder, total, self.lines[i].dtype)

    # ------------------------------------------------------------ values

    def _emit(self, numbers: Sequence[int], values: dict[int, Any], column: Any,
              loop: int = BEFORE - 1) -> None:
        """Compute values, in the order of the program; those that are kept are put where they are
        kept in the `loop` that they are computed in, and read elsewhere."""
        for i in numbers:
            if i in values:
                continue
            home = self.plan.kept.get(i)
            dtype = wide_dtype(self.lines[i].dtype)
            if home is not None and home != loop:
                found = self.load(self._kept_place(i, column))
                values[i] = llvm_math.from_memory(self.builder, found, dtype)
                continue
            values[i] = self._value(i, values, column)
            if home is not None:
                kept = llvm_math.to_memory(self.builder, values[i], dtype)
                self.store(kept, self._kept_place(i, column))

    def _kept_place(self, i: int, column: Any) -> Any:
        if i in self.scratch:
            return self.builder.gep(self.scratch[i], [column])
        lender = self.lines[self.plan.lent[i]]
        assert isinstance(lender, Store)
        return self._place(lender.array, lender.map, column)

    def _value(self, i: int, values: dict[int, Any], column: Any) -> Any:
        step, b = self.lines[i], self.builder
        if isinstance(step, Load):
            found = self.load(self._place(step.array, step.map, column))
            return llvm_math.from_memory(b, found, step.dtype)
        if isinstance(step, Constant):
            return llvm_math.value_type(step.dtype)(step.value)
        if isinstance(step, Argument):
            number = self.numbers[step.number]
            return llvm_math.from_memory(b, number, "bool") if step.dtype == "bool" else number
        if isinstance(step, Column):
            return llvm_math.cast(b, column, "int64", step.dtype)
        assert isinstance(step, Elementwise)
        given = [values[o] for o in step.operands]
        dtype = self.lines[step.operands[0]].dtype
        if step.function == CAST:
            return llvm_math.cast(b, given[0], dtype, step.dtype)
        return llvm_functions.emit(step.function, b, dtype, given)

    def _place(self, array: int, where: Map, column: Any) -> Any:
        b, word = self.builder, self.word
        stride = self.program.columns if where.row is None else where.row
        index = b.add(b.mul(self.row, word(stride)), word(where.offset))
        return b.gep(self.arrays[array], [b.add(index, b.mul(column, word(where.column)))])

    def _store(self, i: int, values: dict[int, Any], column: Any) -> None:
        step = self.lines[i]
        assert isinstance(step, Store)
        value = llvm_math.to_memory(self.builder, values[step.operand], step.dtype)
        self.store(value, self._place(step.array, step.map, column))
