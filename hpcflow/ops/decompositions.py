"""Matrix decompositions: Qr, SelfAdjointEig and Svd."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank_at_least
from hpcflow.ops.complex_numbers import real
from hpcflow.ops.linalg import (
    DEPRECATED,
    adjoint,
    halved_diagonal,
    number,
    product,
    register_with_batch,
    square,
)

__all__ = ["qr", "self_adjoint_eig", "self_adjoint_eigvals", "svd"]

# ---------------------------------------------------------------- shapes


def _qr_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 2, "input")
    if dims is None:
        return [None, None]
    *batch, rows, columns = dims
    if op.attr("full_matrices"):
        return [(*batch, rows, rows), (*batch, rows, columns)]
    inner = _smaller(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


def _smaller(rows: int | None, columns: int | None) -> int | None:
    return None if rows is None or columns is None else min(rows, columns)


def _eig_shape(op: Operation) -> list[Dims]:
    dims = square(op.input_dims(0))
    if dims is None:
        return [None]
    *batch, size, _ = dims
    return [(*batch, None if size is None else size + 1, size)]


def _eig_v2_shape(op: Operation) -> list[Dims]:
    dims = square(op.input_dims(0))
    vectors = dims if op.attr("compute_v") else (0,)
    return [None if dims is None else dims[:-1], vectors]


def _svd_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 2, "input")
    vectors = op.attr("compute_uv")
    if dims is None:
        return [None, None, None] if vectors else [None, (0,), (0,)]
    *batch, rows, columns = dims
    inner = _smaller(rows, columns)
    if not vectors:
        return [(*batch, inner), (0,), (0,)]
    if op.attr("full_matrices"):
        return [(*batch, inner), (*batch, rows, rows), (*batch, columns, columns)]
    return [(*batch, inner), (*batch, rows, inner), (*batch, columns, inner)]


# ---------------------------------------------------------------- op types

_COMPLEX = "T: {double, float, complex64, complex128}"
_REAL = "T: {double, float}"

register_op("Qr", "input: T", "q: T; r: T", f"full_matrices: bool = false; {_COMPLEX}",
            shape=_qr_shape)
for _name in ("SelfAdjointEig", "BatchSelfAdjointEig"):
    register_op(_name, "input: T", "output: T", _REAL, shape=_eig_shape,
                deprecated=DEPRECATED if _name[0] == "B" else "use SelfAdjointEigV2")
register_with_batch("SelfAdjointEigV2", "input: T", "e: T; v: T",
                    f"compute_v: bool = true; {_COMPLEX}", _eig_v2_shape,
                    f"compute_v: bool = true; {_REAL}")
register_with_batch("Svd", "input: T", "s: T; u: T; v: T",
                    f"compute_uv: bool = true; full_matrices: bool = false; {_COMPLEX}",
                    _svd_shape)

# ---------------------------------------------------------------- gradients


@RegisterGradient("BatchSelfAdjointEigV2")
@RegisterGradient("SelfAdjointEigV2")
def _eig_grad(op: Operation, grad_e: Tensor, grad_v: Tensor) -> Tensor:
    """Only the lower triangle is read, so that one has the gradient, of both triangles."""
    if op.attr("compute_v"):
        e, v = op.outputs
        rotation = raw_ops.Mul(_reciprocal_gaps(e), product(v, grad_v, adj_x=True))
        inner = raw_ops.Add(raw_ops.MatrixDiag(grad_e), rotation)
    else:
        v = raw_ops.SelfAdjointEigV2(op.inputs[0])[1]
        inner = raw_ops.MatrixDiag(grad_e)
    full = product(v, product(inner, v, adj_y=True))
    return halved_diagonal(raw_ops.Add(full, adjoint(full)))


def _reciprocal_gaps(e: Tensor) -> Tensor:
    """``1 / (e[j] - e[i])`` at [i, j]; zeros on the diagonal."""
    rows = raw_ops.ExpandDims(e, np.int32(-2))
    gaps = raw_ops.Sub(rows, raw_ops.ExpandDims(e, np.int32(-1)))
    zeros = raw_ops.ZerosLike(e)
    ones = raw_ops.Add(zeros, number(e, 1.0))
    return raw_ops.MatrixSetDiag(raw_ops.Reciprocal(raw_ops.MatrixSetDiag(gaps, ones)), zeros)


# ---------------------------------------------------------------- building


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (q, r) with ``input = q @ r``: orthonormal columns and an upper triangle.

    Args:
        input: matrices, shape ``[..., M, N]``.
        full_matrices: make q square (``[..., M, M]``) instead of ``[..., M, min(M, N)]``.
        name: name of the operation.
    """
    q, r = raw_ops.Qr(input=input, full_matrices=full_matrices, name=name)
    return q, r


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (eigenvalues, eigenvectors) of symmetric matrices, in ascending order.

    Args:
        tensor: ``[..., N, N]``; only the lower triangle is read.
        name: name of the operation.

    Returns:
        ``e`` of shape ``[..., N]`` and ``v`` of shape ``[..., N, N]``, whose columns are the
        vectors: ``tensor v[..., i] = e[i] v[..., i]``.
    """
    e, v = raw_ops.SelfAdjointEigV2(input=tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Return the eigenvalues of symmetric matrices ``[..., N, N]`` in ascending order."""
    return raw_ops.SelfAdjointEigV2(input=tensor, compute_v=False, name=name)[0]


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True,
        name: str | None = None) -> Any:
    """Return (s, u, v) with ``tensor = u diag(s) vᴴ``, or s alone without `compute_uv`.

    Args:
        tensor: ``[..., M, N]``; ``P = min(M, N)``.
        full_matrices: make u ``[..., M, M]`` and v ``[..., N, N]`` instead of ``[..., M, P]``
            and ``[..., N, P]``.
        compute_uv: also return the singular vectors.
        name: name of the operation.

    Returns:
        The singular values ``[..., P]``, real and in descending order, and the vectors.
    """
    s, u, v = raw_ops.Svd(input=tensor, compute_uv=bool(compute_uv),
                          full_matrices=bool(full_matrices), name=name)
    values = real(s)
    return (values, u, v) if compute_uv else values
