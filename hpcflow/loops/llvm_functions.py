"""Functions of mathematics as LLVM's instructions, for loops that are to become loops of vectors.

A loop that calls a library for each number runs number by number; one over sums, products, choices
and shifts of bits alone uses the vector units. All results hold for any number: infinite ones, NaN,
those below the normal ones, and both zeros. Two to eight times as fast as the C library's, they
are as fast as NumPy's own vectors or faster, but for powers on processors with AVX-512.

Not here are sin, cos and tan, whose large arguments need more than a formula; and their inverses,
powers and error functions in double precision: these stay calls of NumPy's loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.loops import llvm_math
from hpcflow.loops.llvm_reals import FORMATS, Real, Test, Whole

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value


class _Numbers(NamedTuple):
    """The constants of the functions in one format.

    Attributes:
        log2: log(2) in two parts, the first of so few bits that whole multiples of it are exact.
        lowest, highest: from where on exp() is zero, or infinite.
        highest_half: from where on exp() / 2 is infinite.
        one_below: exp(x) - 1 is -1 for smaller x.
        one_from: tanh(x) is 1 for larger x.
        exp: of (exp(r) - 1 - r) / r² for r up to log(2) / 2 in size.
        log: of what _log1p adds up.
    """

    log2: tuple[float, float]
    lowest: float
    highest: float
    highest_half: float
    one_below: float
    one_from: float
    exp: Sequence[float]
    log: Sequence[float]


# The polynomials have the least largest error; they were found with sixty digits.
_NUMBERS = {
    "float32": _Numbers(
        (0.693359375, -2.1219444005469057e-4), -104.0, 89.0, 89.5, -20.0, 10.0,
        (0.5, 0.1666654497385025, 0.041666287928819656, 0.008366461843252182,
         0.001394621911458671),
        (0.33333319425582886, -0.25000691413879395, 0.20002199709415436, -0.16628198325634003,
         0.14183911681175232, -0.13098567724227905, 0.1285688728094101, -0.07908181846141815)),
    "float64": _Numbers(
        (0.6931471803691238, 1.9082149292705877e-10), -746.0, 710.0, 710.5, -40.0, 20.0,
        (0.5000000000000006, 0.16666666666666685, 0.04166666666657814, 0.008333333333315164,
         0.0013888888931205547, 0.00019841269901882177, 2.4801505634088295e-05,
         2.7557228910835122e-06, 2.7625914405331345e-07, 2.5114188842740336e-08),
        (0.6666666666666698, 0.39999999999614155, 0.28571428703233415, 0.22222202215796397,
         0.1818338967202178, 0.15318224021179355, 0.1475659146986278)),
}
# The same in double precision for results in single precision.
_SHORT_EXP = (0.49999999999748773, 0.16666666752741266, 0.04166666694927869, 0.008333289396967402,
              0.0013888810081032934, 0.00019904710875992866, 2.4882190092848946e-05)
_SHORT_LOG = (0.6666666583606413, 0.4000030119771114, 0.28539127529512925, 0.23551941779194208)


# ---------------------------------------------------------------- exponentials


def _split(x: Real, terms: Sequence[float] = ()) -> tuple[Real, Whole]:
    """(exp(r) - 1, k) for x = r + k log(2), where r is at most log(2) / 2 in size."""
    form, numbers = x.form, _NUMBERS[x.form.dtype]
    shifted = x * (1 / math.log(2)) + form.round_off
    whole = shifted - form.round_off
    rest = x - whole * numbers.log2[0]
    rest = rest - whole * numbers.log2[1]
    power = rest + rest * rest * rest.series(terms or numbers.exp)
    return power, shifted.bits() - form.bits_of(form.round_off)


def _exp(x: Real) -> Real:
    numbers = _NUMBERS[x.form.dtype]
    power, k = _split(x.at_most(numbers.highest).at_least(numbers.lowest))
    return (1.0 + power).scaled(k)


def _expm1(x: Real) -> Real:
    """2**k (exp(r) - 1) + (2**k - 1), all halved and doubled again, as 2**k may be too large. Where
    k is 0 that is no rounding, but of numbers below the normal ones."""
    numbers = _NUMBERS[x.form.dtype]
    power, k = _split(x.at_most(numbers.highest).at_least(numbers.one_below))
    half = (k - 1).power_of_two()
    return (2.0 * (half * power + (half - 0.5))).with_sign_of(x)


def _tanh(x: Real) -> Real:
    """t / (t + 2), where t is exp(2 x) - 1."""
    t = _expm1(2.0 * x.size().at_most(_NUMBERS[x.form.dtype].one_from))
    return (t / (t + 2.0)).with_sign_of(x)


def _half_expm1(size: Real) -> Real:
    """(exp(x) - 1) / 2 of a number that is not negative, infinite only where it is itself."""
    power, k = _split(size.at_most(_NUMBERS[size.form.dtype].highest_half))
    quarter = (k - 2).power_of_two()
    return 2.0 * (quarter * power + (quarter - 0.25))


def _sinh(x: Real) -> Real:
    size = x.size()
    half = _half_expm1(size)
    found = (half < math.inf).choose(half + half / (2.0 * half + 1.0), half)
    return (size < 2.0 ** -(x.form.mantissa // 2 + 2)).choose(size, found).with_sign_of(x)


def _cosh(x: Real) -> Real:
    half = _half_expm1(x.size())
    return (half + 0.5) + 0.5 / (2.0 * half + 1.0)


# ---------------------------------------------------------------- logarithms


def _parts(x: Real) -> tuple[Real, Whole]:
    """(m, k) for a normal x = m 2**k, where m is between the roots of 1/2 and 2."""
    form = x.form
    start = form.bits_of(math.sqrt(0.5))
    bits = x.bits() + (form.bits_of(1.0) - start)
    fraction = bits & ((1 << form.mantissa) - 1)
    return (fraction + start).reinterpreted(), (bits >> form.mantissa) - form.bias


def _log1p_sum(f: Real, k: Real, more: Real | float = 0.0) -> Real:
    """log(1 + f) + k log(2) + more, where 1 + f is between the roots of 1/2 and 2."""
    numbers = _NUMBERS[f.form.dtype]
    square, (high, low) = f * f, numbers.log2
    if f.form.dtype == "float32":
        rest = f * square * f.series(numbers.log) + (k * low + more) - 0.5 * square
        return (f + rest) + k * high
    s, half = f / (f + 2.0), 0.5 * square
    z = s * s
    rest = half - (s * (half + z * z.series(numbers.log)) + (k * low + more))
    return k * high - (rest - f)


def _defined(found: Real, x: Real, lowest: float) -> Real:
    """The logarithm where it is one: of numbers above `lowest`, where it is -inf."""
    found = (x < math.inf).choose(found, x)
    return (x > lowest).choose(found, x.equals(lowest).choose(
        x.constant(-math.inf), math.nan))


def _log(x: Real) -> Real:
    form = x.form
    is_small = x < 2.0 ** (1 - form.bias)
    m, k = _parts(is_small.choose(x * 2.0**form.mantissa, x))
    exponent = k.as_real()
    exponent = is_small.choose(exponent - float(form.mantissa), exponent)
    return _defined(_log1p_sum(m - 1.0, exponent), x, 0.0)


def _log1p(x: Real) -> Real:
    """The logarithm of the sum 1 + x, and what its rounding has left, by the sum."""
    total = x + 1.0
    left = (x.size() < 1.0).choose(x - (total - 1.0), 1.0 - (total - x))
    m, k = _parts(total)
    is_near = k.is_zero()
    f = is_near.choose(x, m - 1.0)
    more = is_near.choose(x.constant(0.0), left / total)
    return _defined(_log1p_sum(f, k.as_real(), more), x, -1.0).with_sign_of(x)


# ---------------------------------------------------------------- in single precision

# (arctan(t) / t - 1) / t² and (arcsin(s) / s - 1) / s², in powers of the square, up to t = 1 and
# s = 1/2: of least largest error.
_ARCTAN = (
    -0.33333298563957214, 0.19998548924922943, -0.14264240860939026, 0.10952182859182358,
    -0.08403442800045013, 0.05795746669173241, -0.031177718192338943, 0.01091453805565834,
    -0.001793606556020677,
)
_ARCSIN = (
    0.16666659712791443, 0.07500503957271576, 0.04451695457100868, 0.03180772066116333,
    0.014438596554100513, 0.03751646354794502,
)
# A right angle in two parts.
_RIGHT = 1.5707963705062866, -4.371139000186241e-08


def _rest_of_right(angle: Real) -> Real:
    return _RIGHT[0] - (angle - _RIGHT[1])


def _rest_of_half(angle: Real) -> Real:
    return 2.0 * _RIGHT[0] - (angle - 2.0 * _RIGHT[1])


def _arctan_up_to_one(t: Real) -> Real:
    square = t * t
    return t + t * square * square.series(_ARCTAN)


def _arctan(x: Real) -> Real:
    """Of 1 / x, the rest of a right angle."""
    size = x.size()
    is_far = size > 1.0
    near = _arctan_up_to_one(is_far.choose(1.0 / size, size))
    return is_far.choose(_rest_of_right(near), near).with_sign_of(x)


def _arctan2(y: Real, x: Real) -> Real:
    """The angle of a point; zeros have signs, and two infinite coordinates are equal."""
    is_steep = y.size() > x.size()
    low, high = is_steep.choose(x, y).size(), is_steep.choose(y, x).size()
    ratio = low / high
    for both, found in ((0.0, 0.0), (math.inf, 1.0)):
        ratio = (low.equals(both) & high.equals(both)).choose(ratio.constant(found), ratio)
    near = _arctan_up_to_one(ratio)
    angle = is_steep.choose(_rest_of_right(near), near)
    is_behind = x.constant(1.0).with_sign_of(x) < 0.0
    return is_behind.choose(_rest_of_half(angle), angle).with_sign_of(y)


def _arcsin_part(size: Real) -> tuple[Test, Real]:
    """True where `size` is far from zero, and there half of the arc cosine, elsewhere the sine."""
    is_far = size > 0.5
    square = is_far.choose(0.5 - 0.5 * size, size * size)
    root = is_far.choose(square.intrinsic("sqrt"), size)
    return is_far, root + root * square * square.series(_ARCSIN)


def _arcsin(x: Real) -> Real:
    is_far, part = _arcsin_part(x.size())
    return is_far.choose(_rest_of_right(2.0 * part), part).with_sign_of(x)


def _arccos(x: Real) -> Real:
    is_far, part = _arcsin_part(x.size())
    part = is_far.choose(2.0 * part, part)
    far = (x < 0.0).choose(_rest_of_half(part), part)
    return is_far.choose(far, _rest_of_right(part.with_sign_of(x)))


def _arctanh(x: Real) -> Real:
    size = x.size()
    return (0.5 * _log1p(2.0 * size / (1.0 - size))).with_sign_of(x)


# ---------------------------------------------------------------- in double precision


def _power(x: Real, y: Real) -> Real:
    """exp(y log(size of x)), with the sign that odd powers of negative numbers have."""
    base, exponent = x.wide(), y.wide()
    size = base.size()
    m, k = _parts(size)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    log = k.as_real() * math.log(2) + (2.0 * s + s * z * z.series(_SHORT_LOG))
    log = (size < math.inf).choose(size.equals(0.0).choose(log.constant(-math.inf), log), size)
    power, k = _split((exponent * log).at_most(200.0).at_least(-200.0), _SHORT_EXP)
    found = (1.0 + power) * k.power_of_two()
    is_one = exponent.equals(0.0) | base.equals(1.0)
    is_one = is_one | (size.equals(1.0) & exponent.size().equals(math.inf))
    found = is_one.choose(found.constant(1.0), found)
    is_whole = exponent.intrinsic("floor").equals(exponent)
    half = exponent * 0.5
    is_odd = is_whole & ~half.intrinsic("floor").equals(half)
    found = is_odd.choose(found.with_sign_of(base), found)
    is_none = (base < 0.0) & (size < math.inf) & (exponent.size() < math.inf) & ~is_whole
    return is_none.choose(found.constant(math.nan), found).narrow()


# erf(x) / x for |x| <= 4, in powers of x²/8 - 1: a Chebyshev series, computed with 40 digits.
_ERF = (
    0.35353099561883217, -0.17657623587308222, 0.1316751217802348, -0.1077102893793698,
    0.09020883404928395, -0.07473053609826187, 0.05988893544408006, -0.04574400173257201,
    0.033047585797651144, -0.022563597698227356, 0.014397568196491, -0.008382074146103648,
    0.004746829400637348, -0.0029118389977216786, 0.0014380182488648665, -0.00032430257864073293,
    0.0001583410534181754, -0.000246708826385322, 9.735200507674453e-05,
)
# With u = (x - 3) / (x + 3), x exp(x²) erfc(x) for x >= 1, in powers of (4 u - 1) / 3.
_ERFC = (
    0.5535231886717992, 0.0323255114761722, -0.03995258345556413, 0.029186196347533375,
    -0.015785891424886532, 0.006499227966287544, -0.0019276260626843653, 0.00032006307473748176,
    2.5523130937212075e-05, -2.941439708709488e-05, 4.443227764921426e-06,
    1.419243813252381e-06, -4.742417053928385e-07,
)


def _erf(x: Real) -> Real:
    """Rounded to single precision, it is 1 from 4 on."""
    wide = x.wide().at_least(-4.0).at_most(4.0)
    return (wide * (wide * wide * 0.125 - 1.0).series(_ERF)).narrow()


def _erfc(x: Real) -> Real:
    """1 - erf(x) for small x; in the tail, which is 0 from 11 on, the factor of exp(-x²)."""
    wide = x.wide()
    size = wide.size()
    near, far = size.at_most(1.0), size.at_least(1.0).at_most(11.0)
    inside = 1.0 - near * (near * near * 0.125 - 1.0).series(_ERF)
    power, k = _split(-(far * far), _SHORT_EXP)
    scale = (1.0 + power) * k.power_of_two() / far
    outside = scale * ((4.0 * ((far - 3.0) / (far + 3.0)) - 1.0) * (1.0 / 3.0)).series(_ERFC)
    found = (size < 1.0).choose(inside, outside)
    return (wide < 0.0).choose(2.0 - found, found).narrow()


def _gammaln(x: Real) -> Real:
    return x.wide().from_library("lgamma").narrow()


class Function(NamedTuple):
    """A function that is written here.

    Attributes:
        write: makes its value of its operands.
        ulps: by how many units in the last place it may differ from the exact value, measured.
        dtypes: of the operands, beside the narrow ones.
    """

    write: Callable[..., Real]
    ulps: float
    dtypes: Sequence[str] = ("float32", "float64")


_SINGLE = ("float32",)
FUNCTIONS = {
    "exp": Function(_exp, 1.1), "expm1": Function(_expm1, 2.4), "tanh": Function(_tanh, 2.8),
    "sinh": Function(_sinh, 2.6), "cosh": Function(_cosh, 1.6),
    "log": Function(_log, 0.9), "log1p": Function(_log1p, 0.9),
    "power": Function(_power, 0.51, _SINGLE),
    "erf": Function(_erf, 0.52, _SINGLE), "erfc": Function(_erfc, 0.52, _SINGLE),
    "arctan": Function(_arctan, 1.6, _SINGLE), "arcsin": Function(_arcsin, 2.4, _SINGLE),
    "arctan2": Function(_arctan2, 2.5, _SINGLE),
    "arccos": Function(_arccos, 1.2, _SINGLE), "arctanh": Function(_arctanh, 2.2, _SINGLE),
    "gammaln": Function(_gammaln, 0.52, _SINGLE),
}


def supports(function: str, dtype: str) -> bool:
    """True if there is code for a function of the table, of operands of `dtype`."""
    if function in FUNCTIONS:
        return dtype in llvm_math.NARROW or dtype in FUNCTIONS[function].dtypes
    return llvm_math.supports(function, dtype)


def emit(function: str, builder: IRBuilder, dtype: str, operands: Sequence[Value]) -> Any:
    """The value of a function of the table of values of `dtype`, which are numbers."""
    if function not in FUNCTIONS:
        return llvm_math.emit(function, builder, dtype, operands)
    form = FORMATS["float32" if dtype in llvm_math.NARROW else dtype]
    found = FUNCTIONS[function].write(*[Real(builder, form, x) for x in operands])
    return llvm_math.rounded(builder, found.value, dtype)
