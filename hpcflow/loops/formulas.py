"""Element-wise ops as formulas, for loops that Numba compiles.

A formula is an expression over the inputs ``x``, ``y`` and so on. Its numbers are those of the
dtype that it is computed in. The exact ones do the same operations in the same order as the forms
of NumPy, and so give the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

#: Op type -> the result. LeakyRelu and Selu have numbers of their own, by name.
EXACT = {
    "Relu": "0 if x <= 0 else x",
    "Relu6": "(0 if x <= 0 else x) if (x < 6) | (x != x) else 6",
    "LeakyRelu": "x if x > 0 else x * alpha",
    "Softsign": "x / (abs(x) + 1)",
    "Rsqrt": "1 / sqrt(x)",
    "ReluGrad": "x * (1 if y > 0 else 0)",
    "Relu6Grad": "x * (1 if (y > 0) & (y < 6) else 0)",
    "LeakyReluGrad": "x if y > 0 else x * alpha",
    "EluGrad": "x * ((0 if y > 0 else y) + 1)",
    "SeluGrad": "x * (y + below if y < 0 else scale)",
    "SoftsignGrad": "x / ((abs(y) + 1) * (abs(y) + 1))",
    "TanhGrad": "(1 - x * x) * y",
    "SigmoidGrad": "((1 - x) * x) * y",
    "InvGrad": "-(x * x * y)",
    "ReciprocalGrad": "-(x * x * y)",
    "SqrtGrad": "0 if y * 0.5 == 0 else y * 0.5 / x",
    "RsqrtGrad": "(x * x * x * -0.5) * y",
    "DivNoNan": "0 if y == 0 else x / y",
    "MulNoNan": "0 if y == 0 else x * y",
    "Xdivy": "0 if x == 0 else x / y",
}

#: The same with functions of `vector_math`: the last bits differ from those of NumPy.
APPROXIMATE = {
    "Sigmoid": "1 / (1 + exponential(-x))",
    "Elu": "x if x >= 0 else expm1_below(x)",
    "Selu": "x * scale if x >= 0 else below * expm1_below(x)",
    "SoftplusGrad": "x / (1 + exponential(-y))",
    "Erf": "erf(x)",
    "Erfc": "erfc(x)",
    "Lgamma": "lgamma(x)",
}
#: The dtypes of those that are not for both.
DTYPES = {"Erf": ("float32",), "Erfc": ("float32",), "Lgamma": ("float32",)}

#: The same of ufuncs, of numbers with a fraction.
UFUNCS = {
    "add": "x + y", "subtract": "x - y", "multiply": "x * y", "true_divide": "x / y",
    "divide": "x / y", "negative": "-x", "square": "x * x", "sqrt": "sqrt(x)",
    "absolute": "abs(x)", "reciprocal": "1 / x", "positive": "x",
    "maximum": "x if (x >= y) | (x != x) else y", "minimum": "x if (x <= y) | (x != x) else y",
}

_NAMED = ("LeakyRelu", "LeakyReluGrad", "Selu", "SeluGrad")
_FUNCTION = re.compile(r"\b(exponential|expm1_below|erf|erfc|lgamma)\(")
_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?")


def formula_of(function: str, arguments: Sequence[str]) -> str | None:
    """The result of a ufunc or an op type of the named `arguments`; None if it is no formula."""
    if function == "AddN":
        return " + ".join(arguments)
    if function == "SquaredDifference":
        x, y = arguments
        return f"({x} - {y}) * ({x} - {y})"
    text = UFUNCS.get(function) or EXACT.get(function) or APPROXIMATE.get(function)
    if text is None or function in _NAMED:
        return None
    names = dict(zip("xy", arguments))
    return re.sub(r"\b[xy]\b", lambda found: names[found[0]], text)


def functions_in(text: str) -> set[str]:
    """The functions of `vector_math` that formulas call."""
    return set(_FUNCTION.findall(text))


def with_numbers(text: str, number: Any, scope: dict[str, Any]) -> str:
    """`text` with a name for each number, which `scope` gets as one of the type `number`: as they
    stand they would be of another."""

    def named(found: re.Match) -> str:
        name = "n" + found[0].replace(".", "_")
        scope[name] = number(float(found[0]))
        return name

    return _NUMBER.sub(named, text)
