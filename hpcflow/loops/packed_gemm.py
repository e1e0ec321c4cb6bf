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
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import memory

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module

#: Terms that are added up at a time: as much of a panel as stays in the cache.
CHAIN = 512
_ARGUMENTS = 10


class Tile(NamedTuple):
    """The tile of a product that a processor computes at a time in its registers.

    Attributes:
        lanes: elements of a register, of single floats or of what the tile is of.
        rows: of a tile, at most.
        widths: of a tile, in registers, from wide to narrow.
    """

    lanes: int
    rows: int
    widths: tuple[int, ...]

    def vectors_of(self, columns: int) -> int:
        """Return the width of a matrix's panels, in registers, so that the last lacks few
        columns."""
        return min(self.widths, key=lambda width: -columns % (width * self.lanes))


# By a feature that LLVM knows of processors which add a product with a single rounding.
_TILES = {"avx512f": Tile(16, 6, (4, 2)), "fma": Tile(8, 6, (2,)), "neon": Tile(4, 6, (4,))}


@functools.lru_cache(maxsize=2)
def tile(dtype: str = "float32") -> Tile | None:
    """Return the tile of this processor; None if products are better left to a BLAS."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    found = next((form for name, form in _TILES.items() if features.get(name)), None)
    return found and found._replace(lanes=found.lanes * 4 // np.dtype(dtype).itemsize)


def pack(matrix: np.ndarray, vectors: int) -> np.ndarray:
    """The panels of a `matrix` of float32 or float64, each as wide as so many registers: an array
    of panels, rows and columns. Columns that there are not are zeros."""
    form = tile(matrix.dtype.name)
    assert form is not None
    inner, columns = matrix.shape
    width = vectors * form.lanes
    count, left = divmod(columns, width)
    made = memory.empty((count + bool(left), inner, width), matrix.dtype, least=0)
    whole = matrix[:, : count * width].reshape(inner, count, width)
    made[:count] = whole.transpose(1, 0, 2)
    if left:
        made[count, :, :left] = matrix[:, count * width :]
        made[count, :, left:] = 0
    return made


# ---------------------------------------------------------------- for compiled loops


class Tiles:
    """Writes a function into a module of LLVM's that makes some columns of some rows of a product:
    ``tiles(rows, vectors, terms, first, ahead, panel, made, ahead_made, columns, adds)`` of words.

    Args of it:
        rows, vectors: of the tile.
        terms: how many each element adds up.
        first, panel, made: addresses.
        ahead, ahead_made: elements from row to row.
        columns: how many of the tile are wanted, if it has more.
        adds: not 0 where the sums are added to what is there.
    """

    def __init__(self, module: Module, dtype: str) -> None:
        self.ir = importlib.import_module("llvmlite.ir")
        self.module = module
        self.name = f"hpcflow_tiles_{dtype}"
        self.item = np.dtype(dtype).itemsize
        self.form = tile(dtype) or Tile(1, 1, ())
        self.lanes = self.form.lanes
        self.word, self.small = self.ir.IntType(64), self.ir.IntType(32)
        self.real = self.ir.FloatType() if dtype == "float32" else self.ir.DoubleType()
        self.vector = self.ir.VectorType(self.real, self.lanes)
        self.flags = self.ir.VectorType(self.ir.IntType(1), self.lanes)

    def function(self) -> Any:
        """The function; written if it is not there yet."""
        found = self.module.globals.get(self.name)
        if found is not None:
            return found
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.word] * _ARGUMENTS)
        found = self.ir.Function(self.module, kind, self.name)
        found.linkage = "internal"
        for attribute in ("noinline", "optsize"):  # these loops gain nothing when they are unrolled
            found.attributes.add(attribute)
        rows, vectors = found.args[:2]
        builder = self.ir.IRBuilder(found.append_basic_block())
        none = found.append_basic_block()
        choice = builder.add(builder.mul(vectors, self.word(self.form.rows + 1)), rows)
        choices = builder.switch(choice, none)
        for v in self.form.widths:
            for r in range(1, self.form.rows + 1):
                block = found.append_basic_block()
                choices.add_case(self.word(v * (self.form.rows + 1) + r), block)
                builder.position_at_end(block)
                self._write_tile(builder, r, v, found.args[2:])
        builder.position_at_end(none)
        builder.ret_void()
        return found

    def _write_tile(self, builder: IRBuilder, rows: int, vectors: int, given: Any) -> None:
        """A tile of so many rows and registers."""
        *factors, made, ahead_made, columns, adds = given
        sums = self._sums(builder, rows, vectors, *factors)
        adds = builder.icmp_signed("!=", adds, self.word(0))
        lacks = builder.icmp_signed("<", columns, self.word(vectors * self.lanes))
        with builder.if_else(lacks) as branches:
            for branch, is_whole in zip(branches, (False, True)):
                with branch:
                    for r in range(rows):
                        start = builder.mul(ahead_made, self.word(r))
                        for v in range(vectors):
                            place = self._place(builder, made, start, v * self.lanes, self.vector)
                            mask = None if is_whole else self._wanted(builder, columns, v)
                            self._put(builder, place, sums[r][v], adds, mask)
        builder.ret_void()

    def _wanted(self, builder: IRBuilder, columns: Any, register: int) -> Any:
        """The flags of the columns of a register that there are."""
        numbers = self.ir.VectorType(self.small, self.lanes)
        first = register * self.lanes
        count = self._splat(builder, builder.trunc(columns, self.small), numbers)
        return builder.icmp_signed(
            "<", numbers([*range(first, first + self.lanes)]), count)

    def _put(self, builder: IRBuilder, place: Any, value: Any, adds: Any, mask: Any) -> None:
        """Store a register, or add it to what is there; some of it if there is a mask."""
        item, small = self.item, self.small
        if mask is None:
            before = builder.load(place, align=item)
        else:
            load = self._intrinsic("masked.load", self.vector,
                                   [place.type, small, self.flags, self.vector], ".p0")
            before = builder.call(load, [place, small(item), mask, self._constant(0.0)])
        value = builder.select(adds, builder.fadd(before, value), value)
        if mask is None:
            builder.store(value, place, align=item)
        else:
            store = self._intrinsic("masked.store", self.ir.VoidType(),
                                    [self.vector, place.type, small, self.flags], ".p0")
            builder.call(store, [value, place, small(item), mask])

    def _sums(self, builder: IRBuilder, rows: int, vectors: int, terms: Any, first: Any, ahead: Any,
              panel: Any) -> list[list[Any]]:
        """The sums of the terms, by row and register; one loop over the terms."""
        before, loop, end = builder.block, *[builder.append_basic_block() for _ in range(2)]
        starts = [self._place(builder, first, builder.mul(ahead, self.word(r)), 0, self.real)
                  for r in range(rows)]
        matrix = self._place(builder, panel, self.word(0), 0, self.real)
        builder.branch(loop)
        builder.position_at_end(loop)
        term = builder.phi(self.word)
        sums = [[builder.phi(self.vector) for _ in range(vectors)] for _ in range(rows)]
        row = builder.mul(term, self.word(vectors * self.lanes))
        right = [builder.load(builder.bitcast(
            builder.gep(matrix, [builder.add(row, self.word(v * self.lanes))]),
            self.vector.as_pointer()), align=self.item) for v in range(vectors)]
        fma = self._intrinsic("fma", self.vector, [self.vector] * 3)
        following = [[None] * vectors for _ in range(rows)]
        for r in range(rows):
            left = self._splat(builder, builder.load(builder.gep(starts[r], [term])), self.vector)
            for v in range(vectors):
                following[r][v] = builder.call(fma, [left, right[v], sums[r][v]])
        count = builder.add(term, self.word(1), flags=("nuw", "nsw"))
        term.add_incoming(self.word(0), before)
        term.add_incoming(count, loop)
        for r in range(rows):
            for v in range(vectors):
                sums[r][v].add_incoming(self._constant(0.0), before)
                sums[r][v].add_incoming(following[r][v], loop)
        builder.cbranch(builder.icmp_signed("<", count, terms), loop, end)
        builder.position_at_end(end)
        return following

    def _intrinsic(self, name: str, made: Any, given: list, of: str = "") -> Any:
        """An operation of LLVM's on registers."""
        name = f"llvm.{name}.v{self.lanes}f{8 * self.item}{of}"
        found = self.module.globals.get(name)
        return found or self.ir.Function(self.module, self.ir.FunctionType(made, given), name)

    def _constant(self, value: float) -> Any:
        return self.ir.Constant(self.vector, [value] * self.lanes)

    def _place(self, builder: IRBuilder, address: Any, elements: Any, more: int,
               kind: Any) -> Any:
        """A pointer to `elements` and `more` behind an address."""
        offset = builder.mul(builder.add(elements, self.word(more)), self.word(self.item))
        return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

    def _splat(self, builder: IRBuilder, value: Any, kind: Any) -> Any:
        """A vector of one value."""
        one = builder.insert_element(
            self.ir.Constant(kind, self.ir.Undefined), value, self.small(0))
        places = self.ir.VectorType(self.small, self.lanes)
        return builder.shuffle_vector(one, one, self.ir.Constant(places, [0] * self.lanes))
