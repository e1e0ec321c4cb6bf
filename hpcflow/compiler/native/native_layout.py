"""native_layout: the places of a loop's values, and the calls that make them, for given shapes.

A value in rows is a matrix for each iteration; see ``native_memory`` for where it lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.compiler.native.native_memory import (
    FIXED,
    GIVEN,
    KEPT,
    SCRATCH,
    SUM,
    TWO,
    VARIABLE,
    Arena,
    Memory,
    Packed,
    Plan,
    Slot,
)
from hpcflow.compiler.native.native_programs import Calls
from hpcflow.compiler.native.native_values import Note, Unfit, Value, Values
from hpcflow.host import blas, costs, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import packed_gemm
from hpcflow.loops.call_list import Product
from hpcflow.loops.meanings import SELECT


def key_of(values: list) -> tuple:
    """Return the key of a layout: the shapes, strides and dtypes of the values."""
    return tuple([(v.shape, v.strides, v.dtype.char) if isinstance(v, (np.ndarray, np.generic))
                  else None for v in values])


class Layout(Values):
    """The calls of an iteration for values of certain shapes; raises Unfit where there are none.

    Attributes:
        calls: for the compiled function.
        parts: the rows that each thread computes, of `count` threads.
        seconds: what the products of an iteration take, about.
    """

    def __init__(self, loop: Any, outside: dict[str, Any], first: dict[str, Any],
                 count: int) -> None:
        super().__init__(loop, outside)
        self._first = first
        self._slots_of_panels: dict[Packed, int] = {}
        self.rows, fewest = self._find_rows(), tuning.LAYOUT_FEWEST_ROWS
        self.parts = threads.bounds(self.rows, min(count, max(1, self.rows // fewest)),
                                    fewest // tuning.LAYOUT_UNITS)
        self._name_variables()
        for step in loop.steps:
            self._take(step)
        self._check_variables()
        sizes = [self.rows * call.inner * call.columns for call in self.made
                 if isinstance(call, Product)]
        if len(self.parts) < threads.pool().size and not all(map(blas.is_small, sizes)):
            raise Unfit  # one thread computes no larger products well
        self.seconds = 2.0 * sum(sizes) / costs.costs().operations_per_second
        self.calls = Calls(self.made, self.slots)
        self.arenas: list[Arena] = []
        self._plans: dict[int, Plan] = {}
        del self._outside, self._first

    # ------------------------------------------------------------ values

    def _find_rows(self) -> int:
        counts = [self.value_outside(n).shape[:1] for v, n in self.loop.entering.items()
                  if v in self.loop.following]
        counts += [value.shape[:1] for n, value in self._first.items()
                   if n not in self.loop.factors]
        if len(set(counts)) != 1 or not counts[0] or not counts[0][0]:
            raise Unfit
        return counts[0][0]

    def _name_variables(self) -> None:
        for name in self.loop.factors:
            first = self._first[name]
            self.values[name] = self.add(Slot(GIVEN, name), first.shape, first.dtype, ())
        for variable, name in self.loop.entering.items():
            value = self.value_outside(name)
            if variable not in self.loop.following:
                self.values[variable] = self.value(name)
                continue
            if type(value) is not np.ndarray or not value.flags.c_contiguous:
                raise Unfit
            self.values[variable] = self.add_rows(VARIABLE, variable, value.shape, value.dtype)

    def _finish(self, target: str, made: Value) -> None:
        """Let `made` be the value of `target`; raises Unfit if it cannot be kept where it lies."""
        loop = self.loop
        if made.strides == (0, 0) and (target in loop.kept or target in loop.following.values()):
            made = self.call("positive", [made])
        slot = self.slots[made.slot]
        self.values[target] = made
        if target in loop.kept or target in loop.following.values():
            if slot.kind != SCRATCH or made.offset:
                raise Unfit
            slot.kind, slot.source = (KEPT if target in loop.kept else TWO), target

    def _check_variables(self) -> None:
        for variable, name in self.loop.following.items():
            one, other = self.values[variable], self.values.get(name)
            if other is None or self.slots[other.slot].kind not in (KEPT, TWO) or (
                    one.shape, one.dtype) != (other.shape, other.dtype):
                raise Unfit
        for name in self.loop.kept:
            if name not in self.values or self.slots[self.values[name].slot].kind not in (
                    KEPT, GIVEN, VARIABLE):
                raise Unfit

    # ------------------------------------------------------------ steps

    def _take(self, step: Any) -> None:
        if step.kind in ("pop", "read", "compare"):
            self.values[step.target] = self._given(step.target, self._first[step.target])
        elif step.kind == "draw":
            self._draw(step)
        elif step.kind == "product":
            self._finish(step.target, self._product(step))
        elif step.kind == "split":
            self._split(step)
        elif step.kind == "join":
            self._finish(step.target, self._join([self.value(a) for a in step.arguments]))
        elif step.kind == "map":
            self._finish(step.target, self._map(step))
        elif step.kind == "choose":
            self._finish(step.target, self._choose(*step.arguments))
        elif step.kind == "zeros":
            self._finish(step.target, self._zeros(self.value(step.arguments[0])))
        elif step.kind == "sum":
            self._add_rows_up(step)

    def _given(self, name: str, first: Any) -> Value:
        """Add a value that is read or popped: a matrix in rows, or a flag for each row."""
        if first.dtype == np.bool_:
            return self.add(Slot(GIVEN, name), first.shape, first.dtype, (1,))
        return self.add_rows(GIVEN, name, first.shape, first.dtype)._replace(
            strides=first.strides)

    def _draw(self, step: Any) -> None:
        """Random numbers in the shape of a value, or in that which a value says."""
        name = step.arguments[0]
        shape = self.values[name].shape if name in self.loop.made else tuple(
            self.value_outside(name).tolist())
        self.values[step.target] = self.add_rows(
            GIVEN, step.target, shape, step.line.node.dtypes[0].np)

    def _choose(self, flags: str, yes: str, no: str) -> Value:
        """The rows of one value where a flag is set, and those of another elsewhere."""
        given, values = self.value(flags), [self.value(yes), self.value(no)]
        one = values[0]
        if given.dtype != np.bool_ or given.shape != (self.rows,) or len(one.shape) != 2 or any(
                (v.shape, v.dtype) != (one.shape, one.dtype) for v in values):
            raise Unfit
        given = given._replace(shape=(self.rows, 1), strides=(*given.strides, 0))
        return self.call(SELECT, [given, *values])

    def _zeros(self, like: Value) -> Value:
        if like.shape[:1] != (self.rows,) or len(like.shape) != 2:
            raise Unfit
        return self.constant(0, like.dtype)._replace(shape=like.shape, strides=(0, 0))

    def _add_rows_up(self, step: Any) -> None:
        """Add to the sums over time of rows."""
        name, *operands = step.arguments
        plan = self.value_outside(name).plan
        for term in plan.row_terms:
            value = self.value(operands[plan.terms[term].right])
            if value.shape[:1] != (self.rows,):
                raise Unfit
            total = self.add_rows(SUM, (name, term), value.shape, value.dtype)
            self.call("add", [total, value], total)
        if plan.row_terms:
            self.fixed.append(name)

    def _split(self, step: Any) -> None:
        """The parts are views, but for those that are kept."""
        value, targets = self.value(step.arguments[0]), step.line.targets
        widths = [value.shape[-1] // len(targets)] * len(targets) if len(step.arguments) < 2 else (
            self.value_outside(step.arguments[1]).tolist())
        if value.shape != (self.rows, sum(widths)) or min(widths) < 1:
            raise Unfit
        start = 0
        for target, columns in zip(targets, widths):
            part = value.part(start, columns)
            start += columns
            if target in self.loop.kept or target in self.loop.following.values():
                self._finish(target, self.call("positive", [part]))
            else:
                self.values[target] = part

    def _join(self, values: list[Value]) -> Value:
        if any(v.shape[:-1] != (self.rows,) for v in values):
            raise Unfit
        made = self.new_rows((self.rows, sum(v.shape[1] for v in values)), values[0].dtype)
        start = 0
        for value in values:
            self.call("positive", [value], made.part(start, value.shape[1]))
            start += value.shape[1]
        return made

    def _map(self, step: Any) -> Value:
        """The calls of an element-wise kernel: those of its ufuncs, which it makes of notes."""
        given = [Note(self, self.value(a)) for a in step.arguments]
        try:
            made = step.line.bound.function(*given)
        except Exception as error:
            raise Unfit from error
        if type(made) is not Note:
            raise Unfit
        return made.value

    # ------------------------------------------------------------ products

    def _product(self, step: Any) -> Value:
        """Add the product of a value in rows and a matrix from outside, by panels that are packed
        once, in an order of summation that is fixed (``packed_gemm``)."""
        name, matrix_name = step.arguments
        value, factor, form = self.value(name), self._factor(step), packed_gemm.tile()
        inner, columns = factor.shape
        if form is None or value.dtype != packed_gemm.DTYPE:
            raise Unfit
        made = self.new_rows((self.rows, columns), value.dtype)
        packed = Packed(matrix_name, is_flipped(step), form.vectors_of(columns))
        self.made.append(Product(columns, inner, packed.vectors, value.over(self.rows, inner),
                                 self._packed(packed), made.over(self.rows, columns)))
        return made

    def _factor(self, step: Any) -> np.ndarray:
        """Return the matrix that a value is multiplied by, as a view if its transpose is meant."""
        name, matrix_name = step.arguments
        value, factor = self.value(name), self.value_outside(matrix_name)
        if factor.ndim != 2 or value.dtype != factor.dtype:
            raise Unfit
        factor = factor.T if is_flipped(step) else factor
        inner, columns = factor.shape
        size = value.dtype.itemsize
        if (value.shape != (self.rows, inner)
                or min(self.rows, inner, columns) < 2  # a vector is multiplied in other ways
                or value.strides[1] != size or value.strides[0] < inner * size):
            raise Unfit
        return factor

    def _packed(self, source: Packed) -> int:
        """The slot of the panels of a matrix."""
        if source not in self._slots_of_panels:
            self.fixed.append(source.name)
            self.slots.append(Slot(FIXED, source))
            self._slots_of_panels[source] = len(self.slots) - 1
        return self._slots_of_panels[source]

    # ------------------------------------------------------------ memory

    def chunk(self, nbytes: int, seconds: float, most: int) -> int:
        """Return the number of iterations that run together, so that what they keep takes about
        `nbytes` and their products take about `seconds`."""
        kept = sum(s.nbytes() for s in self.slots if s.kind == KEPT)
        return max(1, min(nbytes // max(1, kept), int(seconds / self.seconds), most))

    def memory(self, count: int, fixed: dict[str, Any], given: dict[str, Any],
               variables: dict[str, Any]) -> Memory:
        """The places of all values in `count` iterations."""
        return Memory(self, count, fixed, given, variables)

    def plan(self, count: int) -> Plan:
        """Return the plan for `count` iterations."""
        found = self._plans.get(count)
        if found is None:
            if len(self._plans) >= tuning.LAYOUT_MOST_PLANS:
                self._plans.clear()
            found = self._plans[count] = Plan(self, count)
        return found

    def take_arena(self) -> Arena:
        """Return an arena that no other run uses."""
        try:
            return self.arenas.pop()
        except IndexError:
            return Arena(self.slots)


def is_flipped(step: Any) -> bool:
    """True if the second factor of a product is to be transposed."""
    return bool(step.line.node.attrs.get("transpose_b"))
