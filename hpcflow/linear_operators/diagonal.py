"""Operators that only have a diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of
from hpcflow.linear_operators.checks import assert_zero_imag_part
from hpcflow.ops.arrays.matrix_parts import matrix_diag
from hpcflow.ops.flow.checks import assert_less
from hpcflow.shapes import TensorShape


def conjugated(x: Any) -> Any:
    """Return the conjugates of complex numbers, and others as they are."""
    return raw_ops.Conj(x) if x.dtype.is_complex else x


def _real(x: Any) -> Any:
    if not x.dtype.is_complex:
        return x
    kind = dtypes.float32 if x.dtype.base_dtype == dtypes.complex64 else dtypes.float64
    return raw_ops.Real(x, Tout=kind)


def _size(x: Any) -> Any:
    return raw_ops.Abs(x) if not x.dtype.is_complex else raw_ops.Sqrt(_real(
        raw_ops.Mul(x, raw_ops.Conj(x))))


def assert_no_zeros(x: Any, message: str) -> Any:
    """Return an operation that fails with `message` for a zero."""
    size = _size(x)
    return assert_less(raw_ops.ZerosLike(size), size, message=message)


def assert_positive(x: Any, message: str) -> Any:
    """Return an operation that fails with `message` unless all real parts are positive."""
    real = _real(x)
    return assert_less(raw_ops.ZerosLike(real), real, message=message)


class LinearOperatorDiag(LinearOperator):
    """The operator of a diagonal matrix.

    Args:
        diag: ``[..., n]``, of a floating or complex type.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`; a real one is self-adjoint.
        name: of the scope of its operations.
    """

    def __init__(self, diag: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorDiag") -> None:
        self._diag: Any = convert_to_tensor(diag, name="diag")
        kind = self._diag.dtype.base_dtype
        if not (kind.is_floating or kind.is_complex):
            raise TypeError("Argument diag must have a floating or complex dtype. Found: "
                            f"{kind.name}")
        if self._diag.shape.ndims == 0:
            raise ValueError(f"Argument diag must have at least 1 dimension. Found: {self._diag}")
        if is_square is False:
            raise ValueError("Only square diagonal operators currently supported.")
        if not kind.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real diagonal operator is always self adjoint.")
            is_self_adjoint = True
        super().__init__(kind, [self._diag], is_non_singular, is_self_adjoint,
                         is_positive_definite, True, name)

    @property
    def diag(self) -> Any:
        """The diagonal."""
        return self._diag

    def _shape(self) -> TensorShape:
        shape = self._diag.shape
        return shape.concatenate(shape[-1:]) if shape.ndims is not None else shape

    def _shape_tensor(self) -> Any:
        shape = raw_ops.Shape(self._diag)
        return raw_ops.ConcatV2([shape, shape[-1:]], np.int32(0))

    def _column(self, adjoint: bool) -> Any:
        return raw_ops.ExpandDims(conjugated(self._diag) if adjoint else self._diag, np.int32(-1))

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return raw_ops.Mul(self._column(adjoint), x)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return raw_ops.Mul(rhs, raw_ops.Reciprocal(self._column(adjoint)))

    def _to_dense(self) -> Any:
        return matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return self._diag

    def _add_to_tensor(self, x: Any) -> Any:
        return self._add_to_diagonal(x, self._diag)

    def _determinant(self) -> Any:
        return product_of(self._diag)

    def _log_abs_determinant(self) -> Any:
        return log_of_absolute(self._diag)

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorDiag(conjugated(self._diag), self.is_non_singular,
                                  self.is_self_adjoint, self.is_positive_definite)

    def _inverse(self) -> LinearOperator:
        return LinearOperatorDiag(raw_ops.Reciprocal(self._diag), self.is_non_singular,
                                  self.is_self_adjoint, self.is_positive_definite)

    def _cholesky(self) -> LinearOperator:
        return LinearOperatorDiag(raw_ops.Sqrt(self._diag), is_positive_definite=True,
                                  is_self_adjoint=True)

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._diag, "Singular operator:  Diagonal contained zero values.")

    def _assert_positive_definite(self) -> Any:
        return assert_positive(self._diag, "The diagonal contained non-positive real parts: the "
                               "operator is not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return assert_zero_imag_part(self._diag, "The diagonal contained imaginary parts: the "
                                     "operator is not self-adjoint.")
