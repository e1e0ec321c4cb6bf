"""Checks of operators and of batches of matrices, by the names of ``linear_operator_util``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.ops.arrays.shape_ops import broadcast_dynamic_shape, broadcast_static_shape
from hpcflow.ops.flow.checks import assert_equal, assert_less


def assert_no_entries_with_modulus_zero(x: TensorLike, message: str | None = None,
                                        name: str | None = None) -> Operation:
    """Return an op that fails unless all entries of `x`, real or complex, differ from zero."""
    with name_scope(name, "assert_no_entries_with_modulus_zero"):
        x = convert_to_tensor(x, name="x")
        size = raw_ops.ComplexAbs(x) if x.dtype.is_complex else raw_ops.Abs(x)
        return assert_less(convert_to_tensor(0, size.dtype), size, message=message)


def assert_zero_imag_part(x: TensorLike, message: str | None = None,
                          name: str | None = None) -> Operation:
    """Return an op that fails unless `x` is real."""
    with name_scope(name, "assert_zero_imag_part"):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_complex:
            return raw_ops.NoOp()
        part = raw_ops.Imag(x, Tout=x.dtype.real_dtype)
        return assert_equal(convert_to_tensor(0, part.dtype), part, message=message)


def assert_compatible_matrix_dimensions(operator: Any, x: Tensor, rows: Any = None) -> Operation:
    """Return an op that fails unless matrices `x` have `rows` rows: the columns of `operator`."""
    name = getattr(operator, "name", type(operator).__name__)
    return assert_equal(
        raw_ops.Shape(x)[-2], operator.domain_dimension_tensor() if rows is None else rows,
        message=f"Dimensions are not compatible: shape[-2] of the argument to the operator "
                f"'{name}' must be its domain dimension")


def broadcast_matrix_batch_dims(batch_matrices: Sequence[TensorLike],
                                name: str | None = None) -> list[Tensor]:
    """Return batches of matrices with the batch dimensions that all of them broadcast to.

    Raises ``TypeError`` for what is no list, ``ValueError`` for a rank below 2 or batch dimensions
    that do not fit.
    """
    if not isinstance(batch_matrices, (list, tuple)):
        raise TypeError(f"batch_matrices must be a list of matrices, got {batch_matrices!r}")
    with name_scope(name, "broadcast_matrix_batch_dims", list(batch_matrices)):
        found = [convert_to_tensor(m) for m in batch_matrices]
        for matrix in found:
            if matrix.shape.ndims is not None and matrix.shape.ndims < 2:
                raise ValueError("batch_matrices must have at least two dimensions, found "
                                 f"{matrix}")
        if len(found) < 2:
            return found
        if all(m.shape[:-2].is_fully_defined() for m in found):
            batch: Any = found[0].shape[:-2]
            for matrix in found[1:]:
                batch = broadcast_static_shape(batch, matrix.shape[:-2])
        else:
            batch = raw_ops.Shape(found[0])[:-2]
            for matrix in found[1:]:
                batch = broadcast_dynamic_shape(batch, raw_ops.Shape(matrix)[:-2])
        return [broadcasting.with_batch(m, batch) for m in found]


def matrix_solve_with_broadcast(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False,
                                name: str | None = None) -> Tensor:
    """Return the solutions X of ``matrix X = rhs``, whose batch dimensions broadcast."""
    with name_scope(name, "MatrixSolveWithBroadcast", [matrix, rhs]):
        return raw_ops.MatrixSolve(*broadcast_matrix_batch_dims([matrix, rhs]), adjoint=adjoint)


def matrix_triangular_solve_with_broadcast(matrix: TensorLike, rhs: TensorLike, lower: bool = True,
                                           adjoint: bool = False,
                                           name: str | None = None) -> Tensor:
    """As :func:`matrix_solve_with_broadcast`, for triangular matrices."""
    with name_scope(name, "MatrixTriangularSolveWithBroadcast", [matrix, rhs]):
        return raw_ops.MatrixTriangularSolve(*broadcast_matrix_batch_dims([matrix, rhs]),
                                             lower=lower, adjoint=adjoint)


def cholesky_solve_with_broadcast(chol: TensorLike, rhs: TensorLike,
                                  name: str | None = None) -> Tensor:
    """Return the solutions for positive definite matrices, of which `chol` are the factors."""
    with name_scope(name, "CholeskySolveWithBroadcast", [chol, rhs]):
        half = matrix_triangular_solve_with_broadcast(chol, rhs)
        return matrix_triangular_solve_with_broadcast(chol, half, adjoint=True)


def use_operator_or_provided_hint_unless_contradicting(
        operator: Any, hint_attr_name: str, provided_hint_value: bool | None,
        message: str) -> bool | None:
    """Return what `operator` or the given value says, None if neither does.

    Raises ``ValueError`` with the message if they contradict each other.
    """
    known = getattr(operator, hint_attr_name)
    if None not in (known, provided_hint_value) and bool(known) != bool(provided_hint_value):
        raise ValueError(message)
    return provided_hint_value if known is None else known
