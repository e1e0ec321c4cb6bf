"""Machine code of products of small matrices, by LLVM alone: see `loops.SmallProducts`.

Every product is written out, in vectors as long as a row of what lies in order: the sizes are known
when the code is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops.address_loops import AddressLoop, written
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import Array, Code, Kind
from hpcflow.loops.llvm_math import value_type

if TYPE_CHECKING:
    from llvmlite.ir import Module, Value

_LIBERTIES = ("reassoc", "contract", "nsz")


def code_of(name: str, dtype: str, m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> Code:
    """The code of a `loops.SmallProducts`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(
        _Products(module, dtype, (m, k, n), flip_a, flip_b)))


class _Products(AddressLoop):
    """The loop over products: it takes the addresses of a, b and their products, and how many of
    these there are."""

    def __init__(self, module: Module, dtype: str, sizes: tuple[int, int, int], flip_a: bool,
                 flip_b: bool) -> None:
        read, made = Array(dtype, 2, False), Array(dtype, 2, True)
        kinds: list[Kind] = [read, read, made]
        super().__init__(module, kinds, 4)
        self.sizes, self.flip_a, self.flip_b = sizes, flip_a, flip_b
        self.number, self.item = value_type(dtype), read.item

    def arguments(self, values: Sequence) -> list:
        """See `AddressLoop`."""
        (a, (count, _)), (b, _), (out, _) = values
        return [a, b, out, count]

    def write(self) -> None:
        """Write the loop."""
        builder, word = self.builder, self.word
        a, b, out, count = self.function.args
        m, k, n = self.sizes
        with self.steps(word(0), count, 1) as index:
            a, b, out = [builder.add(start, builder.mul(index, word(size * self.item)))
                         for start, size in ((a, m * k), (b, k * n), (out, m * n))]
            if self.flip_b:
                self._by_sums(a, b, out)
            elif n == 1 and self.flip_a:  # the result lies as the rows of a do
                self._by_rows(b, a, out, (1, k, m), False)
            elif n == 1:
                self._by_sums(a, b, out)
            else:
                self._by_rows(a, b, out, self.sizes, self.flip_a)
        builder.ret_void()

    def _by_rows(self, a: Any, b: Any, out: Any, sizes: tuple[int, int, int],
                 flip_a: bool) -> None:
        """Each row of the result as a sum of rows of `b`."""
        m, k, n = sizes
        rows = [self._loaded(b, p * n, n) for p in range(k)]
        for i in range(m):
            terms = [self._times(self._repeated(a, p * m + i if flip_a else i * k + p, n), row)
                     for p, row in enumerate(rows)]
            self._store(self._sum(terms), out, i * n)

    def _by_sums(self, a: Any, b: Any, out: Any) -> None:
        """Each element of the result as the sum of a row of `a` times one of `b` transposed."""
        m, k, n = self.sizes
        columns = [self._loaded(b, j * k, k) for j in range(n)]
        for i in range(m):
            row = self._gathered(a, i, m, k) if self.flip_a else self._loaded(a, i * k, k)
            for j, column in enumerate(columns):
                self._store(self._total(self._times(row, column)), out, i * n + j)

    # ------------------------------------------------------------ numbers and vectors

    def _kind(self, count: int) -> Any:
        return self.number if count == 1 else self.ir.VectorType(self.number, count)

    def _pointer(self, start: Any, index: int, count: int) -> Any:
        return self.place(start, self.word(index * self.item), self._kind(count))

    def _loaded(self, start: Any, index: int, count: int) -> Any:
        """So many numbers from the one of this index on."""
        return self.builder.load(self._pointer(start, index, count), align=self.item)

    def _store(self, value: Any, start: Any, index: int) -> None:
        count = getattr(value.type, "count", 1)
        self.builder.store(value, self._pointer(start, index, count), align=self.item)

    def _gathered(self, start: Any, first: int, step: int, count: int) -> Any:
        """Every so-many-th number."""
        if count == 1:
            return self._loaded(start, first, 1)
        vector = self._kind(count)(self.ir.Undefined)
        for p in range(count):
            vector = self.builder.insert_element(
                vector, self._loaded(start, first + p * step, 1), self.ir.IntType(32)(p))
        return vector

    def _repeated(self, start: Any, index: int, count: int) -> Any:
        """A vector of one number."""
        value = self._loaded(start, index, 1)
        return value if count == 1 else self.repeated(value, self._kind(count))

    def _times(self, x: Value, y: Value) -> Any:
        return self.builder.fmul(x, y, flags=_LIBERTIES)

    def _sum(self, terms: list) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.fadd(total, term, flags=_LIBERTIES)
        return total

    def _total(self, vector: Any) -> Any:
        """The sum of its numbers."""
        count = getattr(vector.type, "count", 1)
        if count == 1:
            return vector
        small = self.ir.IntType(32)
        while count > 1:
            half = (count + 1) // 2
            kept = count // 2
            parts = [self._part(vector, first, kept) for first in (0, half)]
            added = self.builder.fadd(*parts, flags=_LIBERTIES)
            if half > kept:  # the one in the middle is left over
                left = self.builder.extract_element(vector, small(kept))
                first = added if kept == 1 else self.builder.extract_element(added, small(0))
                left = self.builder.fadd(first, left, flags=_LIBERTIES)
                added = left if kept == 1 else self.builder.insert_element(added, left, small(0))
            vector, count = added, kept
        return vector

    def _part(self, vector: Any, first: int, count: int) -> Any:
        """So many numbers of a vector."""
        small = self.ir.IntType(32)
        if count == 1:
            return self.builder.extract_element(vector, small(first))
        mask = self.ir.VectorType(small, count)([first + i for i in range(count)])
        return self.builder.shuffle_vector(vector, vector.type(self.ir.Undefined), mask)
