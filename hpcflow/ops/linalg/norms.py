"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.reductions import reduce_max, reduce_sum

__all__ = ["norm"]


@also_called(keepdims="keep_dims")
def norm(tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, keep_dims: bool = False,
         name: str | None = None) -> Tensor:
    """Return a norm of vectors, or of matrices.

    `ord` is ``"euclidean"`` (for matrices Frobenius), ``"fro"`` (the same, for a matrix axis pair),
    a positive number p (Σ|x|^p)^(1/p), or infinity. `axis` is None (the whole tensor as a vector),
    one axis, or a pair for matrices, whose norms are 1 (the largest column sum), infinity (the
    largest row sum), 2 (the largest singular value) and euclidean.

    Raises ``ValueError`` for an order or axis that has no norm.
    """
    pair = isinstance(axis, (list, tuple)) and len(axis) == 2
    if isinstance(axis, (list, tuple)) and not (
            pair and all(isinstance(a, (int, np.integer)) for a in axis) and axis[0] != axis[1]):
        raise ValueError(_bad_norm_axis(axis))
    allowed = ["euclidean", "fro", 1, 2, np.inf]
    number = isinstance(ord, (int, float, np.number))
    if ord not in allowed and (pair or not number or ord <= 0) or ord == "fro" and not pair:
        kind = f"matrix norm in {allowed}" if pair else "vector norm"
        raise ValueError(f"'ord' must be a supported {kind}, got {ord}")
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if pair and ord == 2:
            return _largest_singular_value(x, axis, keep_dims)
        if ord in ("euclidean", "fro", 2):
            square = raw_ops.Mul(x, raw_ops.Conj(x)) if x.dtype.is_complex else raw_ops.Square(x)
            return raw_ops.Sqrt(reduce_sum(square, axis, keep_dims))
        size = _modulus(x)
        if pair:
            return _matrix_norm(size, ord, axis, keep_dims)
        if ord == 1:
            return reduce_sum(size, axis, keep_dims)
        if ord == np.inf:
            return reduce_max(size, axis, keep_dims)
        power = size.dtype.base_dtype.np.type(ord)
        total = reduce_sum(raw_ops.Pow(size, power), axis, keep_dims)
        return raw_ops.Pow(total, size.dtype.base_dtype.np.type(1 / ord))


def _bad_norm_axis(axis: Any) -> str:
    return f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"


def _modulus(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return raw_ops.ComplexAbs(x, Tout=x.dtype.base_dtype.real_dtype)
    return raw_ops.Abs(x)


def _matrix_norm(size: Tensor, ord: Any, axis: Any, keep_dims: bool) -> Tensor:
    """The largest sum along the first axis of the pair (order 1) or the second (infinity)."""
    summed, searched = (axis[0], axis[1]) if ord == 1 else (axis[1], axis[0])
    largest = reduce_max(reduce_sum(size, summed, True), searched, True)
    if keep_dims:
        return largest
    return raw_ops.Squeeze(largest, squeeze_dims=[int(a) for a in axis])


def _largest_singular_value(x: Tensor, axis: Any, keep_dims: bool) -> Tensor:
    """The largest singular values of the matrices along the pair of axes."""
    before, after = _axes_last(x, axis)
    values = raw_ops.Svd(raw_ops.Transpose(x, before), compute_uv=False).s
    largest = reduce_max(values, -1, keep_dims)
    if not keep_dims:
        return largest
    return raw_ops.Transpose(raw_ops.ExpandDims(largest, -1), after)


def _axes_last(x: Tensor, pair: Any) -> tuple[Any, Any]:
    """The permutation that moves two axes to the end, and its inverse."""
    if x._dims is not None:
        rank = len(x._dims)
        last = [axis % rank for axis in pair]
        before = [i for i in range(rank) if i not in last] + last
        return np.array(before, np.int32), np.argsort(before).astype(np.int32)
    rank = raw_ops.Rank(x)
    axes = raw_ops.Range(np.int32(0), rank, np.int32(1))
    last = raw_ops.FloorMod(np.array(pair, np.int32), rank)
    others = raw_ops.ListDiff(axes, last).out
    before = raw_ops.ConcatV2([others, last], np.int32(0))
    return before, raw_ops.InvertPermutation(before)
