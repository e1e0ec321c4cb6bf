"""Machine code of copies and updates of rows, by LLVM alone: see `loops.RowCopies` and
`loops.RowUpdates`.

No other part of the machine than such a loop can know which rows come next, so it fetches them
some rows ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.address_loops import LINE, AddressLoop, written
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import Array, Code, Integer, Kind, Real
from hpcflow.loops.form import Argument, Constant, Elementwise, Load, Program, Store

if TYPE_CHECKING:
    from llvmlite.ir import Module, Type, Value

_AHEAD = 8  # rows
_HASH, _HASH_SHIFT, _HASH_BITS = 40503, 7, 16


def code_of_copies(name: str, row_dtype: str) -> Code:
    """The code of a `loops.RowCopies`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Copies(module, row_dtype)))


def code_of_updates(name: str, row_dtype: str, program: Program) -> Code:
    """The code of a `loops.RowUpdates`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Updates(module, row_dtype, program)))


class _Rows(AddressLoop):
    """A loop over rows by their numbers."""

    def __init__(self, module: Module, kinds: list[Kind], row_dtype: str, arguments: int,
                 numbers: Sequence = ()) -> None:
        super().__init__(module, kinds, arguments, numbers)
        self.is_signed = not row_dtype.startswith("u")
        self.row_bytes = Array(row_dtype, 1, False).item
        self.row_number = self.ir.IntType(8 * self.row_bytes)

    def ahead(self, index: Value, count: Value) -> Any:
        """The place some rows after a place, at most the last of `count`."""
        builder = self.builder
        last, ahead = (builder.sub(count, self.word(1)), builder.add(index, self.word(_AHEAD)))
        return builder.select(builder.icmp_signed("<", ahead, last), ahead, last)

    def number(self, rows: Value, index: Value) -> Any:
        """The row number at a place, as a word."""
        builder = self.builder
        number = builder.load(self.place(
            rows, builder.mul(index, self.word(self.row_bytes)), self.row_number))
        if self.row_number == self.word:
            return number
        return (builder.sext if self.is_signed else builder.zext)(number, self.word)


class _Copies(_Rows):
    """The loop of copies: it takes the addresses of the target, the source and the row numbers, how
    many of these there are, and the words of a row."""

    def __init__(self, module: Module, row_dtype: str) -> None:
        kinds: list[Kind] = [Array("uint64", 2, True), Array("uint64", 2, False),
                             Array(row_dtype, 1, False)]
        super().__init__(module, kinds, row_dtype, 5)

    def arguments(self, values: Sequence) -> list:
        """See `_Rows`."""
        (target, dims), (source, _), (rows, (count,)) = values
        return [target, source, rows, count, dims[1]]

    def write(self) -> None:
        """Write the loop."""
        builder, word = self.builder, self.word
        target, source, rows, count, words = self.function.args
        row_bytes = builder.mul(words, word(8))
        further = builder.mul(row_bytes, word(_AHEAD))
        with self.steps(word(0), count, 1) as i:
            to = builder.add(target, builder.mul(i, row_bytes))
            start, coming = [builder.add(source, builder.mul(self.number(rows, k), row_bytes))
                             for k in (i, self.ahead(i, count))]
            later = builder.add(to, further)

            def copy(offset: Any, kind: Any) -> None:
                self.prefetch(coming, offset)
                self.prefetch(later, offset)
                value = builder.load(self.place(start, offset, kind), align=8)
                builder.store(value, self.place(to, offset, kind), align=8)

            self.along(row_bytes, word, 8, copy)
        builder.ret_void()


class _Updates(_Rows):
    """The loop of updates: it takes the addresses of the states, the row numbers and the updates,
    how many rows these are, the elements of one, the part and the number of parts; and the
    scalars."""

    def __init__(self, module: Module, row_dtype: str, program: Program) -> None:
        self.program = program
        dtype, states, scalars = program.arrays[0], len(program.arrays) - 1, len(program.arguments)
        self.states = states
        number = Real(dtype) if dtype.startswith("float") else Integer(dtype)
        stored = program.stored()
        matrices = [Array(dtype, 2, i in stored) for i in range(states)]
        kinds: list[Kind] = [*matrices, Array(row_dtype, 1, False), Array(dtype, 2, False),
                             *[number] * scalars, Integer("int64"), Integer("int64")]
        self.number_type = llvm_math.value_type(dtype)
        super().__init__(module, kinds, row_dtype, states + 6, [self.number_type] * scalars)
        self.item = matrices[0].item

    def arguments(self, values: Sequence) -> list:
        """See `_Rows`."""
        *states, (rows, (count,)), (updates, dims) = values[: self.states + 2]
        *scalars, part, parts = values[self.states + 2:]
        return [*[a for a, _ in states], rows, updates, count, dims[1], part, parts, *scalars]

    def write(self) -> None:
        """Write the loop."""
        builder, word, n = self.builder, self.word, self.states
        states, scalars = self.function.args[:n], self.function.args[n + 6:]
        rows, updates, count, width, part, parts = self.function.args[n : n + 6]
        row_bytes = builder.mul(width, word(self.item))
        line = self.ir.VectorType(self.number_type, LINE // self.item)
        numbers = {self.number_type: list(scalars),
                   line: [self.repeated(scalar, line) for scalar in scalars]}
        with self.steps(word(0), count, 1) as i:
            coming = self.number(rows, self.ahead(i, count))
            with builder.if_then(self._is_ours(coming, part, parts)):
                further = builder.mul(coming, row_bytes)
                starts = [builder.add(state, further) for state in states]
                with self.steps(word(0), row_bytes, LINE) as offset:
                    for start in starts:
                        self.prefetch(start, offset)
            row = self.number(rows, i)
            with builder.if_then(self._is_ours(row, part, parts)):
                start = builder.mul(row, row_bytes)
                places = [*[builder.add(state, start) for state in states],
                          builder.add(updates, builder.mul(i, row_bytes))]
                self._update(places, row_bytes, numbers)
        builder.ret_void()

    def _is_ours(self, row: Value, part: Value, parts: Value) -> Any:
        """Generate the test that a row falls to the part. The product spreads rows over the parts
        even if their numbers have a common factor; what follows is a remainder without a
        division."""
        builder, word = self.builder, self.word
        mixed = builder.lshr(builder.mul(row, word(_HASH)), word(_HASH_SHIFT))
        mixed = builder.and_(mixed, word((1 << _HASH_BITS) - 1))
        chosen = builder.lshr(builder.mul(mixed, parts), word(_HASH_BITS))
        return builder.icmp_signed("==", chosen, part)

    def _update(self, starts: Sequence, row_bytes: Value, numbers: dict) -> None:
        builder = self.builder

        def calculate(offset: Value, kind: Type) -> None:
            places = [self.place(a, offset, kind) for a in starts]
            values: dict[int, Any] = {}
            for i, step in enumerate(self.program.instructions):
                if isinstance(step, Load):
                    values[i] = builder.load(places[step.array], align=self.item)
                elif isinstance(step, Constant):
                    values[i] = llvm_math.constant(kind, step.value)
                elif isinstance(step, Argument):
                    values[i] = numbers[kind][step.number]
                elif isinstance(step, Elementwise):
                    dtype = self.program.instructions[step.operands[0]].dtype
                    values[i] = llvm_functions.emit(step.function, builder, dtype,
                                                    [values[o] for o in step.operands])
            for store in self.program.instructions:
                if isinstance(store, Store):
                    builder.store(values[store.operand], places[store.array], align=self.item)

        self.along(row_bytes, self.number_type, self.item, calculate)
