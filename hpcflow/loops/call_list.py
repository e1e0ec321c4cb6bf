"""Lists of calls of compiled programs and of products, run over and over without the interpreter.

One compiled function reads such a list and makes the calls; it takes no lock of the interpreter, so
that several threads run lists at the same time, each over rows of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcflow.loops import compiling, packed_gemm, parallel_for
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import Array, Code, Integer, Kind
from hpcflow.loops.llvm_loops import Loops

ARRAY, PROGRAM = range(2)
#: Products, by their dtype.
PRODUCTS = {"float32": 2, "float64": 3}
#: The most arrays of a program.
TABLE_WORDS = 32
_WORDS, _WORD = 13, 8  # of a call, and bytes of each
_NUMBERS = 4  # of a program after its arrays


class Operand(NamedTuple):
    """Where a matrix lies: in iteration t, row r, column c at ``slots[slot, t] + offset + r * row +
    c * column`` (bytes)."""

    slot: int
    row: int
    column: int
    offset: int = 0

    def words(self) -> list[int]:
        """What the compiled function reads of it."""
        return [self.slot, self.offset, self.row]


class Product(NamedTuple):
    """``made = first @ second`` of `dtype`, of which the second factor, of `inner` rows, lies in
    panels (see ``packed_gemm``), so many registers wide, in the slot `panels`."""

    dtype: str
    columns: int
    inner: int
    vectors: int
    first: Operand
    panels: int
    made: Operand

    def words(self) -> list[int]:
        """The call as the compiled function reads it."""
        return [PRODUCTS[self.dtype], self.columns, self.inner, self.vectors, *self.first.words(),
                self.panels, 0, 0, *self.made.words()]


def program_words(table: int, arrays: Sequence[Operand]) -> list[list[int]]:
    """The calls that let a program run (see ``llvm_code``): each array is put into its table, at
    its number, after them the numbers that follow, and then the function at the address `table` is
    called."""
    calls = [*[[ARRAY, k, *a.words()] for k, a in enumerate(arrays)], [PROGRAM, table, len(arrays)]]
    return [words + [0] * (_WORDS - len(words)) for words in calls]


#: What becomes of the arguments of the function.
USES = parallel_for.WHOLE * 3 + parallel_for.START + parallel_for.STOP


_KINDS: list[Kind] = [*[Array("int64", 2, False)] * 2, *[Integer("int64")] * 3]


def code_of(name: str) -> Code:
    """The code of ``loop(calls, slots, count, start, stop)``, which makes all `calls`, matrices of
    int64, of `count` iterations for the rows from `start` to `stop`."""
    return code_from(name, _KINDS, lambda function: _List(function).write())


def runner() -> compiling.Compiled | None:
    """Return the function that runs lists, once it is compiled; None where there is none."""
    if not compiling.enabled() or packed_gemm.tile() is None:
        return None
    return compiling.compiled(_RUNNER)


_RUNNER = compiling.Loop("call_list")


class _List(Loops):
    """Writes the loop; `iterations` are those that there are slots for."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, _KINDS)
        self.module = function.module

    def write(self) -> None:
        """Write the loop."""
        b, word = self.builder, self.word
        (calls, (number, _)), (slots, (_, self.iterations)), count, self.start, stop = self.given
        calls, self.slots = [b.ptrtoint(start, word) for start in (calls, slots)]
        self.rows = b.sub(stop, self.start)
        table = b.ptrtoint(b.alloca(word, word(TABLE_WORDS + _NUMBERS)), word)
        with self.steps(word(0), count, 1) as self.time, self.steps(word(0), number, 1) as call:
            self.call_at = b.add(calls, b.mul(call, word(_WORDS * _WORD)))
            kind = self._field(0)
            kinds: list[tuple[int, Callable]] = [(ARRAY, self._array), (PROGRAM, self._program)]
            for dtype, kind_of in PRODUCTS.items():
                kinds.append((kind_of, functools.partial(self._product, dtype)))
            for of_kind, make in kinds:
                with b.if_then(b.icmp_signed("==", kind, word(of_kind))):
                    make(table)
        b.ret(word(0))

    def _field(self, number: int) -> Any:
        return self.builder.load(self.place(self.call_at, self.word(number * _WORD), self.word))

    def _address(self, field: int) -> Any:
        """Where the operand of this field has its first row."""
        b = self.builder
        index = b.add(b.mul(self._field(field), self.iterations), self.time)
        address = b.load(self.place(self.slots, b.mul(index, self.word(_WORD)), self.word))
        offset = b.add(self._field(field + 1), b.mul(self.start, self._field(field + 2)))
        return b.add(address, offset)

    def _array(self, table: Any) -> None:
        b = self.builder
        place = self.place(table, b.mul(self._field(1), self.word(_WORD)), self.word)
        b.store(self._address(2), place)

    def _program(self, table: Any) -> None:
        b, word = self.builder, self.word
        numbers = b.add(table, b.mul(self._field(2), word(_WORD)))
        for k, number in enumerate((word(0), self.rows, word(1), word(0))):
            b.store(number, self.place(numbers, word(k * _WORD), word))
        kind = self.ir.FunctionType(word, [word.as_pointer()])
        b.call(b.inttoptr(self._field(1), kind.as_pointer()),
               [b.inttoptr(table, word.as_pointer())])

    def _product(self, dtype: str, _: Any) -> None:
        """Panel by panel, of each some terms, over all rows."""
        made_of = packed_gemm.Tiles(self.module, dtype)
        b, word, item = self.builder, self.word, made_of.item
        columns, inner, vectors = (self._field(k) for k in (1, 2, 3))
        first, panels, made = (self._address(k) for k in (4, 7, 10))
        ahead, ahead_made = (b.sdiv(self._field(k), word(item)) for k in (6, 12))
        width, most = b.mul(vectors, word(made_of.form.lanes)), word(made_of.form.rows)
        tiles = b.sdiv(b.add(self.rows, b.sub(most, word(1))), most)

        def place(start: Any, row: Any, step: Any, more: Any) -> Any:
            return b.add(start, b.mul(b.add(b.mul(row, step), more), word(item)))

        with self.steps(word(0), columns, width) as column, \
                self.steps(word(0), inner, packed_gemm.CHAIN) as term, \
                self.steps(word(0), tiles, 1) as tile:
            left = b.sub(inner, term)
            is_last = b.icmp_signed("<", left, word(packed_gemm.CHAIN))
            top, bottom = (b.sdiv(b.mul(self.rows, n), tiles) for n in (
                tile, b.add(tile, word(1))))
            b.call(made_of.function(), [
                b.sub(bottom, top), vectors, b.select(is_last, left, word(packed_gemm.CHAIN)),
                place(first, top, ahead, term), ahead,
                place(panels, column, inner, b.mul(term, width)),
                place(made, top, ahead_made, column), ahead_made, b.sub(columns, column), term])
