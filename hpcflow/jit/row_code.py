"""Machine code of copies and updates of rows, by LLVM alone: see `loops.RowCopies` and
`loops.RowUpdates`.

No other part of the machine than such a loop can know which rows come next, so it fetches them
some rows ahead.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpcflow.jit import program_code
from hpcflow.jit.direct_code import code_from
from hpcflow.jit.entries import Array, Body, Code, Integer, Kind

_LINE = 64  # bytes
_AHEAD = 8  # rows
_HASH, _HASH_SHIFT, _HASH_BITS = 40503, 7, 16


def code_of_copies(row_dtype: str, name: str) -> Code:
    """The code of a `loops.RowCopies`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: _written(_Copies(module, row_dtype)))


def code_of_updates(ufunc: str, dtype: str, row_dtype: str, name: str) -> Code:
    """The code of a `loops.RowUpdates`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: _written(_Updates(module, ufunc, dtype, row_dtype)))


def _written(body: _Rows) -> Body:
    body.write()
    return body


class _Rows:
    """A loop over rows by their numbers; see `entries.Body`. Addresses are words in it."""

    def __init__(self, module: Any, kinds: list[Kind], row_dtype: str, arguments: int) -> None:
        ir = self.ir = importlib.import_module("llvmlite.ir")
        self.kinds = kinds
        self.is_signed = not row_dtype.startswith("u")
        self.word, self.byte = ir.IntType(64), ir.IntType(8).as_pointer()
        self.row_bytes = Array(row_dtype, 1, False).item
        self.row_number = ir.IntType(8 * self.row_bytes)
        self.function = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [self.word] * arguments), "loop")
        self.function.linkage = "internal"
        self.builder = ir.IRBuilder(self.function.append_basic_block())

    def array(self, builder: Any, index: int, address: Any, dims: Sequence) -> Any:
        """The address and the dims."""
        return address, dims

    def several(self, builder: Any, kind: Any, parts: Sequence) -> Any:
        """There are none."""
        raise NotImplementedError

    def call(self, builder: Any, values: Sequence) -> Any:
        """See `entries.Body`."""
        builder.call(self.function, self.arguments(values))
        return self.ir.IntType(1)(0), None

    def arguments(self, values: Sequence) -> list:
        """What the function is given, of the arguments of the loop."""
        raise NotImplementedError

    def write(self) -> None:
        """Write the loop."""
        raise NotImplementedError

    @contextlib.contextmanager
    def steps(self, first: Any, end: Any, step: int) -> Iterator[Any]:
        """A loop from `first` to before `end`, whose body is what is written meanwhile."""
        builder, before = self.builder, self.builder.block
        again, after = [self.function.append_basic_block() for _ in range(2)]
        builder.cbranch(builder.icmp_signed("<", first, end), again, after)
        builder.position_at_end(again)
        index = builder.phi(self.word)
        index.add_incoming(first, before)
        yield index
        following = builder.add(index, self.word(step), flags=("nuw", "nsw"))
        index.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, end), again, after)
        builder.position_at_end(after)

    def along(self, row_bytes: Any, number: Any, item: int,
              visit: Callable[[Any, Any], None]) -> None:
        """``visit(offset, type)`` of a row of elements of the type `number`, of `item` bytes: of
        vectors as large as a line of cache, and of the elements that are left."""
        line = self.ir.VectorType(number, _LINE // item)
        whole = self.builder.and_(row_bytes, self.word(-_LINE))
        for first, end, step, kind in ((self.word(0), whole, _LINE, line),
                                       (whole, row_bytes, item, number)):
            with self.steps(first, end, step) as offset:
                visit(offset, kind)

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

    def place(self, start: Any, offset: Any, kind: Any) -> Any:
        """A pointer to what is `offset` bytes after `start`."""
        return self.builder.inttoptr(self.builder.add(start, offset), kind.as_pointer())

    def prefetch(self, start: Any, offset: Any) -> None:
        """Bring the line of memory into cache."""
        small = self.ir.IntType(32)
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.byte, small, small, small])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [self.byte], kind)
        reading, everywhere, data = small(0), small(3), small(1)
        place = self.place(start, offset, self.byte.pointee)
        self.builder.call(function, [place, reading, everywhere, data])


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
                with self.steps(word(0), row_bytes, _LINE) as offset:
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
