"""Operators that only have a diagonal: identities, multiples of them, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of
from hpcflow.ops.arrays.constants import ones, zeros
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
        real = _real(self._diag)
        return assert_less(raw_ops.ZerosLike(real), real,
                           message="Operator is not positive definite: the diagonal contained "
                           "non-positive values.")


def _as_dims(batch: Any) -> tuple[TensorShape, Any]:
    """Batch dimensions as a shape, as far as it is known, and as a vector."""
    if batch is None:
        return TensorShape([]), np.zeros([0], np.int32)
    vector = convert_to_tensor(batch, dtypes.int32, "batch_shape")
    value = constant_value(vector)
    shape = TensorShape([None] * (vector.shape.num_elements() or 0)) if (
        value is None and vector.shape.is_fully_defined()) else TensorShape(
            None if value is None else [int(n) for n in value])
    return shape, vector


class _Sized(LinearOperator):
    """An operator with a number of rows, of columns, and batch dimensions."""

    def __init__(self, rows: Any, columns: Any, batch: Any, dtype: DTypeLike | None,
                 **hints: Any) -> None:
        self._rows, self._columns = (convert_to_tensor(n, dtypes.int32) for n in (rows, columns))
        self._batch, self._batch_vector = _as_dims(batch)
        for n, what in ((rows, "num_rows"), (columns, "num_columns")):
            if isinstance(n, int) and n < 0:
                raise ValueError(f"{what} must be non-negative. Found: {n}")
        super().__init__(dtype or dtypes.float32, **hints)

    def _shape(self) -> TensorShape:
        sizes = [constant_value(n) for n in (self._rows, self._columns)]
        return self._batch.concatenate([None if n is None else int(n) for n in sizes])

    def _shape_tensor(self) -> Any:
        return raw_ops.ConcatV2([self._batch_vector, raw_ops.Pack([self._rows, self._columns])],
                                np.int32(0))

    def _diagonal_shape(self) -> Any:
        return self.shape_tensor()[:-1]

    def _with_own_batch(self, x: Any) -> Any:
        """Matrices with the batch dimensions of the operator as well."""
        if self._batch.ndims == 0:
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
        assert_proper_shapes: accepted.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, batch_shape: Any = None, dtype: DTypeLike | None = None,
                 is_non_singular: bool | None = True, is_self_adjoint: bool | None = True,
                 is_positive_definite: bool | None = True, is_square: bool | None = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity") -> None:
        if not (is_non_singular and is_self_adjoint and is_positive_definite and is_square):
            raise ValueError("An identity operator is always self-adjoint, non-singular, positive "
                             "definite and square.")
        super().__init__(num_rows, num_rows, batch_shape, dtype, is_positive_definite=True,
                         is_self_adjoint=True, name=name)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._with_own_batch(x)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._with_own_batch(rhs)

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
        assert_proper_shapes: accepted.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, multiplier: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorScaledIdentity") -> None:
        if is_square is False:
            raise ValueError("A ScaledIdentity operator is always square.")
        self._multiplier: Any = convert_to_tensor(multiplier, name="multiplier")
        rows = convert_to_tensor(num_rows, dtypes.int32)
        shape = raw_ops.ConcatV2([raw_ops.Shape(self._multiplier), raw_ops.ExpandDims(
            rows, np.int32(0))], np.int32(0))
        diag = raw_ops.BroadcastTo(raw_ops.ExpandDims(self._multiplier, np.int32(-1)), shape)
        if self._multiplier.shape.ndims is not None:
            size = constant_value(rows)
            known = [None if size is None else int(size)]
            diag.set_shape(self._multiplier.shape.concatenate(known))
        super().__init__(diag, is_non_singular, is_self_adjoint, is_positive_definite, name=name)

    @property
    def multiplier(self) -> Any:
        """The number."""
        return self._multiplier


class LinearOperatorZeros(_Sized):
    """The operator that makes zeros of everything.

    Args:
        num_rows, num_columns: the sizes; as many columns as rows by default.
        batch_shape: batch dimensions; none by default.
        dtype: float32 by default.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        assert_proper_shapes: accepted.
        name: of the scope of its operations.
    """

    def __init__(self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None,
                 dtype: DTypeLike | None = None, is_non_singular: bool | None = False,
                 is_self_adjoint: bool | None = True, is_positive_definite: bool | None = False,
                 is_square: bool | None = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorZeros") -> None:
        if is_non_singular or is_positive_definite:
            raise ValueError("A zero operator is always singular, and not positive definite.")
        square = num_columns is None or num_columns is num_rows or num_columns == num_rows
        super().__init__(num_rows, num_rows if num_columns is None else num_columns, batch_shape,
                         dtype, is_non_singular=False, is_positive_definite=False,
                         is_self_adjoint=square, is_square=square, name=name)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        rows = self._columns if adjoint else self._rows
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
        raise _never("non-singular")

    def _assert_positive_definite(self) -> Any:
        raise _never("positive definite")

    def _assert_self_adjoint(self) -> Any:
        return self._nothing_to_check()


def _never(what: str) -> Exception:
    """Return the error of zeros that are asked to be something else."""
    return InvalidArgumentError(None, None, f"Zero operators are always not {what}.")
