"""Loops of LLVM's instructions, and memory for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow.loops import llvm_math
from hpcflow.loops.entries import Array, Kind
from hpcflow.loops.meanings import FLOATS

#: Bytes of a page of memory, at least, and of what is fetched at once.
PAGE, _LINE = 1 << 12, 1 << 6


class Loops:
    """Writes loops into a function.

    Args:
        function: of words, or of a table (see `entries`) where there are `kinds`.
        kinds: what the table has.

    Attributes:
        is_deep: set for loops over functions of mathematics, chains of many instructions.
        given: the numbers of the table, and of each array a pointer and its dims.
    """

    def __init__(self, function: Any, kinds: Sequence[Kind] = ()) -> None:
        self.ir = llvm_math.ir()
        self.function = function
        self.word = self.ir.IntType(64)
        self.builder = self.ir.IRBuilder(function.append_basic_block())
        self._group: Any = None
        self._is_short = self.is_deep = False
        words = iter([self.builder.load(self.builder.gep(function.args[0], [self.word(k)]))
                      for k in range(sum([kind.words for kind in kinds]))])
        self.given: list[Any] = [self._given(kind, words) for kind in kinds]

    def _given(self, kind: Kind, words: Iterator) -> Any:
        """A number, or the place and the dims of an array."""
        b, word = self.builder, next(words)
        if isinstance(kind, Array):
            start = b.inttoptr(word, llvm_math.memory_type(kind.dtype).as_pointer())
            return start, [next(words) for _ in range(kind.words - 1)]
        if kind.dtype in FLOATS:
            return llvm_math.cast(b, b.bitcast(word, self.ir.DoubleType()), "float64", kind.dtype)
        return llvm_math.cast(b, word, "int64", kind.dtype)

    @contextmanager
    def steps(self, first: Any, end: Any, step: int | Any = 1) -> Iterator[Any]:
        """A loop from `first` to before `end`, whose body is what is written meanwhile."""
        b, before = self.builder, self.builder.block
        again, after = [self.function.append_basic_block() for _ in range(2)]
        b.cbranch(b.icmp_signed("<", first, end), again, after)
        b.position_at_end(again)
        index = b.phi(self.word)
        index.add_incoming(first, before)
        yield index
        step = self.word(step) if isinstance(step, int) else step
        following = b.add(index, step, flags=("nuw", "nsw"))
        index.add_incoming(following, b.block)
        self.mark(b.cbranch(b.icmp_signed("<", following, end), again, after))
        b.position_at_end(after)

    @contextmanager
    def parallel(self, is_short: bool = False, is_so: bool = True) -> Iterator[None]:
        """The loop that is written meanwhile, an innermost one, has turns that do not depend on
        each other through memory, if it `is_so`: LLVM need not compare addresses to find that. Of a
        short one it would write out all turns, and then find no vectors in them."""
        before = self._group, self._is_short
        self._group = _Distinct(self.function.module, []) if is_so else None
        self._is_short = is_short
        yield
        self._group, self._is_short = before

    def mark(self, branch: Any) -> None:
        """Say of the loop that a branch repeats what is known of it."""
        if self._group is None:
            return
        module, facts = self.function.module, {"parallel_accesses": [self._group]}
        if self._is_short:
            facts["unroll.disable"] = []
        elif self.is_deep and llvm_math.interleaves_too_little():
            facts["interleave.count"] = [self.ir.IntType(32)(8)]
        nodes = [module.add_metadata([self.ir.MetaDataString(module, f"llvm.loop.{name}"), *given])
                 for name, given in facts.items()]
        branch.set_metadata("llvm.loop", _Distinct(module, nodes, names_itself=True))

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

    def extreme(self, function: str, x: Any, y: Any) -> Any:
        """The ``minimum`` or ``maximum`` of two words."""
        return llvm_math.emit(function, self.builder, "int64", [x, y])

    # ------------------------------------------------------------ memory

    def place(self, start: Any, offset: Any, kind: Any) -> Any:
        """A pointer to what is `offset` bytes after an address."""
        return self.builder.inttoptr(self.builder.add(start, offset), kind.as_pointer())

    def prefetch(self, place: Any, offset: int, size: int) -> None:
        """Ask for `size` bytes that begin `offset` bytes after a place, be there memory or not."""
        b = self.builder
        start = b.gep(b.bitcast(place, self.ir.IntType(8).as_pointer()), [self.word(offset)])
        with self.steps(self.word(0), self.word(size), _LINE) as at:
            self.fetch(b.gep(start, [at]))

    def fetch(self, place: Any) -> None:
        """Ask for the line of memory at a place, to be read."""
        b, number, byte = self.builder, self.ir.IntType(32), self.ir.IntType(8).as_pointer()
        function = b.module.declare_intrinsic("llvm.prefetch.p0", (), self.ir.FunctionType(
            self.ir.VoidType(), [byte, *[number] * 3]))
        is_write, nearest, data = number(0), number(3), number(1)
        b.call(function, [b.bitcast(place, byte), is_write, nearest, data])

    def stack(self, kind: Any, count: int) -> Any:
        """Room for so many numbers, until the function returns."""
        made = self.builder.alloca(self.ir.ArrayType(kind, count))
        made.align = 64
        return self.builder.bitcast(made, kind.as_pointer())

    def malloc(self, kind: Any, count: int) -> Any:
        """Room for so many numbers, until it is freed."""
        byte = self.ir.IntType(8).as_pointer()
        allocate = self.c_function("malloc", byte, self.word)
        size = count * llvm_math.item_size(kind)
        found = self.builder.call(allocate, [self.word(size)])
        return self.builder.bitcast(found, kind.as_pointer())

    def free(self, pointer: Any) -> None:
        """Free what `malloc` gave."""
        byte = self.ir.IntType(8).as_pointer()
        release = self.c_function("free", self.ir.VoidType(), byte)
        self.builder.call(release, [self.builder.bitcast(pointer, byte)])

    def c_function(self, name: str, returned: Any, *given: Any) -> Any:
        """A function of C's, by its name."""
        found = self.function.module.globals.get(name)
        return found or self.ir.Function(
            self.function.module, self.ir.FunctionType(returned, given), name)

    def global_(self, name: str) -> Any:
        """What the module, or the loader, has under a name."""
        found = self.function.module.globals.get(name)
        return found or self.ir.GlobalVariable(
            self.function.module, self.ir.IntType(8), name)


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
