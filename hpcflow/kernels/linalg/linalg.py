"""Kernels of square matrices, and of systems of equations.

LAPACK, through the array module, does the work. A system with a triangle is solved block by block,
so that all but small blocks on the diagonal are products of matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_NOT_INVERTIBLE = "Input matrix is not invertible."
_NOT_DEFINITE = ("Cholesky decomposition was not successful. The input might not be valid: it "
                 "must be positive definite")
_DEFICIENT = ("Input matrix was rank deficient or ill-conditioned. Try setting fast=False or "
              "provide a larger l2_regularizer > 0.")


def checked(function: Callable, message: str) -> Callable:
    """`function`, whose failures to converge or to divide become errors of the op."""

    def run(*args: Any) -> Any:
        try:
            return function(*args)
        except np.linalg.LinAlgError:
            raise invalid(message) from None

    return run


def check_matrices(x: Any, what: str = "input") -> None:
    """Refuse anything that has no rows and columns."""
    if x.ndim < 2:
        raise invalid(f"{what} must have rank >= 2, got {x.ndim}")


def check_square(x: Any, what: str = "input") -> None:
    """Refuse anything but square matrices."""
    check_matrices(x, what)
    if x.shape[-1] != x.shape[-2]:
        raise invalid(f"{what} must be square, got {x.shape[-2]} != {x.shape[-1]}")


def _check_system(matrix: Any, rhs: Any) -> None:
    check_matrices(matrix, "matrix")
    check_matrices(rhs, "rhs")
    if matrix.shape[:-1] != rhs.shape[:-1]:
        raise invalid("matrix and rhs must have the same batches and numbers of rows, got "
                      f"{shown(matrix)} and {shown(rhs)}")


def transposed(x: Any) -> Any:
    """The adjoints, a view where the numbers are real."""
    swapped = x.swapaxes(-1, -2)
    return swapped.conj() if x.dtype.kind == "c" else swapped


# ---------------------------------------------------------------- one matrix


@kernel("MatrixInverse", "BatchMatrixInverse", fresh=True)
def _inverse(node: KernelNode) -> Callable:
    inverse = checked(node.xp.linalg.inv, "Input is not invertible.")
    flipped = node.attr("adjoint")

    def run(x: Any) -> Any:
        check_square(x)
        return inverse(transposed(x) if flipped else x)

    return run


@kernel("MatrixDeterminant", "BatchMatrixDeterminant", fresh=True)
def _determinant(node: KernelNode) -> Callable:
    determinant = node.xp.linalg.det

    def run(x: Any) -> Any:
        check_square(x)
        return determinant(x)

    return run


@kernel("LogMatrixDeterminant", fresh=True)
def _log_determinant(node: KernelNode) -> Callable:
    slogdet, dtype = node.xp.linalg.slogdet, node.np_dtype()

    def run(x: Any) -> tuple:
        check_square(x)
        sign, logarithm = slogdet(x)
        return sign, logarithm.astype(dtype)

    return run


@kernel("Cholesky", "BatchCholesky", fresh=True)
def _cholesky(node: KernelNode) -> Callable:
    """Of the lower triangles."""
    factor = checked(node.xp.linalg.cholesky, _NOT_DEFINITE)

    def run(x: Any) -> Any:
        check_square(x)
        return factor(x)

    return run


@kernel("CholeskyGrad", "BatchCholeskyGrad", fresh=True)
def _cholesky_grad(node: KernelNode) -> Callable:
    """Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10: symmetric."""
    xp = node.xp

    def run(lower: Any, grad: Any) -> Any:
        check_square(lower, "l")
        check_square(grad, "grad")
        if lower.shape != grad.shape:
            raise invalid(f"l and grad must have the same shape, got {shown(lower)} and "
                          f"{shown(grad)}")
        lower = xp.tril(lower)
        inner = xp.tril(transposed(lower) @ xp.tril(grad))
        steps = xp.arange(lower.shape[-1])
        inner[..., steps, steps] /= 2
        upper = transposed(lower)
        left = solve_triangle(xp, upper, inner, lower=False)
        half = transposed(solve_triangle(xp, upper, transposed(left), lower=False))
        return (half + transposed(half)) / 2

    return run


# ---------------------------------------------------------------- systems


@kernel("MatrixSolve", "BatchMatrixSolve", fresh=True)
def _solve(node: KernelNode) -> Callable:
    solve = checked(node.xp.linalg.solve, _NOT_INVERTIBLE)
    flipped = node.attr("adjoint")

    def run(matrix: Any, rhs: Any) -> Any:
        check_square(matrix, "matrix")
        _check_system(matrix, rhs)
        return solve(transposed(matrix) if flipped else matrix, rhs)

    return run


def solve_triangle(xp: Any, matrix: Any, rhs: Any, lower: bool) -> Any:
    """X with ``matrix X = rhs`` for the lower (or upper) triangles of matrices."""
    if lower:  # from the last row to the first, so that blocks are upper triangles
        matrix, rhs = matrix[..., ::-1, ::-1], rhs[..., ::-1, :]
    x = xp.empty(rhs.shape, rhs.dtype)
    size = matrix.shape[-1]
    for end in range(size, 0, -tuning.LINALG_BLOCK):
        rows, solved = slice(max(0, end - tuning.LINALG_BLOCK), end), slice(end, size)
        rest = rhs[..., rows, :]
        if end < size:
            rest = rest - matrix[..., rows, solved] @ x[..., solved, :]
        # Nothing lies below the diagonal: elimination swaps no rows and only substitutes.
        x[..., rows, :] = xp.linalg.solve(xp.triu(matrix[..., rows, rows]), rest)
    return x[..., ::-1, :] if lower else x


@kernel("MatrixTriangularSolve", "BatchMatrixTriangularSolve", fresh=True)
def _triangular_solve(node: KernelNode) -> Callable:
    xp, flipped = node.xp, node.attr("adjoint")
    lower = node.attr("lower") != flipped
    solve = checked(solve_triangle, _NOT_INVERTIBLE)

    def run(matrix: Any, rhs: Any) -> Any:
        check_square(matrix, "matrix")
        _check_system(matrix, rhs)
        if not matrix.diagonal(0, -2, -1).all():
            raise invalid(_NOT_INVERTIBLE)
        return solve(xp, transposed(matrix) if flipped else matrix, rhs, lower)

    return run


def _by_normal_equations(xp: Any, matrix: Any, rhs: Any, weight: float) -> Any:
    """Through the smaller of the two Gram matrices, regularized."""
    flipped = transposed(matrix)
    wide = matrix.shape[-2] < matrix.shape[-1]
    gram = matrix @ flipped if wide else flipped @ matrix
    steps = xp.arange(gram.shape[-1])
    gram[..., steps, steps] += weight
    factor = xp.linalg.cholesky(gram)
    x = solve_triangle(xp, factor, rhs if wide else flipped @ rhs, lower=True)
    x = solve_triangle(xp, transposed(factor), x, lower=False)
    return flipped @ x if wide else x


@kernel("MatrixSolveLs", "BatchMatrixSolveLs", fresh=True, host_inputs=(2,))
def _least_squares(node: KernelNode) -> Callable:
    xp, fast = node.xp, node.attr("fast")
    by_normal_equations = checked(_by_normal_equations, _DEFICIENT)

    def run(matrix: Any, rhs: Any, weight: Any) -> Any:
        _check_system(matrix, rhs)
        if np.ndim(weight):
            raise invalid(f"l2_regularizer must be scalar, got shape {shown(np.shape(weight))}")
        if not weight >= 0:
            raise invalid(f"l2_regularizer must be >= 0, got {weight}")
        if not (matrix.shape[-1] and matrix.shape[-2] and rhs.shape[-1]):
            return xp.zeros((*matrix.shape[:-2], matrix.shape[-1], rhs.shape[-1]), rhs.dtype)
        if fast:
            return by_normal_equations(xp, matrix, rhs, matrix.dtype.type(weight))
        rank_tolerance = max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps
        return xp.linalg.pinv(matrix, rank_tolerance) @ rhs

    return run
