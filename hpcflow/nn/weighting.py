"""Weights of examples, as losses and metrics take them: how they broadcast, sums and quotients."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import show
from hpcflow.ops.flow.checks import Assert
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import reduce_all, reduce_sum


def as_float(value: TensorLike) -> Tensor:
    """`value` as a tensor of float32, or of float64 if it has that type."""
    tensor = convert_to_tensor(value)
    if tensor.dtype.base_dtype in (dtypes.float32, dtypes.float64):
        return tensor
    return raw_ops.Cast(tensor, DstT=dtypes.float32)


def cast_like(value: TensorLike, like: Tensor) -> Tensor:
    """`value` as a tensor of the type of `like`."""
    tensor = convert_to_tensor(value)
    wanted = like.dtype.base_dtype
    return tensor if tensor.dtype.base_dtype is wanted else raw_ops.Cast(tensor, DstT=wanted)


def checked_weights(weights: TensorLike, values: Tensor) -> Tensor:
    """`weights` in the type of `values`, checked to broadcast to their shape.

    Weights are a scalar, or have the rank of `values` and in every dimension the same size or 1.
    ``ValueError`` for static shapes that do not fit; otherwise an ``InvalidArgumentError`` at run
    time.
    """
    weights = cast_like(weights, values)
    check = _broadcast_check(weights, values)
    if check is None:
        return weights
    with control_dependencies([check]):
        return raw_ops.Identity(weights)


def assert_broadcastable(weights: TensorLike, values: TensorLike) -> Operation:
    """Return the operation that checks that `weights` broadcast to the shape of `values`.

    It does nothing where the shapes are known. ``ValueError`` for static shapes that do not fit.
    """
    with name_scope(None, "assert_broadcastable", [weights, values]) as scope:
        check = _broadcast_check(convert_to_tensor(weights, name="weights"),
                                 convert_to_tensor(values, name="values"))
        return raw_ops.NoOp(name=scope) if check is None else check


def _broadcast_check(weights: Tensor, values: Tensor) -> Operation | None:
    """The operation that checks at run time what is not known now; None if all is known."""
    fits = _fits(weights._dims, values._dims)
    if fits is False:
        raise ValueError(f"weights can not be broadcast to values: weights of shape "
                         f"{show(weights._dims)}, values of shape {show(values._dims)}; they must "
                         "be a scalar or have the same rank, with sizes equal or 1")
    if fits:
        return None
    shape, wanted = raw_ops.Shape(weights), raw_ops.Shape(values)
    rank = raw_ops.Size(shape)
    count = raw_ops.Size(wanted)
    # As many sizes as the values have, so that they can be compared whatever the weights' rank.
    sizes = raw_ops.Slice(raw_ops.ConcatV2([shape, wanted], 0), np.array([0], np.int32),
                          raw_ops.ExpandDims(count, np.int32(0)))
    sizes_fit = reduce_all(raw_ops.LogicalOr(raw_ops.Equal(sizes, np.int32(1)),
                                             raw_ops.Equal(sizes, wanted)))
    fit = raw_ops.LogicalAnd(raw_ops.Equal(rank, count), sizes_fit)
    return Assert(raw_ops.LogicalOr(raw_ops.Equal(rank, np.int32(0)), fit),
                  ["weights can not be broadcast to values: shapes", shape, wanted])


def _fits(weights: Dims, values: Dims) -> bool | None:
    """True if the weights' shape broadcasts to that of the values; None if that is unknown."""
    if weights == ():
        return True
    if weights is None or values is None:
        return None
    if len(weights) != len(values):
        return False
    unknown = False
    for w, v in zip(weights, values, strict=True):
        if w == 1 or (w is not None and w == v):
            continue
        if w is not None and v is not None:
            return False
        unknown = True
    return None if unknown else True


def broadcast_weights(weights: TensorLike, values: TensorLike) -> Tensor:
    """`weights`, checked, and repeated to the shape of `values`."""
    values = convert_to_tensor(values, name="values")
    repeated = raw_ops.Mul(checked_weights(weights, values), raw_ops.OnesLike(values))
    repeated.set_shape(values.shape)
    return repeated


def sum_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Σ of checked weights, each as often as it is used on `values`."""
    return reduce_sum(raw_ops.Mul(weights, raw_ops.OnesLike(values)))


def safe_divide(numerator: TensorLike, denominator: Tensor, name: str | None = None) -> Tensor:
    """numerator / denominator, and 0 where the denominator is not positive."""
    positive = raw_ops.Greater(denominator, raw_ops.ZerosLike(denominator))
    # Both branches of a selection have a gradient, so the quotient must be finite in each.
    divisor = raw_ops.Select(positive, denominator, raw_ops.OnesLike(denominator))
    quotient = raw_ops.RealDiv(numerator, divisor)
    return raw_ops.Select(positive, quotient, raw_ops.ZerosLike(quotient), name=name)


def remove_squeezable_dimensions(labels: TensorLike, predictions: TensorLike,
                                 expected_rank_diff: int = 0,
                                 name: str | None = None) -> tuple[Tensor, Tensor]:
    """:func:`squeeze_to_match` of anything that converts to tensors, in a name scope."""
    with name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        return squeeze_to_match(convert_to_tensor(labels), convert_to_tensor(predictions),
                                expected_rank_diff)


def squeeze_to_match(labels: Tensor, predictions: Tensor,
                     difference: int = 0) -> tuple[Tensor, Tensor]:
    """Drop the last dimension, of size 1, of the one whose rank is too high by one.

    `difference` is how much higher the rank of `predictions` is meant to be. Where a rank is
    unknown, this is decided at run time.
    """
    if labels._dims is None or predictions._dims is None:
        differs = raw_ops.Sub(raw_ops.Sub(raw_ops.Rank(predictions), raw_ops.Rank(labels)),
                              np.int32(difference))
        return (_dropped_where(raw_ops.Equal(differs, np.int32(-1)), labels),
                _dropped_where(raw_ops.Equal(differs, np.int32(1)), predictions))
    excess = len(predictions._dims) - len(labels._dims) - difference
    if excess == 1:
        predictions = raw_ops.Squeeze(predictions, squeeze_dims=[-1])
    elif excess == -1:
        labels = raw_ops.Squeeze(labels, squeeze_dims=[-1])
    return labels, predictions


def squeeze_weights(weights: TensorLike, values: Tensor) -> Any:
    """Weights in the rank of `values`: a last dimension of size 1 is dropped or added."""
    weights = convert_to_tensor(weights)
    if weights._dims == ():
        return weights
    if weights._dims is None or values._dims is None:
        return _in_rank_of(weights, values)
    excess = len(weights._dims) - len(values._dims)
    if excess == 1 and weights._dims[-1] in (1, None):
        return raw_ops.Squeeze(weights, squeeze_dims=[-1])
    return raw_ops.ExpandDims(weights, -1) if excess == -1 else weights


def _dropped_where(excess: Tensor, tensor: Tensor) -> Tensor:
    """`tensor`, where `excess` is true without its last dimension, if that can be one of size 1."""
    if tensor._dims is not None and (not tensor._dims or tensor._dims[-1] not in (1, None)):
        return tensor
    return cond(excess, lambda: raw_ops.Squeeze(tensor, squeeze_dims=[-1]), lambda: tensor)


def _in_rank_of(weights: Tensor, values: Tensor) -> Tensor:
    """:func:`squeeze_weights` of ranks that are known at run time only; scalars stay scalars."""
    shape = raw_ops.Shape(weights)
    rank, wanted = raw_ops.Size(shape), raw_ops.Rank(values)
    excess = raw_ops.Sub(rank, wanted)
    too_low = raw_ops.LogicalAnd(raw_ops.Equal(excess, np.int32(-1)),
                                 raw_ops.Greater(rank, np.int32(0)))
    near = raw_ops.LogicalOr(too_low, raw_ops.Equal(excess, np.int32(1)))
    padded = raw_ops.ConcatV2([shape, np.array([1], np.int32)], 0)
    return _first_dims(weights, padded, raw_ops.Select(near, wanted, rank))


def _first_dims(tensor: Tensor, shape: Tensor, count: Tensor) -> Tensor:
    """`tensor` in the first `count` dimensions of `shape`."""
    size = raw_ops.ExpandDims(count, np.int32(0))
    return raw_ops.Reshape(tensor, raw_ops.Slice(shape, np.array([0], np.int32), size))


def check_same_shape(labels: Tensor, predictions: Tensor, what: str = "predictions") -> None:
    """``ValueError`` unless the static shapes can be equal."""
    if not labels.shape.is_compatible_with(predictions.shape):
        raise ValueError(f"labels and {what} must have the same shape, got "
                         f"{show(labels._dims)} and {show(predictions._dims)}")
