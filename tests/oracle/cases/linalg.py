"""Cases of linear algebra and of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Type
from table import FLOATS, Table, family, ints, scalar

# Errors grow with the condition of the matrices.
LOOSE = 64.0
SQUARES = ((3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 2, 2), (2, 1, 3, 3), (70, 70))


def _pair(table: Table, op: str, inputs: dict, attrs: dict | None = None, **options: Any) -> None:
    """An op, and the older one that the reference only has under the new name."""
    table.add(op, inputs, attrs, **options)
    dtype = next(iter(inputs.values())).dtype.name
    if dtype in table.dtypes(f"Batch{op}"):
        table.add(f"Batch{op}", inputs, attrs, **{**options, "gradient": 0},
                  reference=(op, inputs, attrs or {}))


def _well(table: Table, dtype: str, shape: tuple) -> np.ndarray:
    """Well conditioned matrices."""
    n = shape[-1]
    values = table.normal(dtype, shape) / np.sqrt(max(n, 1))
    return (values + 2 * np.eye(n)).astype(dtype)


def _definite(table: Table, dtype: str, shape: tuple) -> np.ndarray:
    a = _well(table, dtype, shape)
    return a @ a.swapaxes(-1, -2)


@family
def squares(table: Table) -> None:
    for dtype in ("float32", "float64"):
        for shape in SQUARES:
            x, good = _well(table, dtype, shape), 0 not in shape
            options = {"tolerance": LOOSE, "gradient": int(good)}
            _pair(table, "MatrixInverse", {"input": x}, {"adjoint": False}, **options)
            _pair(table, "MatrixInverse", {"input": x}, {"adjoint": True}, tolerance=LOOSE)
            _pair(table, "MatrixDeterminant", {"input": x}, **options)
            table.add("LogMatrixDeterminant", {"input": x}, **options)
            spd = _definite(table, dtype, shape)
            _pair(table, "Cholesky", {"input": spd}, **options)
            if good:
                _pair(table, "CholeskyGrad", {"l": np.linalg.cholesky(spd), "grad": np.tril(
                    table.normal(dtype, shape))}, tolerance=LOOSE)
            _pair(table, "SelfAdjointEigV2", {"input": spd}, {"compute_v": False}, **options)
            _pair(table, "SelfAdjointEigV2", {"input": spd}, {"compute_v": True}, check="shapes")
    for op, value in (("MatrixInverse", np.zeros((2, 2))), ("Cholesky", -np.eye(2)),
                      ("Cholesky", np.full((2, 2), np.nan))):
        table.bad(op, {"input": value}, label="values")
    for op in ("MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "Cholesky",
               "SelfAdjointEigV2"):
        table.bad(op, {"input": table.normal("float32", (2, 3))}, label="shape")
        table.bad(op, {"input": table.normal("float32", (2,))}, label="rank")


@family
def decompositions(table: Table) -> None:
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for shape in ((3, 3), (2, 5, 3), (3, 4), (0, 2, 2), (40, 30)):
            x = table.normal(dtype, shape)
            for full in (False, True):
                _pair(table, "Svd", {"input": x}, {"compute_uv": False, "full_matrices": full},
                      tolerance=LOOSE, gradient=int(max(shape) < 10 and 0 not in shape))
                _pair(table, "Svd", {"input": x}, {"compute_uv": True, "full_matrices": full},
                      check="shapes")
    table.bad("Svd", {"input": table.normal("float32", (2,))}, label="rank")


@family
def systems(table: Table) -> None:
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for shape in SQUARES:
            rhs = table.normal(dtype, (*shape[:-1], 2))
            options = {"tolerance": LOOSE, "gradient": int(0 not in shape)}
            matrix = _well(table, dtype, shape)
            for flipped in (False, True):
                inputs = {"matrix": matrix, "rhs": rhs}
                _pair(table, "MatrixSolve", inputs, {"adjoint": flipped}, **options)
                for lower in (False, True) if dtype in ("float32", "float64") else ():
                    _pair(table, "MatrixTriangularSolve", inputs,
                          {"lower": lower, "adjoint": flipped}, **options)
    for op in ("MatrixSolve", "MatrixTriangularSolve"):
        one = table.normal("float32", (2, 1))
        table.bad(op, {"matrix": np.zeros((2, 2), "float32"), "rhs": one}, label="singular")
        table.bad(op, {"matrix": np.eye(3, dtype="float32"), "rhs": one}, label="rows")
        table.bad(op, {"matrix": table.normal("float32", (2, 3)), "rhs": one}, label="shape")
        table.bad(op, {"matrix": np.eye(2, dtype="float32"), "rhs": one[:, 0]}, label="rank")


@family
def least_squares(table: Table) -> None:
    for dtype in ("float32", "float64"):
        for shape in ((5, 3), (3, 5), (2, 4, 4), (2, 6, 2), (0, 3, 2), (3, 0)):
            matrix = table.normal(dtype, shape) / 2 + 2 * np.eye(*shape[-2:], dtype=dtype)
            rhs = table.normal(dtype, (*shape[:-1], 2))
            for weight in (0.0, 0.3):
                inputs = {"matrix": matrix, "rhs": rhs, "l2_regularizer": scalar(
                    weight, "float64")}
                for fast in (True, False):
                    _pair(table, "MatrixSolveLs", inputs, {"fast": fast}, tolerance=LOOSE,
                          gradient=int(fast and 0 not in shape))
    x, one = np.zeros((2, 2), "float32"), np.ones((2, 1), "float32")
    for weight in (0.0, -1.0):
        table.bad("MatrixSolveLs", {"matrix": x, "rhs": one, "l2_regularizer": scalar(
            weight, "float64")}, label=str(weight))
    table.bad("MatrixSolveLs", {"matrix": x, "rhs": one, "l2_regularizer": np.zeros(2)})
    table.bad("MatrixSolveLs", {"matrix": x, "rhs": one[:1], "l2_regularizer": scalar(
        1.0, "float64")}, label="rows")


@family
def transforms(table: Table) -> None:
    for rank, suffix in ((1, ""), (2, "2D"), (3, "3D")):
        last = (4, 3, 5)[-rank:]
        for shape in (last, (2, *last), (0, *last), (2, 1, *last), (3,) * (rank - 1) + (64,)):
            options = {"gradient": int(0 not in shape)}
            for name in ("FFT", "IFFT"):
                for dtype in ("complex64", "complex128"):
                    x = table.normal(dtype, shape)
                    table.add(f"{name}{suffix}", {"input": x}, **options)
                x = table.normal("complex64", shape)
                table.add(f"Batch{name}{suffix}", {"input": x},
                          reference=(f"{name}{suffix}", {"input": x}, {}))
            _real(table, rank, suffix, shape)
        for op in (f"FFT{suffix}", f"IFFT{suffix}"):
            table.bad(op, {"input": table.normal("complex64", (3,) * (rank - 1))}, label="rank")
        for length in (ints(9, 9, 9), ints(-1, -1, -1)):
            table.bad(f"RFFT{suffix}", {"input": table.normal("float32", (3, 3, 3)),
                                        "fft_length": length[:rank]}, label="length")
        table.bad(f"RFFT{suffix}", {"input": table.normal("float32", (3, 3, 3)),
                                    "fft_length": ints(3, 3, 3, 3)}, label="lengths")


def _real(table: Table, rank: int, suffix: str, shape: tuple) -> None:
    for less in (0, 1, 2):
        sizes = ints(*[n - less for n in shape[len(shape) - rank:]])
        # The reference has these gradients for one and two dimensions, for the whole input.
        options = {"gradient": int(0 not in shape and rank < 3 and not less)}
        for real, kind in (("float32", "complex64"), ("float64", "complex128")):
            table.add(f"RFFT{suffix}", {"input": table.normal(real, shape), "fft_length": sizes},
                      {"Tcomplex": Type(kind)}, **options)
            half = (*shape[:-1], shape[-1] // 2 + 1)
            table.add(f"IRFFT{suffix}", {"input": table.normal(kind, half), "fft_length": sizes},
                      {"Treal": Type(real)}, **options)


@family
def tridiagonal(table: Table) -> None:
    for dtype in table.dtypes("TridiagonalSolve"):
        for batch, size in (((), 1), ((), 4), ((2,), 6), ((2, 2), 3)):
            diagonals = table.normal(dtype, (*batch, 3, size))
            diagonals = (diagonals + np.array([[0], [4], [0]])).astype(dtype)
            rhs = table.normal(dtype, (*batch, size, 2))
            for pivoting in (True, False):
                table.add("TridiagonalSolve", {"diagonals": diagonals, "rhs": rhs},
                          {"partial_pivoting": pivoting}, gradient=int(pivoting), tolerance=LOOSE)
            rows = {name: diagonals[..., k:k + 1, :] for k, name in enumerate(
                ("superdiag", "maindiag", "subdiag"))}
            table.add("TridiagonalMatMul", {**rows, "rhs": rhs}, gradient=1, tolerance=LOOSE)
    table.bad("TridiagonalSolve", {"diagonals": diagonals[..., :2, :], "rhs": rhs})
    for pivoting in (True, False):  # the results of the first of two are no numbers
        singular = np.array([np.zeros((3, 3)), [[1, 1, 0], [2, 2, 2], [0, 1, 1]]], "float32")
        table.add("TridiagonalSolve", {"diagonals": singular, "rhs": np.ones((2, 3, 1), "float32")},
                  {"partial_pivoting": pivoting}, tolerance=LOOSE)


@family
def logarithms(table: Table) -> None:
    for dtype in ("complex64", "complex128"):
        for shape in ((3, 3), (2, 4, 4), (1, 1)):
            table.add("MatrixLogarithm", {"input": _well(table, dtype, shape)}, tolerance=LOOSE)
    table.bad("MatrixLogarithm", {"input": table.normal("complex64", (2, 3))})


@family
def diagonals(table: Table) -> None:
    """The main diagonal: others are refused when a graph is imported."""
    k = scalar(0)
    for dtype in ("int32", "int64", *FLOATS, "complex64", "bool"):
        pad = scalar(0, dtype)
        for rows, columns in ((3, 4), (3, 3), (4, 2)):
            x = table.normal(dtype, (2, rows, columns))
            diagonal = table.normal(dtype, (2, min(rows, columns)))
            sizes = {"num_rows": scalar(rows), "num_cols": scalar(columns), "padding_value": pad}
            for version, attrs in (("V2", {}), ("V3", {"align": "LEFT_RIGHT"}), ("V3", {})):
                table.add("MatrixDiagPart" + version, {"input": x, "k": k, "padding_value": pad},
                          attrs, gradient=1)
                table.add("MatrixSetDiag" + version, {"input": x, "diagonal": diagonal, "k": k},
                          attrs, gradient=1)
                table.add("MatrixDiag" + version, {"diagonal": diagonal, "k": k, **sizes}, attrs,
                          gradient=1)


@family
def bands_of_diagonals(table: Table) -> None:
    """Single diagonals beside the main one, and several, aligned in all ways."""
    pad = scalar(3, "float32")
    for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
        for k, longest in ((scalar(1), 3), (scalar(-2), 1), (ints(-1, 2), 3), (ints(0, 1), 3),
                           (ints(-2, -1), 2)):
            x = table.normal("float32", (2, 3, 4))
            band = () if k.ndim == 0 else (int(k[1] - k[0]) + 1,)
            diagonal = table.normal("float32", (2, *band, longest))
            table.add("MatrixDiagPartV3", {"input": x, "k": k, "padding_value": pad},
                      {"align": align}, gradient=1)
            table.add("MatrixSetDiagV3", {"input": x, "diagonal": diagonal, "k": k},
                      {"align": align}, gradient=1)
            for rows, columns in ((-1, -1), (3, 4)):
                table.add("MatrixDiagV3", {
                    "diagonal": diagonal, "k": k, "num_rows": scalar(rows),
                    "num_cols": scalar(columns), "padding_value": pad}, {"align": align},
                    gradient=1)
    table.bad("MatrixDiagPartV3", {"input": x, "k": scalar(4), "padding_value": pad})
    table.bad("MatrixSetDiagV3", {"input": x, "diagonal": diagonal, "k": scalar(1)})
