"""Learning rates that change with the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.optimizers.optimizer import cast


def exponential_decay(learning_rate: TensorLike, global_step: TensorLike | None,
                      decay_steps: TensorLike, decay_rate: TensorLike, staircase: bool = False,
                      name: str | None = None) -> Tensor:
    """Return ``learning_rate * decay_rate ** (global_step / decay_steps)``.

    Args:
        learning_rate: the rate at step 0, a number or a scalar tensor.
        global_step: the number of steps made.
        decay_steps: steps after which the rate has changed by the factor `decay_rate`.
        decay_rate: that factor.
        staircase: change it only every `decay_steps` steps.
        name: name of the operations ("ExponentialDecay").

    Raises ``ValueError`` without a global step.
    """
    values = [learning_rate, global_step, decay_steps, decay_rate]
    with name_scope(name, "ExponentialDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        progress = _progress(global_step, decay_steps, rate.dtype, staircase)
        factor = raw_ops.Pow(cast(decay_rate, rate.dtype), progress)
        return raw_ops.Mul(rate, factor, name=scope)


def natural_exp_decay(learning_rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike,
                      decay_rate: TensorLike, staircase: bool = False,
                      name: str | None = None) -> Tensor:
    """Return ``learning_rate * exp(-decay_rate * global_step / decay_steps)``.

    Arguments as of :func:`exponential_decay`.
    """
    values = [learning_rate, global_step, decay_steps, decay_rate]
    with name_scope(name, "NaturalExpDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        progress = _progress(global_step, decay_steps, rate.dtype, staircase)
        factor = raw_ops.Exp(raw_ops.Mul(raw_ops.Neg(cast(decay_rate, rate.dtype)), progress))
        return raw_ops.Mul(rate, factor, name=scope)


def inverse_time_decay(learning_rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike,
                       decay_rate: TensorLike, staircase: bool = False,
                       name: str | None = None) -> Tensor:
    """Return ``learning_rate / (1 + decay_rate * global_step / decay_steps)``.

    Arguments as of :func:`exponential_decay`.
    """
    values = [learning_rate, global_step, decay_steps, decay_rate]
    with name_scope(name, "InverseTimeDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        progress = _progress(global_step, decay_steps, rate.dtype, staircase)
        one = cast(1.0, rate.dtype)
        divisor = raw_ops.Add(one, raw_ops.Mul(cast(decay_rate, rate.dtype), progress))
        return raw_ops.RealDiv(rate, divisor, name=scope)


def polynomial_decay(learning_rate: TensorLike, global_step: TensorLike | None,
                     decay_steps: TensorLike, end_learning_rate: Any = 0.0001,
                     power: TensorLike = 1.0, cycle: bool = False,
                     name: str | None = None) -> Tensor:
    """Return a rate that falls from `learning_rate` to `end_learning_rate` in `decay_steps`::

        (learning_rate - end) * (1 - min(global_step, decay_steps) / decay_steps) ** power + end

    With `cycle`, `decay_steps` is doubled, tripled, ... whenever it is reached.

    Raises ``ValueError`` without a global step.
    """
    values = [learning_rate, global_step, decay_steps, end_learning_rate, power]
    with name_scope(name, "PolynomialDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype
        one, end = cast(1.0, dtype), cast(end_learning_rate, dtype)
        step, steps = checked_step(global_step, dtype), cast(decay_steps, dtype)
        if cycle:
            times = raw_ops.Maximum(raw_ops.Ceil(raw_ops.RealDiv(step, steps)), one)
            steps = raw_ops.Mul(steps, times)
        else:
            step = raw_ops.Minimum(step, steps)
        remaining = raw_ops.Sub(one, raw_ops.RealDiv(step, steps))
        fraction = raw_ops.Pow(remaining, cast(power, dtype))
        return raw_ops.Add(raw_ops.Mul(raw_ops.Sub(rate, end), fraction), end, name=scope)


def piecewise_constant(x: TensorLike, boundaries: Sequence[Any], values: Sequence[Any],
                       name: str | None = None) -> Tensor:
    """Return ``values[i]`` for the interval of `boundaries` that `x` is in.

    ``values[0]`` up to and including ``boundaries[0]``, and so on; the last value above the last
    boundary. There is one value more than boundaries.

    Raises ``ValueError`` for wrong numbers, or types that differ among values or from `x`.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(f"there must be one value more than boundaries: {len(values)} values, "
                         f"{len(boundaries)} boundaries")
    with name_scope(name, "PiecewiseConstant", graph_values([x, *boundaries, *values])):
        x = convert_to_tensor(x)
        limits = [_limit(b, x) for b in boundaries]
        choices = [convert_to_tensor(v) for v in values]
        if len({v.dtype.base_dtype for v in choices}) > 1:
            raise ValueError(f"values must all have the same type, got "
                             f"{[v.dtype.base_dtype.name for v in choices]}")
        result = choices[-1]
        for limit, value in reversed(list(zip(limits, choices))):
            result = raw_ops.Select(raw_ops.LessEqual(x, limit), value, result)
        return result


def _limit(boundary: int | float, x: Tensor) -> Tensor:
    """`boundary` in the type of `x`; a narrower integer becomes int64 with it."""
    own = x.dtype.base_dtype
    limit = boundary if isinstance(boundary, Tensor) else convert_to_tensor(boundary, (
        own if own.is_floating or isinstance(boundary, int) else None))
    if limit.dtype.base_dtype is own:
        return limit
    if own is dtypes.int64 and limit.dtype.base_dtype is dtypes.int32:
        return cast(limit, own)
    raise ValueError(f"boundaries must have the type of x, {own.name}; got "
                     f"{limit.dtype.base_dtype.name}")


def _progress(global_step: TensorLike | None, decay_steps: TensorLike, dtype: DType,
              staircase: bool) -> Tensor:
    """``global_step / decay_steps``, rounded down for a staircase."""
    progress = raw_ops.RealDiv(checked_step(global_step, dtype), cast(decay_steps, dtype))
    return raw_ops.Floor(progress) if staircase else progress


def checked_step(global_step: TensorLike | None, dtype: DType) -> Tensor:
    """`global_step` as a `dtype`. Raises ``ValueError`` without one."""
    if global_step is None:
        raise ValueError("global_step is required for a learning rate that changes with it")
    return cast(global_step, dtype)


def graph_values(values: list) -> list:
    """Those of `values` that belong to a graph."""
    return [v for v in values if hasattr(v, "graph")]
