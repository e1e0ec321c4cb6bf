"""Loops of LLVM's instructions, and memory for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow.loops import llvm_math

#: Bytes of a page of memory, at least, and of what is fetched at once.
PAGE, _LINE = 1 << 12, 1 << 6


class Loops:
    """Writes loops into a function."""

    def __init__(self, function: Any) -> None:
        self.ir = llvm_math.ir()
        self.function = function
        self.word = self.ir.IntType(64)
        self.builder = self.ir.IRBuilder(function.append_basic_block())
        self._group: Any = None
        self._is_short = False

    def loop(self, first: Any, end: Any, starts: Sequence[Any],
             visit: Callable[[Any, list[Any]], list[Any]], step: int = 1) -> list[Any]:
        """A loop from `first` to before `end`: ``visit(index, values)`` gives the values for the
        next turn, of those with which it begins. The values at the end."""
        b, before = self.builder, self.builder.block
        again, after = [self.function.append_basic_block() for _ in range(2)]
        b.cbranch(b.icmp_signed("<", first, end), again, after)
        b.position_at_end(again)
        index = b.phi(self.word)
        carried = [b.phi(s.type) for s in starts]
        made = visit(index, list(carried))
        following = b.add(index, self.word(step), flags=("nuw", "nsw"))
        branch = b.cbranch(b.icmp_signed("<", following, end), again, after)
        self._mark(branch)
        last = b.block
        b.position_at_end(after)
        results = [b.phi(s.type) for s in starts]
        for phi, start, value in zip((index, *carried), (first, *starts), (following, *made)):
            phi.add_incoming(start, before)
            phi.add_incoming(value, last)
        for phi, start, value in zip(results, starts, made):
            phi.add_incoming(start, before)
            phi.add_incoming(value, last)
        return results

    @contextmanager
    def parallel(self, is_short: bool = False) -> Iterator[None]:
        """The loop that is written meanwhile, an innermost one, has turns that do not depend on
        each other through memory: LLVM need not compare addresses to find that. Of a short one it
        would write out all turns, and then find no vectors in them."""
        self._group, self._is_short = _Distinct(self.function.module, []), is_short
        yield
        self._group = None

    def _mark(self, branch: Any) -> None:
        if self._group is None:
            return
        module = self.function.module
        text = self.ir.MetaDataString(module, "llvm.loop.parallel_accesses")
        accesses = module.add_metadata([text, self._group])
        facts = [accesses]
        if self._is_short:
            facts.append(module.add_metadata(
                [self.ir.MetaDataString(module, "llvm.loop.unroll.disable")]))
        branch.set_metadata("llvm.loop", _Distinct(module, facts, names_itself=True))

    def load(self, place: Any) -> Any:
        """What is at a place."""
        found = self.builder.load(place)
        if self._group is not None:
            found.set_metadata("llvm.access.group", self._group)
        return found

    def store(self, value: Any, place: Any) -> None:
        """Put a value at a place."""
        made = self.builder.store(value, place)
        if self._group is not None:
            made.set_metadata("llvm.access.group", self._group)

    def smallest(self, x: Any, y: Any) -> Any:
        """The smaller one of two words."""
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def largest(self, x: Any, y: Any) -> Any:
        """The larger one of two words."""
        return self.builder.select(self.builder.icmp_signed(">", x, y), x, y)

    # ------------------------------------------------------------ memory

    def prefetch(self, place: Any, offset: int, size: int) -> None:
        """Ask for `size` bytes that begin `offset` bytes after a place, be there memory or not."""
        b, number, byte = self.builder, self.ir.IntType(32), self.ir.IntType(8).as_pointer()
        fetch = b.module.declare_intrinsic("llvm.prefetch.p0", (), self.ir.FunctionType(
            self.ir.VoidType(), [byte, *[number] * 3]))
        start = b.gep(b.bitcast(place, byte), [self.word(offset)])

        def visit(at: Any, _: list) -> list:
            is_write, nearest, data = number(0), number(3), number(1)
            b.call(fetch, [b.gep(start, [at]), is_write, nearest, data])
            return []

        self.loop(self.word(0), self.word(size), [], visit, _LINE)

    def stack(self, kind: Any, count: int) -> Any:
        """Room for so many numbers, until the function returns."""
        made = self.builder.alloca(self.ir.ArrayType(kind, count))
        made.align = 64
        return self.builder.bitcast(made, kind.as_pointer())

    def malloc(self, kind: Any, count: int) -> Any:
        """Room for so many numbers, until it is freed."""
        byte = self.ir.IntType(8).as_pointer()
        allocate = self._c_function("malloc", byte, self.word)
        size = count * llvm_math.item_size(kind)
        found = self.builder.call(allocate, [self.word(size)])
        return self.builder.bitcast(found, kind.as_pointer())

    def free(self, pointer: Any) -> None:
        """Free what `malloc` gave."""
        byte = self.ir.IntType(8).as_pointer()
        release = self._c_function("free", self.ir.VoidType(), byte)
        self.builder.call(release, [self.builder.bitcast(pointer, byte)])

    def _c_function(self, name: str, returned: Any, given: Any) -> Any:
        module = self.function.module
        found = module.globals.get(name)
        if found is None:
            found = self.ir.Function(module, self.ir.FunctionType(returned, [given]), name)
        return found


class _Distinct:
    """A node of metadata like no other; as a loop's, it begins with itself.

    It has what llvmlite asks of its own nodes, which cannot be written so.
    """

    def __init__(self, module: Any, operands: list[Any], names_itself: bool = False) -> None:
        self.type = llvm_math.ir().MetaDataType()
        self.name = f"!{len(module.metadata)}"
        self.operands = [self, *operands] if names_itself else operands
        module.metadata.append(self)

    def get_reference(self) -> str:
        """How others name it."""
        return self.name

    def __str__(self) -> str:
        return f"{self.name} = distinct !{{{', '.join(o.get_reference() for o in self.operands)}}}"
