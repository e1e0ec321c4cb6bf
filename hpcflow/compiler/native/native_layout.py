"""native_layout: the steps of a loop as a loop over time of the form, for given shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.native.native_steps import LoopSteps, Step
from hpcflow.compiler.trace import recipes
from hpcflow.compiler.trace.views import views_of
from hpcflow.host import blas, costs, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import packed_gemm
from hpcflow.loops.over_time import (
    FIXED,
    GIVEN,
    KEPT,
    SCRATCH,
    TWO,
    OverTime,
    Slot,
    Value,
    require,
)


class Packed(NamedTuple):
    """The source of a FIXED slot with a packed matrix: the name of the matrix, whether its
    transpose is meant, and the width of its panels."""

    name: str
    is_flipped: bool
    width: int


class Layout(OverTime):
    """The calls of an iteration for values of certain shapes; raises UntraceableError where there
    are none.

    Attributes:
        values: of the names that are known so far.
        part: the rows that a thread computes, of `count` threads.
        seconds: what the products of an iteration take, about.
        kept_bytes: what an iteration keeps.
    """

    def __init__(self, loop: LoopSteps, outside: dict[str, Any], first: dict[str, Any],
                 count: int) -> None:
        self.loop = loop
        self._outside, self._first = outside, first
        super().__init__(self._find_rows())
        self.values: dict[str, Value] = {}
        self._panels: dict[Packed, int] = {}
        self._flags: set[str] = set()  # names of vectors, with one for each row
        self._name_variables()
        for step in loop.steps:
            getattr(self, f"_take_{step.kind}", lambda _: None)(step)
        require(all(self.values[v][:2] == self.values[n][:2] for v, n in loop.following.items()))
        require(all(n in self.values and self.slots[self.values[n].slot].kind in (KEPT, GIVEN)
                    for n in loop.kept))
        fewest = tuning.LAYOUT_FEWEST_ROWS
        parts = threads.bounds(self.rows, min(count, max(1, self.rows // fewest)),
                               fewest // tuning.LAYOUT_UNITS)
        self.part = parts[0][1]
        self.finish()
        sizes = self.multiplications()
        # One thread computes no larger products well.
        require(len(parts) == threads.pool().size or all(map(blas.is_small, sizes)))
        self.seconds = 2.0 * sum(sizes) / costs.costs().operations_per_second
        self.kept_bytes = sum(s.nbytes() for s in self.slots if s.kind == KEPT)
        del self._outside, self._first

    # ------------------------------------------------------------ values

    def _find_rows(self) -> int:
        loop = self.loop
        counts = [np.shape(self._value_outside(n))[:1] for v, n in loop.entering.items()
                  if v in loop.following]
        counts += [value.shape[:1] for n, value in self._first.items() if n not in loop.factors]
        # A vector is multiplied in other ways.
        require(len(set(counts)) == 1 and counts[0] and counts[0][0] > 1)
        return counts[0][0]

    def _value_outside(self, name: str) -> Any:
        """The value that a name has before the loop."""
        require(name in self._outside or name not in self.loop.made)  # by a scalar of the loop
        return self._outside.get(name, self.loop.program.globals.get(name))

    def _value(self, name: str) -> Value:
        """The value of a name, in rows or from outside."""
        if name not in self.values:
            value = self._value_outside(name)
            require(isinstance(value, (np.ndarray, np.generic)))
            self.values[name] = self.like(FIXED, name, value)
        return self.values[name]

    def _name_variables(self) -> None:
        for name in self.loop.factors:
            self.values[name] = self.like(GIVEN, name, self._first[name])
        for variable, name in self.loop.entering.items():
            following, value = self.loop.following.get(variable), self._value_outside(name)
            if following is None:
                self.values[variable] = self._value(name)
            else:
                require(type(value) is np.ndarray and value.ndim == 2)
                self.values[variable] = self.rows_of(
                    self._kind(following), following, value.shape[1], value.dtype.name)

    def _kind(self, name: str) -> int:
        """The kind of the slot of a value that outlives its iteration."""
        return KEPT if name in self.loop.kept else TWO

    def _outlives(self, name: str) -> bool:
        return name in self.loop.kept or name in self.loop.following.values()

    def _finish(self, target: str, made: Value) -> None:
        """Let `made` be the value of `target`, in a slot of its own if that has to be kept."""
        if self._outlives(target):
            if made.number is not None or self.slots[made.slot].shape != made.shape:
                made = self.copy(made)
            self.place(made, self._kind(target), target)
        self.values[target] = made

    # ------------------------------------------------------------ steps

    def _take_pop(self, step: Step) -> None:
        """A matrix in rows, or a flag for each row."""
        first = self._first[step.target]
        if first.ndim == 1 and first.dtype == np.bool_:
            self._flags.add(step.target)
            first = first[:, np.newaxis]
        require(first.ndim == 2)
        self.values[step.target] = self.like(GIVEN, step.target, first)

    _take_read = _take_compare = _take_pop

    def _take_draw(self, step: Step) -> None:
        """Random numbers in the shape of a value, or in that which a value says."""
        name = step.arguments[0]
        shape = self.values[name].shape if name in self.loop.made else tuple(
            self._value_outside(name).tolist())
        require(len(shape) == 2 and shape[0] == self.rows)
        self.values[step.target] = self.rows_of(
            GIVEN, step.target, shape[1], step.line.node.dtypes[0].name)

    def _take_choose(self, step: Step) -> None:
        """Elements of one value where a flag is set, and of another elsewhere; of whole rows where
        there is a flag for each."""
        flags, one, other = map(self._value, step.arguments)
        if flags.rank == 1:  # from outside
            flags = flags._replace(shape=flags.shape[::-1], strides=flags.strides[::-1])
        require(flags.dtype == "bool" and one.shape == other.shape and (
            flags.shape in (one.shape, (self.rows, 1))))
        self._finish(step.target, self.apply(lambda b, given: b.select(*given),
                                             [flags, one, other]))

    def _take_copy(self, step: Step) -> None:
        self._finish(step.target, self.copy(self._value(step.arguments[0])))

    def _take_zeros(self, step: Step) -> None:
        like = self._value(step.arguments[0])
        require(like.shape[0] == self.rows)
        self._finish(step.target, Value(like.shape, like.dtype, number=0))

    def _take_split(self, step: Step) -> None:
        """The parts are views, but for those that are kept."""
        value, node = self._value(step.arguments[0]), step.line.node
        require(value.number is None)
        for target, dims, view in zip(step.line.targets, node.dims, views_of(step.line)):
            require(len(dims) == 2 and view.split == 1 and view.map.row == value.shape[1])
            part = value.part(view.map.offset, dims[1])
            self._finish(target, self.copy(part) if self._outlives(target) else part)

    def _take_join(self, step: Step) -> None:
        values = [self._value(a) for a in step.arguments]
        require(all(v.shape[0] == self.rows and v.dtype == values[0].dtype for v in values))
        made = self.rows_of(SCRATCH, None, sum(v.shape[1] for v in values), values[0].dtype)
        start = 0
        for value in values:
            self.copy(value, made.part(start, value.shape[1]))
            start += value.shape[1]
        self._finish(step.target, made)

    def _take_map(self, step: Step) -> None:
        """An element-wise op, in the program of those beside it."""
        node, kernel = step.line.node, step.line.bound.kernel  # type: ignore[union-attr]
        given = [self._value(a) for a in step.arguments]
        assert kernel is not None
        require(self._flags.isdisjoint(step.arguments))
        self._finish(step.target, self.apply(lambda b, numbers: recipes.elementwise(
            b, node, kernel, numbers, [v.dims for v in given])[0], given))

    def _take_product(self, step: Step) -> None:
        """The product of a value in rows and a matrix from outside, by panels that are packed
        once, in an order of summation that is fixed (``packed_gemm``)."""
        value, name = self._value(step.arguments[0]), step.arguments[1]
        flip = bool(step.line.node.attrs.get("transpose_b"))
        matrix = self._value_outside(name)
        require(np.ndim(matrix) == 2)
        inner, columns = matrix.shape[::-1] if flip else matrix.shape
        require(matrix.dtype.name == value.dtype in packed_gemm.DTYPES and (
            value.shape == (self.rows, inner) and min(inner, columns) > 1))
        form, size = packed_gemm.tile(value.dtype), matrix.dtype.itemsize
        if value.number is not None:
            value = self.copy(value)
        require(form is not None and value.strides[1] == size
                and value.strides[0] >= inner * size)
        assert form is not None
        packed = Packed(name, flip, form.width_of(columns))
        if packed not in self._panels:
            self._panels[packed] = self.slot(FIXED, packed)
        self._finish(step.target, self.product(
            value, self._panels[packed], columns, packed.width))


def fixed_array(slot: Slot, value: Callable[[str], Any]) -> np.ndarray:
    """The array of a FIXED slot; `value` gives those from outside by their names."""
    if isinstance(slot.source, Packed):
        matrix = value(slot.source.name)
        return packed_gemm.pack(matrix.T if slot.source.is_flipped else matrix, slot.source.width)
    return np.asarray(value(slot.source))
