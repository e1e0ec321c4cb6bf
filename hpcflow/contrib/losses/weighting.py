"""Means of losses whose weights are those of their first dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes, losses
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.reductions import reduce_prod, reduce_sum

add_loss = add_arg_scope(losses.add_loss)


def as_float(value: Any, dtype: Any = dtypes.float32) -> Any:
    """`value` as a tensor of that type."""
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype.base_dtype is dtype else raw_ops.Cast(tensor, DstT=dtype)


def compatible(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Both as float32. ``ValueError`` for static shapes that differ."""
    predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
    predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    return as_float(predictions), as_float(labels)


def rank_of(tensor: Tensor, what: str) -> int:
    """The rank; ``ValueError`` if it is unknown."""
    if tensor._dims is None:
        raise ValueError(f"{what}.get_shape().ndims cannot be None")
    return len(tensor._dims)


@add_arg_scope
def compute_weighted_loss(losses: TensorLike, weights: Any = 1.0,
                          scope: str | None = None) -> Tensor:
    """Return Σ weights losses over the number of losses whose weight is not 0; 0 without any.

    The result joins the losses of the graph.

    Args:
        losses: ``[d0, ..., dn]``.
        weights: ``[d0, ..., dk]``, k up to n, with or without a last dimension of 1; or a scalar.
        scope: name scope.

    Raises ``ValueError`` for unknown ranks, or weights of a higher one.
    """
    with name_scope(scope, "weighted_loss", [losses, weights]):
        given = convert_to_tensor(losses)
        values, weights = as_float(given), as_float(weights)
        rank = rank_of(values, "losses")
        if rank_of(weights, "weights") > 1 and weights._dims[-1] in (1, None):
            weights = raw_ops.Squeeze(weights, squeeze_dims=[-1])
        if len(weights._dims) > rank:
            raise ValueError(f"weights of shape {weights.shape} have more dimensions than losses "
                             f"of shape {values.shape}")
        count = reduce_sum(present(values, weights))
        mean = raw_ops.DivNoNan(scaled(values, weights), count, name="value")
        mean = as_float(mean, given.dtype.base_dtype)
        add_loss(mean)
        return mean


def scaled(values: Tensor, weights: Any) -> Tensor:
    """Σ weights values."""
    axes = list(range(rank_of(weights, "weights"), rank_of(values, "losses")))
    return reduce_sum(raw_ops.Mul(reduce_sum(values, axes) if axes else values, weights))


def present(values: Tensor, weights: Any) -> Any:
    """For each entry of the batch the number of elements whose weight is not 0, float32."""
    rank = rank_of(weights, "weights")
    nonzero = as_float(raw_ops.NotEqual(weights, raw_ops.ZerosLike(weights)))
    shape = raw_ops.Shape(values)
    if rank == 0:
        each = as_float(reduce_prod(shape[1:]))
        return raw_ops.Fill(shape[:1], nonzero * each)
    axes = list(range(1, rank))
    found = reduce_sum(nonzero, axes) if axes else nonzero
    return found * as_float(reduce_prod(shape[rank:], np.array([0], np.int32)))
