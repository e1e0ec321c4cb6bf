"""Adjoints and inverses of operators, as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator, returned_as
from hpcflow.linear_operators.diagonal import conjugated
from hpcflow.shapes import TensorShape


class _Turned(LinearOperator):
    """An operator that has the hints of another."""

    def __init__(self, operator: LinearOperator, name: str | None, what: str,
                 **hints: bool | None) -> None:
        known = {key: getattr(operator, key) if value is None else value
                 for key, value in hints.items()}
        for key, value in hints.items():
            if value is not None and getattr(operator, key) not in (None, value):
                word = key.removeprefix("is_").replace("_", "-")
                raise ValueError(f"{what}: {key} is {value}, but the operator is "
                                 f"{'' if getattr(operator, key) else 'not '}{word}")
        self._operator = operator
        super().__init__(operator.dtype, operator.graph_parents, name=name or (
            f"{operator.name}_{what}"), **known)

    @property
    def operator(self) -> LinearOperator:
        """The operator that it is made of."""
        return self._operator

    def _shape(self) -> TensorShape:
        shape = self._operator.shape
        return shape if shape.ndims is None else shape[:-2].concatenate([shape[-1], shape[-2]])

    def _assert_non_singular(self) -> Any:
        return self._operator.assert_non_singular()

    def _assert_self_adjoint(self) -> Any:
        return self._operator.assert_self_adjoint()

    def _shape_tensor(self) -> Any:
        shape = self._operator.shape_tensor()
        return raw_ops.ConcatV2([shape[:-2], shape[-1:], shape[-2:-1]], np.int32(0))


@returned_as("adjoint")
class LinearOperatorAdjoint(_Turned):
    """The conjugate transpose of an operator; arguments as of :class:`LinearOperator`."""

    def __init__(self, operator: LinearOperator, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None) -> None:
        super().__init__(operator, name, "adjoint", is_non_singular=is_non_singular,
                         is_self_adjoint=is_self_adjoint,
                         is_positive_definite=is_positive_definite, is_square=is_square)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._operator._matmul(x, not adjoint)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._operator._solve(rhs, not adjoint)

    def _determinant(self) -> Any:
        return conjugated(self._operator._determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator._log_abs_determinant()

    def _to_dense(self) -> Any:
        return broadcasting.adjoint(self._operator._to_dense())

    def _diag_part(self) -> Any:
        return conjugated(self._operator._diag_part())

    def _adjoint(self) -> LinearOperator:
        return self._operator


@returned_as("inverse")
class LinearOperatorInversion(_Turned):
    """The inverse of an operator; arguments as of :class:`LinearOperator`."""

    def __init__(self, operator: LinearOperator, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None) -> None:
        if False in (operator.is_non_singular, is_non_singular):
            raise ValueError("An operator that has an inverse has is_non_singular True or None; "
                             f"the operator says {operator.is_non_singular}, the hint "
                             f"{is_non_singular}.")
        super().__init__(operator, name, "inv", is_non_singular=True if (
            is_non_singular is None) else is_non_singular, is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite, is_square=is_square)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._operator._solve(x, adjoint)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._operator._matmul(rhs, adjoint)

    def _determinant(self) -> Any:
        return raw_ops.Reciprocal(self._operator._determinant())

    def _log_abs_determinant(self) -> Any:
        return raw_ops.Neg(self._operator._log_abs_determinant())

    def _inverse(self) -> LinearOperator:
        return self._operator
