"""Functions written out in arithmetic, for loops that Numba compiles.

A loop that calls the C library, or NumPy, for each element runs element by element. One over sums
and products alone uses the vector units. The errors are below two units in the last place.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value


class _Format(NamedTuple):
    """The constants of the format of a number.

    Attributes:
        terms: of the series of exp() that count for arguments up to log(2) / 2.
        lowest, highest: from where on exp() is zero, or infinite.
        log2: log(2) in two parts, the first of so few bits that whole multiples of it are exact.
        mantissa, bias: the number of its bits, and what is added to the exponent.
    """

    integer: Any
    terms: int
    lowest: float
    highest: float
    log2: tuple[float, float]
    mantissa: int
    bias: int


_FORMATS = {
    "float32": _Format(np.int32, 8, -104.0, 89.0, (0.693359375, -2.1219444005469057e-4), 23, 127),
    "float64": _Format(np.int64, 14, -746.0, 710.0,
                       (0.6931471803691238, 1.9082149292705877e-10), 52, 1023),
}


def supports(dtype: str) -> bool:
    """True if there are functions for numbers of this type."""
    return dtype in _FORMATS


def types() -> Any:
    """Numba's module of types."""
    return importlib.import_module("numba").types


def constants(dtype: str, *values: float) -> tuple:
    """`values` as numbers of this type."""
    return tuple([np.dtype(dtype).type(v) for v in values])


def compiler(*liberties: str) -> Callable:
    """Numba's decorator for functions that need no interpreter, with the `liberties` of its
    ``fastmath``. They become part of the loops that call them: a call is not vectorized."""
    numba = importlib.import_module("numba")
    return functools.partial(numba.njit, nogil=True, error_model="numpy", forceinline=True,
                             fastmath=set(liberties) or False)


# Processors with this are as fast in registers of 512 bits as in those of 256, which the compiler
# takes on its own account. Older ones slow down.
_WIDE_SINCE = "avx512vbmi2"


@functools.lru_cache(maxsize=1)
def wide() -> Callable:
    """For compiled loops with much arithmetic: to call it in the loop lets the compiler take the
    widest registers of the processor for it."""
    numba = importlib.import_module("numba")
    binding = importlib.import_module("llvmlite.binding")
    is_wide = bool(binding.get_host_cpu_features().get(_WIDE_SINCE))

    def generate(context: Any, builder: IRBuilder, _: object, __: object) -> Any:
        if is_wide:  # the set knows only attributes without a value
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    signature = numba.types.void()
    return numba.extending.intrinsic(lambda _: (signature, generate))


@functools.lru_cache(maxsize=1)
def pointer() -> Callable:
    """For compiled loops: ``pointer(address)``, for Numba's ``carray``."""
    numba = importlib.import_module("numba")
    byte = importlib.import_module("llvmlite.ir").IntType(8).as_pointer()

    def generate(_context: object, builder: IRBuilder, _: object, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], byte)

    signature = numba.types.voidptr(numba.types.int64)
    return numba.extending.intrinsic(lambda _, address: (signature, generate))


@functools.lru_cache(maxsize=1)
def flat() -> Callable:
    """For compiled loops: ``flat(x)``, the elements of an array in C order as a vector. A reshape
    calls a function that is only there where Numba is."""
    carray, at = importlib.import_module("numba").carray, pointer()

    @compiler()
    def flat(x: Value) -> Any:
        return carray(at(x.ctypes.data), (x.size,), x.dtype)

    return flat


_SHIFT = 64
#: What a `lifted_exponential` is to be multiplied by.
LOWERED = 0.5**_SHIFT


@functools.lru_cache(maxsize=8)
def exponential(dtype: str, below_one: bool = False) -> Callable:
    """exp(x) of one number, which if `below_one` is not positive."""
    form, number = _FORMATS[dtype], np.dtype(dtype).type
    highest, small = number(form.highest), number(LOWERED)
    split, scaled, lifted = _split(dtype), _scaled(dtype), lifted_exponential(dtype)

    @compiler("contract")
    def exp(x: Value) -> Any:
        if below_one:
            return lifted(x) * small
        x = highest if x > highest else x  # a NaN passes
        power, k = split(x)
        return scaled(power, k)

    return exp


@functools.lru_cache(maxsize=8)
def lifted_exponential(dtype: str) -> Callable:
    """2**64 exp(x) of one number that is not positive: none of the results is below the normal
    numbers, so that they are one product. Only their quotients by a sum become zero."""
    form, number = _FORMATS[dtype], np.dtype(dtype).type
    integer = form.integer
    split, bits, bias = _split(dtype), integer(form.mantissa), integer(form.bias + _SHIFT)

    @compiler("contract")
    def lifted(x: Value) -> Any:
        power, k = split(x)
        return power * integer(integer(k + bias) << bits).view(number)

    return lifted


@functools.lru_cache(maxsize=8)
def _split(dtype: str) -> Callable:
    """(exp(r), k) of one number x = r + k log(2), where r is at most log(2) / 2 in size."""
    form, number = _FORMATS[dtype], np.dtype(dtype).type
    lowest, integer = number(form.lowest), form.integer
    per_log2, (high, low) = number(1 / math.log(2)), map(number, form.log2)
    series = _series(tuple([number(1 / math.factorial(n)) for n in range(form.terms)]))
    # Added to a number it leaves no bits for a fraction, and the last ones hold the whole number.
    round_off = number(1.5 * 2.0**form.mantissa)
    bits_of_zero = round_off.view(integer)

    @compiler("contract")
    def split(x: Value) -> Any:
        x = lowest if x < lowest else x  # a NaN passes
        shifted = x * per_log2 + round_off
        whole = shifted - round_off
        rest = x - whole * high
        rest -= whole * low
        return series(rest), integer(number(shifted).view(integer) - bits_of_zero)

    return split


@functools.lru_cache(maxsize=8)
def expm1_below(dtype: str) -> Callable:
    """exp(x) - 1 of one number; of one above zero, 0.

    It is 2**k (exp(r) - 1) + (2**k - 1), where r is at most log(2) / 2 in size.
    """
    form, number = _FORMATS[dtype], np.dtype(dtype).type
    zero, one, lowest = constants(dtype, 0, 1, -2 * form.mantissa)
    per_log2, (high, low) = number(1 / math.log(2)), map(number, form.log2)
    integer = form.integer
    bits, bias = integer(form.mantissa), integer(form.bias)
    series = _series(tuple([number(1 / math.factorial(n + 1)) for n in range(form.terms - 1)]))

    @compiler("contract")
    def expm1(x: Value) -> Any:
        # So written that a NaN passes both.
        x = lowest if x < lowest else x
        x = zero if x > zero else x
        whole = np.rint(x * per_log2)
        rest = x - whole * high
        rest -= whole * low
        power = integer(integer(integer(whole) + bias) << bits).view(number)
        return power * (rest * series(rest)) + (power - one)

    return expm1


# erf(x) / x for |x| <= 4, in powers of x²/8 - 1: a Chebyshev series, computed with 40 digits.
_ERF = (
    0.35353099561883217, -0.17657623587308222, 0.1316751217802348, -0.1077102893793698,
    0.09020883404928395, -0.07473053609826187, 0.05988893544408006, -0.04574400173257201,
    0.033047585797651144, -0.022563597698227356, 0.014397568196491, -0.008382074146103648,
    0.004746829400637348, -0.0029118389977216786, 0.0014380182488648665, -0.00032430257864073293,
    0.0001583410534181754, -0.000246708826385322, 9.735200507674453e-05,
)


@functools.lru_cache(maxsize=8)
def erf(dtype: str) -> Callable:
    """The error function of one number, in double precision; rounded, it is 1 from 4 on."""
    number, series = np.dtype(dtype).type, _series(_ERF)

    @compiler("contract")
    def erf(x: Value) -> Any:
        # So written that a NaN passes both.
        wide = np.float64(x)
        wide = -4.0 if wide < -4.0 else wide
        wide = 4.0 if wide > 4.0 else wide
        return number(wide * series(wide * wide * 0.125 - 1.0))

    return erf


# With u = (x - 3) / (x + 3), x exp(x²) erfc(x) for x >= 1, in powers of (4 u - 1) / 3.
_ERFC = (
    0.5535231886717992, 0.0323255114761722, -0.03995258345556413, 0.029186196347533375,
    -0.015785891424886532, 0.006499227966287544, -0.0019276260626843653, 0.00032006307473748176,
    2.5523130937212075e-05, -2.941439708709488e-05, 4.443227764921426e-06,
    1.419243813252381e-06, -4.742417053928385e-07,
)


@functools.lru_cache(maxsize=8)
def erfc(dtype: str) -> Callable:
    """1 - erf(x) of one number, computed in double precision, exact in the tail."""
    number, series, tail = np.dtype(dtype).type, _series(_ERF), _series(_ERFC)
    exp = exponential("float64", below_one=True)

    @compiler("contract")
    def erfc(x: Value) -> Any:
        wide = np.float64(x)
        size = abs(wide)
        near = 1.0 if size > 1.0 else size
        far = 1.0 if size < 1.0 else size
        far = 30.0 if far > 30.0 else far
        inside = near * series(near * near * 0.125 - 1.0)
        outside = exp(-far * far) * tail((4.0 * ((far - 3.0) / (far + 3.0)) - 1.0) / 3.0) / far
        # A sum, as a choice would become a branch; one of the two is exactly zero.
        is_near = 1.0 if size < 1.0 else 0.0
        result = is_near * (1.0 - inside) + (1.0 - is_near) * outside
        return number(2.0 - result if wide < 0.0 else result)

    return erfc


@functools.lru_cache(maxsize=8)
def lgamma(dtype: str) -> Callable:
    """log |gamma(x)| of one number, by the C library in double precision."""
    number = np.dtype(dtype).type

    @compiler()
    def lgamma(x: Value) -> Any:
        return number(math.lgamma(np.float64(x)))

    return lgamma


def _scaled(dtype: str) -> Callable:
    """x 2**k, by two factors: 2**k may be out of range where the result is not."""
    form, number = _FORMATS[dtype], np.dtype(dtype).type
    integer = form.integer
    one, bits, bias = (integer(n) for n in (1, form.mantissa, form.bias))

    @compiler()
    def scaled(x: Value, k: Any) -> Any:
        half = integer(k >> one)
        first = integer(integer(half + bias) << bits).view(number)
        second = integer(integer(integer(k - half) + bias) << bits).view(number)
        return x * first * second

    return scaled


def _series(terms: tuple) -> Callable:
    """The polynomial with these coefficients, the constant first, by Horner's rule."""
    scope: dict[str, Any] = {f"c{i}": c for i, c in enumerate(terms)}
    sums = functools.reduce(lambda inner, name: f"({inner}) * x + {name}", reversed([*scope]))
    exec(compile(f"def series(x):\n    return {sums}\n", "<hpcflow series>", "exec"), scope)
    return compiler("contract")(scope["series"])


@functools.lru_cache(maxsize=8)
def largest(dtype: str) -> Callable:
    """The largest number of a vector; where one is a NaN, any number.

    It is that of the largest integer, with the bits of negative numbers turned round, which vector
    units find fast.
    """
    integer, number = _FORMATS[dtype].integer, np.dtype(dtype).type
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    lowest, in_wide_registers = integer(np.iinfo(integer).min), wide()

    @compiler()
    def largest(x: Value) -> Any:
        in_wide_registers()
        bits, found = x.view(integer), lowest
        for j in range(bits.size):
            found = max(found, integer(bits[j] ^ ((bits[j] >> sign) & magnitude)))
        return integer(found ^ ((found >> sign) & magnitude)).view(number)

    return largest
