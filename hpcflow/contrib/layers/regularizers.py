"""Regularizers: functions of a variable whose results are losses."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, get_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.reductions import reduce_sum


def _is_zero(scale: TensorLike) -> bool:
    """Check a scale; one that is fed or computed may be anything."""
    if isinstance(scale, Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, str) or scale is None:
        raise ValueError(f"scale must be a number, got {scale!r}")
    if not isinstance(scale, Real):
        return False
    if scale < 0:
        raise ValueError(f"scale must not be negative, got {scale}")
    return scale == 0


def _regularizer(scale: TensorLike, measure: Callable, default: str,
                 scope: str | None) -> Callable:
    """A function that returns ``scale measure(weights)``; None for a scale of 0."""
    nothing = _is_zero(scale)

    def regularize(weights: TensorLike) -> Tensor | None:
        if nothing:
            return None
        with name_scope(scope, default, [weights]) as name:
            weights = convert_to_tensor(weights)
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return raw_ops.Mul(factor, measure(weights), name=name)

    return regularize


def l1_regularizer(scale: TensorLike, scope: str | None = None) -> Callable:
    """Return a function of weights: ``scale Σ |weights|``, which favours zeros.

    Raises ``ValueError`` for a scale that is negative, an integer, or no number.
    """
    return _regularizer(scale, lambda w: reduce_sum(raw_ops.Abs(w)), "l1_regularizer", scope)


def l2_regularizer(scale: TensorLike, scope: str | None = None) -> Callable:
    """Return a function of weights: ``scale Σ weights² / 2``.

    Raises ``ValueError`` for a scale that is negative, an integer, or no number.
    """
    return _regularizer(scale, lambda w: raw_ops.L2Loss(w), "l2_regularizer", scope)


def l1_l2_regularizer(scale_l1: TensorLike = 1.0, scale_l2: TensorLike = 1.0,
                      scope: str | None = None) -> Callable:
    """Return a function of weights: the sum of :func:`l1_regularizer` and :func:`l2_regularizer`.
    """
    scope = scope or "l1_l2_regularizer"
    if _is_zero(scale_l1):
        return l2_regularizer(scale_l2, scope)
    if _is_zero(scale_l2):
        return l1_regularizer(scale_l1, scope)
    parts = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]
    return _sum_of(parts, scope)


def sum_regularizer(regularizer_list: list, scope: str | None = None) -> Callable | None:
    """Return a function of weights: the sum of the regularizers that are not None; None if all are.
    """
    parts = [regularizer for regularizer in regularizer_list if regularizer is not None]
    return _sum_of(parts, scope) if parts else None


def _sum_of(parts: list, scope: str | None) -> Callable:
    def regularize(weights: TensorLike) -> Tensor | None:
        with name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [x for x in (part(weights) for part in parts) if x is not None]
            return raw_ops.AddN(losses, name=name) if losses else None

    return regularize


def apply_regularization(regularizer: Callable, weights_list: list | None = None) -> Tensor:
    """Return the sum of what a regularizer gives for weights (the collection WEIGHTS if None).

    The sum joins the regularization losses. Raises ``ValueError`` without weights, or for a
    regularizer that gives no scalar.
    """
    weights_list = weights_list or get_collection(GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [p for p in (regularizer(w) for w in weights_list) if p is not None]
        penalties = [convert_to_tensor(p) for p in penalties] or [convert_to_tensor(0.0)]
        for penalty in penalties:
            if penalty.get_shape().ndims != 0:
                raise ValueError("regularizer must return a scalar Tensor instead of a Tensor with "
                                 f"rank {penalty.get_shape().ndims}.")
        total = raw_ops.AddN(penalties, name=scope)
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
