"""Tridiagonal matrices: products, and systems of equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, merge_dims, show, with_rank_at_least
from hpcflow.ops.common.unary import conj
from hpcflow.ops.linalg.linalg import adjoint

__all__: list[str] = []

_TYPES = "T: {double, float, complex64, complex128}"
_LAST = np.int32(-1)

# ---------------------------------------------------------------- shapes


def _rows_of(op: Operation, index: int, height: int) -> Dims:
    """The dims of diagonals, whose last but one dimension has `height`."""
    dims = with_rank_at_least(op.input_dims(index), 2, op.op_def.inputs[index].name)
    if dims is not None and dims[-2] not in (None, height):
        raise ValueError(f"{op.op_def.inputs[index].name} must have {height} in its last but one "
                         f"dimension, but has shape {show(dims)}")
    return dims


def _of_right_side(op: Operation, diagonals: Dims) -> Dims:
    rhs = with_rank_at_least(op.inputs[-1]._dims, 2, "rhs")
    if rhs is None or diagonals is None:
        return rhs
    batch = merge_dims(diagonals[:-2], rhs[:-2])
    return (*(batch or ()), merge_dim(diagonals[-1], rhs[-2]), rhs[-1])


register_op("TridiagonalSolve", "diagonals: T; rhs: T", "output: T",
            f"partial_pivoting: bool = true; perturb_singular: bool = false; {_TYPES}",
            shape=lambda op: [_of_right_side(op, _rows_of(op, 0, 3))])


def _product_shape(op: Operation) -> list[Dims]:
    dims: Dims = None
    for index in range(3):
        dims = merge_dims(dims, _rows_of(op, index, 1))
    return [_of_right_side(op, dims)]


register_op("TridiagonalMatMul", "superdiag: T; maindiag: T; subdiag: T; rhs: T", "output: T",
            _TYPES, shape=_product_shape)

# ---------------------------------------------------------------- gradients


def _shifted(x: TensorLike, by: int, axis: int) -> Tensor:
    """`x` moved along an axis counted from the end: element i is element i + `by`, or zero."""
    x = convert_to_tensor(x)
    moved = raw_ops.Roll(x, np.int32(-by), np.int32(-axis) + raw_ops.Rank(x))
    size = raw_ops.Shape(x)[-axis]
    places = raw_ops.Range(np.int32(0), size, np.int32(1))
    lost = raw_ops.Equal(places, raw_ops.Sub(size, np.int32(1)) if by > 0 else np.int32(0))
    kept = raw_ops.Cast(raw_ops.LogicalNot(lost), DstT=x.dtype.base_dtype)
    return raw_ops.Mul(moved, raw_ops.ExpandDims(kept, _LAST) if axis == 2 else kept)


def _by_diagonals(rows: Tensor, columns: Tensor) -> list[Tensor]:
    """For the upper, the main and the lower diagonal Σ rows[i] conj(columns[j])."""
    columns = conj(columns)
    return [raw_ops.Sum(raw_ops.Mul(rows, other), np.array([-1], np.int32))
            for other in (_shifted(columns, 1, 2), columns, _shifted(columns, -1, 2))]


@RegisterGradient("TridiagonalSolve")
def _solve_grad(op: Operation, grad: Tensor) -> tuple:
    """x = A⁻¹ b: by b the solution of the adjoint system, by A its products with x, negated."""
    if not op.attr("partial_pivoting"):
        raise ValueError("Gradients with partial_pivoting = False are not yet supported.")
    upper, main, lower = raw_ops.Unpack(op.inputs[0], num=3, axis=-2)
    turned = [conj(d) for d in (_shifted(lower, 1, 1), main, _shifted(upper, -1, 1))]
    by_right = raw_ops.TridiagonalSolve(raw_ops.Pack(turned, axis=-2), grad)
    found = raw_ops.Pack(_by_diagonals(by_right, op.outputs[0]), axis=-2)
    return raw_ops.Neg(found), by_right


@RegisterGradient("TridiagonalMatMul")
def _product_grad(op: Operation, grad: Tensor) -> tuple:
    upper, main, lower, rhs = op.inputs
    turned = [conj(d) for d in (_shifted(lower, 1, 1), main, _shifted(upper, -1, 1))]
    found = [raw_ops.ExpandDims(d, np.int32(-2)) for d in _by_diagonals(grad, rhs)]
    return (*found, raw_ops.TridiagonalMatMul(*turned, grad))


# ---------------------------------------------------------------- public functions


def tridiagonal_solve(diagonals: Any, rhs: Tensor, diagonals_format: str = "compact",
                      transpose_rhs: bool = False, conjugate_rhs: bool = False,
                      name: str | None = None, partial_pivoting: bool = True,
                      perturb_singular: bool = False) -> Tensor:
    """Return x with ``A x = rhs`` for tridiagonal matrices A.

    Args:
        diagonals: the upper, the main and the lower diagonal. ``"compact"``: ``[..., 3, M]``, where
            the last element of the upper and the first of the lower one have no meaning;
            ``"sequence"``: three tensors ``[..., M]``, of which the outer ones may be shorter by
            one; ``"matrix"``: ``[..., M, M]``.
        rhs: ``[..., M, K]``, or ``[..., M]`` where the ranks are known.
        diagonals_format: "compact", "sequence" or "matrix".
        transpose_rhs: `rhs` is ``[..., K, M]``, and so is the result.
        conjugate_rhs: the equations are for the conjugates of `rhs`.
        name: name of the scope.
        partial_pivoting: rows may be exchanged, which is stable for all matrices.
        perturb_singular: not supported.

    The results of matrices that have no inverse are NaNs. Raises ``ValueError`` for shapes that do
    not fit, another format or `perturb_singular`.
    """
    if perturb_singular:
        raise ValueError("tridiagonal_solve: perturb_singular is not supported")
    with name_scope(name, "tridiagonal_solve", [rhs]) as scope:
        three = _three(diagonals, diagonals_format)
        compact = raw_ops.Pack(three, axis=-2)
        rhs = convert_to_tensor(rhs, compact.dtype.base_dtype, name="rhs")
        vector = (rhs._dims is not None and compact._dims is not None
                  and len(rhs._dims) == len(compact._dims) - 1)
        if vector:
            rhs = raw_ops.ExpandDims(rhs, _LAST)
        elif transpose_rhs:
            rhs = adjoint(rhs) if conjugate_rhs else conj(adjoint(rhs))
        if conjugate_rhs and (vector or not transpose_rhs):
            rhs = conj(rhs)
        found = raw_ops.TridiagonalSolve(compact, rhs, partial_pivoting=partial_pivoting)
        if vector:
            return raw_ops.Squeeze(found, squeeze_dims=[-1], name=scope)
        return conj(adjoint(found)) if transpose_rhs else found


def tridiagonal_matmul(diagonals: Any, rhs: TensorLike, diagonals_format: str = "compact",
                       name: str | None = None) -> Tensor:
    """Return the products of tridiagonal matrices with `rhs` ``[..., M, K]``.

    The diagonals are those of :func:`tridiagonal_solve`, and so are the errors.
    """
    with name_scope(name, "tridiagonal_matmul", [rhs]) as scope:
        rows = [raw_ops.ExpandDims(d, np.int32(-2)) for d in _three(diagonals, diagonals_format)]
        rhs = convert_to_tensor(rhs, rows[0].dtype.base_dtype, name="rhs")
        return raw_ops.TridiagonalMatMul(*rows, rhs, name=scope)


def _three(diagonals: TensorLike, kind: str) -> list[Tensor]:
    """The three diagonals, as long as the main one."""
    if kind == "compact":
        whole = convert_to_tensor(diagonals, name="diagonals")
        dims = with_rank_at_least(whole._dims, 2, "diagonals")
        if dims is not None and dims[-2] not in (None, 3):
            raise ValueError(f"Expected 3 diagonals, got shape {show(dims)}")
        return raw_ops.Unpack(whole, num=3, axis=-2)
    if kind == "matrix":
        whole = convert_to_tensor(diagonals, name="diagonals")
        dims = with_rank_at_least(whole._dims, 2, "diagonals")
        if dims is None or dims[-1] is None or dims[-1] != dims[-2]:
            raise ValueError(f"Expected square matrices of known size, got shape {show(dims)}")
        upper, main, lower = (_off_diagonal(whole, dims[-1], k) for k in (1, 0, -1))
        return [upper, main, lower]
    if kind != "sequence":
        raise ValueError(f"diagonals_format must be 'compact', 'sequence' or 'matrix' but is "
                         f"{kind!r}")
    if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    upper, main, lower = (convert_to_tensor(d) for d in diagonals)
    return [_as_long(upper, main, after=1), main, _as_long(lower, main, after=0)]


def _off_diagonal(whole: Tensor, size: int, k: int) -> Tensor:
    """The diagonal `k` above the main one, as long as that."""
    rows = np.arange(size)
    columns = np.clip(rows + k, 0, size - 1)
    flat = raw_ops.Reshape(whole, raw_ops.ConcatV2(
        [raw_ops.Shape(whole)[:-2], np.array([-1], np.int32)], np.int32(0)))
    found = raw_ops.GatherV2(flat, (rows * size + columns).astype(np.int32), _LAST)
    kept = (columns == rows + k).astype(whole.dtype.base_dtype.np)
    return raw_ops.Mul(found, kept)


def _as_long(diagonal: Tensor, main: Tensor, after: int) -> Tensor:
    """A diagonal that may lack the element that has no meaning, with one there."""
    short, whole = diagonal._dims, main._dims
    if not short or not whole or short[-1] is None or whole[-1] is None:
        raise ValueError("The lengths of the diagonals must be known")
    if short[-1] == whole[-1]:
        return diagonal
    if short[-1] != whole[-1] - 1:
        raise ValueError(f"Expected diagonals as long as the main one or shorter by one, got "
                         f"shapes {show(short)} and {show(whole)}")
    around = [[0, 0]] * (len(short) - 1) + [[1 - after, after]]
    return raw_ops.Pad(diagonal, np.array(around, np.int32))
