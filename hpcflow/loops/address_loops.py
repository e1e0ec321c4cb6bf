"""Loops whose arrays are addresses, and which LLVM gets as they are: see `AddressLoop`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops.entries import Kind

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module, Type, Value

LINE = 64  # bytes


class AddressLoop:
    """A loop over memory, to be written; see `entries.Body`. Addresses and offsets are words.

    Args:
        module: of ``llvmlite.ir``.
        kinds: what the loop is called with.
        arguments: how many words its function takes.
        numbers: the types of what it takes after them.
        returns: its function returns a word.
    """

    def __init__(self, module: Module, kinds: list[Kind], arguments: int,
                 numbers: Sequence = (), returns: bool = False) -> None:
        ir = self.ir = importlib.import_module("llvmlite.ir")
        self.kinds = kinds
        self.word, self.byte = ir.IntType(64), ir.IntType(8).as_pointer()
        self.function = ir.Function(
            module, ir.FunctionType(self.word if returns else ir.VoidType(),
                                    [self.word] * arguments + list(numbers)), "loop")
        self.returns = returns
        self.function.linkage = "internal"
        self.builder = ir.IRBuilder(self.function.append_basic_block())

    def array(self, builder: IRBuilder, index: int, address: Value, dims: Sequence) -> Any:
        """Return the address and the dims of an array."""
        return address, dims

    def call(self, builder: IRBuilder, values: Sequence) -> Any:
        """See `entries.Body`."""
        found = builder.call(self.function, self.arguments(values))
        return found if self.returns else None

    def arguments(self, values: Sequence) -> list:
        """Return the arguments of the function, made of those of the loop."""
        raise NotImplementedError

    def write(self) -> None:
        """Write the loop."""
        raise NotImplementedError

    @contextlib.contextmanager
    def steps(self, first: Value, end: Value, step: int | Value) -> Iterator[Any]:
        """A loop from `first` to before `end`, whose body is what is written meanwhile."""
        builder, before = self.builder, self.builder.block
        again, after = [self.function.append_basic_block() for _ in range(2)]
        builder.cbranch(builder.icmp_signed("<", first, end), again, after)
        builder.position_at_end(again)
        index = builder.phi(self.word)
        index.add_incoming(first, before)
        yield index
        step = self.word(step) if isinstance(step, int) else step
        following = builder.add(index, step, flags=("nuw", "nsw"))
        index.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, end), again, after)
        builder.position_at_end(after)

    def along(self, row_bytes: Value, number: Type, item: int,
              visit: Callable[[Any, Any], None]) -> None:
        """``visit(offset, type)`` of a row of elements of the type `number`, of `item` bytes: of
        vectors as large as a line of cache, and of the elements that are left."""
        line = self.ir.VectorType(number, LINE // item)
        whole = self.builder.and_(row_bytes, self.word(-LINE))
        for first, end, step, kind in ((self.word(0), whole, LINE, line),
                                       (whole, row_bytes, item, number)):
            with self.steps(first, end, step) as offset:
                visit(offset, kind)

    def repeated(self, value: Any, kind: Any) -> Any:
        """A vector, of the type `kind`, of one number."""
        builder, small = self.builder, self.ir.IntType(32)
        first = builder.insert_element(kind(self.ir.Undefined), value, small(0))
        return builder.shuffle_vector(
            first, kind(self.ir.Undefined),
            self.ir.VectorType(small, kind.count)([0] * kind.count))

    def place(self, start: Value, offset: Value, kind: Type) -> Any:
        """A pointer to what is `offset` bytes after `start`."""
        return self.builder.inttoptr(self.builder.add(start, offset), kind.as_pointer())

    def prefetch(self, start: Value, offset: Value, writes: bool = False) -> None:
        """Bring the line of memory into cache, to be read or written."""
        small = self.ir.IntType(32)
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.byte, small, small, small])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [self.byte], kind)
        access, everywhere, data = small(int(writes)), small(3), small(1)
        place = self.place(start, offset, self.byte.pointee)
        self.builder.call(function, [place, access, everywhere, data])


def written(body: AddressLoop) -> AddressLoop:
    """Write the loop of `body`, and return `body`."""
    body.write()
    return body
