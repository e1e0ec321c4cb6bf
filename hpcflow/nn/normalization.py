"""Moments, and normalization by them: batch_normalization, l2_normalize."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.math.reductions import normalized_axes, reduce_mean, reduce_sum

__all__ = [
    "batch_norm_with_global_normalization",
    "batch_normalization",
    "l2_normalize",
    "moments",
    "normalize_moments",
    "sufficient_statistics",
    "weighted_moments",
]


@also_called(axis="dim")
def l2_normalize(x: TensorLike, dim: AxisLike | None = None, epsilon: float = 1e-12,
                 name: str | None = None) -> Tensor:
    """Return x / √max(Σ x², epsilon), the sum taken along `dim` (an axis, a list, or
    all of them for None)."""
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        total = reduce_sum(raw_ops.Square(x), dim, keep_dims=True)
        inverse = raw_ops.Rsqrt(raw_ops.Maximum(total, x.dtype.base_dtype.np.type(epsilon)))
        return raw_ops.Mul(x, inverse, name=scope)


# ---------------------------------------------------------------- moments


def _count(x: Tensor, axes: AxisLike) -> Any:
    """The number of elements that `axes` join, as a scalar of the type of `x`."""
    number = x.dtype.base_dtype.np.type
    if x._dims is not None and not isinstance(axes, Tensor):
        sizes = [x._dims[a] for a in normalized_axes(axes, len(x._dims))]
        if None not in sizes:
            return convert_to_tensor(number(np.prod(sizes, dtype=np.float64)), name="count")
    chosen = raw_ops.Gather(raw_ops.Shape(x), np.asarray(axes, np.int32).reshape(-1)
                            if not isinstance(axes, Tensor) else axes)
    return raw_ops.Cast(raw_ops.Prod(chosen, np.int32(0)), DstT=x.dtype.base_dtype, name="count")


@also_called(keepdims="keep_dims")
def sufficient_statistics(x: TensorLike, axes: AxisLike, shift: TensorLike | None = None,
                          keep_dims: bool = False, name: str | None = None) -> tuple:
    """Return (count, Σ (x - shift), Σ (x - shift)², shift) over `axes`.

    A `shift` near the mean keeps the variance exact; None stands for zero.
    """
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        count = _count(x, axes)
        if shift is None:
            first, second = x, raw_ops.Square(x)
        else:
            shift = convert_to_tensor(shift, x.dtype.base_dtype, name="shift")
            first, second = raw_ops.Sub(x, shift), raw_ops.SquaredDifference(x, shift)
        return (count, reduce_sum(first, axes, keep_dims, name="mean_ss"),
                reduce_sum(second, axes, keep_dims, name="var_ss"), shift)


def normalize_moments(counts: TensorLike, mean_ss: TensorLike, variance_ss: TensorLike,
                      shift: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) from the results of :func:`sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = raw_ops.Reciprocal(counts, name="divisor")
        shifted = raw_ops.Mul(mean_ss, divisor, name="shifted_mean")
        mean = shifted if shift is None else raw_ops.Add(shifted, shift, name="mean")
        square = raw_ops.Mul(variance_ss, divisor)
        return mean, raw_ops.Sub(square, raw_ops.Square(shifted), name="variance")


@also_called(keepdims="keep_dims")
def moments(x: TensorLike, axes: AxisLike, shift: TensorLike | None = None, name: str | None = None,
            keep_dims: bool = False) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) of `x` over `axes`; the variance is that of the sample itself (1/n).

    The variance comes from differences to the mean, or to `shift` if one is given. Halves are
    computed in float32.
    """
    with name_scope(name, "moments", [x, shift]):
        x = convert_to_tensor(x, name="x")
        half = x.dtype.base_dtype is dtypes.float16
        y = raw_ops.Cast(x, DstT="float32") if half else x
        if shift is None:
            with counted_as(get_default_graph(), 6 if keep_dims else 8):
                mean = reduce_mean(y, axes, True, name="mean")
                variance = reduce_mean(raw_ops.SquaredDifference(y, mean), axes, keep_dims,
                                       name="variance")
                if not keep_dims:
                    mean = raw_ops.Reshape(mean, _shape_of(variance))
        else:
            shift = convert_to_tensor(shift, None if isinstance(shift, Tensor) else
                                      x.dtype.base_dtype)
            shift = raw_ops.Cast(shift, DstT="float32") if half else shift
            count, first, second, _ = sufficient_statistics(y, axes, shift, keep_dims)
            mean, variance = normalize_moments(count, first, second, _fitting(shift, first))
        if half:
            return raw_ops.Cast(mean, DstT="float16"), raw_ops.Cast(variance, DstT="float16")
        return mean, variance


def _shape_of(x: Tensor) -> Any:
    if x._dims is not None and None not in x._dims:
        return np.array(x._dims, np.int32)
    return raw_ops.Shape(x)


def _fitting(shift: Tensor, like: Tensor) -> Tensor:
    """A shift with axes of size one, in the shape of the reduced statistics."""
    return shift if shift._dims == () else raw_ops.Reshape(shift, _shape_of(like))


@also_called(keepdims="keep_dims")
def weighted_moments(x: TensorLike, axes: AxisLike, frequency_weights: TensorLike,
                     name: str | None = None, keep_dims: bool = False) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) of `x` over `axes`, each element counted `frequency_weights` times.

    The weights broadcast against `x`.
    """
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        half = x.dtype.base_dtype is dtypes.float16
        kind = dtypes.float32 if half else x.dtype.base_dtype
        y = raw_ops.Cast(x, DstT=kind) if half else x
        weights = convert_to_tensor(frequency_weights, name="weights")
        if weights.dtype.base_dtype is not kind:
            weights = raw_ops.Cast(weights, DstT=kind)
        # The weights as often as they are repeated.
        weights = raw_ops.Add(weights, raw_ops.ZerosLike(y))
        total = reduce_sum(weights, axes, True)
        divisor = raw_ops.Reciprocal(total)
        mean = raw_ops.Mul(reduce_sum(raw_ops.Mul(weights, y), axes, True), divisor)
        distance = raw_ops.Mul(weights, raw_ops.SquaredDifference(y, mean))
        variance = raw_ops.Mul(reduce_sum(distance, axes, True), divisor)
        if not keep_dims:
            like = reduce_sum(total, axes)
            mean, variance = (raw_ops.Reshape(v, _shape_of(like)) for v in (mean, variance))
        if half:
            return raw_ops.Cast(mean, DstT="float16"), raw_ops.Cast(variance, DstT="float16")
        return mean, variance


# ---------------------------------------------------------------- batch normalization


def batch_normalization(x: TensorLike, mean: TensorLike, variance: Any, offset: TensorLike | None,
                        scale: TensorLike | None, variance_epsilon: float,
                        name: str | None = None) -> Tensor:
    """Return scale (x - mean) / √(variance + epsilon) + offset (arXiv:1502.03167).

    `offset` and `scale` may be None. All broadcast against `x`. The statistics, `offset` and
    `scale` may be of a wider type than `x`, which then is that of the result.
    """
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        x = convert_to_tensor(x, name="x")
        wide = x.dtype.base_dtype
        if isinstance(getattr(variance, "dtype", None), dtypes.DType):
            wide = variance.dtype.base_dtype
        epsilon = convert_to_tensor(variance_epsilon, wide, name="add/y")
        # Named as the operators of the formula are: programs look for "batchnorm/add_1".
        inverse = raw_ops.Rsqrt(raw_ops.Add(variance, epsilon, name="add"))
        if scale is not None:
            inverse = raw_ops.Mul(inverse, scale, name="mul")
        scaled = raw_ops.Mul(x, cast(inverse, x.dtype.base_dtype), name="mul")
        shift = raw_ops.Mul(mean, inverse, name="mul")
        shift = raw_ops.Neg(shift) if offset is None else raw_ops.Sub(offset, shift, name="sub")
        return raw_ops.Add(scaled, cast(shift, x.dtype.base_dtype), name="add")


@also_called(input="t", mean="m", variance="v")
def batch_norm_with_global_normalization(t: Tensor, m: Tensor, v: TensorLike, beta: Any, gamma: Any,
                                         variance_epsilon: float,
                                         scale_after_normalization: bool,
                                         name: str | None = None) -> Tensor:
    """The older form of :func:`batch_normalization`: gamma scales only if it is said to."""
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None,
                               variance_epsilon, name)
