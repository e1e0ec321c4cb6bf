"""Products of matrices: MatMul, BatchMatMul, SparseMatMul, Cross, and tensordot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    merge_dims,
    show,
    with_rank,
)
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.common.linear_map import LinearMap
from hpcflow.ops.common.type_sets import ORDERED
from hpcflow.ops.common.unary import conj
from hpcflow.ops.linalg.linalg import adjoint

__all__ = ["cross", "matmul", "sparse_matmul", "tensordot", "trace"]

_TYPES = "{half, bfloat16, float, double, int16, int32, int64, complex64, complex128}"

# ---------------------------------------------------------------- signatures


def product_dims(a: Dims, b: Dims, flip_a: bool, flip_b: bool) -> tuple:
    """The last two dims of a product of (flipped) matrices."""
    rows, inner_a = with_rank(a, 2)[::-1] if flip_a else with_rank(a, 2)
    inner_b, columns = with_rank(b, 2)[::-1] if flip_b else with_rank(b, 2)
    if inner_a is not None and inner_b is not None and inner_a != inner_b:
        flips = f", transpose {'a' * flip_a}{' and ' * (flip_a and flip_b)}{'b' * flip_b}"
        raise ValueError(f"Dimensions must be equal, but are {inner_a} and {inner_b}: inner "
                         f"dimensions differ: {show(a)} x {show(b)}"
                         f"{flips if flip_a or flip_b else ''}")
    return rows, columns


def _matmul_shape(op: Operation) -> list[Dims]:
    return [product_dims(op.input_dims(0), op.input_dims(1), op.attr("transpose_a"),
                          op.attr("transpose_b"))]


register_op("MatMul", "a: T; b: T", "product: T",
            f"transpose_a: bool = false; transpose_b: bool = false; T: {_TYPES}",
            shape=_matmul_shape)
register_op("SparseMatMul", "a: Ta; b: Tb", "product: float",
            "transpose_a: bool = false; transpose_b: bool = false; a_is_sparse: bool = false; "
            "b_is_sparse: bool = false; Ta: {float, bfloat16} = float; "
            "Tb: {float, bfloat16} = float", shape=_matmul_shape)


def batch_product_shape(
        combine: Callable[[Dims, Dims], Dims]) -> Callable[[Operation], list[Dims]]:
    """The shape function of products whose batches have the dims that `combine` makes of both."""

    def shape(op: Operation) -> list[Dims]:
        x, y = op.input_dims(0), op.input_dims(1)
        for dims in (x, y):
            if dims is not None and len(dims) < 2:
                raise ValueError(f"inputs must be at least rank 2: {show(x)} x {show(y)}")
        if x is None or y is None:
            return [None]
        last = product_dims(x[-2:], y[-2:], op.attr("adj_x"), op.attr("adj_y"))
        return [(*(combine(x[:-2], y[:-2]) or ()), *last)]

    return shape


register_op("BatchMatMul", "x: T; y: T", "output: T",
            f"T: {_TYPES}; adj_x: bool = false; adj_y: bool = false",
            shape=batch_product_shape(merge_dims))


def _cross_shape(op: Operation) -> list[Dims]:
    dims = merge_dims(op.input_dims(0), op.input_dims(1))
    if dims is not None and (not dims or dims[-1] not in (3, None)):
        raise ValueError(f"the last dimension must have size 3: {show(dims)}")
    return [dims]


register_op("Cross", "a: T; b: T", "product: T", f"T: {ORDERED}", shape=_cross_shape)

# ---------------------------------------------------------------- gradients


def product_grads(multiply: Callable[..., Any], a: TensorLike, b: TensorLike, grad: Tensor,
                  flip_a: bool, flip_b: bool) -> tuple:
    """Gradients of a·b with either factor transposed; ``multiply(x, y, flip_x, flip_y)``."""
    if not flip_a and not flip_b:
        return multiply(grad, b, False, True), multiply(a, grad, True, False)
    if not flip_a:
        return multiply(grad, b, False, False), multiply(grad, a, True, False)
    if not flip_b:
        return multiply(b, grad, False, True), multiply(a, grad, False, False)
    return multiply(b, grad, True, True), multiply(grad, a, True, True)


@RegisterGradient("MatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> tuple:
    a, b = (conj(t) for t in op.inputs)

    def multiply(x: TensorLike, y: TensorLike, flip_x: bool, flip_y: bool) -> Tensor:
        return raw_ops.MatMul(x, y, transpose_a=flip_x, transpose_b=flip_y)

    return product_grads(multiply, a, b, grad, op.attr("transpose_a"), op.attr("transpose_b"))


@RegisterGradient("BatchMatMul")
def _batch_matmul_grad(op: Operation, grad: Tensor) -> tuple:
    """The adjoints conjugate already, so the factors themselves are used."""

    def multiply(x: TensorLike, y: TensorLike, adj_x: bool, adj_y: bool) -> Tensor:
        return raw_ops.BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y)

    x, y = op.inputs
    return product_grads(multiply, x, y, grad, op.attr("adj_x"), op.attr("adj_y"))


@RegisterGradient("SparseMatMul")
def _sparse_matmul_grad(op: Operation, grad: Tensor) -> tuple:
    """The gradient of a Relu is usually sparse, and so are factors that were said to be."""
    a, b = op.inputs
    sparse = {a: op.attr("a_is_sparse"), b: op.attr("b_is_sparse"),
              grad: grad.op.type == "ReluGrad"}

    def multiply(x: Tensor, y: Tensor, flip_x: bool, flip_y: bool) -> Tensor:
        return raw_ops.SparseMatMul(x, y, transpose_a=flip_x, transpose_b=flip_y,
                                    a_is_sparse=sparse[x], b_is_sparse=sparse[y])

    grads = product_grads(multiply, a, b, grad, op.attr("transpose_a"), op.attr("transpose_b"))
    return tuple(g if g.dtype is t.dtype.base_dtype else
                 raw_ops.Cast(g, DstT=t.dtype.base_dtype)
                 for g, t in zip(grads, op.inputs, strict=True))


@RegisterGradient("Cross")
def _cross_grad(op: Operation, grad: Tensor) -> tuple:
    a, b = op.inputs
    return raw_ops.Cross(b, grad), raw_ops.Cross(grad, a)


# ---------------------------------------------------------------- public functions


def matmul(a: TensorLike, b: TensorLike, transpose_a: bool = False, transpose_b: bool = False,
           adjoint_a: bool = False, adjoint_b: bool = False, a_is_sparse: bool = False,
           b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """Multiply the matrices in the last two dimensions of `a` and `b`.

    Leading dimensions broadcast: ``[2, 3, 4] x [4, 5]`` is ``[2, 3, 5]``. A factor is transposed,
    or transposed and conjugated (adjoint), but not both; the ``is_sparse`` hints (matrices of
    float32 or bfloat16 alone) say that many elements are zero.

    Raises ``ValueError`` when inner dimensions differ or a factor is both transposed and adjoint.
    """
    if isinstance(a, LinearMap) or isinstance(b, LinearMap):
        return _map_product(a, b, transpose_a or transpose_b or a_is_sparse or b_is_sparse,
                            adjoint_a, adjoint_b, name or "matmul")
    if transpose_a and adjoint_a:
        raise ValueError("Only one of transpose_a and adjoint_a can be True.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of transpose_b and adjoint_b can be True.")
    with name_scope(name, "MatMul", [a, b]) as scope:
        a, b = _factors(a, b)
        hinted = a_is_sparse or b_is_sparse
        if (_is_batch(a) and _is_batch(b)) or (not hinted and (_is_batch(a) or _is_batch(b))):
            # The batch ops have adjoints only.
            a, adjoint_a = (conj(a), True) if transpose_a else (a, adjoint_a)
            b, adjoint_b = (conj(b), True) if transpose_b else (b, adjoint_b)
            multiply = raw_ops.BatchMatMul if _same_batch(a, b) else raw_ops.BatchMatMulV2
            return multiply(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=scope)
        a, transpose_a = (conj(a), True) if adjoint_a else (a, transpose_a)
        b, transpose_b = (conj(b), True) if adjoint_b else (b, transpose_b)
        if _use_sparse(a, b, a_is_sparse, b_is_sparse):
            return raw_ops.SparseMatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b,
                                        a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse,
                                        name=scope)
        return raw_ops.MatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=scope)


def _map_product(a: Any, b: Any, hinted: bool, adjoint_a: bool, adjoint_b: bool, name: str) -> Any:
    """The product of matrices of which one is a LinearOperator; one of operators, if both are."""
    if hinted:
        raise ValueError("matmul: a LinearOperator is neither transposed nor sparse; use adjoint_a "
                         "and adjoint_b")
    if isinstance(a, LinearMap):
        return a.matmul(b, adjoint_a, adjoint_b, name)
    # A B is the adjoint of adjoint(B) adjoint(A).
    turned = b.matmul(a, not adjoint_b, not adjoint_a, name)
    return adjoint(turned)


def _factors(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors; what is no tensor yet takes the type of the other."""
    if not isinstance(a, Tensor) and isinstance(b, Tensor):
        return convert_to_tensor(a, b.dtype.base_dtype, name="a"), b
    a = convert_to_tensor(a, name="a")
    return a, b if isinstance(b, Tensor) else convert_to_tensor(b, a.dtype.base_dtype, name="b")


def _is_batch(x: Tensor) -> bool:
    return x._dims is None or len(x._dims) > 2


def _same_batch(a: Tensor, b: Tensor) -> bool:
    """True if nothing says that the batch dimensions differ."""
    return a._dims is not None and b._dims is not None and a._dims[:-2] == b._dims[:-2]


def _use_sparse(a: Tensor, b: Tensor, a_is_sparse: bool, b_is_sparse: bool) -> bool:
    types = (dtypes.float32, dtypes.bfloat16)
    kinds = (a.dtype.base_dtype, b.dtype.base_dtype)
    if not all(k in types for k in kinds):
        return False
    return a_is_sparse or b_is_sparse or kinds[0] != kinds[1]


def sparse_matmul(a: TensorLike, b: TensorLike, transpose_a: bool = False,
                  transpose_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False,
                  name: str | None = None) -> Tensor:
    """Multiply two matrices of float32 or bfloat16 into float32; the hints say which is sparse."""
    return raw_ops.SparseMatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b,
                                a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse, name=name)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """Return the cross products of the vectors in the last dimension, of size 3."""
    return raw_ops.Cross(a=a, b=b, name=name)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the sums of the main diagonals of the matrices in the last two dimensions."""
    if isinstance(x, LinearMap):
        return x.trace(name or "trace")
    with name_scope(name, "Trace", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return raw_ops.Sum(raw_ops.MatrixDiagPart(x), np.array([-1], np.int32), name=scope)


# ---------------------------------------------------------------- tensordot


def tensordot(a: TensorLike, b: TensorLike, axes: TensorLike, name: str | None = None) -> Tensor:
    """Sum the products of `a` and `b` over `axes`.

    `axes` is a number n (the last n axes of `a` against the first n of `b`) or a pair of axes or
    lists of axes, which may be a tensor. The result has the free axes of `a`, then those of `b`.

    Raises ``ValueError`` for axes that do not fit, ``IndexError`` for one that a tensor lacks.
    """
    with name_scope(name, "Tensordot", [a, b]) as scope:
        a, b = _factors(a, b)
        if a._dims is None or b._dims is None or isinstance(axes, Tensor):
            return _tensordot_of_any(a, b, axes, scope)
        axes_a, axes_b = _contracted(a, b, axes)
        is_known = None not in (*a._dims, *b._dims)
        with counted_as(get_default_graph(), 11 if is_known else 25):
            left, free_a = _as_matrix(a, axes_a, last=True)
            right, free_b = _as_matrix(b, axes_b, last=False)
            product = raw_ops.MatMul(left, right)
            return raw_ops.Reshape(product, _joined(free_a, free_b), name=scope)


def _contracted(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The contracted axes of both, as non-negative numbers."""
    if a._dims is None or b._dims is None:
        raise ValueError("the ranks of both tensors must be known")
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(len(a._dims), len(b._dims)):
            raise ValueError(f"tensordot: {axes} axes of shapes {show(a._dims)}, {show(b._dims)}")
        return list(range(len(a._dims) - axes, len(a._dims))), list(range(axes))
    if len(axes) != 2:
        raise ValueError("'axes' must be an integer or have length 2.")
    axes_a, axes_b = (_axis_list(x, t) for x, t in zip(axes, (a, b), strict=True))
    if len(axes_a) != len(axes_b):
        raise ValueError(f"Different number of contraction axes 'a' and 'b', {len(axes_a)} != "
                         f"{len(axes_b)}.")
    return axes_a, axes_b


def _axis_list(axes: np.ndarray | Sequence[int] | int, x: Tensor) -> list[int]:
    rank = len(x._dims or ())
    found = [int(i) for i in np.atleast_1d(np.asarray(axes, dtype=np.int64))]
    for axis in found:
        if not -rank <= axis < rank:
            raise IndexError(f"tensordot: axis {axis} of a tensor of shape {show(x._dims)}")
    return [i % rank for i in found]


def _as_matrix(x: Tensor, axes: list[int], last: bool) -> tuple[Tensor, Any]:
    """`x` with its `axes` flattened into columns (`last`) or rows, and the shape of the others."""
    dims = x._dims or ()
    free = [i for i in range(len(dims)) if i not in axes]
    order = free + axes if last else axes + free
    if order != list(range(len(dims))):
        x = raw_ops.Transpose(x, np.array(order, np.int32))
    sizes = [dims[i] for i in axes]
    free_dims = [dims[i] for i in free]
    if None not in sizes:
        known = int(np.prod(sizes, dtype=np.int64))
        other = -1 if None in free_dims else int(np.prod(free_dims, dtype=np.int64))
        shape = [other, known] if last else [known, other]
        free_shape = free_dims if None not in free_dims else _dynamic(x, len(axes), last)
        return raw_ops.Reshape(x, np.array(shape, np.int32)), free_shape
    free_shape = _dynamic(x, len(axes), last)
    size = raw_ops.Reshape(raw_ops.Prod(free_shape, np.array([0], np.int32)),
                           np.array([1], np.int32))
    rest = np.array([-1], np.int32)
    shape = raw_ops.ConcatV2([size, rest] if last else [rest, size], 0)
    return raw_ops.Reshape(x, shape), free_shape


def _dynamic(x: Tensor, count: int, last: bool) -> Tensor:
    """The shape of the free axes, computed at run time: `count` axes are contracted."""
    rank = len(x._dims or ())
    begin, size = (0, rank - count) if last else (count, rank - count)
    return raw_ops.Slice(raw_ops.Shape(x), np.array([begin], np.int32),
                         np.array([size], np.int32))


def _joined(a: Tensor | Sequence[int], b: Tensor | Sequence[int]) -> Any:
    if isinstance(a, list) and isinstance(b, list):
        return np.array(a + b, np.int32)
    parts = [np.array(p, np.int32) if isinstance(p, list) else p for p in (a, b)]
    return raw_ops.ConcatV2(parts, 0)


# ---------------------------------------------------------------- tensordot at run time


def _tensordot_of_any(a: Tensor, b: Tensor, axes: TensorLike, name: str) -> Tensor:
    """tensordot where the axes or the ranks are only known when it runs."""
    axes_a, axes_b = _axes_of_any(a, axes)
    left, free_a = _matrix_of_any(a, axes_a, last=True)
    right, free_b = _matrix_of_any(b, axes_b, last=False)
    product = raw_ops.MatMul(left, right)
    return raw_ops.Reshape(product, raw_ops.ConcatV2([free_a, free_b], 0), name=name)


def _axes_of_any(a: Tensor, axes: Any) -> tuple[Tensor, Tensor]:
    """The contracted axes of both as vectors."""
    if isinstance(axes, (int, np.integer)):
        rank = raw_ops.Rank(a)
        return (raw_ops.Range(raw_ops.Sub(rank, np.int32(axes)), rank, np.int32(1)),
                convert_to_tensor(np.arange(axes, dtype=np.int32)))
    if isinstance(axes, Tensor):
        pair = [raw_ops.Gather(axes, np.int32(i)) for i in range(2)]
    elif len(axes) != 2:
        raise ValueError("'axes' must be an integer or have length 2.")
    else:
        pair = [convert_to_tensor(x, dtypes.int32) for x in axes]
    flat = np.array([-1], np.int32)
    axes_a, axes_b = (raw_ops.Reshape(raw_ops.Cast(x, DstT="int32"), flat) for x in pair)
    return axes_a, axes_b


def _matrix_of_any(x: Tensor, axes: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """`x` with its `axes` flattened into columns (`last`) or rows, and the shape of the others."""
    shape, rank, zero = raw_ops.Shape(x), raw_ops.Rank(x), np.array([0], np.int32)
    # Too large ones stay, and are refused when it runs.
    axes = raw_ops.Select(raw_ops.Less(axes, raw_ops.ZerosLike(axes)), raw_ops.Add(axes, rank),
                          axes)
    free = raw_ops.ListDiff(raw_ops.Range(np.int32(0), rank, np.int32(1)), axes)[0]
    order = raw_ops.ConcatV2([free, axes] if last else [axes, free], 0)
    free_dims = raw_ops.Gather(shape, free)
    sizes = [raw_ops.Prod(free_dims, zero), raw_ops.Prod(raw_ops.Gather(shape, axes), zero)]
    matrix = raw_ops.Pack(sizes if last else sizes[::-1])
    return raw_ops.Reshape(raw_ops.Transpose(x, order), matrix), free_dims


# ---------------------------------------------------------------- broadcast batches

_HINTS = "grad_x: bool = false; grad_y: bool = false"
register_op("BatchMatMulV2", "x: T; y: T", "output: T",
            "T: {bfloat16, half, float, double, int16, int32, int64, uint8, complex64, complex128};"
            f"adj_x: bool = false; adj_y: bool = false; {_HINTS}",
            shape=batch_product_shape(broadcast_dims))
register_op("BatchMatMulV3", "x: Ta; y: Tb", "output: Tout",
            "Ta: type; Tb: type; Tout: type; adj_x: bool = false; adj_y: bool = false; " + _HINTS,
            shape=batch_product_shape(broadcast_dims))


@RegisterGradient("BatchMatMulV2")
def _broadcast_matmul_grad(op: Operation, grad: Tensor) -> tuple:
    def multiply(x: TensorLike, y: TensorLike, adj_x: bool, adj_y: bool) -> Tensor:
        return raw_ops.BatchMatMulV2(x, y, adj_x=adj_x, adj_y=adj_y)

    x, y = op.inputs
    grads = product_grads(multiply, x, y, grad, op.attr("adj_x"), op.attr("adj_y"))
    return tuple(_summed(g, t) for g, t in zip(grads, (x, y), strict=True))


@RegisterGradient("BatchMatMulV3")
def _mixed_matmul_grad(op: Operation, grad: Tensor) -> tuple:
    """Computed in the type of the product."""
    def multiply(x: TensorLike, y: TensorLike, adj_x: bool, adj_y: bool) -> Tensor:
        return raw_ops.BatchMatMulV2(x, y, adj_x=adj_x, adj_y=adj_y)

    x, y = (cast(t, grad.dtype) for t in op.inputs)
    grads = product_grads(multiply, x, y, grad, op.attr("adj_x"), op.attr("adj_y"))
    return tuple(cast(_summed(g, t), t.dtype) if t.dtype.is_floating or t.dtype.is_complex else None
                 for g, t in zip(grads, op.inputs, strict=True))


def _summed(grad: Tensor, factor: Tensor) -> Tensor:
    """`grad` summed over the batch dimensions along which `factor` was repeated."""
    dims = factor._dims
    if dims is not None and None not in dims and grad._dims == dims:
        return grad
    shape = raw_ops.Shape(factor)
    axes, _ = raw_ops.BroadcastGradientArgs(shape, raw_ops.Shape(grad))
    return raw_ops.Reshape(raw_ops.Sum(grad, axes), shape)
