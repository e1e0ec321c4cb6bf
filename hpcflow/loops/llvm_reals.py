"""Numbers while LLVM's code for them is written: formulas in Python become instructions.

Products and sums may be contracted where the processor
has one instruction for both; nothing else is changed or moved. Everything is free of branches, so
that a loop over it becomes one of vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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


_V = TypeVar("_V", bound="_Value")


class _Value:
    """A value of LLVM's that belongs to a format."""

    def __init__(self, builder: IRBuilder, form: Format, value: Value) -> None:
        self.builder = builder
        self.form = form
        self.value = value

    def _to(self, kind: type[_V], function: str, *operands: Any, **options: Any) -> _V:
        """What a function of the builder makes of it and others."""
        made = getattr(self.builder, function)(self.value, *operands, **options)
        return kind(self.builder, self.form, made)


class Test(_Value):
    """A truth value."""

    def __and__(self, other: Test) -> Test:
        return self._to(Test, "and_", other.value)

    def __or__(self, other: Test) -> Test:
        return self._to(Test, "or_", other.value)

    def __invert__(self) -> Test:
        return self._to(Test, "not_")

    def choose(self, x: Real, y: Real | float) -> Real:
        """`x` where it is true, else `y`."""
        return Real(self.builder, x.form, self.builder.select(self.value, x.value, x.like(y)))


class Whole(_Value):
    """A whole number of as many bits as a number of `form` has; its sums wrap around."""

    def _like(self, other: Whole | int) -> Value:
        return self.value.type(other) if isinstance(other, int) else other.value

    def __add__(self, other: Whole | int) -> Whole:
        return self._to(Whole, "add", self._like(other))

    def __sub__(self, other: Whole | int) -> Whole:
        return self._to(Whole, "sub", self._like(other))

    def __and__(self, other: int) -> Whole:
        return self._to(Whole, "and_", self._like(other))

    def __lshift__(self, other: int) -> Whole:
        return self._to(Whole, "shl", self._like(other))

    def __rshift__(self, other: int) -> Whole:
        """Zeros move in from the left: shifts that keep the sign are slow on many processors."""
        return self._to(Whole, "lshr", self._like(other))

    def is_zero(self) -> Test:
        """True for 0."""
        return Test(self.builder, self.form,
                    self.builder.icmp_signed("==", self.value, self._like(0)))

    def reinterpreted(self) -> Real:
        """The number with these bits."""
        return self._to(Real, "bitcast", llvm_math.value_type(self.form.dtype))

    def as_real(self) -> Real:
        """The number of the same worth, of at most half the bits of the mantissa."""
        lifted = self + self.form.bits_of(self.form.round_off)
        return lifted.reinterpreted() - self.form.round_off

    def power_of_two(self) -> Real:
        """2 to this power, which is one of a normal number."""
        return ((self + self.form.bias) << self.form.mantissa).reinterpreted()


class Real(_Value):
    """A number of a floating-point format."""

    def like(self, other: Real | float) -> Value:
        """Another number as a value of this format."""
        return other.value if isinstance(other, Real) else self.value.type(other)

    def constant(self, value: float) -> Real:
        """A number of this format."""
        return Real(self.builder, self.form, self.like(value))

    def _joined(self, function: str, other: Real | float) -> Real:
        return self._to(Real, function, self.like(other), flags=_CONTRACT)

    def __add__(self, other: Real | float) -> Real:
        return self._joined("fadd", other)

    def __radd__(self, other: float) -> Real:
        return self + other

    def __sub__(self, other: Real | float) -> Real:
        return self._joined("fsub", other)

    def __rsub__(self, other: float) -> Real:
        return self.constant(other) - self

    def __mul__(self, other: Real | float) -> Real:
        return self._joined("fmul", other)

    def __rmul__(self, other: float) -> Real:
        return self * other

    def __truediv__(self, other: Real | float) -> Real:
        return self._joined("fdiv", other)

    def __rtruediv__(self, other: float) -> Real:
        return self.constant(other) / self

    def __neg__(self) -> Real:
        return self._to(Real, "fneg")

    def _test(self, relation: str, other: Real | float) -> Test:
        found = self.builder.fcmp_ordered(relation, self.value, self.like(other))
        return Test(self.builder, self.form, found)

    def __lt__(self, other: Real | float) -> Test:
        return self._test("<", other)

    def __gt__(self, other: Real | float) -> Test:
        return self._test(">", other)

    def equals(self, other: Real | float) -> Test:
        """True if they are equal, and so for no NaN."""
        return self._test("==", other)

    def at_most(self, limit: float) -> Real:
        """The smaller one of both; a NaN passes."""
        return (self > limit).choose(self.constant(limit), self)

    def at_least(self, limit: float) -> Real:
        """The larger one of both; a NaN passes."""
        return (self < limit).choose(self.constant(limit), self)

    def bits(self) -> Whole:
        """Its bits."""
        return self._to(Whole, "bitcast", llvm_math.value_type(np.dtype(self.form.integer).name))

    def intrinsic(self, name: str, *others: Real) -> Real:
        """A function of LLVM's of it and others."""
        values = [self.value, *[o.value for o in others]]
        return Real(self.builder, self.form,
                    llvm_math.intrinsic(self.builder, f"llvm.{name}", *values))

    def from_library(self, name: str) -> Real:
        """A function of C's library of it: its loop is none of vectors."""
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
        builder, kind = self.builder, llvm_math.value_type("int32")
        exponent = k.value if k.value.type == kind else builder.trunc(k.value, kind)
        function = builder.module.declare_intrinsic(
            f"llvm.ldexp.{self.value.type.intrinsic_name}.i32", (), llvm_math.ir().FunctionType(
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
        made = self.builder.fpext(self.value, llvm_math.value_type("float64"))
        return Real(self.builder, FORMATS["float64"], made)

    def narrow(self) -> Real:
        """A number of double precision, rounded to single."""
        made = self.builder.fptrunc(self.value, llvm_math.value_type("float32"))
        return Real(self.builder, FORMATS["float32"], made)

    def series(self, terms: Sequence[float]) -> Real:
        """The polynomial of it with these coefficients, the constant first, by Horner's rule."""
        return functools.reduce(lambda inner, term: inner * self + term, reversed(terms[:-1]),
                                self.constant(terms[-1]))
