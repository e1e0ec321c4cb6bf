"""Products and solutions of two operators that are of a simpler kind than a composition."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators.algebra import RegisterMatmul, RegisterSolve
from hpcflow.linear_operators.base import LinearOperator
from hpcflow.linear_operators.blocks import LinearOperatorBlockDiag, LinearOperatorComposition
from hpcflow.linear_operators.broadcasting import static_batch
from hpcflow.linear_operators.circulant import LinearOperatorCirculant
from hpcflow.linear_operators.dense import LinearOperatorLowerTriangular
from hpcflow.linear_operators.diagonal import LinearOperatorDiag
from hpcflow.linear_operators.identities import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)


def product_hints(left: LinearOperator, right: LinearOperator) -> dict[str, Any]:
    """Return what is known of the product of two operators."""
    square = True if left.is_square and right.is_square else None
    # Factors that are not square may have a product that has an inverse.
    singular = square and False in (left.is_non_singular, right.is_non_singular)
    regular = left.is_non_singular and right.is_non_singular
    return {"is_non_singular": False if singular else (regular or None), "is_square": square}


def _diagonal_hints(left: LinearOperator, right: LinearOperator) -> dict[str, Any]:
    """What is known of the product of two operators that commute."""
    def both(name: str) -> bool | None:
        return True if getattr(left, name) and getattr(right, name) else None

    return {**product_hints(left, right), "is_self_adjoint": both("is_self_adjoint"),
            "is_positive_definite": both("is_positive_definite")}


@RegisterMatmul(LinearOperator, LinearOperator)
def _composed(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return LinearOperatorComposition([left, right], **product_hints(left, right))


@RegisterSolve(LinearOperator, LinearOperator)
def _solved(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return LinearOperatorComposition([left.inverse(), right], **product_hints(left, right))


def _keeps_batch(kept: LinearOperator, other: LinearOperator) -> bool:
    """True if the product is known to have the batch dimensions of one factor."""
    own, more = kept.batch_shape, other.batch_shape
    return more.ndims == 0 or (own.is_fully_defined() and more.is_fully_defined() and
                               static_batch(own, more).as_list() == own.as_list())


@RegisterMatmul(LinearOperatorIdentity, LinearOperator)
@RegisterSolve(LinearOperatorIdentity, LinearOperator)
def _right(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return right if _keeps_batch(right, left) else _composed(left, right)


@RegisterMatmul(LinearOperator, LinearOperatorIdentity)
@RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorIdentity)
@RegisterMatmul(LinearOperatorDiag, LinearOperatorIdentity)
def _left(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return left if _keeps_batch(left, right) else _composed(left, right)


@RegisterMatmul(LinearOperatorIdentity, LinearOperatorIdentity)
@RegisterSolve(LinearOperatorIdentity, LinearOperatorIdentity)
def _identity(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return left if _keeps_batch(left, right) else _right(left, right)


@RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _scaled(left: Any, right: Any) -> LinearOperator:
    return LinearOperatorScaledIdentity(
        left.domain_dimension_tensor(), left.multiplier * right.multiplier,
        **_diagonal_hints(left, right))


@RegisterSolve(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _scaled_solution(left: Any, right: Any) -> LinearOperator:
    return LinearOperatorScaledIdentity(
        left.domain_dimension_tensor(), right.multiplier / left.multiplier,
        **_diagonal_hints(left, right))


@RegisterMatmul(LinearOperatorZeros, LinearOperator)
def _zeros_left(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return left if right.is_square and _keeps_batch(left, right) else _composed(left, right)


@RegisterMatmul(LinearOperator, LinearOperatorZeros)
@RegisterMatmul(LinearOperatorIdentity, LinearOperatorZeros)
def _zeros_right(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return right if left.is_square and _keeps_batch(right, left) else _composed(left, right)


@RegisterMatmul(LinearOperatorZeros, LinearOperatorZeros)
@RegisterMatmul(LinearOperatorZeros, LinearOperatorIdentity)
def _zeros(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    return _zeros_left(left, right)


@RegisterMatmul(LinearOperatorDiag, LinearOperatorDiag)
@RegisterMatmul(LinearOperatorDiag, LinearOperatorScaledIdentity)
@RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _diagonals(left: Any, right: Any) -> LinearOperator:
    return LinearOperatorDiag(left.diag_part() * right.diag_part(), **_diagonal_hints(left, right))


@RegisterSolve(LinearOperatorDiag, LinearOperatorDiag)
@RegisterSolve(LinearOperatorDiag, LinearOperatorScaledIdentity)
@RegisterSolve(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _diagonal_solution(left: Any, right: Any) -> LinearOperator:
    return LinearOperatorDiag(right.diag_part() / left.diag_part(), **_diagonal_hints(left, right))


@RegisterMatmul(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _diagonal_triangle(left: Any, right: Any) -> LinearOperator:
    column = raw_ops.ExpandDims(left.diag_part(), -1)
    return LinearOperatorLowerTriangular(column * right.to_dense(), **product_hints(left, right))


@RegisterMatmul(LinearOperatorLowerTriangular, LinearOperatorDiag)
def _triangle_diagonal(left: Any, right: Any) -> LinearOperator:
    row = raw_ops.ExpandDims(right.diag_part(), -2)
    return LinearOperatorLowerTriangular(left.to_dense() * row, **product_hints(left, right))


@RegisterSolve(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _triangle_solution(left: Any, right: Any) -> LinearOperator:
    column = raw_ops.ExpandDims(left.diag_part(), -1)
    return LinearOperatorLowerTriangular(right.to_dense() / column, **product_hints(left, right))


@RegisterMatmul(LinearOperatorCirculant, LinearOperatorCirculant)
def _circulants(left: Any, right: Any) -> LinearOperator:
    return LinearOperatorCirculant(left.spectrum * right.spectrum, left.dtype,
                                   **_diagonal_hints(left, right))


def _same_blocks(left: Any, right: Any) -> bool:
    return len(left.operators) == len(right.operators) and all(
        a.domain_dimension.value is not None and a.domain_dimension == b.range_dimension
        for a, b in zip(left.operators, right.operators))


@RegisterMatmul(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _blocks(left: Any, right: Any) -> LinearOperator:
    if not _same_blocks(left, right):
        return _composed(left, right)
    return LinearOperatorBlockDiag(
        [a.matmul(b) for a, b in zip(left.operators, right.operators)],
        **product_hints(left, right))


@RegisterSolve(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _block_solution(left: Any, right: Any) -> LinearOperator:
    if not _same_blocks(left, right):
        return _solved(left, right)
    return LinearOperatorBlockDiag(
        [a.solve(b) for a, b in zip(left.operators, right.operators)],
        **product_hints(left, right))
