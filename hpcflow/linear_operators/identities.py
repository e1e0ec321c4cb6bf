"""Operators that are known by their sizes: identities, multiples of them, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.linear_operators.base import LinearOperator
from hpcflow.linear_operators.checks import (
    assert_compatible_matrix_dimensions,
    assert_zero_imag_part,
)
from hpcflow.linear_operators.diagonal import (
    LinearOperatorDiag,
    assert_no_zeros,
    assert_positive,
    conjugated,
)
from hpcflow.ops.arrays.constants import ones, zeros
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.flow.checks import assert_non_negative, assert_rank
from hpcflow.shapes import TensorShape


def checked_size(value: Any, what: str, in_steps: bool, rank: int = 0) -> Any:
    """Return a size, or a vector of sizes, as an int32 tensor.

    With `in_steps` what is not known now is checked in each step. Raises ``TypeError`` for a
    variable or another type, ``ValueError`` for another rank or negative sizes.
    """
    if getattr(value, "initializer", None) is not None:
        raise TypeError(f"{what} cannot be reference type: its value must not change. Found: "
                        f"{value}")
    empty = isinstance(value, (list, tuple)) and not value
    size: Any = convert_to_tensor(value, dtypes.int32 if empty else None, name=what)
    wanted = f"Argument {what} must be a {rank}-D Tensor. Found: {value}"
    negative = f"Argument {what} must be non-negative. Found: {value}"
    if not size.dtype.is_integer:
        raise TypeError(f"Argument {what} must be integer type. Found: {value}")
    if size.shape.ndims not in (None, rank):
        raise ValueError(wanted)
    known = constant_value(size)
    if known is not None and np.any(known < 0):
        raise ValueError(negative)
    if in_steps and known is None:
        with control_dependencies([assert_rank(size, rank, message=wanted),
                                   assert_non_negative(size, message=negative)]):
            size = identity(size)
    return size if size.dtype.base_dtype is dtypes.int32 else raw_ops.Cast(size, DstT=dtypes.int32)


def checked_product(operator: LinearOperator, x: Any, in_steps: bool) -> Any:
    """Return `x`; with `in_steps` its sizes are checked in each step."""
    if not in_steps:
        return x
    with control_dependencies([assert_compatible_matrix_dimensions(operator, x)]):
        return identity(x)


class _Sized(LinearOperator):
    """An operator with a number of rows, of columns, and batch dimensions."""

    def __init__(self, rows: Any, columns: Any, batch: Any, dtype: DTypeLike | None,
                 check: bool, **hints: Any) -> None:
        self._rows = checked_size(rows, "num_rows", check)
        self._columns = self._rows if columns is None else checked_size(
            columns, "num_columns", check)
        self._batch_vector: Any = np.zeros([0], np.int32) if batch is None else checked_size(
            batch, "batch_shape", check, 1)
        self._check = check
        super().__init__(dtype or dtypes.float32, **hints)

    def _batch_dims(self) -> TensorShape:
        """The batch dimensions, as far as they are known."""
        known = constant_value(self._batch_vector) if not isinstance(
            self._batch_vector, np.ndarray) else self._batch_vector
        if known is not None:
            return TensorShape([int(n) for n in known])
        count = self._batch_vector.shape.num_elements()
        return TensorShape(None if count is None else [None] * count)

    def _shape(self) -> TensorShape:
        sizes = [constant_value(n) for n in (self._rows, self._columns)]
        return self._batch_dims().concatenate([None if n is None else int(n) for n in sizes])

    def _shape_tensor(self) -> Any:
        return raw_ops.ConcatV2([self._batch_vector, raw_ops.Pack([self._rows, self._columns])],
                                np.int32(0))

    def _checked(self, x: Any, adjoint: bool) -> Any:
        if not self._check:
            return x
        with control_dependencies([assert_compatible_matrix_dimensions(
                self, x, self._rows if adjoint else self._columns)]):
            return identity(x)

    def _diagonal_shape(self) -> Any:
        return self.shape_tensor()[:-1]

    def _with_own_batch(self, x: Any) -> Any:
        """Matrices with the batch dimensions of the operator as well."""
        if self._batch_dims().ndims == 0:
            return x
        return raw_ops.AddV2(x, zeros(raw_ops.ConcatV2(
            [self._batch_vector, np.array([1, 1], np.int32)], np.int32(0)), x.dtype))


class LinearOperatorIdentity(_Sized):
    """The operator that changes nothing.

    Args:
        num_rows: how many rows and columns, an integer or a scalar tensor.
        batch_shape: batch dimensions; none by default.
        dtype: float32 by default.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: may be True.
        assert_proper_shapes: also check sizes in each step.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, batch_shape: Any = None, dtype: DTypeLike | None = None,
                 is_non_singular: bool | None = True, is_self_adjoint: bool | None = True,
                 is_positive_definite: bool | None = True, is_square: bool | None = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity") -> None:
        for given, what in ((is_self_adjoint, "self-adjoint"), (is_non_singular, "non-singular"),
                            (is_positive_definite, "positive-definite"), (is_square, "square")):
            if not given:
                raise ValueError(f"An identity operator is always {what}.")
        super().__init__(num_rows, None, batch_shape, dtype, assert_proper_shapes,
                         is_positive_definite=True, is_self_adjoint=True, name=name)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._with_own_batch(self._checked(x, adjoint))

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._with_own_batch(self._checked(rhs, not adjoint))

    def _diag_part(self) -> Any:
        return ones(self._diagonal_shape(), self.dtype)

    def _determinant(self) -> Any:
        return ones(self.batch_shape_tensor(), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return zeros(self.batch_shape_tensor(), self.dtype)

    def _trace(self) -> Any:
        size = raw_ops.Cast(self._rows, DstT=self.dtype)
        return raw_ops.Mul(ones(self.batch_shape_tensor(), self.dtype), size)

    def add_to_tensor(self, mat: TensorLike, name: str = "add_to_tensor") -> Any:
        """Return the sum with matrices."""
        with self._scope(name, [mat]):
            return self._add_to_diagonal(self._converted(mat, "mat"),
                                         np.ones([1], self.dtype.np))

    def _inverse(self) -> LinearOperator:
        return self

    def _cholesky(self) -> LinearOperator:
        return self

    def _assert_non_singular(self) -> Any:
        return self._nothing_to_check()

    def _assert_positive_definite(self) -> Any:
        return self._nothing_to_check()

    def _assert_self_adjoint(self) -> Any:
        return self._nothing_to_check()


class LinearOperatorScaledIdentity(LinearOperatorDiag):
    """The operator that multiplies by a number.

    Args:
        num_rows: how many rows and columns, an integer or a scalar tensor.
        multiplier: the number, or a batch of them.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        assert_proper_shapes: also check sizes in each step.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, multiplier: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorScaledIdentity") -> None:
        if is_square is False:
            raise ValueError("A ScaledIdentity operator is always square.")
        self._multiplier: Any = convert_to_tensor(multiplier, name="multiplier")
        rows = checked_size(num_rows, "num_rows", assert_proper_shapes)
        shape = raw_ops.ConcatV2([raw_ops.Shape(self._multiplier), raw_ops.ExpandDims(
            rows, np.int32(0))], np.int32(0))
        diag = raw_ops.BroadcastTo(raw_ops.ExpandDims(self._multiplier, np.int32(-1)), shape)
        if self._multiplier.shape.ndims is not None:
            size = constant_value(rows)
            known = [None if size is None else int(size)]
            diag.set_shape(self._multiplier.shape.concatenate(known))
        self._num_rows, self._check = rows, assert_proper_shapes
        super().__init__(diag, is_non_singular, is_self_adjoint, is_positive_definite, name=name)

    @property
    def multiplier(self) -> Any:
        """The number."""
        return self._multiplier

    def _of(self, multiplier: Any, **hints: Any) -> LinearOperator:
        return LinearOperatorScaledIdentity(self._num_rows, multiplier, **hints)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return super()._matmul(checked_product(self, x, self._check), adjoint)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return super()._solve(checked_product(self, rhs, self._check), adjoint)

    def _adjoint(self) -> LinearOperator:
        return self._of(conjugated(self._multiplier), is_non_singular=self.is_non_singular,
                        is_self_adjoint=self.is_self_adjoint,
                        is_positive_definite=self.is_positive_definite)

    def _inverse(self) -> LinearOperator:
        return self._of(raw_ops.Reciprocal(self._multiplier), is_non_singular=True,
                        is_self_adjoint=self.is_self_adjoint,
                        is_positive_definite=self.is_positive_definite)

    def _cholesky(self) -> LinearOperator:
        return self._of(raw_ops.Sqrt(self._multiplier), is_non_singular=True, is_self_adjoint=True)

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._multiplier, "The operator was singular: the multiplier "
                               "contained zeros.")

    def _assert_positive_definite(self) -> Any:
        return assert_positive(self._multiplier, "The operator is not positive definite: the "
                               "multiplier contained non-positive real parts.")

    def _assert_self_adjoint(self) -> Any:
        return assert_zero_imag_part(self._multiplier, "The operator is not self-adjoint: the "
                                     "multiplier contained imaginary parts.")


class LinearOperatorZeros(_Sized):
    """The operator that makes zeros of everything.

    Args:
        num_rows, num_columns: the sizes; as many columns as rows by default.
        batch_shape: batch dimensions; none by default.
        dtype: float32 by default.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        assert_proper_shapes: also check sizes in each step.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None,
                 dtype: DTypeLike | None = None, is_non_singular: bool | None = False,
                 is_self_adjoint: bool | None = True, is_positive_definite: bool | None = False,
                 is_square: bool | None = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorZeros") -> None:
        if is_non_singular or is_positive_definite:
            raise ValueError("A zero operator is always singular, and not positive-definite.")
        square = num_columns is None or num_columns is num_rows or num_columns == num_rows
        super().__init__(num_rows, num_columns, batch_shape, dtype, assert_proper_shapes,
                         is_non_singular=False, is_positive_definite=False,
                         is_self_adjoint=square, is_square=square, name=name)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        x, rows = self._checked(x, adjoint), self._columns if adjoint else self._rows
        return self._with_own_batch(zeros(raw_ops.ConcatV2(
            [raw_ops.Shape(x)[:-2], raw_ops.Pack([rows, raw_ops.Shape(x)[-1]])], np.int32(0)),
            self.dtype))

    def _to_dense(self) -> Any:
        return zeros(self.shape_tensor(), self.dtype)

    def _determinant(self) -> Any:
        return zeros(self.batch_shape_tensor(), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return raw_ops.Log(self._determinant())

    def _trace(self) -> Any:
        return zeros(self.batch_shape_tensor(), self.dtype)

    def _add_to_tensor(self, x: Any) -> Any:
        return self._with_own_batch(x)

    def _assert_non_singular(self) -> Any:
        raise _never("non-invertible")

    def _assert_positive_definite(self) -> Any:
        raise _never("non-positive definite")

    def _assert_self_adjoint(self) -> Any:
        return self._nothing_to_check()


def _never(what: str) -> Exception:
    """Return the error of zeros that are asked to be something else."""
    return InvalidArgumentError(None, None, f"Zero operators are always {what}.")
