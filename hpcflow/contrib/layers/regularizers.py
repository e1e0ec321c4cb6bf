"""Regularizers: functions of a variable whose results are losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.reductions import reduce_sum


def _check_scale(scale: Any) -> None:
    if isinstance(scale, bool) or not isinstance(scale, (int, float)):
        raise ValueError(f"scale must be a number, got {scale!r}")
    if scale < 0:
        raise ValueError(f"scale must not be negative, got {scale}")


def _regularizer(scale: float, measure: Callable, default: str, scope: str | None) -> Callable:
    """A function that returns ``scale measure(weights)``; None for a scale of 0."""
    _check_scale(scale)

    def regularize(weights: Any) -> Tensor | None:
        if scale == 0:
            return None
        with name_scope(scope, default, [weights]) as name:
            weights = convert_to_tensor(weights)
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return raw_ops.Mul(factor, measure(weights), name=name)

    return regularize


def l1_regularizer(scale: float, scope: str | None = None) -> Callable:
    """Return a function of weights: ``scale Σ |weights|``, which favours zeros.

    Raises ``ValueError`` for a scale that is negative or no number.
    """
    return _regularizer(scale, lambda w: reduce_sum(raw_ops.Abs(w)), "l1_regularizer", scope)


def l2_regularizer(scale: float, scope: str | None = None) -> Callable:
    """Return a function of weights: ``scale Σ weights² / 2``.

    Raises ``ValueError`` for a scale that is negative or no number.
    """
    return _regularizer(scale, lambda w: raw_ops.L2Loss(w), "l2_regularizer", scope)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0,
                      scope: str | None = None) -> Callable:
    """Return a function of weights: the sum of :func:`l1_regularizer` and :func:`l2_regularizer`.
    """
    parts = [l1_regularizer(scale_l1, scope), l2_regularizer(scale_l2, scope)]

    def regularize(weights: Any) -> Tensor | None:
        losses = [x for x in (part(weights) for part in parts) if x is not None]
        return raw_ops.AddN(losses) if losses else None

    return regularize
