"""Arithmetic of sparse tensors: sums, extrema, softmax, reductions, with dense tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import SparseTensorLike, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dim,
    merge_dims,
    register_constant_shape,
    with_rank,
)
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.ops.common.sparse_shapes import column, dense_dims, new_sparse, sparse_parts
from hpcflow.ops.common.type_sets import INDEX, ORDERED, SUMMED
from hpcflow.ops.common.unary import conj

__all__ = [
    "sparse_add",
    "sparse_maximum",
    "sparse_minimum",
    "sparse_reduce_max",
    "sparse_reduce_max_sparse",
    "sparse_reduce_sum",
    "sparse_reduce_sum_sparse",
    "sparse_softmax",
    "sparse_tensor_dense_matmul",
]

_ONE = "{0}indices: int64; {0}values: T; {0}shape: int64"
_TWO = f"{_ONE.format('a_')}; {_ONE.format('b_')}"

# ---------------------------------------------------------------- two sparse tensors


def _common_rank(op: Operation) -> int | None:
    rank = merge_dim(sparse_parts(op, 0)[1], sparse_parts(op, 3)[1])
    merge_dims(dense_dims(op, 2), dense_dims(op, 5))
    return rank


def _add_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(6), 0, "thresh")
    return new_sparse(_common_rank(op))


def _add_grad_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "backprop_val_grad")
    return [(with_rank(op.input_dims(i), 2, "indices")[0],) for i in (1, 2)]


def _extremum_shape(op: Operation) -> list[Dims]:
    """Return the shapes of an elementwise extremum; a step fails if the operands' shapes differ."""
    ranks = {sparse_parts(op, i)[1] for i in (0, 3)} - {None}
    return new_sparse(ranks.pop() if len(ranks) == 1 else None)[:2]


@register_constant_shape("SparseAdd", output=2)
def _sum_dims(op: Operation) -> Dims:
    """The shape of the operands."""
    return merge_dims(*[constant_value_as_dims(op.inputs[i]) for i in (2, 5)])


register_op("SparseAdd", f"{_TWO}; thresh: Treal",
            "sum_indices: int64; sum_values: T; sum_shape: int64", f"T: {SUMMED}; Treal: {ORDERED}",
            shape=_add_shape)
register_op("SparseAddGrad",
            "backprop_val_grad: T; a_indices: int64; b_indices: int64; sum_indices: int64",
            "a_val_grad: T; b_val_grad: T", f"T: {SUMMED}", shape=_add_grad_shape)
register_op("SparseSparseMaximum", _TWO, "output_indices: int64; output_values: T", f"T: {ORDERED}",
            shape=_extremum_shape)
register_op("SparseSparseMinimum", _TWO, "output_indices: int64; output_values: T", f"T: {SUMMED}",
            shape=_extremum_shape)


@RegisterGradient("SparseAdd")
def _add_grad(op: Operation, _: object, grad: Tensor, __: object) -> tuple:
    """Return the gradient of a sparse sum: none for the entries that the threshold removed."""
    a, b = raw_ops.SparseAddGrad(grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return None, a, None, None, b, None, None


@RegisterGradient("SparseAddGrad")
def _add_grad_grad(op: Operation, a_grad: Any, b_grad: Any) -> tuple:
    """Gradient of SparseAddGrad, which picks elements of the sum: put them back, and add."""
    _, a_indices, b_indices, sum_indices = op.inputs
    back = None
    for indices, grad in ((a_indices, a_grad), (b_indices, b_grad)):
        part = raw_ops.SparseAddGrad(grad, sum_indices, sum_indices, indices)[0]
        back = part if back is None else raw_ops.Add(back, part)
    return back, None, None, None


@also_called(threshold="thresh")
def sparse_add(a: TensorLike, b: TensorLike, thresh: TensorLike = 0) -> Any:
    """Return a + b: of two sparse tensors a sparse one, of a sparse and a dense one a dense one.

    Args:
        a, b: tensors of one shape and type, at least one of them sparse, in row-major order.
        thresh: where both sparse tensors have an element, the sum is left out if its magnitude is
            below.

    Raises ``TypeError`` if neither is sparse.
    """
    if not (is_sparse(a) or is_sparse(b)):
        raise TypeError("At least one input should be SparseTensor; do you mean to use add()?")
    if is_sparse(a) and is_sparse(b):
        a, b = to_sparse(a), to_sparse(b)
        kind = a.dtype.base_dtype
        thresh = convert_to_tensor(thresh, kind.real_dtype.base_dtype, name="thresh")
        return SparseTensor(*raw_ops.SparseAdd(
            a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, thresh))
    sparse, dense = (a, b) if is_sparse(a) else (b, a)
    sparse = to_sparse(sparse)
    return raw_ops.SparseTensorDenseAdd(sparse.indices, sparse.values, sparse.dense_shape, dense)


def _extremum(op_type: str, sp_a: SparseTensorLike, sp_b: SparseTensorLike,
              name: str | None) -> SparseTensor:
    a, b = to_sparse(sp_a), to_sparse(sp_b)
    with name_scope(name, op_type, [a, b]) as scope:
        indices, values = getattr(raw_ops, op_type)(
            a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, name=scope)
        return SparseTensor(indices, values, a.dense_shape)


def sparse_maximum(sp_a: SparseTensorLike, sp_b: SparseTensorLike,
                   name: str | None = None) -> SparseTensor:
    """Return the larger of the elements at each place that either has, zero where it is missing.

    Both must have the same shape, and be in row-major order.
    """
    return _extremum("SparseSparseMaximum", sp_a, sp_b, name)


def sparse_minimum(sp_a: SparseTensorLike, sp_b: SparseTensorLike,
                   name: str | None = None) -> SparseTensor:
    """Return the smaller of the elements at each place that either has, zero where it is missing.

    Both must have the same shape, and be in row-major order.
    """
    return _extremum("SparseSparseMinimum", sp_a, sp_b, name)


# ---------------------------------------------------------------- sparse and dense


def _dense_add_shape(op: Operation) -> list[Dims]:
    _, rank = sparse_parts(op)
    dims = op.input_dims(3)
    if rank is not None:
        with_rank(dims, rank, "b")
    return [merge_dims(dense_dims(op, 2), dims)]


register_op("SparseTensorDenseAdd",
            "a_indices: Tindices; a_values: T; a_shape: Tindices; b: T", "output: T",
            f"T: {SUMMED}; Tindices: {INDEX}", shape=_dense_add_shape)


@RegisterGradient("SparseTensorDenseAdd")
def _dense_add_grad(op: Operation, grad: Tensor) -> tuple:
    return None, raw_ops.GatherNd(grad, op.inputs[0]), None, grad


def _cwise_shape(op: Operation) -> list[Dims]:
    count, _ = sparse_parts(op)
    return [(count,)]


for _op_type in ("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"):
    register_op(_op_type, f"{_ONE.format('sp_')}; dense: T", "output: T", f"T: {SUMMED}",
                shape=_cwise_shape)


def sparse_dense_cwise_add(sp_t: SparseTensorLike, dense_t: TensorLike) -> SparseTensor:
    """Return the sparse tensor with what a dense one, broadcast to its shape, has at its places
    added to its elements."""
    sparse = to_sparse(sp_t)
    values = raw_ops.SparseDenseCwiseAdd(sparse.indices, sparse.values, sparse.dense_shape,
                                         dense_t)
    return SparseTensor(sparse.indices, values, sparse.dense_shape)


def _places_in_dense(op: Operation) -> Tensor:
    """For each element the place in the dense operand that it meets after broadcasting."""
    indices, _, shape, dense = op.inputs
    dims = raw_ops.Shape(dense, out_type=dtypes.int64)
    missing = raw_ops.Sub(raw_ops.Shape(shape), raw_ops.Shape(dims))
    padding = raw_ops.Fill(missing, np.int64(1))
    wide = raw_ops.ConcatV2([padding, dims], 0)
    # Dimensions of one element are met at 0 by every place.
    real = raw_ops.Cast(raw_ops.Greater(wide, np.int64(1)), DstT=dtypes.int64)
    begin = raw_ops.ConcatV2([np.array([0], np.int32), missing], 0)
    return raw_ops.Slice(raw_ops.Mul(indices, real), begin, np.array([-1, -1], np.int32))


def _cwise_grads(op: Operation, values_grad: Any, dense_grad: TensorLike, places: Tensor) -> tuple:
    shape = raw_ops.Shape(op.inputs[3], out_type=dtypes.int64)
    return None, values_grad, None, raw_ops.ScatterNd(places, dense_grad, shape)


@RegisterGradient("SparseDenseCwiseAdd")
def _cwise_add_grad(op: Operation, grad: Tensor) -> tuple:
    return _cwise_grads(op, grad, grad, _places_in_dense(op))


@RegisterGradient("SparseDenseCwiseMul")
def _cwise_mul_grad(op: Operation, grad: Tensor) -> tuple:
    places = _places_in_dense(op)
    met = raw_ops.GatherNd(op.inputs[3], places)
    return _cwise_grads(op, raw_ops.Mul(grad, conj(met)),
                        raw_ops.Mul(grad, conj(op.inputs[1])), places)


@RegisterGradient("SparseDenseCwiseDiv")
def _cwise_div_grad(op: Operation, grad: Tensor) -> tuple:
    places = _places_in_dense(op)
    met = conj(raw_ops.GatherNd(op.inputs[3], places))
    quotient = raw_ops.RealDiv(grad, met)
    slope = raw_ops.Neg(raw_ops.RealDiv(conj(op.inputs[1]), met))
    return _cwise_grads(op, quotient, raw_ops.Mul(quotient, slope), places)


def _matmul_shape(op: Operation) -> list[Dims]:
    a_rank = sparse_parts(op)[1]
    if a_rank not in (None, 2):
        raise ValueError(f"Tensor 'a_shape' must have 2 elements, but has {a_rank}")
    a = with_rank(dense_dims(op, 2), 2, "a")
    b = with_rank(op.input_dims(3), 2, "b")
    a = a[::-1] if op.attr("adjoint_a") else a
    b = b[::-1] if op.attr("adjoint_b") else b
    merge_dim(a[1], b[0])
    return [(a[0], b[1])]


register_op("SparseTensorDenseMatMul", f"{_ONE.format('a_')}; b: T", "product: T",
            "adjoint_a: bool = false; adjoint_b: bool = false; T: type", shape=_matmul_shape)


def _swapped(x: TensorLike) -> Tensor:
    return raw_ops.Transpose(x, np.array([1, 0], np.int32))


@RegisterGradient("SparseTensorDenseMatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> tuple:
    """Gradient of SparseTensorDenseMatMul: op(a)ᴴ grad for b; for each element of a the product of
    the two rows that it joins."""
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attr("adjoint_a"), op.attr("adjoint_b")
    b_grad = raw_ops.SparseTensorDenseMatMul(indices, values, shape, grad, adjoint_a=not adjoint_a)
    rows, columns = column(indices, 0), column(indices, 1)
    if adjoint_a:
        rows, columns = columns, rows
    right = raw_ops.Gather(conj(_swapped(b)) if adjoint_b else b, columns)
    products = raw_ops.Mul(raw_ops.Gather(grad, rows), conj(right))
    a_grad = raw_ops.Sum(products, np.array([1], np.int32))
    return (None, conj(a_grad) if adjoint_a else a_grad, None,
            conj(_swapped(b_grad)) if adjoint_b else b_grad)


def sparse_tensor_dense_matmul(sp_a: SparseTensorLike, b: TensorLike, adjoint_a: bool = False,
                               adjoint_b: bool = False, name: str | None = None) -> Tensor:
    """Return the dense matrix product of a sparse matrix and a dense one.

    Args:
        sp_a: a sparse matrix.
        b: a dense matrix of the same type.
        adjoint_a, adjoint_b: take the conjugate transpose of the factor.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) for sizes that do not fit.
    """
    sparse = to_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sparse, b]) as scope:
        return raw_ops.SparseTensorDenseMatMul(
            sparse.indices, sparse.values, sparse.dense_shape, convert_to_tensor(b, name="b"),
            adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=scope)


# ---------------------------------------------------------------- softmax


def _softmax_shape(op: Operation) -> list[Dims]:
    count, _ = sparse_parts(op)
    return [(count,)]


register_op("SparseSoftmax", _ONE.format("sp_"), "output: T", "T: {half, float, double}",
            shape=_softmax_shape)


@RegisterGradient("SparseSoftmax")
def _softmax_grad(op: Operation, grad: Tensor) -> tuple:
    """(grad - Σ grad y) y, the sums along the last dimension."""
    indices, _, shape = op.inputs
    y = op.outputs[0]
    axis = raw_ops.Reshape(raw_ops.Sub(raw_ops.Size(shape), np.int32(1)), np.array([1], np.int32))
    sums = raw_ops.SparseReduceSum(indices, raw_ops.Mul(grad, y), shape, axis, keep_dims=True)
    met = raw_ops.Neg(raw_ops.SparseDenseCwiseMul(indices, raw_ops.OnesLike(y), shape, sums))
    return None, raw_ops.Mul(raw_ops.Add(grad, met), y), None


def sparse_softmax(sp_input: SparseTensorLike, name: str | None = None) -> SparseTensor:
    """Return the softmax along the last dimension over the elements that exist.

    Args:
        sp_input: float32 or float64, of rank at least 2, in row-major order.
        name: name of the operation.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [sparse]) as scope:
        values = raw_ops.SparseSoftmax(sparse.indices, sparse.values, sparse.dense_shape,
                                       name=scope)
        return SparseTensor(sparse.indices, values, sparse.dense_shape)


# ---------------------------------------------------------------- reductions


def _reduced(op: Operation) -> Dims:
    sparse_parts(op)
    dims, axes = dense_dims(op, 2), constant_value(op.inputs[3])
    rank = len(dims or ())
    # Wrong axes are refused when the operation runs.
    if dims is None or axes is None or any(not -rank <= a < rank for a in axes.reshape(-1)):
        return dims and (None,) * len(dims) if op.attr("keep_dims") else None
    chosen = {int(a) % rank for a in axes.reshape(-1)}
    if op.attr("keep_dims"):
        return tuple(1 if i in chosen else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in chosen)


def _reduce_sum_shape(op: Operation) -> list[Dims]:
    return [_reduced(op)]


def _reduce_sum_sparse_shape(op: Operation) -> list[Dims]:
    dims = _reduced(op)
    return new_sparse(None if dims is None else len(dims))


register_op("SparseReduceSum", f"{_ONE.format('input_')}; reduction_axes: int32", "output: T",
            f"keep_dims: bool = false; T: {SUMMED}", shape=_reduce_sum_shape)
register_op("SparseReduceSumSparse", f"{_ONE.format('input_')}; reduction_axes: int32",
            "output_indices: int64; output_values: T; output_shape: int64",
            f"keep_dims: bool = false; T: {SUMMED}", shape=_reduce_sum_sparse_shape)
# The maxima came after 1.0.
register_op("SparseReduceMax", f"{_ONE.format('input_')}; reduction_axes: int32", "output: T",
            f"keep_dims: bool = false; T: {ORDERED}", shape=_reduce_sum_shape)
register_op("SparseReduceMaxSparse", f"{_ONE.format('input_')}; reduction_axes: int32",
            "output_indices: int64; output_values: T; output_shape: int64",
            f"keep_dims: bool = false; T: {ORDERED}", shape=_reduce_sum_sparse_shape)
not_differentiable("SparseReduceSumSparse", "SparseReduceMax", "SparseReduceMaxSparse")


@RegisterGradient("SparseReduceSum")
def _reduce_sum_grad(op: Operation, grad: Tensor) -> tuple:
    """Each element gets the gradient of the sum that it went into."""
    indices, _, shape, axes = op.inputs
    rank = raw_ops.Size(shape)
    axes = raw_ops.FloorMod(raw_ops.Reshape(axes, np.array([-1], np.int32)), rank)
    chosen = raw_ops.UnsortedSegmentSum(raw_ops.OnesLike(axes), axes, rank)
    kept = raw_ops.Equal(chosen, raw_ops.ZerosLike(chosen))
    one = raw_ops.OnesLike(shape)
    spread = raw_ops.Reshape(grad, raw_ops.Select(kept, shape, one))
    places = raw_ops.Mul(indices, raw_ops.Cast(kept, DstT=dtypes.int64))
    return None, raw_ops.GatherNd(spread, places), None, None


def _axes(sp: SparseTensor, axis: Any, reduction_axes: Any) -> Any:
    if axis is not None and reduction_axes is not None:
        raise ValueError("Can't specify both axis and reduction_axes.")
    axis = reduction_axes if axis is None else axis
    if axis is None:
        return raw_ops.Range(np.int32(0), raw_ops.Size(sp.dense_shape), np.int32(1))
    return axis if isinstance(axis, Tensor) else np.asarray(axis, np.int32)


def _of_parts(reduce: Callable, sp_input: SparseTensorLike, axis: TensorLike, keep_dims: bool,
              reduction_axes: TensorLike) -> Any:
    sparse = to_sparse(sp_input)
    return reduce(sparse.indices, sparse.values, sparse.dense_shape,
                  _axes(sparse, axis, reduction_axes), keep_dims=keep_dims)


@also_called(keepdims="keep_dims")
def sparse_reduce_sum(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                      reduction_axes: Any = None) -> Tensor:
    """Return the dense sum over `axis` (a number or several, negative from the end; None: all).

    Args:
        sp_input: a sparse tensor of numbers.
        axis: the dimensions to sum over.
        keep_dims: keep them, with size 1.
        reduction_axes: older name of `axis`.
    """
    return _of_parts(raw_ops.SparseReduceSum, sp_input, axis, keep_dims, reduction_axes)


@also_called(keepdims="keep_dims")
def sparse_reduce_max(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                      reduction_axes: Any = None) -> Tensor:
    """Return the dense maximum over `axis` of the elements that exist, 0 where there are none.

    Arguments as of :func:`sparse_reduce_sum`.
    """
    return _of_parts(raw_ops.SparseReduceMax, sp_input, axis, keep_dims, reduction_axes)


@also_called(keepdims="keep_dims")
def sparse_reduce_max_sparse(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                             reduction_axes: Any = None) -> SparseTensor:
    """Return the maximum over `axis` as a sparse tensor; see :func:`sparse_reduce_max`."""
    return SparseTensor(*_of_parts(raw_ops.SparseReduceMaxSparse, sp_input, axis, keep_dims,
                                   reduction_axes))


@also_called(keepdims="keep_dims")
def sparse_reduce_sum_sparse(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                             reduction_axes: Any = None) -> SparseTensor:
    """Return the sum over `axis` as a sparse tensor; see :func:`sparse_reduce_sum`."""
    return SparseTensor(*_of_parts(raw_ops.SparseReduceSumSparse, sp_input, axis, keep_dims,
                                   reduction_axes))
