"""Numbers while LLVM's code for them is written: formulas in Python become instructions.

A number may stand for a vector of numbers. Products and sums may be contracted where the processor
has one instruction for both; nothing else is changed or moved. Everything is free of branches, so
that a loop over it becomes one of vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.loops import llvm_math

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value

_CONTRACT = ("contract",)


class Format(NamedTuple):
    """A floating-point format.

    Attributes:
        dtype: its name.
        integer: the whole numbers of the same size.
        mantissa, bias: the number of its bits, and what is added to the exponent.
    """

    dtype: str
    integer: type[np.integer]
    mantissa: int
    bias: int

    @property
    def round_off(self) -> float:
        """A number that leaves no bits for a fraction of what is added to it, and whose own last
        bits then hold the whole number."""
        return 1.5 * 2.0**self.mantissa

    def bits_of(self, number: float) -> int:
        """The bits of a number."""
        return int(np.dtype(self.dtype).type(number).view(self.integer))


FORMATS = {"float32": Format("float32", np.int32, 23, 127),
           "float64": Format("float64", np.int64, 52, 1023)}


class Test:
    """A truth value."""

    def __init__(self, builder: IRBuilder, value: Value) -> None:
        self.builder = builder
        self.value = value

    def __and__(self, other: Test) -> Test:
        return Test(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: Test) -> Test:
        return Test(self.builder, self.builder.or_(self.value, other.value))

    def __invert__(self) -> Test:
        return Test(self.builder, self.builder.not_(self.value))

    def choose(self, x: Real, y: Real | float) -> Real:
        """`x` where it is true, else `y`."""
        return Real(self.builder, x.form, self.builder.select(self.value, x.value, x.like(y)))


class Whole:
    """A whole number of as many bits as a number of `form` has; its sums wrap around."""

    def __init__(self, builder: IRBuilder, form: Format, value: Value) -> None:
        self.builder = builder
        self.form = form
        self.value = value

    def _made(self, function: str, other: Whole | int) -> Whole:
        given = (llvm_math.constant(self.value.type, other) if isinstance(other, int)
                 else other.value)
        return Whole(self.builder, self.form, getattr(self.builder, function)(self.value, given))

    def __add__(self, other: Whole | int) -> Whole:
        return self._made("add", other)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._made("sub", other)

    def __and__(self, other: int) -> Whole:
        return self._made("and_", other)

    def __lshift__(self, other: int) -> Whole:
        return self._made("shl", other)

    def __rshift__(self, other: int) -> Whole:
        """Zeros move in from the left: shifts that keep the sign are slow on many processors."""
        return self._made("lshr", other)

    def is_zero(self) -> Test:
        """True for 0."""
        zero = llvm_math.constant(self.value.type, 0)
        return Test(self.builder, self.builder.icmp_signed("==", self.value, zero))

    def reinterpreted(self) -> Real:
        """The number with these bits."""
        kind = _alike(self.value, llvm_math.value_type(self.form.dtype))
        return Real(self.builder, self.form, self.builder.bitcast(self.value, kind))

    def as_real(self) -> Real:
        """The number of the same worth, of at most half the bits of the mantissa."""
        lifted = self + self.form.bits_of(self.form.round_off)
        return lifted.reinterpreted() - self.form.round_off

    def power_of_two(self) -> Real:
        """2 to this power, which is one of a normal number."""
        return ((self + self.form.bias) << self.form.mantissa).reinterpreted()


class Real:
    """A number of a floating-point format."""

    def __init__(self, builder: IRBuilder, form: Format, value: Value) -> None:
        self.builder = builder
        self.form = form
        self.value = value

    def like(self, other: Real | float) -> Value:
        """Another number as a value of this format."""
        return (other.value if isinstance(other, Real)
                else llvm_math.constant(self.value.type, other))

    def _joined(self, function: str, x: Value, y: Value) -> Real:
        made = getattr(self.builder, function)(x, y, flags=_CONTRACT)
        return Real(self.builder, self.form, made)

    def __add__(self, other: Real | float) -> Real:
        return self._joined("fadd", self.value, self.like(other))

    __radd__ = __add__

    def __sub__(self, other: Real | float) -> Real:
        return self._joined("fsub", self.value, self.like(other))

    def __rsub__(self, other: float) -> Real:
        return self._joined("fsub", self.like(other), self.value)

    def __mul__(self, other: Real | float) -> Real:
        return self._joined("fmul", self.value, self.like(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return self._joined("fdiv", self.value, self.like(other))

    def __rtruediv__(self, other: float) -> Real:
        return self._joined("fdiv", self.like(other), self.value)

    def __neg__(self) -> Real:
        return Real(self.builder, self.form, self.builder.fneg(self.value))

    def _test(self, relation: str, other: Real | float) -> Test:
        return Test(self.builder, self.builder.fcmp_ordered(
            relation, self.value, self.like(other)))

    def __lt__(self, other: Real | float) -> Test:
        return self._test("<", other)

    def __gt__(self, other: Real | float) -> Test:
        return self._test(">", other)

    def equals(self, other: Real | float) -> Test:
        """True if they are equal, and so for no NaN."""
        return self._test("==", other)

    def at_most(self, limit: float) -> Real:
        """The smaller one of both; a NaN passes."""
        return Real(self.builder, self.form, self.builder.select(
            (self > limit).value, self.like(limit), self.value))

    def at_least(self, limit: float) -> Real:
        """The larger one of both; a NaN passes."""
        return Real(self.builder, self.form, self.builder.select(
            (self < limit).value, self.like(limit), self.value))

    def bits(self) -> Whole:
        """Its bits."""
        kind = _alike(self.value, llvm_math.value_type(np.dtype(self.form.integer).name))
        return Whole(self.builder, self.form, self.builder.bitcast(self.value, kind))

    def intrinsic(self, name: str, *others: Real) -> Real:
        """A function of LLVM's of it and others."""
        values = [self.value, *[o.value for o in others]]
        return Real(self.builder, self.form,
                    llvm_math.intrinsic(self.builder, f"llvm.{name}", *values))

    def from_library(self, name: str) -> Real:
        """A function of C's library of it, which must be no vector: its loop is none of vectors."""
        kind, module = self.value.type, self.builder.module
        function = module.globals.get(name)
        if function is None:
            ir = llvm_math.ir()
            function = ir.Function(module, ir.FunctionType(kind, [kind]), name)
        return Real(self.builder, self.form, self.builder.call(function, [self.value]))

    def scaled(self, k: Whole) -> Real:
        """It times 2**k, by two factors: 2**k may be out of range where the result is not."""
        if llvm_math.has_scaling():
            return self._scaled_at_once(k)
        both = k + 2 * self.form.bias
        first = both >> 1
        found = self
        for exponent in (first, both - first):
            found = found * (exponent << self.form.mantissa).reinterpreted()
        return found

    def _scaled_at_once(self, k: Whole) -> Real:
        builder, kind = self.builder, _alike(self.value, llvm_math.value_type("int32"))
        exponent = k.value if k.value.type == kind else builder.trunc(k.value, kind)
        names = ".".join(llvm_math.suffix(t) for t in (self.value.type, kind))
        function = builder.module.declare_intrinsic(
            f"llvm.ldexp.{names}", (), llvm_math.ir().FunctionType(
                self.value.type, [self.value.type, kind]))
        return Real(builder, self.form, builder.call(function, [self.value, exponent]))

    def size(self) -> Real:
        """It without its sign."""
        return self.intrinsic("fabs")

    def with_sign_of(self, other: Real) -> Real:
        """It with the sign of another one."""
        return self.intrinsic("copysign", other)

    def wide(self) -> Real:
        """The same in double precision."""
        kind = _alike(self.value, llvm_math.value_type("float64"))
        return Real(self.builder, FORMATS["float64"], self.builder.fpext(self.value, kind))

    def narrow(self) -> Real:
        """A number of double precision, rounded to single."""
        kind = _alike(self.value, llvm_math.value_type("float32"))
        return Real(self.builder, FORMATS["float32"], self.builder.fptrunc(self.value, kind))

    def series(self, terms: Sequence[float]) -> Real:
        """The polynomial of it with these coefficients, the constant first, by Horner's rule."""
        return functools.reduce(lambda inner, term: inner * self + term, reversed(terms[:-1]),
                                self.constant(terms[-1]))

    def constant(self, value: float) -> Real:
        """A number of this format."""
        return Real(self.builder, self.form, self.like(value))


def _alike(value: Value, kind: Any) -> Any:
    """LLVM's type `kind`, or that of a vector of as many as `value` is."""
    count = getattr(value.type, "count", 0)
    return llvm_math.ir().VectorType(kind, count) if count else kind
