"""Lists of calls of compiled programs and of products, run over and over without the interpreter.

One compiled function reads such a list and makes the calls; it takes no lock of the interpreter, so
that several threads run lists at the same time, each over rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcflow.loops import compiling, packed_gemm, parallel_for, text_code
from hpcflow.loops.entries import Code

ARRAY, PROGRAM = range(2)  # kinds of calls; a product is one of its item size
#: The most arrays of a program.
TABLE_WORDS = 32
_WORDS = 13  # of a call


class Span(NamedTuple):
    """The bytes of each row of a slot from `first` to before `end`."""

    slot: int
    first: int
    end: int


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

    def span(self, columns: int) -> Span:
        """Where so many columns lie; one at least has some bytes."""
        return Span(self.slot, self.offset, self.offset + max(1, columns * self.column))


class Product(NamedTuple):
    """``made = first @ second`` of `dtype`, of which the second factor, of `inner` rows, lies in
    panels (see ``packed_gemm``) of a `width`, in the slot `panels`, after some that are `skipped`.
    The result has room for whole panels."""

    dtype: str
    columns: int
    inner: int
    width: int
    first: Operand
    panels: int
    made: Operand
    skipped: int = 0

    def for_readers(self, spans: Sequence[Span]) -> Product:
        """Of the result just the panels from the first to the last that one of the spans meets."""
        size = self.width * np.dtype(self.dtype).itemsize
        read = [(s.first // size, -(-s.end // size)) for s in spans if s.slot == self.made.slot]
        first, end = min([a for a, _ in read]), max([b for _, b in read])
        return self._replace(columns=min(end * self.width, self.columns) - first * self.width,
                             made=self.made._replace(offset=first * size), skipped=first)

    def words(self) -> list[int]:
        """The call as the compiled function reads it."""
        size = np.dtype(self.dtype).itemsize
        return [size, self.columns, self.inner, self.width, *self.first.words(), self.panels,
                self.skipped * self.inner * self.width * size, 0, *self.made.words()]


def program_words(table: int, arrays: Sequence[Operand]) -> list[list[int]]:
    """The calls that let a program run (see ``llvm_code``): each array is put into its table, at
    its number, after them the numbers that follow, and then the function at the address `table` is
    called."""
    calls = [*[[ARRAY, k, *a.words()] for k, a in enumerate(arrays)], [PROGRAM, table, len(arrays)]]
    return [words + [0] * (_WORDS - len(words)) for words in calls]


#: What becomes of the arguments of the function.
USES = parallel_for.WHOLE * 3 + parallel_for.START + parallel_for.STOP


_TEXT = """
def loop(calls, slots, count, start, stop):
    table, rows = stack(TABLE), stop - start
    tiles = (rows + ROWS - 1) // ROWS
    for time in range(count):
        for number in range(calls.shape[0]):
            call = calls[number]
            if call[0] == ARRAY:
                put(table + 8 * call[1], slots[call[2], time] + call[3] + start * call[4])
            elif call[0] == PROGRAM:
                end = table + 8 * call[2]
                put(end, 0)
                put(end + 8, rows)
                put(end + 16, 1)
                put(end + 24, 0)
                invoke(call[1], table)
            else:
                item, columns, inner, width = call[0], call[1], call[2], call[3]
                first = slots[call[4], time] + call[5] + start * call[6]
                made = slots[call[10], time] + call[11] + start * call[12]
                panels = slots[call[7], time] + call[8]
                for column in range(0, columns, width):
                    for term in range(0, inner, CHAIN):
                        terms = min(CHAIN, inner - term)
                        left, there = first + item * term, made + item * column
                        panel = panels + item * (column * inner + term * width)
                        for tile in range(tiles):
                            top, bottom = rows * tile // tiles, rows * (tile + 1) // tiles
                            PRODUCTS
"""
_PRODUCT = """
                            if item == SIZE:
                                hpcflow_tiles_DTYPE(
                                    bottom - top, width, terms, left + top * call[6], call[6],
                                    panel, there + top * call[12], call[12], term)
"""


def code_of(name: str) -> Code:
    """The code of ``loop(calls, slots, count, start, stop)``, which makes all `calls`, matrices of
    int64, of `count` iterations for the rows from `start` to `stop`."""
    products = [_PRODUCT.replace("DTYPE", t).replace("SIZE", str(np.dtype(t).itemsize)).strip()
                for t in packed_gemm.DTYPES]
    text = _TEXT.replace("PRODUCTS", ("\n" + " " * 28).join(products))
    for word, number in (("TABLE", TABLE_WORDS + 4), ("ARRAY", ARRAY), ("PROGRAM", PROGRAM),
                         ("ROWS", packed_gemm.ROWS), ("CHAIN", packed_gemm.CHAIN)):
        text = text.replace(word, str(number))
    arrays = (("int64", 2, False),) * 2
    return text_code.code_of(name, text, arrays, 3, None, packed_gemm.write_tiles)


def runner() -> compiling.Compiled | None:
    """Return the function that runs lists, once it is compiled; None where there is none."""
    if not compiling.enabled() or packed_gemm.tile() is None:
        return None
    return compiling.compiled(_RUNNER)


_RUNNER = compiling.Loop("call_list")
