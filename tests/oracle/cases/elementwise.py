"""Cases of element-wise ops: one input, two inputs with broadcasting, their gradient ops."""

from __future__ import annotations

import numpy as np
from case import Type
from table import (
    ALL,
    COMPLEXES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PAIRS,
    REALS,
    SHAPES,
    Table,
    family,
    scalar,
)

# The reference loses the second derivatives of BesselI1 and BesselI1e near zero.
UNARY = {
    "Abs": "normal", "Neg": "normal", "Sign": "normal", "Square": "normal", "Reciprocal": "nonzero",
    "Inv": "nonzero", "Sqrt": "positive", "Rsqrt": "positive", "Exp": "normal", "Expm1": "normal",
    "Log": "positive", "Log1p": "positive", "Sin": "normal", "Cos": "normal", "Tan": "unit",
    "Asin": "unit", "Acos": "unit", "Atan": "normal", "Tanh": "normal", "Sigmoid": "normal",
    "Lgamma": "positive", "Digamma": "positive", "Erf": "normal", "Erfc": "normal",
    "Ceil": "normal", "Floor": "normal", "Rint": "normal", "Round": "normal",
    "BesselI0": "normal", "BesselI0e": "normal", "BesselI1": "nonzero", "BesselI1e": "nonzero",
    "Erfinv": "unit", "Ndtri": "part",
    "IsFinite": "normal", "IsInf": "normal", "IsNan": "normal",
}  # fmt: skip
FEATURES = ("Relu", "Relu6", "Elu", "Softplus", "Softsign")
BINARY = {
    "Add": "normal", "AddV2": "normal", "Sub": "normal", "Mul": "normal", "Div": "nonzero",
    "RealDiv": "nonzero", "TruncateDiv": "nonzero", "FloorDiv": "nonzero", "FloorMod": "nonzero",
    "Mod": "nonzero", "TruncateMod": "nonzero", "Maximum": "normal", "Minimum": "normal",
    "SquaredDifference": "normal", "Less": "normal", "LessEqual": "normal", "Greater": "normal",
    "GreaterEqual": "normal", "Equal": "normal", "NotEqual": "normal",
}  # fmt: skip
# Of the reference's own float32 polynomials, and ours by other formulas.
LOOSE = {"Erfinv": 64, "Ndtri": 64, "BesselI1": 32, "BesselI1e": 64, "Softplus": 64}


@family
def unary(table: Table) -> None:
    for op, domain in UNARY.items():
        for dtype in table.dtypes(op):
            for shape in SHAPES:
                table.add(op, {"x": getattr(table, domain)(dtype, shape)}, gradient=1,
                          tolerance=LOOSE.get(op))
            if dtype not in COMPLEXES:
                table.add(op, {"x": table.special(dtype)}, label="special values",
                          tolerance=LOOSE.get(op))
    for op in FEATURES:
        for dtype in table.dtypes(op):
            for shape in SHAPES:
                table.add(op, {"features": table.normal(dtype, shape, 1 if op == "Elu" else 3)},
                          gradient=1, tolerance=LOOSE.get(op))
            table.add(op, {"features": table.special(dtype)}, label="special values")
    for shape in SHAPES:
        table.add("LogicalNot", {"x": table.normal("bool", shape)})


@family
def binary(table: Table) -> None:
    for op, domain in BINARY.items():
        for dtype in table.dtypes(op, ALL):
            if op in ("Add",) and dtype == "bool":
                continue
            kind = "normal" if dtype in ("bool", "string") else domain
            for a, b in PAIRS:
                table.add(op, {"x": table.normal(dtype, a), "y": getattr(table, kind)(dtype, b)},
                          gradient=1)
            if dtype in FLOATS:
                x = table.special(dtype)
                table.add(op, {"x": x[:, None], "y": x[None]}, label="special values")
        dtype = table.dtypes(op, ("float32", "int32"))[0]
        table.bad(op, {"x": table.normal(dtype, (2, 3)), "y": table.positive(dtype, (4,))},
                  label="shapes")
    for op in ("LogicalAnd", "LogicalOr"):
        for a, b in PAIRS:
            table.add(op, {"x": table.normal("bool", a), "y": table.normal("bool", b)})
    for op in ("Div", "FloorDiv", "TruncateDiv", "FloorMod", "TruncateMod", "Mod"):
        for dtype in table.dtypes(op, ("int32", "int64", "uint8")):
            table.bad(op, {"x": table.normal(dtype, (3,)), "y": np.array([1, 0, 2], dtype)},
                      label="division by zero")
            if dtype != "uint8":
                table.add(op, {"x": np.array([7, -7, 7, -7], dtype),
                               "y": np.array([2, 2, -2, -2], dtype)}, label="signs")


@family
def powers(table: Table) -> None:
    for dtype in table.dtypes("Pow"):
        for a, b in PAIRS:
            x, y = table.positive(dtype, a), table.normal(dtype, b)
            y = np.abs(y) if dtype.startswith("int") else y
            table.add("Pow", {"x": x, "y": y}, gradient=1)
        if dtype.startswith("int"):
            table.bad("Pow", {"x": np.array([2, 3], dtype), "y": np.array([1, -1], dtype)},
                      label="negative exponent")
    for op in ("Igamma", "Igammac"):
        for dtype in table.dtypes(op):
            for a, b in PAIRS:
                given = {"a": table.positive(dtype, a), "x": table.positive(dtype, b)}
                table.add(op, given, tolerance=64)
                # Terms cancel in the derivative by a, and in its sums.
                table.add(op, given, gradient=1, tolerance=64, label="gradients")
            table.add(op, {"a": np.array([0, 1, -1, 2, 100, 1e-3], dtype)[:, None],
                           "x": np.array([0, 1, -1, 3, 99, 1e3], dtype)}, tolerance=256,
                      label="edges")
    for dtype in table.dtypes("IgammaGradA"):
        table.add("IgammaGradA", {"a": table.positive(dtype, (2, 1, 4), 0.1, 20.0),
                                  "x": table.positive(dtype, (5, 1), 0.1, 30.0)}, tolerance=64)
    for dtype in table.dtypes("RandomGammaGrad", FLOATS[1:]):
        table.add("RandomGammaGrad", {"alpha": table.positive(dtype, (4, 1), 0.3, 20.0),
                                      "sample": table.positive(dtype, (5,), 0.3, 15.0)},
                  tolerance=64)
    for dtype in table.dtypes("Zeta"):
        table.add("Zeta", {"x": table.positive(dtype, (2, 3), 1.2, 5), "q": table.positive(
            dtype, (3,))}, gradient=1)
        table.add("Zeta", {"x": np.array([1, 0.5, 2, 3], dtype), "q": np.array(
            [1, 1, 0, -1], dtype)}, label="edges")
    for dtype in table.dtypes("Polygamma"):
        table.add("Polygamma", {"a": table.integers(4, (2, 1), dtype),
                                "x": table.positive(dtype, (3,))}, gradient=1)
    for dtype in table.dtypes("Betainc"):
        for shape in ((), (5,), (0,), (2, 3)):
            table.add("Betainc", {"a": table.positive(dtype, shape), "b": table.positive(
                dtype, shape), "x": np.abs(table.unit(dtype, shape))}, tolerance=64, gradient=1)
        table.add("Betainc", {"a": scalar(2, dtype), "b": scalar(3, dtype),
                              "x": np.array([0, 1, 0.5, -1, 2], dtype)}, tolerance=64)
    table.bad("Betainc", {"a": table.positive("float32", (2,)), "b": table.positive(
        "float32", (3,)), "x": table.positive("float32", (3,))}, label="shapes")


@family
def gradient_ops(table: Table) -> None:
    for op in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "EluGrad"):
        second = "outputs" if op == "EluGrad" else "features"
        for dtype in table.dtypes(op, FLOATS if op == "EluGrad" else NUMBERS):
            for shape in ((), (0,), (2, 3)):
                table.add(op, {"gradients": table.normal(dtype, shape),
                               second: table.normal(dtype, shape)}, gradient=1)
        table.bad(op, {"gradients": table.normal("float32", (2, 3)),
                       second: table.normal("float32", (4,))}, label="shapes")
    for op in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad"):
        for dtype in table.dtypes(op):
            for shape in ((), (0,), (2, 3)):
                values = [table.positive(dtype, shape), table.normal(dtype, shape)]
                table.add(op, {"x": values[0], "y": values[1]}, gradient=1)


@family
def complex_parts(table: Table) -> None:
    for real, whole in (("float32", "complex64"), ("float64", "complex128")):
        for shape in SHAPES:
            z = table.normal(whole, shape)
            for op in ("Real", "Imag"):
                table.add(op, {"input": z}, {"Tout": Type(real)}, gradient=1)
            table.add("ComplexAbs", {"x": z}, {"Tout": Type(real)}, gradient=1)
            table.add("Conj", {"input": z}, gradient=1)
        for a, b in PAIRS:
            table.add("Complex", {"real": table.normal(real, a), "imag": table.normal(real, b)},
                      {"Tout": Type(whole)}, gradient=1)


@family
def casts(table: Table) -> None:
    for source in (*NUMBERS, "bool", "bfloat16"):
        for target in (*NUMBERS, "bool", "bfloat16"):
            value = table.normal("float32" if source == "bfloat16" else source, (2, 3), 4)
            table.add("Cast", {"x": value.astype(np.float32).astype(_bf16()) if
                               source == "bfloat16" else value}, {"DstT": Type(target)},
                      gradient=int(source in FLOATS and target in FLOATS))
    for dtype in ("float32", "float64"):
        table.add("CheckNumerics", {"tensor": table.normal(dtype, (2, 3))}, {"message": "here"},
                  gradient=1)
        for value in (np.nan, np.inf):
            table.bad("CheckNumerics", {"tensor": np.array([1, value], dtype)}, {"message": "x"})


def _bf16() -> type:
    import ml_dtypes

    return ml_dtypes.bfloat16


@family
def selection(table: Table) -> None:
    for dtype in ALL:
        for shape in ((), (0,), (4,), (2, 3)):
            table.add("Select", {"condition": table.normal("bool", shape),
                                 "t": table.normal(dtype, shape), "e": table.normal(dtype, shape)},
                      gradient=1)
        table.add("Select", {"condition": table.normal("bool", (2,)),
                             "t": table.normal(dtype, (2, 3)), "e": table.normal(dtype, (2, 3))},
                  gradient=1, label="by rows")
        table.add("Select", {"condition": table.normal("bool", ()),
                             "t": table.normal(dtype, (2, 3)), "e": table.normal(dtype, (2, 3))},
                  gradient=1, label="all or none")
    table.bad("Select", {"condition": table.normal("bool", (3,)), "t": table.normal(
        "float32", (2, 3)), "e": table.normal("float32", (2, 3))}, label="rows")
    table.bad("Select", {"condition": table.normal("bool", (2, 3)), "t": table.normal(
        "float32", (2, 3)), "e": table.normal("float32", (2, 4))}, label="shapes")
    for shape in ((), (0,), (5,), (2, 3)):
        for count in (1, 3):
            for dtype in table.dtypes("AddN"):
                table.add("AddN", {"inputs": [table.normal(dtype, shape) for _ in range(count)]},
                          gradient=1)
    table.bad("AddN", {"inputs": [table.normal("float32", (2,)), table.normal("float32", (3,))]})

HYPERBOLICS = {"Sinh": "normal", "Cosh": "normal", "Asinh": "normal", "Acosh": "positive",
         "Atanh": "unit"}  # fmt: skip

NO_NAN = ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")

BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")


@family
def hyperbolics_and_units(table: Table) -> None:
    for op, domain in HYPERBOLICS.items():
        for dtype in table.dtypes(op):
            for shape in SHAPES:
                x = getattr(table, domain)(dtype, shape)
                x = (x + 1).astype(dtype) if op == "Acosh" else x
                table.add(op, {"x": x}, gradient=1)
            if dtype not in COMPLEXES:
                table.add(op, {"x": table.special(dtype)}, label="special values")
    for op in NO_NAN:
        for dtype in table.dtypes(op):
            for a, b in PAIRS:
                x, y = table.normal(dtype, a), table.positive(dtype, b)
                table.add(op, {"x": x, "y": y}, gradient=1)
            x = np.array([0, 0, 1, -1, 2], dtype)
            y = np.array([0, 2, 0, 3, 0] if op in ("DivNoNan", "MulNoNan") else [0, 2, 1, 3, 1],
                         dtype)
            table.add(op, {"x": x, "y": y}, label="zeros")
        table.bad(op, {"x": table.normal("float32", (2,)), "y": table.positive("float32", (3,))})
    for dtype in table.dtypes("Atan2"):
        for a, b in PAIRS:
            table.add("Atan2", {"y": table.nonzero(dtype, a), "x": table.nonzero(dtype, b)},
                      gradient=1, tolerance=32)
    for dtype in table.dtypes("Selu"):
        for shape in SHAPES:
            table.add("Selu", {"features": table.normal(dtype, shape)}, gradient=1, tolerance=64)
            for alpha in (0.2, 0.0, 1.5):
                table.add("LeakyRelu", {"features": table.normal(dtype, shape)}, {"alpha": alpha},
                          gradient=1)
        values = [table.normal(dtype, (2, 3)) for _ in range(2)]
        table.add("SeluGrad", {"gradients": values[0], "outputs": values[1]}, gradient=1)
        table.add("LeakyReluGrad", {"gradients": values[0], "features": values[1]}, gradient=1)


@family
def bits(table: Table) -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        for a, b in PAIRS:
            x, y = (table.rng.integers(info.min, info.max, s, endpoint=True).astype(dtype)
                    for s in (a, b))
            shifts = table.integers(info.bits, b, dtype)
            for op in BITS:
                table.add(op, {"x": x, "y": shifts if "Shift" in op else y})
        table.add("Invert", {"x": table.special(dtype)})


@family
def neighbours(table: Table) -> None:
    for dtype in table.dtypes("ApproximateEqual", REALS):
        for shape in SHAPES:
            x = table.normal(dtype, shape)
            y = (x + table.normal(dtype, shape, 1e-5)).astype(dtype)
            table.add("ApproximateEqual", {"x": x, "y": y})
            table.add("ApproximateEqual", {"x": x, "y": table.normal(dtype, shape)},
                      {"tolerance": 1.5})
    for dtype in ("float32", "float64"):
        x = table.special(dtype)
        table.add("NextAfter", {"x1": x, "x2": x[::-1].copy()})
        table.add("NextAfter", {"x1": table.normal(dtype, (2, 1)), "x2": table.normal(
            dtype, (3,))}, gradient=1)
    for dtype in table.dtypes("CompareAndBitpack"):
        table.add("CompareAndBitpack", {"input": table.normal(dtype, (3, 16)),
                                        "threshold": table.normal(dtype, ())})
    for dtype in table.dtypes("PopulationCount"):
        table.add("PopulationCount", {"x": table.special(dtype)})
        table.add("PopulationCount", {"x": table.normal(dtype, ())})
