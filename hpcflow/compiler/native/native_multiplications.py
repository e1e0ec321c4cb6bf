"""native_multiplications: the calls of a loop outside of the interpreter that multiply its values.

A product is made by panels that are packed once, in an order of summation that is fixed (see
``packed_gemm``), or by a BLAS: where there are no panels for its type, and where bits are to be
kept. There the BLAS gets all rows at once, as in the loop's line, and none of its products may be
one for which the line has several threads. The products of a sum over time are added up as their
factors are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.compiler.native.native_memory import FIXED, SUM, Packed, Slot
from hpcflow.compiler.native.native_values import Unfit, Value, Values
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import call_list, compiling, packed_gemm
from hpcflow.loops.call_list import Call, Operand


class Multiplications(Values):
    """The values of a loop, some of which are products.

    Attributes:
        parts: the rows that each thread computes.
        factors: the slots of matrices that BLAS multiplies all rows by.
        sole: the products that only one step reads.
    """

    parts: list[tuple[int, int]]

    def __init__(self, loop: Any, outside: dict[str, Any]) -> None:
        super().__init__(loop, outside)
        self.factors: set[int] = set()
        self.sole: dict[str, Call] = {}
        self._slots_of_panels: dict[Packed, int] = {}

    def product(self, step: Any) -> Value:
        """Add the product of a value in rows and a matrix from outside, perhaps with a bias."""
        name, matrix_name = step.arguments[:2]
        value, factor, form = self.value(name), self._factor(step), packed_gemm.tile()
        inner, columns = factor.shape
        made = self.new_rows((self.rows, columns), value.dtype)
        rows, into = value.over(self.rows, inner), made.over(self.rows, columns)
        if form is None or value.dtype != packed_gemm.DTYPE or compiling.keeps_bits():
            product = self._product_by_blas(factor, matrix_name, rows, into)
        else:
            packed = Packed(matrix_name, is_flipped(step), form.vectors_of(columns))
            product = Call(call_list.PANELS, packed.vectors, 0, columns, inner, rows,
                           Operand(self._packed(packed), 0, 0), into)
        self.made.append(product)
        bias = self._bias(step)
        if bias is not None:
            self.call(np.add, [made, bias], made)
            self.join_sum(product)
        elif self.loop.uses[step.target] == 1:
            self.sole[step.target] = product
        return made

    def _factor(self, step: Any) -> np.ndarray:
        """Return the matrix that a value is multiplied by, as a view if its transpose is meant."""
        name, matrix_name = step.arguments[:2]
        value, factor = self.value(name), self.value_outside(matrix_name)
        same = self.values.get(matrix_name)
        if factor.ndim != 2 or value.dtype != factor.dtype or (
                same is not None and same.slot == value.slot):
            raise Unfit
        factor = factor.T if is_flipped(step) else factor
        inner, columns = factor.shape
        size = value.dtype.itemsize
        if (value.shape != (self.rows, inner)
                or min(self.rows, inner, columns) < 2  # a vector is multiplied in other ways
                or not (factor.flags.c_contiguous or factor.flags.f_contiguous)
                or value.strides[1] != size or value.strides[0] < inner * size):
            raise Unfit
        return factor

    def join_sum(self, product: Call) -> bool:
        """If the last call only adds to a product by panels that nothing else reads, let the
        product be made then, and added to as it is made; true if so."""
        last, size = self.made[-1], packed_gemm.DTYPE.itemsize
        found = call_list.loop_of(np.add, packed_gemm.DTYPE.name)
        if product.kind != call_list.PANELS or found is None or (
                last[:3] != (call_list.BINARY, *found)):
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

    def _product_by_blas(self, factor: np.ndarray, name: str, rows: Operand,
                         made: Operand) -> Call:
        found, slot = call_list.product_of(factor.dtype.name), self.value(name).slot
        if found is None:
            raise Unfit
        self.factors.add(slot)
        inner, columns = factor.shape
        return Call(*found, 0, columns, inner, rows, Operand(slot, *factor.strides), made)

    def _bias(self, step: Any) -> Value | None:
        """Return the value that is added to a product; None if there is none."""
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


def is_flipped(step: Any) -> bool:
    """True if the second factor of a product is to be transposed."""
    return bool(step.line.node.attrs.get("transpose_b"))
