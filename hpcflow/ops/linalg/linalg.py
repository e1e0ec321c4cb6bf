"""Square matrices and systems of equations: MatrixInverse, Cholesky, MatrixSolve and relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, merge_dims, show, with_rank_at_least
from hpcflow.ops.common.linear_map import LinearMap
from hpcflow.ops.common.unary import conj
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.complex_numbers import real

__all__ = ["cholesky", "cholesky_solve", "matrix_determinant", "matrix_inverse", "matrix_solve",
           "matrix_solve_ls", "matrix_triangular_solve"]  # fmt: skip

#: What the older types without a use in new graphs say.
DEPRECATED = "use the type without Batch in its name"

# ---------------------------------------------------------------- shapes


def square(dims: Dims, what: str = "input") -> Dims:
    """`dims` checked to be those of square matrices."""
    with_rank_at_least(dims, 2, what)
    if dims is None:
        return None
    rows, columns = dims[-2:]
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"Dimensions must be equal, but are {rows} and {columns}: {what} must be "
                         f"square matrices but has shape {show(dims)}")
    size = columns if rows is None else rows
    return (*dims[:-2], size, size)


def square_shape(op: Operation) -> list[Dims]:
    """Shape function: square matrices, and so is the output."""
    return [square(op.input_dims(0), op.op_def.inputs[0].name)]


def _determinant_shape(op: Operation) -> list[Dims]:
    dims = square(op.input_dims(0))
    return [None if dims is None else dims[:-2]]


def _cholesky_grad_shape(op: Operation) -> list[Dims]:
    return [merge_dims(square(op.input_dims(0), "l"), square(op.input_dims(1), "grad"))]


def _system(op: Operation, matrix: Dims) -> list[Dims]:
    """The shape of the solution of ``matrix x = rhs``."""
    rhs = with_rank_at_least(op.input_dims(1), 2, "rhs")
    if matrix is None or rhs is None:
        return [None]
    try:
        batch = merge_dims(matrix[:-2], rhs[:-2])
        merge_dim(matrix[-2], rhs[-2])
    except ValueError as e:
        raise ValueError(f"{e}: matrix and rhs must have the same batches and numbers of rows, but "
                         f"have shapes {show(matrix)} and {show(rhs)}") from None
    assert batch is not None
    return [(*batch, matrix[-1], rhs[-1])]


def _solve_shape(op: Operation) -> list[Dims]:
    return _system(op, square(op.input_dims(0), "matrix"))


def _least_squares_shape(op: Operation) -> list[Dims]:
    if op.input_dims(2):
        raise ValueError(f"l2_regularizer must be a scalar but has shape {show(op.input_dims(2))}")
    return _system(op, with_rank_at_least(op.input_dims(0), 2, "matrix"))


# ---------------------------------------------------------------- op types

_REAL = "T: {double, float}"
_ADJOINT = "adjoint: bool = false"
_COMPLEX = "T: {double, float, complex64, complex128}"
_SYSTEM = "matrix: T; rhs: T"
_LS_INPUTS, _FAST = f"{_SYSTEM}; l2_regularizer: double", "fast: bool = true"


def register_with_batch(name: str, inputs: str, outputs: str, attrs: str, shape: Callable,
                        batch_attrs: str | None = None) -> None:
    """Register an op type, and the name it had for batches of matrices."""
    register_op(name, inputs, outputs, attrs, shape=shape)
    register_op(f"Batch{name}", inputs, outputs, batch_attrs or attrs, shape=shape,
                deprecated=DEPRECATED)


register_with_batch("MatrixInverse", "input: T", "output: T", f"{_ADJOINT}; {_COMPLEX}",
                    square_shape, f"{_ADJOINT}; {_REAL}")
register_with_batch("MatrixDeterminant", "input: T", "output: T", _COMPLEX, _determinant_shape,
                    _REAL)
register_op("LogMatrixDeterminant", "input: T", "sign: T; log_abs_determinant: T", _COMPLEX,
            shape=lambda op: _determinant_shape(op) * 2)
register_with_batch("Cholesky", "input: T", "output: T", _COMPLEX, square_shape, _REAL)
register_with_batch("CholeskyGrad", "l: T; grad: T", "output: T", _REAL, _cholesky_grad_shape)
register_with_batch("MatrixSolve", _SYSTEM, "output: T", f"{_ADJOINT}; {_COMPLEX}", _solve_shape,
                    f"{_ADJOINT}; {_REAL}")
register_with_batch("MatrixTriangularSolve", _SYSTEM, "output: T",
                    f"lower: bool = true; {_ADJOINT}; {_COMPLEX}", _solve_shape,
                    f"lower: bool = true; {_ADJOINT}; {_REAL}")
register_with_batch("MatrixSolveLs", _LS_INPUTS, "output: T", f"{_COMPLEX}; {_FAST}",
                    _least_squares_shape, f"{_REAL}; {_FAST}")

# ---------------------------------------------------------------- gradients


def product(x: TensorLike, y: TensorLike, adj_x: bool = False, adj_y: bool = False) -> Tensor:
    """The products of matrices of any batch."""
    return raw_ops.BatchMatMul(x, y, adj_x, adj_y)


def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return the conjugate transposes of matrices, of unknown ranks too."""
    if isinstance(matrix, LinearMap):
        return matrix.adjoint(name or "adjoint")
    with name_scope(name, "adjoint", [matrix]):
        return conj(_swapped(convert_to_tensor(matrix)))


def _swapped(x: Tensor) -> Tensor:
    if x._dims is not None:
        rank = len(x._dims)
        return raw_ops.Transpose(x, np.array([*range(rank - 2), rank - 1, rank - 2], np.int32))
    rank = raw_ops.Rank(x)
    batch = raw_ops.Range(np.int32(0), raw_ops.Sub(rank, np.int32(2)), np.int32(1))
    last = raw_ops.Pack([raw_ops.Sub(rank, np.int32(1)), raw_ops.Sub(rank, np.int32(2))])
    return raw_ops.Transpose(x, raw_ops.ConcatV2([batch, last], np.int32(0)))


def number(like: Tensor, value: float) -> Any:
    """A scalar of the type of `like`."""
    return np.asarray(value, like.dtype.base_dtype.np)


def halved_diagonal(x: Tensor) -> Tensor:
    """The lower triangles, with half of the diagonals."""
    lower = raw_ops.MatrixBandPart(x, np.int64(-1), np.int64(0))
    diagonal = raw_ops.MatrixDiagPart(lower)
    return raw_ops.MatrixSetDiag(lower, raw_ops.Mul(diagonal, number(x, 0.5)))


@RegisterGradient("BatchMatrixInverse")
@RegisterGradient("MatrixInverse")
def _inverse_grad(op: Operation, grad: Tensor) -> Tensor:
    y = op.outputs[0]
    if op.attr("adjoint"):
        return raw_ops.Neg(product(y, product(grad, y, adj_x=True)))
    return raw_ops.Neg(product(y, product(grad, y, adj_y=True), adj_x=True))


@RegisterGradient("BatchMatrixDeterminant")
@RegisterGradient("MatrixDeterminant")
def _determinant_grad(op: Operation, grad: Tensor) -> Tensor:
    return _scaled_inverse(op, raw_ops.Mul(grad, conj(op.outputs[0])))


@RegisterGradient("LogMatrixDeterminant")
def _log_determinant_grad(op: Operation, _: Tensor, grad: Tensor) -> Tensor:
    """The sign is constant but for jumps (a phase of complex numbers too is taken for constant)."""
    if grad.dtype.is_complex:  # the logarithm is real whatever its type says
        grad = raw_ops.Cast(real(grad), DstT=grad.dtype.base_dtype)
    return _scaled_inverse(op, grad)


def _scaled_inverse(op: Operation, scale: Tensor) -> Tensor:
    """The adjoint of the inverse of the input, times a number for each matrix."""
    inverse = raw_ops.MatrixInverse(op.inputs[0], adjoint=True)
    for _ in range(2):
        scale = raw_ops.ExpandDims(scale, np.int32(-1))
    return raw_ops.Mul(scale, inverse)


@RegisterGradient("BatchCholesky")
@RegisterGradient("Cholesky")
def _cholesky_grad(op: Operation, grad: Tensor) -> Tensor:
    """Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10: symmetric."""
    lower = op.outputs[0]
    inner = halved_diagonal(product(lower, grad, adj_x=True))

    def from_left(x: Tensor) -> Tensor:
        return raw_ops.MatrixTriangularSolve(lower, x, lower=True, adjoint=True)

    half = adjoint(from_left(adjoint(from_left(inner))))
    return raw_ops.Mul(raw_ops.Add(half, adjoint(half)), number(half, 0.5))


@RegisterGradient("BatchMatrixSolve")
@RegisterGradient("MatrixSolve")
def _solve_grad(op: Operation, grad: Tensor) -> tuple:
    matrix, x, flipped = op.inputs[0], op.outputs[0], op.attr("adjoint")
    by_rhs = raw_ops.MatrixSolve(matrix, grad, adjoint=not flipped)
    return raw_ops.Neg(_by_matrix(x, by_rhs, flipped)), by_rhs


def _by_matrix(x: Tensor, by_rhs: Tensor, flipped: bool) -> Tensor:
    return product(x, by_rhs, adj_y=True) if flipped else product(by_rhs, x, adj_y=True)


@RegisterGradient("BatchMatrixTriangularSolve")
@RegisterGradient("MatrixTriangularSolve")
def _triangular_solve_grad(op: Operation, grad: Tensor) -> tuple:
    matrix, x, flipped = op.inputs[0], op.outputs[0], op.attr("adjoint")
    lower = op.attr("lower")
    by_rhs = raw_ops.MatrixTriangularSolve(matrix, grad, lower=lower, adjoint=not flipped)
    band = (-1, 0) if lower else (0, -1)
    by_matrix = raw_ops.MatrixBandPart(_by_matrix(x, by_rhs, flipped), *map(np.int64, band))
    return raw_ops.Neg(by_matrix), by_rhs


@RegisterGradient("BatchMatrixSolveLs")
@RegisterGradient("MatrixSolveLs")
def _least_squares_grad(op: Operation, grad: Tensor) -> tuple:
    """With ``S = AᴴA + λ`` (or ``AAᴴ + λ`` for fewer rows than columns) and ``Z = S⁻¹ ...``."""
    if not op.attr("fast"):
        raise ValueError("Gradient not defined for fast=False")
    matrix, rhs, regularizer = op.inputs
    of_system = (matrix, rhs, op.outputs[0], grad, regularizer)
    dims = matrix._dims
    if dims is not None and dims[-2] is not None and dims[-1] is not None:
        by_either = _overdetermined if dims[-2] >= dims[-1] else _underdetermined
        return (*by_either(*of_system), None)
    shape: Any = raw_ops.Shape(matrix)
    grads = cond(raw_ops.GreaterEqual(shape[-2], shape[-1]),
                 lambda: _overdetermined(*of_system), lambda: _underdetermined(*of_system))
    return (*grads, None)


def _gram(matrix: Tensor, regularizer: Tensor, rows: bool) -> Tensor:
    """The regularized products of rows (or of columns) with each other."""
    gram = product(matrix, matrix, adj_x=not rows, adj_y=rows)
    weight = raw_ops.Cast(regularizer, DstT=matrix.dtype.base_dtype)
    diagonal = raw_ops.MatrixDiagPart(gram)
    return raw_ops.MatrixSetDiag(gram, raw_ops.Add(diagonal, weight))


def _overdetermined(matrix: Tensor, rhs: Tensor, x: Tensor, grad: Tensor,
                    regularizer: Tensor) -> tuple:
    """``x = (AᴴA + λ)⁻¹ Aᴴ b``."""
    z = raw_ops.MatrixSolve(_gram(matrix, regularizer, False), grad)
    xz = product(x, z, adj_y=True)
    both = product(matrix, raw_ops.Add(xz, adjoint(xz)))
    return raw_ops.Sub(product(rhs, z, adj_y=True), both), product(matrix, z)


def _underdetermined(matrix: Tensor, rhs: Tensor, x: Tensor, grad: Tensor,
                     regularizer: Tensor) -> tuple:
    """``x = Aᴴ (AAᴴ + λ)⁻¹ b``, written out below, as no gradient flows from x to λ."""
    gram = _gram(matrix, regularizer, True)
    by_rhs = raw_ops.MatrixSolve(gram, product(matrix, grad))
    inner = raw_ops.MatrixSolve(gram, rhs)
    tail = raw_ops.Sub(grad, product(matrix, by_rhs, adj_x=True))
    by_matrix = raw_ops.Sub(product(inner, tail, adj_y=True),
                            product(by_rhs, product(inner, matrix, adj_x=True)))
    return by_matrix, by_rhs


# ---------------------------------------------------------------- building


def matrix_inverse(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverses of square matrices ``[..., M, M]`` (or of their adjoints).

    Raises:
        InvalidArgumentError: in the step, where a matrix has no inverse.
    """
    if isinstance(input, LinearMap):
        inverse = input.inverse(name or "inverse")
        return inverse.adjoint() if adjoint else inverse
    return raw_ops.MatrixInverse(input=input, adjoint=bool(adjoint), name=name)


def matrix_determinant(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the determinants of square matrices: from ``[..., M, M]`` to ``[...]``."""
    if isinstance(input, LinearMap):
        return input.determinant(name or "det")
    return raw_ops.MatrixDeterminant(input=input, name=name)


def slogdet(input: TensorLike, name: str | None = None) -> Any:
    """Return (sign, log_abs_determinant) of square matrices: from ``[..., M, M]`` to ``[...]``.

    The determinant is ``sign exp(log_abs_determinant)``, also where that overflows.
    """
    return raw_ops.LogMatrixDeterminant(input=input, name=name)


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return the logarithm of the determinants of Hermitian positive definite matrices."""
    if isinstance(matrix, LinearMap):
        return matrix.log_abs_determinant(name or "log_abs_det")
    with name_scope(name, "logdet", [matrix]):
        factor = raw_ops.MatrixDiagPart(cholesky(matrix))
        diagonal = raw_ops.Log(real(factor))
        return raw_ops.Mul(number(diagonal, 2.0), raw_ops.Sum(diagonal, np.int32(-1)))


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower triangles L with ``L Lᵀ = input``.

    `input` are symmetric positive definite matrices ``[..., M, M]``, of which only the lower
    triangle is read.

    Raises:
        InvalidArgumentError: in the step, where a matrix is not positive definite.
    """
    if isinstance(input, LinearMap):
        return input.cholesky(name or "cholesky")
    return raw_ops.Cholesky(input=input, name=name)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """Return X with ``A X = rhs`` from the Cholesky factors `chol` of A.

    Args:
        chol: ``[..., M, M]``, as :func:`cholesky` returns it.
        rhs: ``[..., M, K]``.
        name: name of the scope.
    """
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        half = raw_ops.MatrixTriangularSolve(chol, rhs, lower=True, adjoint=False)
        return raw_ops.MatrixTriangularSolve(chol, half, lower=True, adjoint=True)


def matrix_solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False,
                 name: str | None = None) -> Tensor:
    """Return X with ``matrix X = rhs`` (or ``adjoint(matrix) X = rhs``).

    Args:
        matrix: ``[..., M, M]``.
        rhs: ``[..., M, K]``.
        adjoint: solve for the adjoint of `matrix`.
        name: name of the operation.

    Raises:
        InvalidArgumentError: in the step, where a matrix has no inverse.
    """
    if isinstance(matrix, LinearMap):
        return matrix.solve(rhs, adjoint, name=name or "solve")
    if isinstance(rhs, LinearMap):
        raise ValueError("matrix_solve: the right side is a LinearOperator, the matrix is none")
    return raw_ops.MatrixSolve(matrix=matrix, rhs=rhs, adjoint=bool(adjoint), name=name)


def matrix_triangular_solve(matrix: TensorLike, rhs: TensorLike, lower: bool | None = None,
                            adjoint: bool | None = None, name: str | None = None) -> Tensor:
    """Return X with ``matrix X = rhs`` for triangular matrices; the other triangle is not read.

    Args:
        matrix: ``[..., M, M]``.
        rhs: ``[..., M, K]``.
        lower: which triangle `matrix` is; the lower one by default.
        adjoint: solve for the adjoint of `matrix`.
        name: name of the operation.

    Raises:
        InvalidArgumentError: in the step, where a diagonal has a zero.
    """
    return raw_ops.MatrixTriangularSolve(matrix=matrix, rhs=rhs, lower=lower is not False,
                                         adjoint=bool(adjoint), name=name)


def matrix_solve_ls(matrix: TensorLike, rhs: TensorLike, l2_regularizer: float = 0.0,
                    fast: bool = True, name: str | None = None) -> Tensor:
    """Return the X that minimize ``|matrix X - rhs|² + l2_regularizer |X|²``.

    Of several, that of the smallest norm.

    Args:
        matrix: ``[..., M, N]``.
        rhs: ``[..., M, K]``.
        l2_regularizer: the weight of the norm of X.
        fast: by the normal equations and a Cholesky decomposition, which is accurate only for
            well conditioned matrices; else by a complete orthogonal decomposition, which takes
            matrices of any rank and does not regularize.
        name: name of the operation.

    Raises:
        InvalidArgumentError: in the step, where the normal equations are singular or the weight
            is negative.
    """
    weight = convert_to_tensor(l2_regularizer, dtypes.float64, name="l2_regularizer")
    return raw_ops.MatrixSolveLs(matrix=matrix, rhs=rhs, l2_regularizer=weight, fast=bool(fast),
                                 name=name)
