"""Operators that differ from another by a matrix of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of
from hpcflow.linear_operators.diagonal import conjugated
from hpcflow.ops.arrays.matrix_parts import eye, matrix_diag
from hpcflow.ops.arrays.shape_ops import broadcast_dynamic_shape, broadcast_static_shape
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.shapes import TensorShape


class LinearOperatorLowRankUpdate(LinearOperator):
    """The operator ``L + U D V^H``, with few columns in U and V.

    Args:
        base_operator: L, ``[..., m, n]``.
        u: ``[..., m, k]``.
        diag_update: the diagonal of D, ``[..., k]``; ones if None.
        v: ``[..., n, k]``; `u` if None.
        is_diag_update_positive: True promises that `diag_update` is.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.

    An inverse is made from that of L (Woodbury's formula), and a determinant from its (the matrix
    determinant lemma).
    """

    def __init__(self, base_operator: LinearOperator, u: TensorLike,
                 diag_update: TensorLike | None = None, v: TensorLike | None = None,
                 is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorLowRankUpdate") -> None:
        self._base, self._given_v = base_operator, v is not None
        self._u: Any = convert_to_tensor(u, name="u")
        self._v: Any = self._u if v is None else convert_to_tensor(v, name="v")
        self._diag: Any = None if diag_update is None else convert_to_tensor(
            diag_update, name="diag_update")
        positive = is_diag_update_positive or (
            True if diag_update is None and is_diag_update_positive is None else None)
        self.is_diag_update_positive = positive
        if v is None and base_operator.is_self_adjoint and is_self_adjoint is None and not (
                base_operator.dtype.is_complex and diag_update is not None):
            is_self_adjoint = True
        if v is None and positive and base_operator.is_positive_definite and (
                is_positive_definite is None):
            is_positive_definite = True
        parents = [x for x in (self._u, self._v if self._given_v else None, self._diag)
                   if x is not None]
        super().__init__(base_operator.dtype, [*base_operator.graph_parents, *parents],
                         is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)
        base_operator.range_dimension.assert_is_compatible_with(self._u.shape[-2])
        base_operator.domain_dimension.assert_is_compatible_with(self._v.shape[-2])
        self._u.shape[-1].assert_is_compatible_with(self._v.shape[-1])
        if self._diag is not None:
            self._diag.shape[-1].assert_is_compatible_with(self._u.shape[-1])
        self._shape()  # raises for batch dimensions that do not fit

    @property
    def base_operator(self) -> LinearOperator:
        """L."""
        return self._base

    @property
    def u(self) -> Any:
        """U."""
        return self._u

    @property
    def v(self) -> Any:
        """V."""
        return self._v

    @property
    def diag_update(self) -> Any:
        """The diagonal of D; None for ones."""
        return self._diag

    def _shape(self) -> TensorShape:
        batch = broadcast_static_shape(self._base.batch_shape, self._u.shape[:-2])
        batch = broadcast_static_shape(batch, self._v.shape[:-2])
        if self._diag is not None:
            batch = broadcast_static_shape(batch, self._diag.shape[:-1])
        return batch.concatenate(self._base.shape[-2:])

    def _shape_tensor(self) -> Any:
        batch = self._base.batch_shape_tensor()
        for x in (raw_ops.Shape(self._u)[:-2], raw_ops.Shape(self._v)[:-2]):
            batch = broadcast_dynamic_shape(batch, x)
        if self._diag is not None:
            batch = broadcast_dynamic_shape(batch, raw_ops.Shape(self._diag)[:-1])
        return raw_ops.ConcatV2([batch, self._base.shape_tensor()[-2:]], np.int32(0))

    def _scaled(self, x: Any, adjoint: bool = False) -> Any:
        """``D x``."""
        if self._diag is None:
            return x
        diag = conjugated(self._diag) if adjoint else self._diag
        return raw_ops.Mul(raw_ops.ExpandDims(diag, np.int32(-1)), x)

    def _sides(self, adjoint: bool) -> tuple[Any, Any]:
        return (self._v, self._u) if adjoint else (self._u, self._v)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        left, right = self._sides(adjoint)
        small = self._scaled(broadcasting.product(right, x, adjoint_a=True), adjoint)
        return raw_ops.AddV2(self._base.matmul(x, adjoint), broadcasting.product(left, small))

    def _capacitance(self, adjoint: bool = False) -> Any:
        """``D^-1 + V^H L^-1 U``, a small matrix."""
        left, right = self._sides(adjoint)
        inner = broadcasting.product(right, self._base.solve(left, adjoint), adjoint_a=True)
        if self._diag is None:
            return raw_ops.AddV2(inner, eye(raw_ops.Shape(self._u)[-1], dtype=self.dtype))
        diag = conjugated(self._diag) if adjoint else self._diag
        return raw_ops.AddV2(inner, matrix_diag(raw_ops.Reciprocal(diag)))

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        left, right = self._sides(adjoint)
        first = self._base.solve(rhs, adjoint)
        small = broadcasting.solution(self._capacitance(adjoint), broadcasting.product(
            right, first, adjoint_a=True))
        return raw_ops.Sub(first, self._base.solve(broadcasting.product(left, small), adjoint))

    def _determinant(self) -> Any:
        found = raw_ops.Mul(raw_ops.MatrixDeterminant(self._capacitance()),
                            self._base.determinant())
        return found if self._diag is None else raw_ops.Mul(found, product_of(self._diag))

    def _log_abs_determinant(self) -> Any:
        found = raw_ops.AddV2(raw_ops.LogMatrixDeterminant(self._capacitance())[1],
                              self._base.log_abs_determinant())
        return found if self._diag is None else raw_ops.AddV2(found, log_of_absolute(self._diag))

    def _diag_part(self) -> Any:
        if self._base.is_square is False:
            return super()._diag_part()
        rows = self._u if self._diag is None else raw_ops.Mul(
            self._u, raw_ops.ExpandDims(self._diag, np.int32(-2)))
        return raw_ops.AddV2(self._base.diag_part(),
                             reduce_sum(raw_ops.Mul(rows, conjugated(self._v)), -1))


class LinearOperatorHouseholder(LinearOperator):
    """The reflection ``I - 2 v v^H`` at the plane that a vector is orthogonal to.

    Args:
        reflection_axis: the vector, ``[..., n]``, of any length.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    def __init__(self, reflection_axis: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorHouseholder") -> None:
        if is_non_singular is False or is_self_adjoint is False or is_square is False or (
                is_positive_definite):
            raise ValueError("A Householder operator is always self-adjoint, non-singular, square "
                             "and not positive definite.")
        self._axis: Any = convert_to_tensor(reflection_axis, name="reflection_axis")
        if self._axis.shape.ndims == 0:
            raise ValueError("Argument reflection_axis must have at least 1 dimension. Found: "
                             f"{self._axis}")
        super().__init__(self._axis.dtype, [self._axis], True, True, False, True, name)

    @property
    def reflection_axis(self) -> Any:
        """The vector."""
        return self._axis

    def _shape(self) -> TensorShape:
        return self._axis.shape.concatenate(self._axis.shape[-1:])

    def _shape_tensor(self) -> Any:
        shape = raw_ops.Shape(self._axis)
        return raw_ops.ConcatV2([shape, shape[-1:]], np.int32(0))

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        axis = raw_ops.ExpandDims(self._axis, np.int32(-1))
        length = reduce_sum(raw_ops.Mul(axis, conjugated(axis)), -2, keep_dims=True)
        share = raw_ops.RealDiv(broadcasting.product(axis, x, adjoint_a=True), length)
        return raw_ops.Sub(x, raw_ops.Mul(axis, raw_ops.AddV2(share, share)))

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._matmul(rhs, adjoint)

    def _determinant(self) -> Any:
        return raw_ops.Neg(raw_ops.OnesLike(self._axis[..., 0]))

    def _log_abs_determinant(self) -> Any:
        return raw_ops.ZerosLike(self._axis[..., 0])

    def _inverse(self) -> LinearOperator:
        return self

    def _assert_non_singular(self) -> Any:
        return self._nothing_to_check()

    def _assert_self_adjoint(self) -> Any:
        return self._nothing_to_check()
