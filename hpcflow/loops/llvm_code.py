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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import PLACE, Array, Code, Integer, Kind, Real
from hpcflow.loops.form import (
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
from hpcflow.loops.llvm_loops import Loops
from hpcflow.loops.llvm_plan import BEFORE, Plan, Sinks
from hpcflow.loops.meanings import CAST, FLOATS, REDUCTIONS, start_of

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module, Value

_PIECE = 4096  # rows of one column that are summed in registers
_STACK = 1 << 15  # bytes of scratch that lie there
_INDICES = 4  # arguments after the parts


def code_of(name: str, program: Program) -> Code:
    """The code of a program; for `name` see `direct_code.code_from`."""

    def body_in(module: Module) -> _Body:
        body = _Body(module, program)
        _Writer(body, program).write()
        return body

    return code_from(name, body_in)


def wide_dtype(dtype: str) -> str:
    """The type that numbers of `dtype` are summed in."""
    return "float32" if dtype in llvm_math.NARROW else dtype


def array_dtype(dtype: str) -> str:
    """What NumPy calls the type that an array of `dtype` is handed over as."""
    return "uint16" if dtype in llvm_math.NARROW else dtype


class _Body:
    """See `entries.Body`."""

    def __init__(self, module: Module, program: Program) -> None:
        ir = self.ir = llvm_math.ir()
        stored = program.stored()
        sums = [s.dtype for s in program.instructions if isinstance(s, ColumnReduce)]
        parts = [wide_dtype(t) for t in sums]
        self.kinds: list[Kind] = [Array(array_dtype(t), PLACE, i in stored)
                                  for i, t in enumerate(program.arrays)]
        self.kinds += [_number(t) for t in program.arguments]
        self.kinds += [Array(t, PLACE, True) for t in parts]
        self.kinds += [Integer("int64")] * _INDICES
        self.word = ir.IntType(64)
        given = [_pointer(t) for t in program.arrays]
        given += [llvm_math.memory_type("bool") if t == "bool" else llvm_math.value_type(t)
                  for t in program.arguments]
        given += [_pointer(t) for t in parts] + [self.word] * _INDICES
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), given), "loop")
        self.function.linkage = "internal"
        self.function.attributes.add("noinline")  # two functions call it
        if llvm_math.has_wide_registers():  # the set knows only attributes without a value
            set.add(self.function.attributes, '"prefer-vector-width"="512"')

    def array(self, builder: IRBuilder, index: int, address: Value, dims: Sequence) -> Any:
        """The first element."""
        return builder.inttoptr(address, self.function.args[index].type)

    def several(self, builder: IRBuilder, kind: object, parts: Sequence) -> Any:
        """Refuse tuples: such a loop takes none."""
        raise NotImplementedError

    def call(self, builder: IRBuilder, values: Sequence) -> Any:
        """See `entries.Body`."""
        builder.call(self.function, values)
        return self.ir.IntType(1)(0), None


def _number(dtype: str) -> Kind:
    if dtype in FLOATS:
        return Real(wide_dtype(dtype))
    return Integer("int8" if dtype == "bool" else dtype)


def _pointer(dtype: str) -> Any:
    return llvm_math.memory_type(dtype).as_pointer()


class _Writer(Loops):
    """Writes the loop of a program."""

    def __init__(self, body: _Body, program: Program) -> None:
        super().__init__(body.function)
        self.program = program
        self.steps = program.instructions
        self.plan = Plan(program)
        arguments, arrays = self.function.args, len(program.arrays)
        self.arrays = arguments[:arrays]
        self.numbers = arguments[arrays : arrays + len(program.arguments)]
        self.parts = dict(zip(self.plan.sums, arguments[arrays + len(program.arguments):]))
        self.first, self.last, self.block, self.blocks = arguments[-_INDICES:]
        self.fixed: dict[int, Any] = {}  # the values that are known where code is written
        self.scratch: dict[int, Any] = {}
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
        self.builder.ret_void()

    def _allocate(self) -> list[Any]:
        """Memory of a row for each value that is kept; what is to be freed."""
        columns = self.program.columns
        kinds = {i: _scratch_type(self.steps[i].dtype) for i in self.plan.kept}
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

        def visit(number: Any, _: list) -> list:
            self.part = number
            begin = self.largest(self.first, b.mul(number, self.block))
            following = b.mul(b.add(number, self.word(1)), self.block)
            self._rows(begin, self.smallest(self.last, following))
            return []

        self.loop(start, end, [], visit)

    def _rows(self, first: Any, last: Any) -> None:
        if self.program.columns > 1:
            self.loop(first, last, [], self._row)
        elif not self.plan.sums:
            with self.parallel():
                self.loop(first, last, [], self._single)
        else:
            self._pieces(first, last)

    def _row(self, row: Any, _: list) -> list:
        self.row = row
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
        return []

    def _columns(self, loop: int, keep: list[int], sinks: Sinks) -> None:
        """A loop over the columns."""
        wanted = [*keep, *self.plan.operands(sinks)]
        needed = self.plan.needed(wanted, loop)
        starts = [self._start(i) for i in sinks.reductions]

        def visit(column: Any, totals: list) -> list:
            local = dict(self.fixed)
            self._emit(needed, local, column, loop)
            for i in sinks.sums:
                self._add_to_part(i, local, column)
            for i in sinks.stores:
                self._store(i, local, column)
            return [self._joined(i, total, local[self._operand(i)])
                    for i, total in zip(sinks.reductions, totals)]

        with self.parallel():
            found = self.loop(self.word(0), self.word(self.program.columns), starts, visit)
        for i, total in zip(sinks.reductions, found):
            self.fixed[i] = llvm_math.rounded(
                self.builder, self._end(i, total), self.steps[i].dtype)

    def _single(self, row: Any, totals: list) -> list:
        """A row of one column."""
        self.row, local = row, dict(self.fixed)
        for i, step in enumerate(self.steps):
            if isinstance(step, RowReduce):
                local[i] = local[step.operand]
            elif i not in local and not isinstance(step, (Store, ColumnReduce)) and (
                    not self.plan.extents[i].is_final):
                local[i] = self._value(i, local, self.word(0))
        for i in self.plan.row_stores():
            self._store(i, local, self.word(0))
        return [self._joined(i, total, local[self._operand(i)])
                for i, total in zip(self.plan.sums, totals)]

    def _pieces(self, first: Any, last: Any) -> None:
        """Rows of one column with sums: in pieces, whose sums are added up."""
        b = self.builder

        def piece(begin: Any, _: list) -> list:
            end = self.smallest(last, b.add(begin, self.word(_PIECE)))
            with self.parallel():
                found = self.loop(begin, end, [self._start(i) for i in self.plan.sums],
                                  self._single)
            for i, total in zip(self.plan.sums, found):
                self._add_to_part(i, {self._operand(i): self._end(i, total)}, self.word(0))
            return []

        self.loop(first, last, [], piece, _PIECE)

    def _once(self) -> None:
        """Store what is the same in all rows, where the first row is computed."""
        stores = self.plan.once_stores()
        if not stores:
            return
        with self.builder.if_then(
                self.builder.icmp_signed("==", self.first, self.word(0))):
            self._store_columns(stores, [])

    def _store_columns(self, stores: list[int], totals: list[int]) -> None:
        """Store for each column, or once, what may need the `totals`."""
        def visit(column: Any, _: list) -> list:
            local = dict(self.fixed)
            for i in totals:
                local[i] = self._total(i, column)
            wanted = self.plan.needed([self._operand(i) for i in stores], BEFORE)
            self._emit(wanted, local, column, BEFORE)
            for i in stores:
                self._store(i, local, column)
            return []

        if self.program.columns == 1:
            visit(self.word(0), [])
            return
        with self.parallel():
            self.loop(self.word(0), self.word(self.program.columns), [], visit)

    # ------------------------------------------------------------ reductions

    def _operand(self, i: int) -> int:
        step = self.steps[i]
        assert isinstance(step, (RowReduce, ColumnReduce, Store))
        return step.operand

    def _reduction(self, i: int) -> tuple[str, str]:
        step = self.steps[i]
        assert isinstance(step, (RowReduce, ColumnReduce))
        return step.function, step.dtype

    def _start(self, i: int) -> Any:
        function, dtype = self._reduction(i)
        kind = llvm_math.value_type(dtype)
        start = llvm_math.constant(kind, start_of(function, dtype))
        return self._key(i, start) if self._has_key(i) else start

    def _joined(self, i: int, total: Any, value: Any) -> Any:
        """The reduction of what was reduced and one more value, in a loop that `_end` ends."""
        function, dtype = self._reduction(i)
        if self._has_key(i):
            order = ">" if function == "max" else "<"
            key = self._key(i, value)
            is_first = self.builder.icmp_signed(order, total, key)
            return self.builder.select(is_first, total, key)
        if dtype in FLOATS:
            return self.builder.fadd(total, value, flags=("reassoc",))
        joint = REDUCTIONS[function].function
        return llvm_math.emit(joint, self.builder, dtype, [total, value])

    def _end(self, i: int, total: Any) -> Any:
        if not self._has_key(i):
            return total
        return ordered_number(self.builder, total, llvm_math.value_type(self._reduction(i)[1]))

    def _has_key(self, i: int) -> bool:
        function, dtype = self._reduction(i)
        return function != "sum" and dtype in FLOATS

    def _key(self, i: int, value: Any) -> Any:
        """A whole number, in the order of numbers with a fraction: the largest one of many is
        found fast. A NaN is what the reduction keeps."""
        b, key = self.builder, ordered_key(self.builder, value)
        size = key.type.width - 1
        end = 2**size - 1 if self._reduction(i)[0] == "max" else -(2**size)
        return b.select(b.fcmp_unordered("uno", value, value), key.type(end), key)

    def _add_to_part(self, i: int, values: dict[int, Any], column: Any) -> None:
        place = self._part_place(i, self.part, column)
        function, dtype = self._reduction(i)
        before, value = self.load(place), values[self._operand(i)]
        if dtype in FLOATS and function != "sum":
            name = "llvm.maximum" if function == "max" else "llvm.minimum"
            total = llvm_math.intrinsic(self.builder, name, before, value)
        else:
            total = self._joined(i, before, value)
        self.store(total, place)

    def _part_place(self, i: int, block: Any, column: Any) -> Any:
        b, width = self.builder, self.word(self.plan.width(i))
        return b.gep(self.parts[i], [b.add(b.mul(block, width), column)])

    def _finish(self) -> None:
        """Join the parts of all blocks into the first, and store what follows."""
        self.row = self.part = self.word(0)

        def join(number: Any, _: list) -> list:
            for width in sorted({self.plan.width(i) for i in self.plan.sums}):
                self._join_block(number, width)
            return []

        self.loop(self.word(1), self.blocks, [], join)
        self._store_columns(self.plan.final_stores(), self.plan.sums)

    def _join_block(self, number: Any, width: int) -> None:
        sums = [i for i in self.plan.sums if self.plan.width(i) == width]

        def visit(column: Any, _: list) -> list:
            for i in sums:
                value = self.load(self._part_place(i, number, column))
                self._add_to_part(i, {self._operand(i): value}, column)
            return []

        with self.parallel():
            self.loop(self.word(0), self.word(width), [], visit)

    def _total(self, i: int, column: Any) -> Any:
        at = column if self.plan.width(i) > 1 else self.word(0)
        total = self.load(self._part_place(i, self.word(0), at))
        return llvm_math.rounded(self.builder, total, self.steps[i].dtype)

    # ------------------------------------------------------------ values

    def _emit(self, numbers: Sequence[int], values: dict[int, Any], column: Any,
              loop: int = BEFORE - 1) -> None:
        """Compute values, in the order of the program; those that are kept are put where they are
        kept in the `loop` that they are computed in, and read elsewhere."""
        for i in numbers:
            if i in values:
                continue
            home = self.plan.kept.get(i)
            if home is not None and home != loop:
                place = self.builder.gep(self.scratch[i], [column])
                values[i] = self._from_scratch(self.load(place), i)
                continue
            values[i] = self._value(i, values, column)
            if home is not None:
                self._keep(i, values[i], column)

    def _keep(self, i: int, value: Any, column: Any) -> None:
        if self.steps[i].dtype == "bool":
            value = llvm_math.to_memory(self.builder, value, "bool")
        self.store(value, self.builder.gep(self.scratch[i], [column]))

    def _from_scratch(self, value: Any, i: int) -> Any:
        is_bool = self.steps[i].dtype == "bool"
        return llvm_math.from_memory(self.builder, value, "bool") if is_bool else value

    def _value(self, i: int, values: dict[int, Any], column: Any) -> Any:
        step, b = self.steps[i], self.builder
        if isinstance(step, Load):
            found = self.load(self._place(step.array, step.map, column))
            return llvm_math.from_memory(b, found, step.dtype)
        if isinstance(step, Constant):
            return llvm_math.constant(llvm_math.value_type(step.dtype), step.value)
        if isinstance(step, Argument):
            number = self.numbers[step.number]
            return llvm_math.from_memory(b, number, "bool") if step.dtype == "bool" else number
        if isinstance(step, Column):
            return llvm_math.cast(b, column, "int64", step.dtype)
        assert isinstance(step, Elementwise)
        given = [values[o] for o in step.operands]
        dtype = self.steps[step.operands[0]].dtype
        if step.function == CAST:
            return llvm_math.cast(b, given[0], dtype, step.dtype)
        return llvm_functions.emit(step.function, b, dtype, given)

    def _place(self, array: int, where: Map, column: Any) -> Any:
        b, word = self.builder, self.word
        stride = self.program.columns if where.row is None else where.row
        index = b.add(b.mul(self.row, word(stride)), word(where.offset))
        return b.gep(self.arrays[array], [b.add(index, b.mul(column, word(where.column)))])

    def _store(self, i: int, values: dict[int, Any], column: Any) -> None:
        step = self.steps[i]
        assert isinstance(step, Store)
        value = llvm_math.to_memory(self.builder, values[step.operand], step.dtype)
        self.store(value, self._place(step.array, step.map, column))


def _scratch_type(dtype: str) -> Any:
    return llvm_math.memory_type(wide_dtype(dtype))


def ordered_key(builder: IRBuilder, value: Any) -> Any:
    """The bits of a number, those of negative ones turned round: a whole number in its order."""
    kind = llvm_math.ir().IntType(8 * llvm_math.item_size(value.type))
    return _turned(builder, builder.bitcast(value, kind))


def ordered_number(builder: IRBuilder, key: Any, kind: Any) -> Any:
    """The number, of LLVM's type `kind`, that has an `ordered_key`."""
    return builder.bitcast(_turned(builder, key), kind)


def _turned(builder: IRBuilder, bits: Any) -> Any:
    size = bits.type.width - 1
    sign = builder.ashr(bits, bits.type(size))
    return builder.xor(bits, builder.and_(sign, bits.type(2**size - 1)))
