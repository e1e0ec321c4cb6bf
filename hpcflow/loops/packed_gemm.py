"""Products of few rows by a matrix that many are multiplied by, in compiled loops.

A BLAS copies the second factor into the order that it reads it in, for every product. Here that is
done once: the matrix lies as *panels* of some columns, one row of a panel after the other.

The order of summation is fixed: each element of a product is the sum of its terms in their order,
every one added with a single rounding, `CHAIN` of them at a time, whose sums are added up in their
order. It depends neither on the other rows and columns nor on the number of cores. Another library
adds in another order, so the two differ in the last bits: usually by less than 4 ulps of the dtype
of the sum of the absolute products, and never by more than as many ulps as there are terms.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.loops import llvm_math
from hpcflow.loops.llvm_loops import Loops

#: Terms that are added up at a time: as much of a panel as stays in the cache.
CHAIN = 512
#: Rows that are computed at a time, at most.
ROWS = 6
DTYPES = ("float32", "float64")


class Tile(NamedTuple):
    """The part of a product that a processor computes at a time in its registers.

    Attributes:
        lanes: elements of a register, of single floats or of what the tile is of.
        widths: in registers, from wide to narrow.
    """

    lanes: int
    widths: tuple[int, ...]

    def width_of(self, columns: int) -> int:
        """The width of a matrix's panels, so that the last lacks few columns."""
        return min([v * self.lanes for v in self.widths], key=lambda width: -columns % width)


# By a feature that LLVM knows of processors which add a product with a single rounding.
_TILES = {"avx512f": Tile(16, (4, 2)), "fma": Tile(8, (2,)), "neon": Tile(4, (4,))}


@functools.lru_cache(maxsize=2)
def tile(dtype: str = "float32") -> Tile | None:
    """The tile of this processor; None if products are better left to a BLAS."""
    found = next((t for name, t in _TILES.items() if llvm_math.features().get(name)), None)
    return found and found._replace(lanes=found.lanes * 4 // np.dtype(dtype).itemsize)


def pack(matrix: np.ndarray, width: int) -> np.ndarray:
    """The panels of a `matrix`, each of so many columns: an array of panels, rows and columns.
    Columns that there are not are zeros."""
    inner, columns = matrix.shape
    count, left = divmod(columns, width)
    made = memory.empty((count + bool(left), inner, width), matrix.dtype, least=0)
    whole = matrix[:, : count * width].reshape(inner, count, width)
    made[:count] = whole.transpose(1, 0, 2)
    if left:
        made[count, :, :left] = matrix[:, count * width :]
        made[count, :, left:] = 0
    return made


def write_tiles(module: Any) -> None:
    """Write the functions of tiles into a module of LLVM's, ``hpcflow_tiles_float32`` and
    ``hpcflow_tiles_float64``. Their words are:

    - the rows and the width of the tile, and how many terms each element adds up,
    - the address of the first factor, with the bytes from row to row,
    - the address of the part of the panel,
    - the address of the result, whole tiles wide, with the bytes from row to row,
    - not 0 where the sums are added to what is there.
    """
    word = llvm_math.ir().IntType(64)
    for dtype in DTYPES:
        function = llvm_math.ir().Function(
            module, llvm_math.ir().FunctionType(word, [word] * 9), f"hpcflow_tiles_{dtype}")
        function.linkage = "internal"
        for attribute in ("noinline", "optsize"):  # these loops gain nothing when they are unrolled
            function.attributes.add(attribute)
        _Tiles(function, dtype).write()


class _Tiles(Loops):
    """Writes the function of tiles of a dtype."""

    def __init__(self, function: Any, dtype: str) -> None:
        super().__init__(function)
        self.form = tile(dtype) or Tile(1, ())
        self.real = llvm_math.memory_type(dtype)
        self.item = llvm_math.item_size(self.real)
        self.vector = self.ir.VectorType(self.real, self.form.lanes)

    def write(self) -> None:
        """Write it: one way for each number of rows and width."""
        b, word = self.builder, self.word
        rows, width, *given = self.function.args
        none = self.function.append_basic_block()
        choices = b.switch(b.add(b.mul(width, word(ROWS + 1)), rows), none)
        for vectors in self.form.widths:
            for r in range(1, ROWS + 1):
                block = self.function.append_basic_block()
                choices.add_case(word(vectors * self.form.lanes * (ROWS + 1) + r), block)
                b.position_at_end(block)
                self._tile(r, vectors, *given)
                b.ret(word(0))
        b.position_at_end(none)
        b.ret(word(0))

    def _tile(self, rows: int, vectors: int, terms: Any, first: Any, ahead: Any, panel: Any,
              made: Any, ahead_made: Any, adds: Any) -> None:
        b, word, size = self.builder, self.word, self.form.lanes * self.item
        with b.goto_entry_block():
            sums = [[b.alloca(self.vector) for _ in range(vectors)] for _ in range(rows)]
        for total in [total for totals in sums for total in totals]:
            b.store(self.ir.Constant(self.vector, [0.0] * self.form.lanes), total)
        starts = [b.add(first, b.mul(ahead, word(r))) for r in range(rows)]
        fma = self.c_function(f"llvm.fma.v{self.form.lanes}f{8 * self.item}", self.vector,
                              *[self.vector] * 3)
        with self.steps(word(0), terms) as term:
            row = b.add(panel, b.mul(term, word(vectors * size)))
            right = [self._load(row, v * size) for v in range(vectors)]
            for start, totals in zip(starts, sums):
                left = self._splat(b.load(self.place(start, b.mul(term, word(self.item)),
                                                     self.real)))
                for value, total in zip(right, totals):
                    b.store(b.call(fma, [left, value, b.load(total)]), total)
        for r, totals in enumerate(sums):
            start = b.add(made, b.mul(ahead_made, word(r)))
            for v, total in enumerate(totals):
                value = b.load(total)
                both = b.fadd(self._load(start, v * size), value)
                b.store(b.select(b.icmp_signed("!=", adds, word(0)), both, value),
                        self.place(start, word(v * size), self.vector), align=self.item)

    def _load(self, start: Any, offset: int) -> Any:
        """A register of what is at an address."""
        place = self.place(start, self.word(offset), self.vector)
        return self.builder.load(place, align=self.item)

    def _splat(self, value: Any) -> Any:
        """A register of one value."""
        b, small, lanes = self.builder, self.ir.IntType(32), self.form.lanes
        one = b.insert_element(self.vector(self.ir.Undefined), value, small(0))
        return b.shuffle_vector(one, one, self.ir.VectorType(small, lanes)([0] * lanes))
