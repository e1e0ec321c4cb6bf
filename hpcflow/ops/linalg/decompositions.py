"""Matrix decompositions: Qr, SelfAdjointEig and Svd."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import show, with_rank_at_least
from hpcflow.ops.linalg.linalg import (
    DEPRECATED,
    adjoint,
    halved_diagonal,
    number,
    product,
    register_with_batch,
    square,
)
from hpcflow.ops.math.complex_numbers import real

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


@RegisterGradient("Qr")
def _qr_grad(op: Operation, grad_q: Tensor, grad_r: Tensor) -> Tensor:
    """The first columns of A, as many as those of Q, decide Q; the others are Q R[:, k:]."""
    a, (q, r) = op.inputs[0], op.outputs
    rows, columns = _sizes(a)
    known = None not in (rows, columns)
    if op.attr("full_matrices") and (not known or rows > columns):
        raise NotImplementedError("the gradient of Qr with full_matrices needs as many columns as "
                                  f"rows, known while the graph is built, but has {show(a._dims)}")
    if known and rows >= columns:
        return _qr_grad_of_columns(q, r, grad_q, grad_r)
    count: Any = raw_ops.Shape(q)[-1]  # type: ignore[index]
    both: Any = (a, r, grad_r)
    others, square_r = [t[..., count:] for t in both[::2]], [t[..., :count] for t in both[1:]]
    grad_q = raw_ops.Add(grad_q, product(others[0], others[1], adj_y=True))
    first = _qr_grad_of_columns(q, square_r[0], grad_q, square_r[1])
    return raw_ops.ConcatV2([first, product(q, others[1])], np.int32(-1))


def _qr_grad_of_columns(q: Tensor, r: Tensor, grad_q: Tensor, grad_r: Tensor) -> Tensor:
    """``(dQ + Q (tril(W - Wᴴ) - W)) R⁻ᴴ`` with ``W = Qᴴ dQ - dR Rᴴ`` and half of the diagonal of
    the triangle: what turns Q is antisymmetric, and R keeps a real diagonal."""
    turned = raw_ops.Sub(product(q, grad_q, adj_x=True), product(grad_r, r, adj_y=True))
    inner = raw_ops.Sub(halved_diagonal(raw_ops.Sub(turned, adjoint(turned))), turned)
    whole = raw_ops.Add(grad_q, product(q, inner))
    return adjoint(raw_ops.MatrixTriangularSolve(r, adjoint(whole), lower=False))


def _sizes(a: Tensor) -> tuple:
    """The numbers of rows and columns, None where unknown."""
    return (None, None) if a._dims is None else a._dims[-2:]


@RegisterGradient("BatchSvd")
@RegisterGradient("Svd")
def _svd_grad(op: Operation, grad_s: Tensor, grad_u: Tensor, grad_v: Tensor) -> Tensor:
    """Of the singular values, and of the vectors as far as they are determined: not by their signs
    (or phases), nor within those of one singular value."""
    a = op.inputs[0]
    values = raw_ops.MatrixDiag(grad_s)
    if not op.attr("compute_uv"):
        _, u, v = raw_ops.Svd(a, compute_uv=True)
        return product(u, product(values, v, adj_y=True))
    s, u, v = op.outputs
    rows, columns = _sizes(a)
    if op.attr("full_matrices"):
        u, grad_u = _thin(u, grad_u, s)
        v, grad_v = _thin(v, grad_v, s)
    inverse = raw_ops.MatrixDiag(raw_ops.DivNoNan(raw_ops.OnesLike(s), s))
    by_u, by_v = product(u, grad_u, adj_x=True), product(v, grad_v, adj_x=True)
    inner = raw_ops.Add(values, raw_ops.Add(_scaled(_turned(by_u, s), s, -2),
                                            _scaled(_turned(by_v, s), s, -1)))
    if a.dtype.is_complex:
        phases = raw_ops.MatrixDiag(raw_ops.MatrixDiagPart(by_u))
        half = raw_ops.Mul(raw_ops.Sub(phases, adjoint(phases)), number(s, 0.5))
        inner = raw_ops.Add(inner, product(inverse, half))
    whole = product(u, product(inner, v, adj_y=True))
    if rows is None or rows != columns:
        across = raw_ops.Sub(grad_u, product(u, by_u))
        whole = raw_ops.Add(whole, product(product(across, inverse), v, adj_y=True))
        across = raw_ops.Sub(grad_v, product(v, by_v))
        whole = raw_ops.Add(whole, product(u, product(across, inverse), adj_y=True))
    return whole


def _thin(vectors: Tensor, grad: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors of the singular values, and their gradient, to which that of all others comes:
    these are perpendicular to them."""
    count: Any = raw_ops.Shape(s)[-1]  # type: ignore[index]
    both: Any = (vectors, grad)
    (first, rest), (grad_first, grad_rest) = ((x[..., :count], x[..., count:]) for x in both)
    follow = product(rest, product(grad_rest, first, adj_x=True))
    return first, raw_ops.Sub(grad_first, follow)


def _turned(by: Tensor, s: Tensor) -> Tensor:
    """``J + Jᴴ`` for J = by / (s[j]² - s[i]²); nothing where two singular values are the same."""
    squares = raw_ops.Square(s)
    gaps = raw_ops.Sub(raw_ops.ExpandDims(squares, np.int32(-2)),
                       raw_ops.ExpandDims(squares, np.int32(-1)))
    part = raw_ops.DivNoNan(by, gaps)
    return raw_ops.Add(part, adjoint(part))


def _scaled(x: Tensor, s: Tensor, axis: int) -> Tensor:
    """The columns (axis -2) or the rows (-1) of `x` times the singular values."""
    return raw_ops.Mul(x, raw_ops.ExpandDims(s, np.int32(axis)))


# ---------------------------------------------------------------- building


def qr(input: TensorLike, full_matrices: bool = False,
       name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (q, r) with ``input = q @ r``: orthonormal columns and an upper triangle.

    Args:
        input: matrices, shape ``[..., M, N]``.
        full_matrices: make q square (``[..., M, M]``) instead of ``[..., M, min(M, N)]``.
        name: name of the operation.
    """
    q, r = raw_ops.Qr(input=input, full_matrices=full_matrices, name=name)
    return q, r


def self_adjoint_eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
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


def self_adjoint_eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return the eigenvalues of symmetric matrices ``[..., N, N]`` in ascending order."""
    return raw_ops.SelfAdjointEigV2(input=tensor, compute_v=False, name=name)[0]


def svd(tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True,
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
