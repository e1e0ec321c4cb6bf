"""Triangles of matrices, functions of matrices, and what follows from singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank_at_least
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.ops.linalg.linalg import adjoint, number, product, square_shape
from hpcflow.ops.linalg.norms import norm

__all__: list[str] = []

_COMPLEX = "T: {double, float, complex64, complex128}"


def _lu_shape(op: Operation) -> list[Dims]:
    dims = square_shape(op)[0]
    return [dims, None if dims is None else dims[:-1]]


register_op("Lu", "input: T", "lu: T; p: output_idx_type",
            f"output_idx_type: {INDEX} = int32; {_COMPLEX}", shape=_lu_shape)
register_op("MatrixSquareRoot", "input: T", "output: T", _COMPLEX, shape=square_shape)
register_op("MatrixLogarithm", "input: T", "output: T", "T: {complex64, complex128}",
            shape=square_shape)


@RegisterGradient("Lu")
def _lu_grad(op: Operation, grad: Tensor, _: object) -> Tensor:
    """With A[p] = L U: ``L⁻ᴴ (tril(Lᴴ dL, -1) + triu(dU Uᴴ)) U⁻ᴴ``, rows in the order of A."""
    both, order = op.outputs
    lower, upper = _triangles(both)
    below = raw_ops.Sub(grad, _upper(grad))
    left = product(lower, below, adj_x=True)
    inner = raw_ops.Add(raw_ops.Sub(left, _upper(left)),
                        _upper(product(_upper(grad), upper, adj_y=True)))
    half = raw_ops.MatrixTriangularSolve(lower, inner, lower=True, adjoint=True)
    rows = adjoint(raw_ops.MatrixTriangularSolve(upper, adjoint(half), lower=False))
    return product(_places(order, both), rows, adj_x=True)


@RegisterGradient("MatrixSquareRoot")
def _square_root_grad(op: Operation, grad: Tensor) -> Tensor:
    """X of ``Sᴴ X + X Sᴴ = G``, as one system of equations for each matrix."""
    root = adjoint(op.outputs[0])
    shape: Any = raw_ops.Shape(root)
    size = shape[-1]
    unit = raw_ops.MatrixDiag(raw_ops.Fill(raw_ops.ExpandDims(size, np.int32(0)),
                                           number(root, 1)))
    system = raw_ops.Add(_kronecker(root, unit, shape),
                         _kronecker(unit, _swapped(root), shape))
    flat = raw_ops.ConcatV2([shape[:-2], raw_ops.Pack([raw_ops.Mul(size, size), np.int32(1)])],
                            np.int32(0))
    return raw_ops.Reshape(raw_ops.MatrixSolve(system, raw_ops.Reshape(grad, flat)), shape)


@RegisterGradient("MatrixLogarithm")
def _logarithm_grad(op: Operation, grad: Tensor) -> Tensor:
    """The derivative at ``Aᴴ`` in the direction G, a block of ``log [[Aᴴ, G], [0, Aᴴ]]``."""
    flipped = adjoint(op.inputs[0])
    last, rows = np.int32(-1), np.int32(-2)
    both = raw_ops.ConcatV2([raw_ops.ConcatV2([flipped, grad], last),
                             raw_ops.ConcatV2([raw_ops.ZerosLike(flipped), flipped], last)], rows)
    size = raw_ops.Shape(flipped)[-1]  # type: ignore[index]
    found: Any = raw_ops.MatrixLogarithm(both)
    return found[..., :size, size:]


def _kronecker(x: Tensor, y: Tensor, shape: Sequence[int | None]) -> Tensor:
    """The Kronecker products of matrices, where one may be a single matrix; `shape` of a batch."""
    size = shape[-1]
    # [..., i, k, j, l] of x[i, j] and y[k, l].
    left = raw_ops.ExpandDims(raw_ops.ExpandDims(x, np.int32(-2)), np.int32(-1))
    right = raw_ops.ExpandDims(raw_ops.ExpandDims(y, np.int32(-2)), np.int32(-4))
    square = raw_ops.Mul(size, size)
    both = raw_ops.Mul(left, right)
    return raw_ops.Reshape(both, raw_ops.ConcatV2([shape[:-2], raw_ops.Pack([square, square])],
                                                  np.int32(0)))


def _swapped(x: Tensor) -> Tensor:
    """The transposes, not conjugated."""
    flipped = adjoint(x)
    return raw_ops.Conj(flipped) if x.dtype.is_complex else flipped


def _upper(x: Tensor) -> Tensor:
    return raw_ops.MatrixBandPart(x, np.int64(0), np.int64(-1))


def _triangles(both: Tensor) -> tuple[Tensor, Tensor]:
    """The lower triangle, with ones on the diagonal, and the upper one."""
    diagonal = raw_ops.MatrixDiagPart(both)
    ones = raw_ops.Add(raw_ops.ZerosLike(diagonal), number(both, 1))
    lower = raw_ops.MatrixSetDiag(raw_ops.MatrixBandPart(both, np.int64(-1), np.int64(0)), ones)
    return lower, _upper(both)


# ---------------------------------------------------------------- triangles


def lu(input: TensorLike, output_idx_type: TensorLike = dtypes.int32,
       name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (lu, p): the rows `p` of square matrices are products of two triangles.

    Args:
        input: ``[..., N, N]``.
        output_idx_type: int32 or int64, the type of `p`.
        name: name of the operation.

    Returns:
        ``lu`` holds the lower triangle (whose diagonal is of ones, and left out) and the upper
        one; ``p`` ``[..., N]`` which row of the input each row of the product is.
    """
    both, order = raw_ops.Lu(input=input, output_idx_type=output_idx_type, name=name)
    return both, order


def lu_solve(lower_upper: TensorLike, perm: TensorLike, rhs: TensorLike,
             validate_args: bool = False, name: str | None = None) -> Tensor:
    """Return ``x`` with ``A x = rhs``, of what :func:`lu` gave for A.

    Args:
        lower_upper, perm: as of :func:`lu`.
        rhs: ``[..., N, K]``.
        validate_args: accepted; shapes are always checked.
        name: name of the scope.
    """
    with name_scope(name, "lu_solve", [lower_upper, perm, rhs]):
        both = convert_to_tensor(lower_upper, name="lower_upper")
        rhs = convert_to_tensor(rhs, both.dtype.base_dtype, name="rhs")
        with_rank_at_least(rhs._dims, 2, "rhs")
        lower, upper = _triangles(both)
        rows = product(_places(perm, both), rhs)
        return raw_ops.MatrixTriangularSolve(
            upper, raw_ops.MatrixTriangularSolve(lower, rows, lower=True), lower=False)


def lu_matrix_inverse(lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False,
                      name: str | None = None) -> Tensor:
    """Return the inverses of matrices of what :func:`lu` gave; see :func:`lu_solve`."""
    with name_scope(name, "lu_matrix_inverse", [lower_upper, perm]):
        both = convert_to_tensor(lower_upper, name="lower_upper")
        diagonal = raw_ops.ZerosLike(raw_ops.MatrixDiagPart(both))
        unit = raw_ops.MatrixDiag(raw_ops.Add(diagonal, number(both, 1)))
        return lu_solve(both, perm, unit, validate_args)


def lu_reconstruct(lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False,
                   name: str | None = None) -> Tensor:
    """Return the matrices of what :func:`lu` gave for them."""
    with name_scope(name, "lu_reconstruct", [lower_upper, perm]):
        both = convert_to_tensor(lower_upper, name="lower_upper")
        lower, upper = _triangles(both)
        return product(_places(perm, both), product(lower, upper), adj_x=True)


def _places(perm: TensorLike, like: Tensor) -> Tensor:
    """The matrices that put rows into the order `perm`."""
    order = convert_to_tensor(perm, name="perm")
    shape: Any = raw_ops.Shape(order)
    return raw_ops.OneHot(order, shape[-1], number(like, 1), number(like, 0))


# ---------------------------------------------------------------- functions of matrices


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the principal square roots of matrices ``[..., N, N]``: ``root @ root`` is the input.

    A real matrix must not have negative eigenvalues.
    """
    return raw_ops.MatrixSquareRoot(input=input, name=name)


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the principal logarithms of complex matrices ``[..., N, N]``: the inverse of `expm`.

    No eigenvalue may be zero or a negative number.
    """
    return raw_ops.MatrixLogarithm(input=input, name=name)


# Numerator and denominator of the approximant to exp of degree 13 (Higham, 2005), which is good
# for norms up to the limit; the denominator has the odd terms with the other sign.
_PADE = (64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
         129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920., 40840800.,
         960960., 16380., 182., 1.)  # fmt: skip
_NORM = {dtypes.float32: 3.925724783138660, dtypes.complex64: 3.925724783138660}
_WIDE_NORM = 5.371920351148152


def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the exponentials of matrices ``[..., N, N]``: the sums of ``Aᵏ / k!``.

    Each is scaled by a power of two, approximated, and squared as often.
    """
    with name_scope(name, "matrix_exponential", [input]):
        matrix = convert_to_tensor(input, name="input")
        with_rank_at_least(matrix._dims, 2, "input")
        size = raw_ops.Max(raw_ops.Sum(raw_ops.Abs(matrix) if not matrix.dtype.is_complex else
                                       raw_ops.ComplexAbs(matrix, Tout=matrix.dtype.real_dtype),
                                       np.array([-2], np.int32)), np.array([-1], np.int32))
        limit = number(size, _NORM.get(matrix.dtype.base_dtype, _WIDE_NORM))
        over = raw_ops.Log(raw_ops.Maximum(raw_ops.RealDiv(size, limit), number(size, 1)))
        times = raw_ops.Ceil(raw_ops.RealDiv(over, number(size, np.log(2.0))))
        scale = _as_matrices(raw_ops.Pow(number(size, 0.5), times))
        power = _approximant(raw_ops.Mul(matrix, raw_ops.Cast(scale,
                                                              DstT=matrix.dtype.base_dtype)))
        result = _squared(power, times)
        result.set_shape(matrix.get_shape())
        return result


def _approximant(a: Tensor) -> Tensor:
    square = product(a, a)
    fourth = product(square, square)
    sixth = product(fourth, square)
    diagonal = raw_ops.ZerosLike(raw_ops.MatrixDiagPart(a))
    unit = raw_ops.MatrixDiag(raw_ops.Add(diagonal, number(a, 1)))

    def combined(first: int) -> Tensor:
        """Every second coefficient from `first` on."""
        c = [number(a, v) for v in _PADE[first::2]]
        high = raw_ops.AddN([raw_ops.Mul(c[6], sixth), raw_ops.Mul(c[5], fourth),
                             raw_ops.Mul(c[4], square)])
        low = [raw_ops.Mul(c[3], sixth), raw_ops.Mul(c[2], fourth), raw_ops.Mul(c[1], square),
               raw_ops.Mul(c[0], unit)]
        return raw_ops.AddN([product(sixth, high), *low])

    odd, even = product(a, combined(1)), combined(0)
    return raw_ops.MatrixSolve(raw_ops.Sub(even, odd), raw_ops.Add(even, odd))


def _squared(power: Tensor, times: Tensor) -> Tensor:
    """Each matrix squared so many times."""
    most = raw_ops.Max(raw_ops.ConcatV2([raw_ops.Reshape(times, np.array([-1], np.int32)),
                                         np.zeros(1, times.dtype.base_dtype.np)], np.int32(0)),
                       np.int32(0))

    def more(done: Tensor, _: Tensor) -> Tensor:
        return raw_ops.Less(done, most)

    def step(done: Tensor, x: Tensor) -> list[Tensor]:
        wanted = _as_matrices(raw_ops.Less(done, times))
        return [raw_ops.Add(done, number(done, 1)), raw_ops.SelectV2(wanted, product(x, x), x)]

    start = convert_to_tensor(np.zeros((), times.dtype.base_dtype.np))
    return while_loop(more, step, [start, power])[1]


def _as_matrices(x: Tensor) -> Tensor:
    for _ in range(2):
        x = raw_ops.ExpandDims(x, np.int32(-1))
    return x


# ---------------------------------------------------------------- by singular values


def pinv(a: TensorLike, rcond: TensorLike | None = None, validate_args: bool = False,
         name: str | None = None) -> Tensor:
    """Return the pseudo-inverses of matrices (Moore and Penrose).

    Args:
        a: ``[..., M, N]``, floating-point or complex.
        rcond: singular values up to this part of the largest count as zero; by default ten times
            the larger of M and N times the precision of the dtype.
        validate_args: accepted; shapes are always checked.
        name: name of the scope.

    Returns:
        ``[..., N, M]``.
    """
    with name_scope(name, "pinv", [a, rcond]):
        matrix = convert_to_tensor(a, name="a")
        with_rank_at_least(matrix._dims, 2, "a")
        s, u, v = raw_ops.Svd(matrix, compute_uv=True, full_matrices=False)
        if rcond is None:
            rcond = raw_ops.Mul(_precision(matrix, s), number(s, 10))
        limit = raw_ops.Mul(convert_to_tensor(rcond, s.dtype.base_dtype), _largest(s))
        kept = raw_ops.Greater(s, raw_ops.ExpandDims(limit, np.int32(-1)))
        inverse = raw_ops.SelectV2(kept, raw_ops.Reciprocal(s), raw_ops.ZerosLike(s))
        factors = raw_ops.ExpandDims(raw_ops.Cast(inverse, DstT=v.dtype.base_dtype), np.int32(-2))
        return product(raw_ops.Mul(v, factors), u, adj_y=True)


def matrix_rank(a: TensorLike, tol: TensorLike | None = None, validate_args: bool = False,
                name: str | None = None) -> Tensor:
    """Return how many singular values of matrices are above `tol`: int32 ``[...]``.

    Args:
        a: ``[..., M, N]``.
        tol: by default the largest value times the larger of M and N times the precision.
        validate_args: accepted; shapes are always checked.
        name: name of the scope.
    """
    with name_scope(name, "matrix_rank", [a, tol]):
        matrix = convert_to_tensor(a, name="a")
        with_rank_at_least(matrix._dims, 2, "a")
        s = raw_ops.Svd(matrix, compute_uv=False)[0]
        if tol is None:
            tol = raw_ops.ExpandDims(raw_ops.Mul(_precision(matrix, s), _largest(s)),
                                     np.int32(-1))
        above = raw_ops.Greater(s, convert_to_tensor(tol, s.dtype.base_dtype))
        return raw_ops.Sum(raw_ops.Cast(above, DstT=dtypes.int32), np.array([-1], np.int32))


def _precision(matrix: Tensor, s: Tensor) -> Tensor:
    """The larger of the numbers of rows and columns, times the precision of the dtype."""
    shape: Any = raw_ops.Shape(matrix)
    side = raw_ops.Cast(raw_ops.Max(shape[-2:], np.int32(0)), DstT=s.dtype.base_dtype)
    return raw_ops.Mul(side, number(s, np.finfo(s.dtype.base_dtype.np).eps))


def _largest(s: Tensor) -> Tensor:
    return raw_ops.Max(s, np.array([-1], np.int32))


# ---------------------------------------------------------------- vectors


def matvec(a: TensorLike, b: TensorLike, transpose_a: bool = False, adjoint_a: bool = False,
           a_is_sparse: bool = False, b_is_sparse: bool = False,
           name: str | None = None) -> Tensor:
    """Return the products of matrices ``[..., M, N]`` and vectors ``[..., N]``.

    See :func:`~hpcflow.matmul` for the other arguments.
    """
    from hpcflow.ops.linalg.matmul import matmul

    with name_scope(name, "MatVec", [a, b]):
        column = raw_ops.ExpandDims(convert_to_tensor(b), np.int32(-1))
        found = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a,
                       a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
        return raw_ops.Squeeze(found, squeeze_dims=[-1])


def normalize(tensor: TensorLike, ord: str = "euclidean", axis: AxisLike | None = None,
              name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (`tensor` divided by its norm, the norm), the latter with dimensions of size 1.

    See :func:`~hpcflow.norm` for the arguments.
    """
    with name_scope(name, "normalize", [tensor]):
        tensor = convert_to_tensor(tensor)
        size = norm(tensor, ord, axis, keep_dims=True)
        divisor = raw_ops.Cast(size, DstT=tensor.dtype.base_dtype)
        return raw_ops.RealDiv(tensor, divisor), size
