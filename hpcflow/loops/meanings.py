"""The one table of element-wise functions and reductions: what each means on every back end.

A function is known by the name of NumPy's, which is its reference. Floating results of arithmetic
and roots are rounded once, so they have the same bits everywhere; of the others the table says by
how many units in the last place they may differ. NaN goes through everything but comparisons; a
maximum or minimum with a NaN is one. Where not stated, a zero has the sign that NumPy gives it.
Denormals of float32 count as zero on a GPU: so CuPy compiles whatever it compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcflow import dtypes

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
#: Floating types of 16 bits, whose numbers are computed with, and summed, in float32.
NARROW = frozenset({"float16", "bfloat16"})
_REALS = FLOATS | INTEGERS
_ALL = _REALS | {"bool"}
_BOOL = frozenset({"bool"})


class Meaning(NamedTuple):
    """An element-wise function of operands of one dtype.

    Attributes:
        numpy: what computes it over arrays.
        cuda: the expression of the operands ``{0}``, ``{1}``, ...; ``{f}`` is the suffix of C's
            mathematical functions.
        types: the dtypes of the operands.
        is_test: the result is a truth value; else it has the dtype of the operands.
        ulps: by how much back ends may differ from each other.
    """

    numpy: Callable
    cuda: str
    types: frozenset[str] = FLOATS
    is_test: bool = False
    ulps: int = 0


def _by_numbers(function: Callable[[float], float]) -> Callable:
    """A function of numbers, of arrays: NumPy has none."""
    every = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(every(np.asarray(x, np.float64)), np.float64).astype(x.dtype)


def _gammaln(x: float) -> float:
    """log |gamma(x)|, infinite at the poles and where it is too large."""
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):
        return math.inf


MEANINGS: dict[str, Meaning] = {
    "add": Meaning(np.add, "{0} + {1}", _REALS),
    "subtract": Meaning(np.subtract, "{0} - {1}", _REALS),
    "multiply": Meaning(np.multiply, "{0} * {1}", _REALS),
    "divide": Meaning(np.true_divide, "{0} / {1}"),
    "negative": Meaning(np.negative, "-{0}", _REALS),
    "positive": Meaning(np.positive, "{0}", _REALS),
    "absolute": Meaning(np.absolute, "{0} < 0 ? -{0} : {0} + 0", _REALS),
    "square": Meaning(np.square, "{0} * {0}", _REALS),
    "reciprocal": Meaning(np.reciprocal, "1 / {0}"),
    "sqrt": Meaning(np.sqrt, "sqrt{f}({0})"),
    "maximum": Meaning(np.maximum, "{0} >= {1} || {0} != {0} ? {0} : {1}", _REALS),
    "minimum": Meaning(np.minimum, "{0} <= {1} || {0} != {0} ? {0} : {1}", _REALS),
    "sign": Meaning(np.sign, "{0} > 0 ? 1 : {0} < 0 ? -1 : {0}", _REALS),
    "floor": Meaning(np.floor, "floor{f}({0})"),
    "ceil": Meaning(np.ceil, "ceil{f}({0})"),
    "trunc": Meaning(np.trunc, "trunc{f}({0})"),
    "rint": Meaning(np.rint, "rint{f}({0})"),
    "exp": Meaning(np.exp, "exp{f}({0})", ulps=4),
    "expm1": Meaning(np.expm1, "expm1{f}({0})", ulps=4),
    "log": Meaning(np.log, "log{f}({0})", ulps=4),
    "log1p": Meaning(np.log1p, "log1p{f}({0})", ulps=4),
    "tanh": Meaning(np.tanh, "tanh{f}({0})", ulps=4),
    "sinh": Meaning(np.sinh, "sinh{f}({0})", ulps=4),
    "cosh": Meaning(np.cosh, "cosh{f}({0})", ulps=4),
    "sin": Meaning(np.sin, "sin{f}({0})", ulps=4),
    "cos": Meaning(np.cos, "cos{f}({0})", ulps=4),
    "tan": Meaning(np.tan, "tan{f}({0})", ulps=6),
    "arcsin": Meaning(np.arcsin, "asin{f}({0})", ulps=6),
    "arccos": Meaning(np.arccos, "acos{f}({0})", ulps=6),
    "arctan": Meaning(np.arctan, "atan{f}({0})", ulps=4),
    "arctan2": Meaning(np.arctan2, "atan2{f}({0}, {1})", ulps=6),
    "arcsinh": Meaning(np.arcsinh, "asinh{f}({0})", ulps=6),
    "arccosh": Meaning(np.arccosh, "acosh{f}({0})", ulps=6),
    "arctanh": Meaning(np.arctanh, "atanh{f}({0})", ulps=6),
    "erf": Meaning(_by_numbers(math.erf), "erf{f}({0})", ulps=4),
    "erfc": Meaning(_by_numbers(math.erfc), "erfc{f}({0})", ulps=6),
    # CUDA's differs by more between -11 and -2.26, near zeros of it.
    "gammaln": Meaning(_by_numbers(_gammaln), "lgamma{f}({0})", ulps=6),
    "power": Meaning(np.power, "pow{f}({0}, {1})", ulps=8),
    "fmod": Meaning(np.fmod, "fmod{f}({0}, {1})"),
    "less": Meaning(np.less, "{0} < {1}", _ALL, True),
    "less_equal": Meaning(np.less_equal, "{0} <= {1}", _ALL, True),
    "greater": Meaning(np.greater, "{0} > {1}", _ALL, True),
    "greater_equal": Meaning(np.greater_equal, "{0} >= {1}", _ALL, True),
    "equal": Meaning(np.equal, "{0} == {1}", _ALL, True),
    "not_equal": Meaning(np.not_equal, "{0} != {1}", _ALL, True),
    "isnan": Meaning(np.isnan, "{0} != {0}", FLOATS, True),
    "isfinite": Meaning(np.isfinite, "{0} - {0} == 0", FLOATS, True),
    "isinf": Meaning(np.isinf, "{0} == {0} && {0} - {0} != 0", FLOATS, True),
    "bitwise_and": Meaning(np.bitwise_and, "{0} & {1}", INTEGERS | {"bool"}),
    "bitwise_or": Meaning(np.bitwise_or, "{0} | {1}", INTEGERS | {"bool"}),
    "bitwise_xor": Meaning(np.bitwise_xor, "{0} ^ {1}", INTEGERS | {"bool"}),
    "logical_and": Meaning(np.logical_and, "{0} && {1}", _BOOL, True),
    "logical_or": Meaning(np.logical_or, "{0} || {1}", _BOOL, True),
    "logical_not": Meaning(np.logical_not, "!{0}", _BOOL, True),
}
#: Other names of the same functions.
SYNONYMS = {"true_divide": "divide", "conj": "positive", "conjugate": "positive",
            "abs": "absolute"}

#: ``select(test, x, y)`` and ``cast(x)`` take operands of several dtypes, and so stand beside.
SELECT, CAST = "select", "cast"


class Reduction(NamedTuple):
    """A reduction of numbers of one dtype: the element-wise function that joins two of them.

    The order is each back end's own; sums of narrow floats are taken in float32.
    """

    function: str
    numpy: np.ufunc


REDUCTIONS = {"sum": Reduction("add", np.add), "prod": Reduction("multiply", np.multiply),
              "max": Reduction("maximum", np.maximum), "min": Reduction("minimum", np.minimum)}


def numpy_dtype(name: str) -> np.dtype:
    """The dtype called `name`, ``bfloat16`` among them."""
    return np.dtype(dtypes.bfloat16.np if name == "bfloat16" else name)


def wide_dtype(dtype: str) -> str:
    """The type that numbers of `dtype` are summed in."""
    return "float32" if dtype in NARROW else dtype


def start_of(reduction: str, dtype: str) -> float | int:
    """The number that a reduction of nothing gives."""
    if reduction in ("sum", "prod"):
        return int(reduction == "prod")
    if dtype in FLOATS:
        return float("-inf" if reduction == "max" else "inf")
    info = np.iinfo(dtype)
    return int(info.min if reduction == "max" else info.max)
