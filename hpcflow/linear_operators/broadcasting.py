"""Products and solutions of batches of matrices whose batch dimensions broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.shape_ops import broadcast_dynamic_shape, broadcast_static_shape
from hpcflow.shapes import TensorShape


def product(a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False) -> Any:
    """Return the matrix products of two batches."""
    return raw_ops.BatchMatMulV2(a, b, adj_x=adjoint_a, adj_y=adjoint_b)


def adjoint(x: Any) -> Any:
    """Return the conjugate transposes."""
    rank = x.shape.ndims
    if rank is None:
        number = raw_ops.Rank(x)
        order: Any = raw_ops.ConcatV2([raw_ops.Range(np.int32(0), number - 2, np.int32(1)),
                                       raw_ops.Pack([number - 1, number - 2])], np.int32(0))
    else:
        order = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
    turned = raw_ops.Transpose(x, order)
    return raw_ops.Conj(turned) if x.dtype.is_complex else turned


def together(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two batches of matrices with the batch dimensions that both broadcast to."""
    left, right = a.shape[:-2], b.shape[:-2]
    if left.is_fully_defined() and right.is_fully_defined():
        batch = broadcast_static_shape(left, right)
        return with_batch(a, batch), with_batch(b, batch)
    shape = broadcast_dynamic_shape(raw_ops.Shape(a)[:-2], raw_ops.Shape(b)[:-2])
    return with_batch(a, shape), with_batch(b, shape)


def with_batch(x: Any, batch: Any, inner: int = 2) -> Any:
    """Return `x` with the batch dimensions `batch`, a shape or a tensor, before `inner` others."""
    if isinstance(batch, TensorShape):
        if x.shape.ndims is not None and x.shape[:x.shape.ndims - inner].as_list() == (
                batch.as_list()):
            return x
        batch = np.array(batch.as_list(), np.int32)
    rest = raw_ops.Shape(x)[-inner:]
    return raw_ops.BroadcastTo(x, raw_ops.ConcatV2([batch, rest], np.int32(0)))


def solution(matrix: Any, rhs: Any, adjoint_matrix: bool = False) -> Any:
    """Return the solutions of ``matrix X = rhs``, or with the adjoint of the matrix."""
    return raw_ops.MatrixSolve(*together(matrix, rhs), adjoint=adjoint_matrix)


def triangular_solution(matrix: Any, rhs: Any, adjoint_matrix: bool = False) -> Any:
    """Return the solutions for lower triangular matrices."""
    return raw_ops.MatrixTriangularSolve(*together(matrix, rhs), lower=True,
                                         adjoint=adjoint_matrix)


def static_batch(a: TensorShape, b: TensorShape) -> TensorShape:
    """Return the shape that two shapes broadcast to, as far as it is known."""
    return TensorShape(None) if None in (a.ndims, b.ndims) else broadcast_static_shape(a, b)
