"""Products of few rows by a matrix that many are multiplied by, in compiled loops.

A BLAS copies the second factor into the order that it reads it in, for every product. Here that is
done once: the matrix lies as *panels* of some columns, one row of a panel after the other.

The order of summation is fixed: each element of a product is the sum of its terms in their order,
every one added with a single rounding, `CHAIN` of them at a time, whose sums are added up in their
order. It depends neither on the other rows and columns nor on the number of cores. Another library
adds in another order, so the two differ in the last bits: usually by less than 4 ulps (of 2**-23)
of the sum of the absolute products, and never by more than as many ulps as there are terms.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.loops import numba_parts

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module

DTYPE = np.dtype(np.float32)
#: Terms that are added up at a time: as much of a panel as stays in the cache.
CHAIN = 512
_ARGUMENTS = 13


class Tile(NamedTuple):
    """The tile of a product that a processor computes at a time in its registers.

    Attributes:
        lanes: elements of a register.
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


@functools.lru_cache(maxsize=1)
def tile() -> Tile | None:
    """Return the tile of this processor; None if products are better left to a BLAS."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return next((form for name, form in _TILES.items() if features.get(name)), None)


def pack(matrix: np.ndarray, vectors: int) -> np.ndarray:
    """The panels of a `matrix` of float32, each as wide as so many registers: an array of panels,
    rows and columns. Columns that there are not are zeros."""
    form = tile()
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


def compiled() -> Callable:
    """For compiled loops: ``product(rows, columns, inner, vectors, first, ahead, panels, made,
    ahead_made, addend, ahead_addend)``.

    Args of it:
        rows, columns, inner: of the product.
        vectors: registers of a panel.
        first, panels, made, addend: addresses; the last of what the first chain is added to, or 0.
        ahead, ahead_made, ahead_addend: elements from row to row.
    """
    form, item = tile() or Tile(1, 1, ()), DTYPE.itemsize
    lanes, most = form.lanes, form.rows
    multiply = _multiply(form)

    @numba_parts.compiler()
    def product(rows: Any, columns: Any, inner: Any, vectors: Any, first: Any, ahead: Any,
                panels: Any, made: Any, ahead_made: Any, addend: Any, ahead_addend: Any) -> None:
        tiles, width = (rows + most - 1) // most, vectors * lanes
        for column in range(0, columns, width):
            for term in range(0, inner, CHAIN):
                terms = min(CHAIN, inner - term)
                before, ahead_before = addend, ahead_addend
                if term:
                    before, ahead_before = made, ahead_made
                for number in range(tiles):
                    top, bottom = rows * number // tiles, rows * (number + 1) // tiles
                    multiply(bottom - top, vectors, terms, first + (top * ahead + term) * item,
                             ahead, 1, panels + (column * inner + term * width) * item, width,
                             made + (top * ahead_made + column) * item, ahead_made,
                             columns - column,
                             before and before + (top * ahead_before + column) * item, ahead_before)

    return product


def compiled_addition() -> Callable:
    """For compiled loops: ``add(rows, columns, terms, vectors, first, ahead_first, second,
    ahead_second, made, ahead_made)``, which adds the product of the transposed first factor and the
    second to what is at `made`.

    Args of it:
        rows, columns, terms: of the product; the terms are the rows of the factors.
        vectors: registers of a tile, of which the columns are a multiple.
        first, second, made: addresses.
        ahead_first, ahead_second, ahead_made: elements from row to row.
    """
    form, item = tile() or Tile(1, 1, ()), DTYPE.itemsize
    lanes, most = form.lanes, form.rows
    multiply = _multiply(form)

    @numba_parts.compiler()
    def add(rows: Any, columns: Any, terms: Any, vectors: Any, first: Any, ahead_first: Any,
            second: Any, ahead_second: Any, made: Any, ahead_made: Any) -> None:
        tiles = (rows + most - 1) // most
        for column in range(0, columns, vectors * lanes):
            for number in range(tiles):
                top, bottom = rows * number // tiles, rows * (number + 1) // tiles
                into = made + (top * ahead_made + column) * item
                multiply(bottom - top, vectors, terms, first + top * item, 1, ahead_first,
                         second + column * item, ahead_second, into, ahead_made,
                         columns - column, into, ahead_made)

    return add


def _multiply(form: Tile) -> Callable:
    """For compiled loops: ``multiply(rows, vectors, terms, first, ahead, step, panel, width, made,
    ahead_made, columns, addend, ahead_addend)`` of whole numbers, which makes some columns of some
    rows of a product.

    Args of it:
        rows, vectors: of the tile.
        terms: how many each element adds up.
        first, panel, made, addend: addresses; the last of what is added to the sums, or 0.
        ahead, ahead_made, ahead_addend: elements from row to row.
        step, width: elements from term to term of a row of the first factor, and of the panel.
        columns: how many of the tile are wanted.
    """
    numba = importlib.import_module("numba")
    signature = numba.types.void(*[numba.types.int64] * _ARGUMENTS)

    def emit(context: Any, builder: IRBuilder, _: object, arguments: Any) -> Any:
        builder.call(_Tiles(builder.module, form).function(), arguments)
        return context.get_dummy_value()

    def typed(context: object, rows: object, vectors: object, terms: object, first: object,
              ahead: object, step: object, panel: object, width: object, made: object,
              ahead_made: object, columns: Sequence[Any], addend: object,
              ahead_addend: object) -> Any:
        return signature, emit

    return numba.extending.intrinsic(typed)


class _Tiles:
    """Writes the function that `_multiply` calls into a module of LLVM's."""

    name = "hpcflow_tiles"

    def __init__(self, module: Module, form: Tile) -> None:
        self.ir = importlib.import_module("llvmlite.ir")
        self.module = module
        self.form = form
        self.real = self.ir.FloatType()
        self.item = DTYPE.itemsize
        self.lanes = form.lanes
        self.word = self.ir.IntType(64)
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
        size = self.ir.Constant(self.word, self.form.rows * max(self.form.widths, default=1))
        self.tile = builder.alloca(self.vector, size)
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
        """A tile of so many rows and registers. Where the matrix has fewer columns, it goes to a
        place of its own, and what is wanted from there."""
        terms, *factors = given[:6]
        made, ahead_made, columns, addend, ahead_addend = given[6:]
        sums = self._sums(builder, rows, vectors, terms, *factors)
        adds = builder.icmp_signed("!=", addend, self.word(0))
        addend = builder.select(adds, addend, made)  # which can be read, too
        ahead_addend = builder.select(adds, ahead_addend, ahead_made)
        width = vectors * self.lanes
        is_whole = builder.icmp_signed(">=", columns, self.word(width))
        with builder.if_else(is_whole) as (whole, part):
            with whole:
                for r in range(rows):
                    for v in range(vectors):
                        before, place = [
                            self._place(builder, start, builder.mul(ahead, self.word(r)),
                                        v * self.lanes)
                            for start, ahead in ((addend, ahead_addend), (made, ahead_made))]
                        more = builder.fadd(builder.load(before, align=self.item), sums[r][v])
                        builder.store(builder.select(adds, more, sums[r][v]), place,
                                      align=self.item)
            with part:
                for r in range(rows):
                    for v in range(vectors):
                        at = builder.gep(self.tile, [self.word(r * vectors + v)])
                        builder.store(sums[r][v], at)
                builder.call(self._copy(), [
                    builder.ptrtoint(self.tile, self.word), self.word(rows), self.word(width),
                    made, ahead_made, columns, addend, ahead_addend,
                    builder.zext(adds, self.word)])
        builder.ret_void()

    def _constant(self, value: float) -> Any:
        return self.ir.Constant(self.vector, [value] * self.lanes)

    def _copy(self) -> Any:
        """``copy(tile, rows, width, made, ahead_made, columns, addend, ahead_addend, adds)``."""
        name = f"{self.name}_copy"
        found = self.module.globals.get(name)
        if found is None:
            kind = self.ir.FunctionType(self.ir.VoidType(), [self.word] * 9)
            found = self.ir.Function(self.module, kind, name)
            found.linkage = "internal"
            found.attributes.add("noinline")
            self._write_copy(found)
        return found

    def _write_copy(self, function: Any) -> None:
        tile, rows, width, made, ahead_made, columns, addend, ahead_addend, adds = function.args
        start, outer, inner, behind, end = [function.append_basic_block() for _ in range(5)]
        builder, zero, one = self.ir.IRBuilder(start), self.word(0), self.word(1)
        builder.branch(outer)
        builder.position_at_end(outer)
        row = builder.phi(self.word)
        builder.branch(inner)
        builder.position_at_end(inner)
        column = builder.phi(self.word)
        source, more, target = [
            self._place(builder, address, builder.add(builder.mul(row, ahead), column), 0,
                        self.real)
            for address, ahead in ((tile, width), (addend, ahead_addend), (made, ahead_made))]
        value, before = builder.load(source), builder.load(more)
        adds = builder.trunc(adds, self.ir.IntType(1))
        builder.store(builder.select(adds, builder.fadd(before, value), value), target)
        next_column = builder.add(column, one)
        builder.cbranch(builder.icmp_signed("<", next_column, columns), inner, behind)
        builder.position_at_end(behind)
        next_row = builder.add(row, one)
        builder.cbranch(builder.icmp_signed("<", next_row, rows), outer, end)
        builder.position_at_end(end)
        builder.ret_void()
        for counter, before, block, following in ((row, start, behind, next_row),
                                                  (column, outer, inner, next_column)):
            counter.add_incoming(zero, before)
            counter.add_incoming(following, block)

    def _sums(self, builder: IRBuilder, rows: int, vectors: int, terms: Any, first: Any, ahead: Any,
              step: Any, panel: Any, width: Any) -> list[list[Any]]:
        """The sums of the terms, by row and register; one loop over the terms."""
        before, loop, end = builder.block, *[builder.append_basic_block() for _ in range(2)]
        starts = [self._place(builder, first, builder.mul(ahead, self.word(r)), 0, self.real)
                  for r in range(rows)]
        matrix = self._place(builder, panel, self.word(0), 0, self.real)
        builder.branch(loop)
        builder.position_at_end(loop)
        term = builder.phi(self.word)
        sums = [[builder.phi(self.vector) for _ in range(vectors)] for _ in range(rows)]
        row, column = builder.mul(term, width), builder.mul(term, step)
        right = [builder.load(builder.bitcast(
            builder.gep(matrix, [builder.add(row, self.word(v * self.lanes))]),
            self.vector.as_pointer()), align=self.item) for v in range(vectors)]
        fma = self._fma()
        following = [[None] * vectors for _ in range(rows)]
        for r in range(rows):
            left = self._splat(builder, builder.load(builder.gep(starts[r], [column])), self.vector)
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

    def _fma(self) -> Any:
        """Products that are added with a single rounding."""
        name = f"llvm.fma.v{self.lanes}f32"
        found = self.module.globals.get(name)
        kind = self.ir.FunctionType(self.vector, [self.vector] * 3)
        return found or self.ir.Function(self.module, kind, name)

    def _place(self, builder: IRBuilder, address: Any, elements: Any, more: int,
               kind: Any = None) -> Any:
        """A pointer to `elements` and `more` behind an address."""
        offset = builder.mul(builder.add(elements, self.word(more)), self.word(self.item))
        return builder.inttoptr(builder.add(address, offset), (kind or self.vector).as_pointer())

    def _splat(self, builder: IRBuilder, value: Any, kind: Any) -> Any:
        """A vector of one value."""
        one = builder.insert_element(
            self.ir.Constant(kind, self.ir.Undefined), value, self.ir.IntType(32)(0))
        places = self.ir.VectorType(self.ir.IntType(32), self.lanes)
        return builder.shuffle_vector(one, one, self.ir.Constant(places, [0] * self.lanes))
