"""The time axis of the form: programs and products that run in each of many iterations.

In every iteration a value is a matrix of the same form. It lies in a *slot*, whose address may be
another in each. `OverTime` takes functions and products of values in their order; the functions
between two products become one program, which goes over memory once and keeps in registers what
only its own functions read. An Elman network whose `x` is another matrix in each iteration, whose
`h` is a variable, and whose weights lie in panels::

    loop = OverTime(rows=64)
    x, h = loop.rows_of(GIVEN, "x", 32, "float32"), loop.rows_of(TWO, "next", 32, "float32")
    wx, wh = (loop.product(v, loop.slot(FIXED, name), 32, 64) for v, name in ((x, "a"), (h, "b")))
    total = loop.apply(lambda b, given: b.apply("add", *given), [wx, wh])
    made = loop.apply(lambda b, given: b.apply("tanh", *given), [total])
    loop.place(made, TWO, "next")
    loop.finish()

The calls run as a list without the interpreter (:mod:`~hpcflow.loops.call_list`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import call_list, llvm_plan
from hpcflow.loops.call_list import Operand, Product, Span
from hpcflow.loops.compiling import Compiled
from hpcflow.loops.form import Builder, Map
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import FLOATS, INTEGERS, numpy_dtype
from hpcflow.loops.tracing import UntraceableError

# How the address of a slot follows from the iteration: the same array in all, one of several that
# are given, scratch, one of two that take turns, and a row of an array that keeps all.
FIXED, GIVEN, SCRATCH, TWO, KEPT = range(5)
_TYPES = FLOATS | INTEGERS | {"bool"}


def require(holds: Any) -> None:
    """Raise UntraceableError unless `holds` is true."""
    if not holds:
        raise UntraceableError("is no loop over time")


class Slot(NamedTuple):
    """A place that calls read or write: its kind, the name of its array, the bytes of the value in
    an iteration, and, of TWO and KEPT, 1 where the value is the next one of a variable."""

    kind: int
    source: Any
    shape: tuple[int, ...] = ()
    dtype: str = ""
    shift: int = 0

    def nbytes(self) -> int:
        """The bytes of the value in an iteration."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


class Value(NamedTuple):
    """A matrix in a slot, with its strides in bytes, or a number that all its elements are; `rank`
    is that of what it stands for."""

    shape: tuple[int, ...]
    dtype: str
    slot: int = -1
    strides: tuple[int, ...] = (0, 0)
    offset: int = 0
    number: float | int | bool | None = None
    rank: int = 2

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of what it stands for."""
        return self.shape[2 - self.rank :]

    def part(self, start: int, columns: int) -> Value:
        """Some of the columns, as a view."""
        return self._replace(shape=(self.shape[0], columns),
                             offset=self.offset + start * self.strides[1])

    def over(self, rows: int, columns: int) -> Operand:
        """The operand that is the value, broadcast to `rows` and `columns`."""
        require(self.shape[0] in (1, rows) and self.shape[1] in (1, columns))
        row, column = [0 if n == 1 else s for n, s in zip(self.shape, self.strides)]
        return Operand(self.slot, row, column, self.offset)


class _Piece:
    """Functions that are one program."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.builder = Builder(columns)
        self.values: dict[Operand, int] = {}
        self.made: dict[Operand, int] = {}
        self.read: list[Span] = []
        self._arrays: dict[Operand, tuple[int, Map]] = {}

    def fits(self, columns: int, given: Sequence[Operand]) -> bool:
        """True if one more function may read these; a part of what is made here is not one."""
        written = {o.slot for o in self.made}
        return columns == self.builder.columns and all(
            o in self.values or o.slot not in written for o in given) and (
            len({*self.values, *given}) < call_list.TABLE_WORDS)

    def value(self, v: Value) -> int:
        """The value in the program."""
        if v.number is not None:
            return self.builder.constant(v.number, v.dtype)
        o = v.over(self.rows, self.builder.columns)
        if o not in self.values:
            self.read.append(o.span(self.builder.columns))
            self.values[o] = self.builder.load(*self._place(o, v.dtype))
        return self.values[o]

    def make(self, o: Operand, value: int) -> None:
        """Let a value be that of an operand."""
        self.values[o] = self.made[o] = value

    def _place(self, o: Operand, dtype: str) -> tuple[int, Map]:
        if o not in self._arrays:
            size = numpy_dtype(dtype).itemsize
            self._arrays[o] = self.builder.array(dtype), Map(o.row // size, o.column // size)
        return self._arrays[o]

    def finish(self, wanted: set[int]) -> bool:
        """Store what is wanted, by slot; False if that is nothing. Raises
        UntraceableError where there is no code for the program."""
        for o, value in self.made.items():
            if o.slot in wanted:
                self.builder.store(*self._place(o, self.builder.dtype(value)), value)
        program = self.builder.program()
        require(llvm_plan.supports(program))
        self.loop = FormLoop(program)
        return bool(program.instructions)

    def words(self) -> list[list[int]]:
        """The calls that let the compiled program run."""
        found = self.loop.compiled()
        assert found is not None
        return call_list.program_words(found.table, list(self._arrays))


class OverTime:
    """See the module. The methods raise UntraceableError for what is no loop over time.

    Attributes:
        rows: of all matrices, but for those that are the same in all rows.
        slots: the places of values.
        calls: what an iteration computes.
        loops: the programs in them, which may yet have to be compiled.
        spare: scratch that no run uses.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.slots: list[Slot] = []
        self.calls: list[_Piece | Product] = []
        self.loops: list[Compiled] = []
        self.spare: list[dict[Any, np.ndarray]] = []
        self._words: np.ndarray | None = None

    # ------------------------------------------------------------ values

    def slot(self, kind: int, source: Any) -> int:
        """A slot of which nothing but the address is known."""
        self.slots.append(Slot(kind, source))
        return len(self.slots) - 1

    def like(self, kind: int, source: Any, array: np.ndarray | np.generic) -> Value:
        """A value that lies in memory as `array` does."""
        dtype = array.dtype
        require(dtype.name in _TYPES and dtype.isnative and array.ndim <= 2 and array.size)
        return Value((1, 1, *array.shape)[-2:], dtype.name, self.slot(kind, source),
                     (0, 0, *array.strides)[-2:], rank=array.ndim)

    def rows_of(self, kind: int, source: Any, columns: int, dtype: str) -> Value:
        """A matrix in C order; that of a variable if it is TWO or KEPT: its next one is called
        `source`."""
        require(dtype in _TYPES and columns)
        size = numpy_dtype(dtype).itemsize
        self.slots.append(Slot(kind, source, (self.rows, columns), dtype))
        return Value((self.rows, columns), dtype, len(self.slots) - 1, (columns * size, size))

    def place(self, value: Value, kind: int, source: str) -> None:
        """Let what was made be TWO or KEPT under a name."""
        slot = self.slots[value.slot]
        require(slot.kind == SCRATCH and not value.offset and slot.shape == value.shape)
        self.slots[value.slot] = slot._replace(kind=kind, source=source, shift=1)

    # ------------------------------------------------------------ calls

    def apply(self, write: Callable[[Builder, list[int]], int], inputs: Sequence[Value],
              made: Value | None = None) -> Value:
        """What ``write(builder, values)`` makes of each element; put into `made` if that is
        given."""
        shape = max([v.shape[0] for v in inputs]), max([v.shape[1] for v in inputs])
        require(shape[0] == self.rows and (made is None or made.shape == shape))
        given = [v.over(*shape) for v in inputs if v.number is None]
        piece = self.calls[-1] if self.calls else None
        if not isinstance(piece, _Piece) or not piece.fits(shape[1], given):
            piece = _Piece(self.rows, shape[1])
            self.calls.append(piece)
        found = write(piece.builder, [piece.value(v) for v in inputs])
        if made is None:
            made = self.rows_of(SCRATCH, None, shape[1], piece.builder.dtype(found))
        piece.make(made.over(*shape), found)
        return made

    def copy(self, value: Value, made: Value | None = None) -> Value:
        """The value in a place of its own."""
        return self.apply(lambda b, given: given[0], [value], made)

    def product(self, first: Value, panels: int, columns: int, width: int) -> Value:
        """The product by the matrix in the slot `panels` (see ``packed_gemm``): a part of whole
        panels."""
        inner = first.shape[1]
        whole = self.rows_of(SCRATCH, None, -(-columns // width) * width, first.dtype)
        made = whole.part(0, columns)
        self.calls.append(Product(
            first.dtype, columns, inner, width, first.over(self.rows, inner), panels,
            made.over(self.rows, columns)))
        return made

    def multiplications(self) -> list[int]:
        """The multiplications of each product."""
        return [self.rows * c.inner * c.columns for c in self.calls if isinstance(c, Product)]

    def finish(self) -> None:
        """Let the programs store what is read elsewhere, or kept, and the products make panels of
        which columns are."""
        spans = [s for c in self.calls for s in (
            c.read if isinstance(c, _Piece) else [c.first.span(c.inner)])]
        kept = {n for n, slot in enumerate(self.slots) if slot.kind != SCRATCH}
        wanted = kept | {s.slot for s in spans}
        self.calls = [
            c if isinstance(c, _Piece) or c.made.slot in kept else c.for_readers(spans)
            for c in self.calls
            if (c.finish(wanted) if isinstance(c, _Piece) else c.made.slot in wanted)]
        found = [c.loop.compiled() for c in self.calls if isinstance(c, _Piece)]
        self.loops = [loop for loop in found if loop is not None]
        require(len(self.loops) == len(found))

    def words(self) -> np.ndarray | None:
        """The calls for the compiled function; None until all programs are compiled."""
        if self._words is None and all([loop.function for loop in self.loops]):
            self._words = np.array([words for c in self.calls for words in (
                [c.words()] if isinstance(c, Product) else c.words())], np.int64)
        return self._words


def _new_scratch(loop: OverTime) -> dict[Any, np.ndarray]:
    """Arrays for what need not be kept when a run is over: by the number of the slot, or by the
    name of a variable's next value."""
    return {_key(number, slot): memory.empty((2,) * (slot.kind == TWO) + slot.shape,
                                             numpy_dtype(slot.dtype), least=0)
            for number, slot in enumerate(loop.slots) if slot.kind in (SCRATCH, TWO)}


def _key(number: int, slot: Slot) -> Any:
    return slot.source if slot.kind in (TWO, KEPT) else number


class Memory:
    """The places of values in a run of a loop.

    What outlives its iteration lies in one array for all, in which the first value of a variable is
    before the next ones; everything else in one place that the next iteration uses again. Arrays of
    what is `backwards` lie the other way round, as a loop over the same iterations in the opposite
    order takes them.

    Args:
        loop: whose values these are.
        fixed: gives the array of a FIXED slot.
        following: the names of the next values of variables.
        backwards: names of what is kept.
    """

    def __init__(self, loop: OverTime, fixed: Callable[[Slot], np.ndarray],
                 following: Mapping[str, str], backwards: Collection[str]) -> None:
        self.loop, self._following, self._backwards = loop, following, backwards
        try:
            self._scratch = loop.spare.pop()
        except IndexError:
            self._scratch = _new_scratch(loop)
        self._fixed = {number: fixed(slot)
                       for number, slot in enumerate(loop.slots) if slot.kind == FIXED}

    def places(self, count: int, given: Mapping[str, Any],
               variables: Mapping[str, Any]) -> np.ndarray:
        """Per slot and iteration the address, for the compiled function; `given` are the values of
        these iterations, `variables` those before."""
        self.count, self.given = count, given
        self.arrays = {**self._scratch, **self._fixed}
        found = np.zeros((len(self.loop.slots), count), np.int64)
        starts, numbers = np.zeros((len(found), 1), np.int64), np.arange(count)
        for number, slot in enumerate(self.loop.slots):
            if slot.kind == GIVEN:
                array = given[slot.source]
            elif slot.kind == KEPT and slot.source not in self.arrays:
                array = self.arrays[slot.source] = self._kept(slot)
            else:
                array = self.arrays[_key(number, slot)]
            if type(array) is not np.ndarray:
                found[number] = [address_of(v) for v in array]
                continue
            starts[number, 0] = address_of(array)
            if slot.kind == TWO:
                found[number, 1 - slot.shift :: 2] = array.strides[0]
            elif slot.kind not in (FIXED, SCRATCH):
                np.multiply(numbers, array.strides[0], out=found[number])
                starts[number, 0] += slot.shift * array.strides[0]
        for variable, name in self._following.items():
            self.arrays[name][0] = variables[variable]
        found += starts
        return found

    def _kept(self, slot: Slot) -> np.ndarray:
        array = memory.empty((self.count + 1, *slot.shape), numpy_dtype(slot.dtype), least=0)
        return array[::-1] if slot.source in self._backwards else array

    def each(self, name: str) -> Any:
        """The values that a kept value had in the iterations: a list, or the rows of an array."""
        if name in self.given:
            return self.given[name]
        following = self._following.get(name)
        return self.arrays[name][1:] if following is None else self.arrays[following][:-1]

    def following(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables after the iterations."""
        found = dict(variables)
        for variable, name in self._following.items():
            array = self.arrays[name]
            found[variable] = array[self.count % len(array)].copy()
        return found

    def give_back(self) -> None:
        """Hand the scratch back for later runs, which may overwrite it."""
        if sum([a.nbytes for a in self._scratch.values()]) <= tuning.OVER_TIME_MOST_HELD_BYTES:
            self.loop.spare.append(self._scratch)
