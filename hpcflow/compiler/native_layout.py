"""native_layout: where the values of a loop lie, and the calls that make them, for given shapes.

A value in rows is a matrix for each iteration; see ``native_memory`` for where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import blas, config, native_calls, panel_products, threads
from hpcflow.compiler.native_memory import (
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
from hpcflow.compiler.native_products import Factors, has_same_bits, panels_for
from hpcflow.native_calls import Call, Operand

# Rows that a thread should have: by panels, which are no more work for few rows, and by a BLAS.
FEWEST_ROWS = (8, 16)
_UNITS = 4  # a thread has a multiple of this part of them
_DTYPES = ("float32", "float64")
_OPERATIONS = 5e10  # in a second, about
# Bytes of sums of products, and rows of a part, for which products are added up in the loop.
_MOST_ADDED, _FEWEST_TERMS = 1 << 18, 16
_MOST_PLANS = 16  # counts of iterations, of which the places of values are remembered


class Unfit(Exception):
    """A loop, or its values, cannot be called."""


def key_of(values: list) -> tuple:
    """What a layout depends on."""
    arrays = [getattr(v, "bias", v) for v in values]
    return tuple([(v.shape, v.strides, v.dtype.char) if isinstance(v, (np.ndarray, np.generic))
                  else None for v in arrays])


class _Value(NamedTuple):
    """A value in rows, or one that is the same for all rows."""

    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    strides: tuple[int, ...]
    offset: int = 0

    def part(self, start: int, columns: int) -> _Value:
        """Some columns of a matrix."""
        return self._replace(shape=(self.shape[0], columns),
                             offset=self.offset + start * self.strides[1])

    def over(self, rows: int, columns: int) -> Operand:
        """The value, broadcast."""
        shape, strides = (1, 1, *self.shape)[-2:], (0, 0, *self.strides)[-2:]
        if shape[0] not in (1, rows) or shape[1] not in (1, columns) or len(self.shape) > 2:
            raise Unfit
        row, column = [0 if n == 1 else s for n, s in zip(shape, strides)]
        return Operand(self.slot, row if rows > 1 else columns * column, column, self.offset)


class Layout:
    """The calls of an iteration for values of certain shapes; raises Unfit where there are none.

    Attributes:
        calls: for the compiled function.
        fixed: the names from outside whose values the calls read.
        rows: of all values in rows.
        factors: the slots of matrices that BLAS multiplies all rows by.
        added: the sums over time whose products the calls add up.
        parts: the rows that each thread computes, of `count` threads, at least about `fewest`.
        seconds: what the products of an iteration take, about.
    """

    def __init__(self, loop: Any, outside: dict[str, Any], first: dict[str, Any],
                 count: int, fewest: int) -> None:
        self.loop = loop
        self.slots: list[Slot] = []
        self.made: list[Call] = []
        self.values: dict[str, _Value] = {}
        self.fixed: list[str] = []
        self._outside = outside
        self._constants = loop.program.globals
        self._first = first
        self._products: set[Factors] = set()  # those of a BLAS
        self._slots_of_panels: dict[Packed, int] = {}
        self._sole: dict[str, Call] = {}  # products that only one step reads
        self.factors: set[int] = set()
        self.added: set[str] = set()
        self.rows = self._find_rows()
        self.parts = threads.bounds(self.rows, min(count, max(1, self.rows // fewest)),
                                    fewest // _UNITS)
        self._name_variables()
        for step in loop.steps:
            self._take(step)
        self._check_variables()
        self._keep_less()
        self._check_products(fewest)
        self.seconds = sum(2.0 * self.rows * call.inner * call.columns
                           for call in self.made) / _OPERATIONS
        self.calls = np.array([call.words() for call in self.made], np.int64)
        self.arenas: list[Arena] = []
        self._plans: dict[int, Plan] = {}
        del self._outside, self._first

    # ------------------------------------------------------------ values

    def _value_outside(self, name: str) -> Any:
        if name in self._outside:
            return self._outside[name]
        if name in self.loop.made:  # by a scalar of the loop
            raise Unfit
        return self._constants[name]

    def _find_rows(self) -> int:
        counts = [self._value_outside(n).shape[:1] for v, n in self.loop.entering.items()
                  if v in self.loop.following]
        counts += [value.shape[:1] for n, value in self._first.items()
                   if n not in self.loop.factors]
        if len(set(counts)) != 1 or not counts[0] or not counts[0][0]:
            raise Unfit
        return counts[0][0]

    def _add(self, slot: Slot, shape: tuple, dtype: np.dtype, strides: tuple) -> _Value:
        if dtype.name not in _DTYPES and (dtype != np.bool_ or shape != (self.rows,)):
            raise Unfit
        self.slots.append(slot)
        return _Value(shape, dtype, len(self.slots) - 1, strides)

    def _add_rows(self, kind: int, source: Any, shape: tuple, dtype: np.dtype) -> _Value:
        """A contiguous matrix in rows."""
        if len(shape) != 2 or shape[0] != self.rows or not shape[1]:
            raise Unfit
        return self._add(Slot(kind, source, shape, dtype), shape, dtype,
                         (shape[1] * dtype.itemsize, dtype.itemsize))

    def _name_variables(self) -> None:
        for name in self.loop.factors:
            first = self._first[name]
            self.values[name] = self._add(Slot(GIVEN, name), first.shape, first.dtype, ())
        for variable, name in self.loop.entering.items():
            value = self._value_outside(name)
            if variable not in self.loop.following:
                self.values[variable] = self.value(name)
                continue
            if type(value) is not np.ndarray or not value.flags.c_contiguous:
                raise Unfit
            self.values[variable] = self._add_rows(VARIABLE, variable, value.shape, value.dtype)

    def value(self, name: str) -> _Value:
        """A value in rows, or from outside."""
        found = self.values.get(name)
        if found is None:
            value = self._value_outside(name)
            if not isinstance(value, (np.ndarray, np.generic)):
                raise Unfit
            self.fixed.append(name)
            found = self.values[name] = self._add(
                Slot(FIXED, name), value.shape, value.dtype, value.strides)
        return found

    def _new(self, shape: tuple, dtype: np.dtype) -> _Value:
        return self._add_rows(SCRATCH, None, shape, dtype)

    def _finish(self, target: str, made: _Value) -> None:
        """`made` is the value of `target`."""
        loop = self.loop
        if made.strides == (0, 0) and (target in loop.kept or target in loop.following.values()):
            made = self.call(np.positive, [made])
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
            self._product(step)
        elif step.kind == "split":
            self._split(step)
        elif step.kind == "join":
            self._finish(step.target, self._join([self.value(a) for a in step.arguments]))
        elif step.kind == "map":
            count = len(self.made)
            value = self._map(step)
            if len(self.made) == count + 1:
                products = [self._sole[a] for a in step.arguments if a in self._sole]
                any(self._join_sum(p) for p in products)
            self._finish(step.target, value)
        elif step.kind == "choose":
            self._finish(step.target, self._choose(*step.arguments))
        elif step.kind == "zeros":
            self._finish(step.target, self._zeros(self.value(step.arguments[0])))
        elif step.kind == "sum":
            self._add_rows_up(step)

    def _given(self, name: str, first: Any) -> _Value:
        """A matrix in rows, or a flag for each row."""
        if first.dtype == np.bool_:
            return self._add(Slot(GIVEN, name), first.shape, first.dtype, (1,))
        return self._add_rows(GIVEN, name, first.shape, first.dtype)._replace(
            strides=first.strides)

    def _draw(self, step: Any) -> None:
        """Random numbers in the shape of a value, or in that which a value says."""
        name = step.arguments[0]
        shape = self.values[name].shape if name in self.loop.made else tuple(
            self._value_outside(name).tolist())
        self.values[step.target] = self._add_rows(
            GIVEN, step.target, shape, step.line.node.dtypes[0].np)

    def _choose(self, flags: str, yes: str, no: str) -> _Value:
        """The rows of one value where a flag is set, and those of another elsewhere."""
        given, values = self.value(flags), [self.value(no), self.value(yes)]
        one, dtype = values[0].shape, values[0].dtype
        found = native_calls.loop_of(np.positive, dtype.name)
        if given.dtype != np.bool_ or found is None or len(one) != 2 or any(
                (v.shape, v.dtype) != (one, dtype) for v in values):
            raise Unfit
        made, (rows, columns) = self._new(one, dtype), one
        flag = Operand(given.slot, given.strides[0], 1, given.offset)
        for wanted, value in enumerate(values):
            self.made.append(Call(native_calls.CHOICE, *found, columns, wanted, flag,
                                  value.over(rows, columns), made.over(rows, columns)))
        return made

    def _zeros(self, like: _Value) -> _Value:
        if like.shape[:1] != (self.rows,) or len(like.shape) != 2:
            raise Unfit
        return self._constant(0, like.dtype)._replace(shape=like.shape, strides=(0, 0))

    def _add_rows_up(self, step: Any) -> None:
        """Add to the sums over time of rows."""
        name, *operands = step.arguments
        plan = self._value_outside(name).plan
        for term in plan.row_terms:
            value = self.value(operands[plan.terms[term].right])
            if value.shape[:1] != (self.rows,):
                raise Unfit
            total = self._add_rows(SUM, (name, term), value.shape, value.dtype)
            self.call(np.add, [total, value], total)
        if self._add_products_up(name, plan, operands):
            self.added.add(name)
        if plan.row_terms or name in self.added:
            self.fixed.append(name)

    def _add_products_up(self, name: str, plan: Any, operands: list[str]) -> bool:
        """Add the products of a sum up as their factors are made, which are in cache then, if their
        sums stay in cache, too. The order of the terms follows from the parts of the rows."""
        form, part = panel_products.tile(), self.parts[0][1]
        calls: list[Call] = []
        if form is None or config.flags.deterministic or not plan.products:
            return False
        size = panel_products.DTYPE.itemsize
        factors = [[self.value(operands[i]) for i in (plan.terms[k].left, plan.terms[k].right)]
                   for k in plan.products]
        for left, right in factors:
            widths = [w for w in form.widths if right.shape[-1] % (w * form.lanes) == 0]
            if not widths or any(
                    v.dtype != panel_products.DTYPE or len(v.shape) != 2 or v.shape[0] != self.rows
                    or v.strides[1] != size or v.strides[0] < v.shape[1] * size
                    for v in (left, right)):
                return False
            inner, columns, slot = left.shape[1], right.shape[1], len(self.slots) + len(calls)
            calls.append(Call(native_calls.ADDED_PRODUCT, widths[0], part, columns, inner,
                              left.over(self.rows, inner), right.over(self.rows, columns),
                              Operand(slot, columns * size, size)))
        if part < _FEWEST_TERMS or sum(
                call.inner * call.made.row for call in calls) > _MOST_ADDED:
            return False
        self.slots += [Slot(SUM, (name, k), (len(self.parts), call.inner, call.columns),
                            panel_products.DTYPE) for k, call in zip(plan.products, calls)]
        self.made += calls
        return True

    def _keep_less(self) -> None:
        """What is only kept for products that are added up at once need not be."""
        loop = self.loop
        for name in loop.summed - loop.summed_by(
                [s for s in loop.steps if s.kind == "sum" and s.arguments[0] not in self.added]):
            slot = self.slots[self.values[name].slot]
            if slot.kind == KEPT:
                slot.kind = TWO if name in loop.following.values() else SCRATCH

    def _split(self, step: Any) -> None:
        """The parts are views, but for those that are kept."""
        value, targets = self.value(step.arguments[0]), step.line.targets
        widths = [value.shape[-1] // len(targets)] * len(targets) if len(step.arguments) < 2 else (
            self._value_outside(step.arguments[1]).tolist())
        if value.shape != (self.rows, sum(widths)) or min(widths) < 1:
            raise Unfit
        start = 0
        for target, columns in zip(targets, widths):
            part = value.part(start, columns)
            start += columns
            if target in self.loop.kept or target in self.loop.following.values():
                self._finish(target, self.call(np.positive, [part]))
            else:
                self.values[target] = part

    def _join(self, values: list[_Value]) -> _Value:
        if any(v.shape[:-1] != (self.rows,) for v in values):
            raise Unfit
        made = self._new((self.rows, sum(v.shape[1] for v in values)), values[0].dtype)
        start = 0
        for value in values:
            self.call(np.positive, [value], made.part(start, value.shape[1]))
            start += value.shape[1]
        return made

    def _product(self, step: Any) -> None:
        name, matrix_name = step.arguments[:2]
        value, factor = self.value(name), self._value_outside(matrix_name)
        is_flipped = bool(step.line.node.attrs.get("transpose_b"))
        same = self.values.get(matrix_name)
        if factor.ndim != 2 or value.dtype != factor.dtype or (
                same is not None and same.slot == value.slot):
            raise Unfit
        inner, columns = factor.shape[::-1] if is_flipped else factor.shape
        size = value.dtype.itemsize
        if (value.shape != (self.rows, inner)
                or min(self.rows, inner, columns) < 2  # a vector is multiplied in other ways
                or not (factor.flags.c_contiguous or factor.flags.f_contiguous)
                or value.strides[1] != size or value.strides[0] < inner * size):
            raise Unfit
        made = self._new((self.rows, columns), value.dtype)
        factors = Factors(tuple(self.parts), factor.shape, factor.flags.c_contiguous, is_flipped,
                          value.dtype.name)
        rows, into = value.over(self.rows, inner), made.over(self.rows, columns)
        bias = None if len(step.arguments) < 3 else self._value_outside(step.arguments[2]).bias
        panels = panels_for(factors, step.function)
        if panels is not None:
            matrix = self._packed(Packed(matrix_name, is_flipped, panels.vectors))
            self.made.append(panels.call(columns, inner, rows, Operand(matrix, 0, 0), into))
        else:
            self.made.append(self._product_by_blas(factors, matrix_name, rows, into))
        product = self.made[-1]
        if bias is not None:
            self.call(np.add, [made, self._bias(step.arguments[2], bias)], made)
            self._join_sum(product)
        elif self.loop.uses[step.target] == 1:
            self._sole[step.target] = product
        self._finish(step.target, made)

    def _join_sum(self, product: Call) -> bool:
        """If the last call only adds to a product by panels that nothing else reads, let the
        product be made then, and added to as it is made; true if so."""
        last, size = self.made[-1], panel_products.DTYPE.itemsize
        found = native_calls.loop_of(np.add, panel_products.DTYPE.name)
        if product.kind != native_calls.PANELS or product.data < product.inner or (
                found is None or last[:3] != (native_calls.BINARY, *found)):
            return False
        place = next(k for k, call in enumerate(self.made) if call is product)
        other = last.second if last.first == product.made else last.first
        if product.made not in last[5:7] or other.column != size or last.made.column != size or any(
                call.made.slot == product.first.slot for call in self.made[place + 1 :]):
            return False
        self.made[-1] = product._replace(made=last.made, addend=other)
        del self.made[place]
        return True

    def _packed(self, source: Packed) -> int:
        """The slot of the panels of a matrix."""
        if source not in self._slots_of_panels:
            self.fixed.append(source.name)
            self.slots.append(Slot(FIXED, source))
            self._slots_of_panels[source] = len(self.slots) - 1
        return self._slots_of_panels[source]

    def _product_by_blas(self, factors: Factors, name: str, rows: Operand, made: Operand) -> Call:
        found, slot = native_calls.product_of(factors.dtype), self.value(name).slot
        if found is None:
            raise Unfit
        inner, columns = factors.shape[:: -1 if factors.is_flipped else 1]
        size = rows.column
        strides = (columns * size, size) if factors.is_by_rows != factors.is_flipped else (
            size, inner * size)
        self.factors.add(slot)
        self._products.add(factors)
        return Call(*found, 0, columns, inner, rows, Operand(slot, *strides), made)

    def _bias(self, name: str, bias: Any) -> _Value:
        self.fixed.append(name)
        return self._add(Slot(FIXED, name), bias.shape, bias.dtype, bias.strides)

    def _map(self, step: Any) -> _Value:
        """The calls of an element-wise kernel: those of its ufuncs, which it makes of notes."""
        given = [_Note(self, self.value(a)) for a in step.arguments]
        try:
            made = step.line.bound.function(*given)
        except Exception as error:
            raise Unfit from error
        if type(made) is not _Note:
            raise Unfit
        return made.value

    def call(self, ufunc: np.ufunc, inputs: Sequence[Any], made: _Value | None = None) -> _Value:
        """Note a call of `ufunc` for values and constants."""
        dtype = next(v.dtype for v in inputs if isinstance(v, _Value))
        values = [v if isinstance(v, _Value) else self._constant(v, dtype) for v in inputs]
        found = native_calls.loop_of(ufunc, dtype.name)
        if found is None or any(v.dtype != dtype for v in values):
            raise Unfit
        shape = np.broadcast_shapes(*[v.shape for v in values])
        made = self._new(shape, dtype) if made is None else made
        if made.shape != shape:
            raise Unfit
        rows, columns = shape
        operands = [v.over(rows, columns) for v in values]
        kind = native_calls.UNARY if len(operands) == 1 else native_calls.BINARY
        self.made.append(Call(kind, *found, columns, 0, operands[0], operands[-1],
                              made.over(rows, columns)))
        return made

    def _constant(self, value: Any, dtype: np.dtype) -> _Value:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype != dtype or (
                not isinstance(value, (np.ndarray, np.generic, float, int))):
            raise Unfit
        array = np.array(value, dtype)
        return self._add(Slot(FIXED, array), array.shape, array.dtype, array.strides)

    # ------------------------------------------------------------ rows

    def _check_products(self, fewest: int) -> None:
        """Products of some rows must be no larger than one thread computes well, and those of a
        BLAS have the bits that they have among all."""
        if len(self.parts) < threads.pool().size and not all(
                [blas.is_small(self.rows * call.inner * call.columns) for call in self.made]):
            raise Unfit
        for factors in self._products:
            if len(self.parts) > 1 and (
                    fewest < FEWEST_ROWS[-1] or not has_same_bits(factors)):
                raise Unfit

    # ------------------------------------------------------------ memory

    def chunk(self, nbytes: int, seconds: float, most: int) -> int:
        """How many iterations run together, so that what they keep takes about `nbytes` and their
        products take about `seconds`."""
        kept = sum(s.nbytes() for s in self.slots if s.kind == KEPT)
        return max(1, min(nbytes // max(1, kept), int(seconds / self.seconds), most))

    def memory(self, count: int, fixed: dict[str, Any], given: dict[str, Any],
               variables: dict[str, Any]) -> Memory:
        """The places of all values in `count` iterations."""
        return Memory(self, count, fixed, given, variables)

    def plan(self, count: int) -> Plan:
        """That for so many iterations."""
        found = self._plans.get(count)
        if found is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            found = self._plans[count] = Plan(self, count)
        return found

    def take_arena(self) -> Arena:
        """One that no other run uses."""
        try:
            return self.arenas.pop()
        except IndexError:
            return Arena(self.slots)


class _Note(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that notes which ufuncs are applied to it."""

    def __init__(self, layout: Layout, value: _Value) -> None:
        self.layout = layout
        self.value = value
        self.shape, self.dtype, self.ndim = value.shape, value.dtype, len(value.shape)
        self.size = 1  # so small that no kernel takes it in pieces

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None,
                        **options: Any) -> _Note:
        made = None
        if out is not None and out[0] is not None:
            if not isinstance(out[0], _Note):
                raise Unfit
            made = out[0].value
        if method != "__call__" or options or ufunc.nout != 1:
            raise Unfit
        given = [i.value if isinstance(i, _Note) else i for i in inputs]
        return _Note(self.layout, self.layout.call(ufunc, given, made))
