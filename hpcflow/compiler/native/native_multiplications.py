"""native_multiplications: the calls of a loop outside of the interpreter that multiply its values.

A product is made by panels that are packed once, or by a BLAS, with the bits of the loop's line;
the products of a sum over time are added up as their factors are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.compiler.native.native_memory import FIXED, SUM, Packed, Slot
from hpcflow.compiler.native.native_products import Factors, panels_for
from hpcflow.compiler.native.native_values import Unfit, Value, Values
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import call_list, compiling, packed_gemm
from hpcflow.loops.call_list import Call, Operand


class Multiplications(Values):
    """Values some of which are products.

    Attributes:
        parts: the rows that each thread computes.
        factors: the slots of matrices that BLAS multiplies all rows by.
        of_blas: what these products are like.
        sole: the products that only one step reads.
    """

    parts: list[tuple[int, int]]

    def __init__(self, loop: Any, outside: dict[str, Any]) -> None:
        super().__init__(loop, outside)
        self.factors: set[int] = set()
        self.of_blas: set[Factors] = set()
        self.sole: dict[str, Call] = {}
        self._slots_of_panels: dict[Packed, int] = {}

    def product(self, step: Any) -> Value:
        """That of a value in rows and a matrix from outside, perhaps with a bias."""
        name, matrix_name = step.arguments[:2]
        value, factors = self.value(name), self._factors(step)
        inner, columns = factors.shape[:: -1 if factors.is_flipped else 1]
        made = self.new_rows((self.rows, columns), value.dtype)
        rows, into = value.over(self.rows, inner), made.over(self.rows, columns)
        panels = panels_for(factors, step.function)
        if panels is not None:
            matrix = self._packed(Packed(matrix_name, factors.is_flipped, panels.vectors))
            product = panels.call(columns, inner, rows, Operand(matrix, 0, 0), into)
        else:
            product = self._product_by_blas(factors, matrix_name, rows, into)
        self.made.append(product)
        bias = self._bias(step)
        if bias is not None:
            self.call(np.add, [made, bias], made)
            self.join_sum(product)
        elif self.loop.uses[step.target] == 1:
            self.sole[step.target] = product
        return made

    def _factors(self, step: Any) -> Factors:
        """What the factors of a product are like."""
        name, matrix_name = step.arguments[:2]
        value, factor = self.value(name), self.value_outside(matrix_name)
        is_flipped = bool(step.line.node.attrs.get("transpose_b"))
        same = self.values.get(matrix_name)
        if factor.ndim != 2 or value.dtype != factor.dtype or (
                same is not None and same.slot == value.slot):
            raise Unfit
        inner, columns = factor.shape[:: -1 if is_flipped else 1]
        size = value.dtype.itemsize
        if (value.shape != (self.rows, inner)
                or min(self.rows, inner, columns) < 2  # a vector is multiplied in other ways
                or not (factor.flags.c_contiguous or factor.flags.f_contiguous)
                or value.strides[1] != size or value.strides[0] < inner * size):
            raise Unfit
        return Factors(tuple(self.parts), factor.shape, factor.flags.c_contiguous, is_flipped,
                       value.dtype.name)

    def join_sum(self, product: Call) -> bool:
        """If the last call only adds to a product by panels that nothing else reads, let the
        product be made then, and added to as it is made; true if so."""
        last, size = self.made[-1], packed_gemm.DTYPE.itemsize
        found = call_list.loop_of(np.add, packed_gemm.DTYPE.name)
        if product.kind != call_list.PANELS or product.data < product.inner or (
                found is None or last[:3] != (call_list.BINARY, *found)):
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
        found, slot = call_list.product_of(factors.dtype), self.value(name).slot
        if found is None:
            raise Unfit
        inner, columns = factors.shape[:: -1 if factors.is_flipped else 1]
        size = rows.column
        strides = (columns * size, size) if factors.is_by_rows != factors.is_flipped else (
            size, inner * size)
        self.factors.add(slot)
        self.of_blas.add(factors)
        return Call(*found, 0, columns, inner, rows, Operand(slot, *strides), made)

    def _bias(self, step: Any) -> Value | None:
        """What is added to a product, if anything."""
        for name in step.arguments[2:]:
            bias = self.value_outside(name).bias
            if bias is not None:
                self.fixed.append(name)
                return self.add(Slot(FIXED, name), bias.shape, bias.dtype, bias.strides)
        return None

    def add_products_up(self, name: str, plan: Any, operands: list[str]) -> bool:
        """Add the products of a sum up as their factors are made, which are in cache then, if their
        sums stay in cache, too. The order of the terms follows from the parts of the rows."""
        form, part = packed_gemm.tile(), self.parts[0][1]
        calls: list[Call] = []
        if form is None or compiling.keeps_bits() or not plan.products:
            return False
        size = packed_gemm.DTYPE.itemsize
        factors = [[self.value(operands[i]) for i in (plan.terms[k].left, plan.terms[k].right)]
                   for k in plan.products]
        for left, right in factors:
            widths = [w for w in form.widths if right.shape[-1] % (w * form.lanes) == 0]
            if not widths or any(
                    v.dtype != packed_gemm.DTYPE or len(v.shape) != 2 or v.shape[0] != self.rows
                    or v.strides[1] != size or v.strides[0] < v.shape[1] * size
                    for v in (left, right)):
                return False
            inner, columns, slot = left.shape[1], right.shape[1], len(self.slots) + len(calls)
            calls.append(Call(call_list.ADDED_PRODUCT, widths[0], part, columns, inner,
                              left.over(self.rows, inner), right.over(self.rows, columns),
                              Operand(slot, columns * size, size)))
        if part < tuning.ADDED_FEWEST_TERMS or sum(
                call.inner * call.made.row for call in calls) > tuning.ADDED_MOST_BYTES:
            return False
        self.slots += [Slot(SUM, (name, k), (len(self.parts), call.inner, call.columns),
                            packed_gemm.DTYPE) for k, call in zip(plan.products, calls)]
        self.made += calls
        return True
