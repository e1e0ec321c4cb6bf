"""Machine code of copies and updates of rows, by LLVM alone: see `loops.RowCopies` and
`loops.RowUpdates`.

No other part of the machine than such a loop can know which rows come next, so it fetches them
some rows ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.jit import program_code
from hpcflow.jit.address_loops import LINE, AddressLoop, written
from hpcflow.jit.direct_code import code_from
from hpcflow.jit.entries import Array, Code, Integer, Kind

_AHEAD = 8  # rows
_HASH, _HASH_SHIFT, _HASH_BITS = 40503, 7, 16


def code_of_copies(row_dtype: str, name: str) -> Code:
    """The code of a `loops.RowCopies`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Copies(module, row_dtype)))


def code_of_updates(ufunc: str, dtype: str, row_dtype: str, name: str) -> Code:
    """The code of a `loops.RowUpdates`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Updates(module, ufunc, dtype, row_dtype)))


class _Rows(AddressLoop):
    """A loop over rows by their numbers."""

    def __init__(self, module: Any, kinds: list[Kind], row_dtype: str, arguments: int) -> None:
        super().__init__(module, kinds, arguments)
        self.is_signed = not row_dtype.startswith("u")
        self.row_bytes = Array(row_dtype, 1, False).item
        self.row_number = self.ir.IntType(8 * self.row_bytes)

    def ahead(self, index: Any, count: Any) -> Any:
        """The place some rows after a place, at most the last of `count`."""
        builder = self.builder
        last, ahead = (builder.sub(count, self.word(1)), builder.add(index, self.word(_AHEAD)))
        return builder.select(builder.icmp_signed("<", ahead, last), ahead, last)

    def number(self, rows: Any, index: Any) -> Any:
        """The row number at a place, as a word."""
        builder = self.builder
        number = builder.load(self.place(
            rows, builder.mul(index, self.word(self.row_bytes)), self.row_number))
        if self.row_number == self.word:
            return number
        return (builder.sext if self.is_signed else builder.zext)(number, self.word)


class _Copies(_Rows):
    """Of the addresses of the target, the source and the row numbers, how many of these there are,
    and the words of a row."""

    def __init__(self, module: Any, row_dtype: str) -> None:
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
    """Of the addresses of the target, the row numbers and the updates, how many rows these are, the
    elements of one, the part and the number of parts."""

    def __init__(self, module: Any, ufunc: str, dtype: str, row_dtype: str) -> None:
        kinds: list[Kind] = [Array(dtype, 2, True), Array(row_dtype, 1, False),
                             Array(dtype, 2, False), Integer("int64"), Integer("int64")]
        super().__init__(module, kinds, row_dtype, 7)
        self.ufunc = ufunc
        self.dtype = dtype
        self.item = Array(dtype, 2, True).item

    def arguments(self, values: Sequence) -> list:
        """See `_Rows`."""
        (target, _), (rows, (count,)), (updates, dims), part, parts = values
        return [target, rows, updates, count, dims[1], part, parts]

    def write(self) -> None:
        """Write the loop."""
        builder, word = self.builder, self.word
        target, rows, updates, count, width, part, parts = self.function.args
        row_bytes = builder.mul(width, word(self.item))
        with self.steps(word(0), count, 1) as i:
            coming = self.number(rows, self.ahead(i, count))
            with builder.if_then(self._is_ours(coming, part, parts)):
                start = builder.add(target, builder.mul(coming, row_bytes))
                with self.steps(word(0), row_bytes, LINE) as offset:
                    self.prefetch(start, offset)
            row = self.number(rows, i)
            with builder.if_then(self._is_ours(row, part, parts)):
                self._update(builder.add(target, builder.mul(row, row_bytes)),
                             builder.add(updates, builder.mul(i, row_bytes)), row_bytes)
        builder.ret_void()

    def _is_ours(self, row: Any, part: Any, parts: Any) -> Any:
        """Whether a row falls to the part. The product spreads rows over the parts even if their
        numbers have a common factor; what follows is a remainder without a division."""
        builder, word = self.builder, self.word
        mixed = builder.lshr(builder.mul(row, word(_HASH)), word(_HASH_SHIFT))
        mixed = builder.and_(mixed, word((1 << _HASH_BITS) - 1))
        chosen = builder.lshr(builder.mul(mixed, parts), word(_HASH_BITS))
        return builder.icmp_signed("==", chosen, part)

    def _update(self, target: Any, updates: Any, row_bytes: Any) -> None:
        builder = self.builder

        def combine(offset: Any, kind: Any) -> None:
            place = self.place(target, offset, kind)
            values = [builder.load(p, align=self.item)
                      for p in (place, self.place(updates, offset, kind))]
            calculate = program_code.calculation(self.dtype)(builder, kind)
            builder.store(getattr(calculate, self.ufunc)(*values), place, align=self.item)

        self.along(row_bytes, program_code.number_type(self.dtype), self.item, combine)
