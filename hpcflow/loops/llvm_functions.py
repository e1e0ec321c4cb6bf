"""Functions of mathematics in LLVM's instructions, for loops that are to become loops of vectors.

A loop that calls a library for each number runs number by number. The exponential functions are
sums, products and choices here, and as fast as NumPy's own vectors or faster. For the others there
are functions of vectors in libmvec, a part of glibc: of it and its functions of numbers LLVM takes
those that fit a loop. Where it is missing, as on other systems, or lacks one, which those before
glibc 2.35 do, there is no code for these functions, and NumPy computes them. All results hold for
any number: infinite ones, NaN, those below the normal ones, and both zeros.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.loops import llvm_math

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value

_CONTRACT = ("contract",)


class _Format(NamedTuple):
    """A floating-point format, and the constants of the exponential functions in it.

    Attributes:
        mantissa, bias: the number of its bits, and what is added to the exponent.
        log2: log(2) in two parts, the first of so few bits that whole multiples of it are exact.
        lowest, highest: from where on exp() is zero, or infinite.
        one_below: exp(x) - 1 is -1 for smaller x.
        one_from: tanh(x) is 1 for larger x.
        terms: of (exp(r) - 1 - r) / r² for r up to log(2) / 2 in size. The polynomial has the least
            largest error; it was found with sixty digits.
    """

    mantissa: int
    bias: int
    log2: tuple[float, float]
    lowest: float
    highest: float
    one_below: float
    one_from: float
    terms: Sequence[float]

    @property
    def round_off(self) -> float:
        """A number that leaves no bits for a fraction of what is added to it, and whose own last
        bits then hold the whole number."""
        return 1.5 * 2.0**self.mantissa


_FORMATS = {
    "float32": _Format(
        23, 127, (0.693359375, -2.1219444005469057e-4), -104.0, 89.0, -20.0, 10.0,
        (0.5, 0.1666654497385025, 0.041666287928819656, 0.008366461843252182,
         0.001394621911458671)),
    "float64": _Format(
        52, 1023, (0.6931471803691238, 1.9082149292705877e-10), -746.0, 710.0, -40.0, 20.0,
        (0.5000000000000006, 0.16666666666666685, 0.04166666666657814, 0.008333333333315164,
         0.0013888888931205547, 0.00019841269901882177, 2.4801505634088295e-05,
         2.7557228910835122e-06, 2.7625914405331345e-07, 2.5114188842740336e-08)),
}


class _Real:
    """A number while code for it is written: formulas in Python become instructions. Products and
    sums may be contracted where the processor has one instruction for both."""

    def __init__(self, builder: IRBuilder, dtype: str, value: Value) -> None:
        self.builder = builder
        self.dtype = dtype
        self.form = _FORMATS[dtype]
        self.value = value

    def of(self, value: Value) -> _Real:
        """Another value of the same type."""
        return _Real(self.builder, self.dtype, value)

    def _joined(self, function: str, other: _Real | float, is_swapped: bool = False) -> _Real:
        pair = [self.value, other.value if isinstance(other, _Real) else self.value.type(other)]
        made = getattr(self.builder, function)(*pair[::-1 if is_swapped else 1], flags=_CONTRACT)
        return self.of(made)

    def __add__(self, other: _Real | float) -> _Real:
        return self._joined("fadd", other)

    def __sub__(self, other: _Real | float) -> _Real:
        return self._joined("fsub", other)

    def __mul__(self, other: _Real | float) -> _Real:
        return self._joined("fmul", other)

    def __truediv__(self, other: _Real) -> _Real:
        return self._joined("fdiv", other)

    def limited(self, order: str, limit: float) -> _Real:
        """The limit where it is in this order to that, else itself; a NaN passes."""
        other = self.value.type(limit)
        beyond = self.builder.fcmp_ordered(order, self.value, other)
        return self.of(self.builder.select(beyond, other, self.value))

    def intrinsic(self, name: str, *others: _Real) -> _Real:
        """A function of LLVM's of it and others."""
        return self.of(llvm_math.intrinsic(
            self.builder, f"llvm.{name}", self.value, *[o.value for o in others]))

    def split(self) -> tuple[_Real, Value]:
        """(exp(r) - 1, k) for x = r + k log(2), where r is at most log(2) / 2 in size."""
        b, form = self.builder, self.form
        shifted = self * (1 / math.log(2)) + form.round_off
        whole = shifted - form.round_off
        rest = self - whole * form.log2[0]
        rest = rest - whole * form.log2[1]
        series = functools.reduce(lambda inner, term: inner * rest + term, form.terms[-2::-1],
                                  rest.of(rest.value.type(form.terms[-1])))
        bits = b.bitcast(shifted.value, llvm_math.value_type(self.dtype.replace("float", "int")))
        zero = int(np.array(form.round_off, self.dtype).view(f"int{bits.type.width}"))
        return rest + rest * rest * series, b.sub(bits, bits.type(zero))

    def power_of_two(self, k: Value, more: int = 0) -> _Real:
        """2 to the power k + more, which is one of a normal number."""
        b, kind = self.builder, k.type
        bits = b.shl(b.add(k, kind(self.form.bias + more)), kind(self.form.mantissa))
        return self.of(b.bitcast(bits, self.value.type))

    def scaled(self, k: Value) -> _Real:
        """It times 2**k, by two factors: 2**k may be out of range where the result is not."""
        b, kind = self.builder, k.type
        if llvm_math.has_scaling():
            small = llvm_math.value_type("int32")
            function = b.module.declare_intrinsic(
                f"llvm.ldexp.{self.value.type.intrinsic_name}.i32", (),
                llvm_math.ir().FunctionType(self.value.type, [self.value.type, small]))
            power = k if kind == small else b.trunc(k, small)
            return self.of(b.call(function, [self.value, power]))
        # Zeros move in from the left: shifts that keep the sign are slow on many processors.
        both = b.add(k, kind(2 * self.form.bias))
        first = b.lshr(both, kind(1))
        found = self
        for half in (first, b.sub(both, first)):
            found = found * found.power_of_two(half, -self.form.bias)
        return found


def _exp(x: _Real) -> _Real:
    power, k = x.limited(">", x.form.highest).limited("<", x.form.lowest).split()
    return (power + 1.0).scaled(k)


def _expm1(x: _Real) -> _Real:
    """2**k (exp(r) - 1) + (2**k - 1), all halved and doubled again, as 2**k may be too large. Where
    k is 0 that is no rounding, but of numbers below the normal ones."""
    power, k = x.limited(">", x.form.highest).limited("<", x.form.one_below).split()
    half = x.power_of_two(k, -1)
    return ((half * power + (half - 0.5)) * 2.0).intrinsic("copysign", x)


def _tanh(x: _Real) -> _Real:
    """t / (t + 2), where t is exp(2 x) - 1."""
    t = _expm1(x.intrinsic("fabs").limited(">", x.form.one_from) * 2.0)
    return (t / (t + 2.0)).intrinsic("copysign", x)


_WRITTEN: dict[str, Callable[[_Real], _Real]] = {"exp": _exp, "expm1": _expm1, "tanh": _tanh}


# ---------------------------------------------------------------- functions of the library

#: What C calls functions of the table of meanings, without the suffix of single precision.
_NAMES = {"log": "log", "log1p": "log1p", "sinh": "sinh", "cosh": "cosh", "sin": "sin",
          "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
          "erf": "erf", "erfc": "erfc", "power": "pow", "gammaln": "lgamma"}
_LIBRARY = "libmvec.so.1"
# The widths of registers in bytes, with the letter in the names of the functions for them and
# LLVM's name of the feature that they need.
_WIDTHS = ((64, "e", "avx512f"), (32, "d", "avx2"), (16, "b", "sse4.1"))
#: The functions that take more than some simple instructions.
FUNCTIONS = frozenset({*_WRITTEN, *_NAMES})


def load_library() -> None:
    """Let LLVM's loader find the functions of the library, if there is one."""
    if _library() is not None:
        llvm_math.binding().load_library_permanently(_LIBRARY)


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _variants(function: str, dtype: str) -> dict[int, str]:
    """The names of the library's functions of vectors, by the numbers in one."""
    library, single = _library(), dtype != "float64"
    name, given = _NAMES[function] + "f" * single, "v" * (1 + (function == "power"))
    lanes = {size // (4 if single else 8): letter for size, letter, needed in _WIDTHS
             if llvm_math.features().get(needed)}
    found = {n: f"_ZGV{letter}N{n}{given}_{name}" for n, letter in lanes.items()}
    return {n: variant for n, variant in found.items() if hasattr(library, variant)}


def supports(function: str, dtype: str) -> bool:
    """True if there is code for a function of the table, of operands of `dtype`."""
    if function in FUNCTIONS:
        return dtype in llvm_math.FLOATS and (function in _WRITTEN or function == "gammaln"
                                              or bool(_variants(function, dtype)))
    return llvm_math.supports(function, dtype)


def emit(function: str, builder: IRBuilder, dtype: str, operands: Sequence[Value]) -> Any:
    """The value of a function of the table of values of `dtype`, which are numbers."""
    if function not in FUNCTIONS:
        return llvm_math.emit(function, builder, dtype, operands)
    if function in _WRITTEN:
        wide = "float64" if dtype == "float64" else "float32"
        found = _WRITTEN[function](_Real(builder, wide, operands[0])).value
    else:
        found = builder.call(_declared(builder.module, function, dtype, operands), operands)
    if function == "power":  # of vectors, that of a NaN and 0 is a NaN
        number = operands[1].type
        is_zero = builder.fcmp_ordered("==", operands[1], number(0))
        found = builder.select(is_zero, number(1), found)
    return llvm_math.rounded(builder, found, dtype)


def keep_variants(module: Any) -> None:
    """Let LLVM keep the library's functions of vectors until it looks for them."""
    ir, found = llvm_math.ir(), [f for n, f in module.globals.items() if n.startswith("_ZGV")]
    if found:
        place = ir.IntType(8).as_pointer()
        kept = ir.GlobalVariable(module, ir.ArrayType(place, len(found)), "llvm.compiler.used")
        kept.linkage, kept.section = "appending", "llvm.metadata"
        kept.initializer = kept.type.pointee([f.bitcast(place) for f in found])


def _declared(module: Any, function: str, dtype: str, operands: Sequence[Value]) -> Any:
    """The library's function of numbers, which tells LLVM of those of vectors."""
    kind, ir = operands[0].type, llvm_math.ir()
    name = _NAMES[function] + "f" * (dtype != "float64")
    known = module.globals.get(name)
    if known is not None:
        return known
    made = ir.Function(module, ir.FunctionType(kind, [kind] * len(operands)), name)
    variants = {} if function == "gammaln" else _variants(function, dtype)
    for lanes, variant in variants.items():
        vector = ir.VectorType(kind, lanes)
        ir.Function(module, ir.FunctionType(vector, [vector] * len(operands)), variant)
    mappings = ",".join([f"_ZGV_LLVM_N{lanes}{'v' * len(operands)}_{name}({variant})"
                         for lanes, variant in variants.items()])
    # The set knows only attributes without a value.
    for attribute in ("nounwind", "willreturn", "memory(none)", *(
            [f'"vector-function-abi-variant"="{mappings}"'] if mappings else [])):
        set.add(made.attributes, attribute)
    return made
