"""Operators of matrices that are written out."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of, returned_as
from hpcflow.linear_operators.diagonal import assert_no_zeros
from hpcflow.ops.arrays.matrix_parts import matrix_band_part, matrix_diag_part
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.shapes import TensorShape


class _Written(LinearOperator):
    """An operator with a tensor ``[..., rows, columns]``."""

    def __init__(self, matrix: TensorLike, what: str, **hints: Any) -> None:
        self._matrix: Any = convert_to_tensor(matrix, name=what)
        kind = self._matrix.dtype.base_dtype
        if not (kind.is_floating or kind.is_complex):
            raise TypeError(f"Argument {what} must have a floating or complex dtype. Found: "
                            f"{kind.name}")
        rank = self._matrix.shape.ndims
        if rank is not None and rank < 2:
            raise ValueError(f"Argument {what} must have at least 2 dimensions. Found: "
                             f"{self._matrix}")
        super().__init__(kind, [self._matrix], **hints)

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _shape_tensor(self) -> Any:
        return raw_ops.Shape(self._matrix)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return broadcasting.product(self._matrix, x, adjoint_a=adjoint)

    def _to_dense(self) -> Any:
        return self._matrix


class LinearOperatorFullMatrix(_Written):
    """The operator of a matrix of which nothing special is known.

    Args:
        matrix: ``[..., rows, columns]``, of a floating or complex type.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`; one that is self-adjoint and positive definite is solved by its
            Cholesky factor.
        name: of the scope of its operations.
    """

    def __init__(self, matrix: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorFullMatrix") -> None:
        super().__init__(matrix, "matrix", is_non_singular=is_non_singular,
                         is_self_adjoint=is_self_adjoint,
                         is_positive_definite=is_positive_definite, is_square=is_square, name=name)

    def _factor(self) -> Any:
        return raw_ops.Cholesky(self._matrix) if (
            self.is_self_adjoint and self.is_positive_definite) else None

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        factor = self._factor()
        if factor is None:
            return super()._solve(rhs, adjoint)
        half = broadcasting.triangular_solution(factor, rhs)
        return broadcasting.triangular_solution(factor, half, adjoint_matrix=True)

    def _log_abs_determinant(self) -> Any:
        factor = self._factor()
        if factor is None:
            return super()._log_abs_determinant()
        half = reduce_sum(raw_ops.Log(matrix_diag_part(factor)), -1)
        return raw_ops.AddV2(half, half)


@returned_as("triangle")
class LinearOperatorLowerTriangular(_Written):
    """The operator of the lower triangle of a matrix.

    Args:
        tril: ``[..., n, n]``; what stands above the diagonal is ignored.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    def __init__(self, tril: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None,
                 name: str = "LinearOperatorLowerTriangular") -> None:
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        super().__init__(tril, "tril", is_non_singular=is_non_singular,
                         is_self_adjoint=is_self_adjoint,
                         is_positive_definite=is_positive_definite, is_square=True, name=name)
        self._matrix = matrix_band_part(self._matrix, -1, 0)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return broadcasting.triangular_solution(self._matrix, rhs, adjoint)

    def _determinant(self) -> Any:
        return product_of(matrix_diag_part(self._matrix))

    def _log_abs_determinant(self) -> Any:
        return log_of_absolute(matrix_diag_part(self._matrix))

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(matrix_diag_part(self._matrix),
                               "Singular operator:  Diagonal contained zero values.")
