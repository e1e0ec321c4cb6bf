"""Machine code of copies of rows, by LLVM alone: see `loops.RowCopies`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from hpcflow.jit.direct_code import code_from
from hpcflow.jit.entries import Array, Code, Kind

_LINE = 64  # bytes
_WORDS = 8  # of a line
_AHEAD = 8  # rows


def code_of(row_dtype: str, name: str) -> Code:
    """The code of a `loops.RowCopies`; for `name` see `direct_code.code_from`."""

    def body_in(module: Any) -> _Body:
        body = _Body(module, row_dtype)
        body.write()
        return body

    return code_from(name, body_in)


class _Body:
    """See `entries.Body`."""

    def __init__(self, module: Any, row_dtype: str) -> None:
        ir = self.ir = importlib.import_module("llvmlite.ir")
        self.kinds: list[Kind] = [Array("uint64", 2, True), Array("uint64", 2, False),
                                  Array(row_dtype, 1, False)]
        self.is_signed = not row_dtype.startswith("u")
        self.word, self.byte = ir.IntType(64), ir.IntType(8).as_pointer()
        self.row_number = ir.IntType(8 * self.kinds[2].item)  # type: ignore[union-attr]
        # The addresses of the target, of the source and of the row numbers, how many of these
        # there are, and the words of a row.
        self.function = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [self.word] * 5), "loop")
        self.function.linkage = "internal"

    def array(self, builder: Any, index: int, address: Any, dims: Sequence) -> Any:
        """The address and the dims."""
        return address, dims

    def several(self, builder: Any, kind: Any, parts: Sequence) -> Any:
        """There are none."""
        raise NotImplementedError

    def call(self, builder: Any, values: Sequence) -> Any:
        """See `entries.Body`."""
        (target, dims), (source, _), (rows, (count,)) = values
        builder.call(self.function, [target, source, rows, count, dims[1]])
        return self.ir.IntType(1)(0), None

    def write(self) -> None:
        """Write the loop over the rows."""
        builder, word = self.ir.IRBuilder(self.function.append_basic_block()), self.word
        target, source, rows, count, words = self.function.args
        row_bytes = builder.mul(words, word(8))
        whole_bytes = builder.and_(row_bytes, word(-_LINE))
        last, after = builder.sub(count, word(1)), builder.mul(row_bytes, word(_AHEAD))
        with self._steps(builder, word(0), count, 1) as i:
            ahead = builder.add(i, word(_AHEAD))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            to = builder.add(target, builder.mul(i, row_bytes))
            start, coming = [
                builder.add(source, builder.mul(self._number(builder, rows, k), row_bytes))
                for k in (i, ahead)]
            line = self.ir.VectorType(word, _WORDS)
            for first, end, kind in ((word(0), whole_bytes, line), (whole_bytes, row_bytes, word)):
                with self._steps(builder, first, end, _LINE if kind is line else 8) as k:
                    # No other part of the machine can know which rows come next; the lines that
                    # are written it would fetch only when their turn has come, too.
                    self._prefetch(builder, builder.add(coming, k))
                    self._prefetch(builder, builder.add(builder.add(to, after), k))
                    value = builder.load(self._place(builder, start, k, kind), align=8)
                    builder.store(value, self._place(builder, to, k, kind), align=8)
        builder.ret_void()

    @contextlib.contextmanager
    def _steps(self, builder: Any, first: Any, end: Any, step: int) -> Iterator[Any]:
        """A loop from `first` to before `end`, whose body is what is written meanwhile."""
        before = builder.block
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

    def _number(self, builder: Any, rows: Any, index: Any) -> Any:
        """``rows[index]`` as a word."""
        size = self.row_number.width // 8
        number = builder.load(self._place(
            builder, rows, builder.mul(index, self.word(size)), self.row_number))
        if self.row_number == self.word:
            return number
        return (builder.sext if self.is_signed else builder.zext)(number, self.word)

    def _place(self, builder: Any, start: Any, offset: Any, kind: Any) -> Any:
        return builder.inttoptr(builder.add(start, offset), kind.as_pointer())

    def _prefetch(self, builder: Any, address: Any) -> None:
        small = self.ir.IntType(32)
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.byte, small, small, small])
        function = builder.module.declare_intrinsic("llvm.prefetch", [self.byte], kind)
        reading, everywhere, data = small(0), small(3), small(1)
        builder.call(function, [builder.inttoptr(address, self.byte), reading, everywhere, data])
