"""Learning rates that fall along a cosine."""

from __future__ import annotations

import math
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.trigonometric import cos
from hpcflow.ops.random.random_ops import random_normal
from hpcflow.optimizers.learning_rate import checked_step, graph_values
from hpcflow.optimizers.optimizer import cast


def cosine_decay(learning_rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike,
                 alpha: TensorLike = 0.0, name: str | None = None) -> Tensor:
    """Return a rate that falls along half a cosine (arXiv:1608.03983)::

        learning_rate * ((1 - alpha) * (1 + cos(π p)) / 2 + alpha)
        p = min(global_step, decay_steps) / decay_steps

    Args:
        learning_rate: the rate at step 0, a number or a scalar tensor.
        global_step: the number of steps made.
        decay_steps: steps after which the rate is `alpha` of that at the beginning.
        alpha: that part.
        name: name of the operations ("CosineDecay").

    Raises ``ValueError`` without a global step.
    """
    values = [learning_rate, global_step, decay_steps, alpha]
    with name_scope(name, "CosineDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        _, completed = _step_and_progress(global_step, decay_steps, rate)
        return raw_ops.Mul(rate, _above(alpha, _half_cosine(completed)), name=scope)


def cosine_decay_restarts(learning_rate: TensorLike, global_step: TensorLike,
                          first_decay_steps: Any, t_mul: TensorLike = 2.0, m_mul: TensorLike = 1.0,
                          alpha: TensorLike = 0.0, name: str | None = None) -> Tensor:
    """Return a rate that falls along half a cosine again and again (arXiv:1608.03983).

    Period i, from 0 on, has ``first_decay_steps * t_mul ** i`` steps and begins at the rate
    ``learning_rate * m_mul ** i`` (at `alpha` 0); `alpha` is as of :func:`cosine_decay`. Without a
    name the operations are below "SGDRDecay".

    Raises ``ValueError`` without a global step.
    """
    values = [learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha]
    with name_scope(name, "SGDRDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype
        factor, one = cast(t_mul, dtype), cast(1.0, dtype)
        periods = raw_ops.RealDiv(checked_step(global_step, dtype), cast(first_decay_steps, dtype))

        def growing() -> tuple[Tensor, Tensor]:
            return _in_growing_periods(periods, factor, one)

        def equal() -> tuple[Tensor, Tensor]:
            number = raw_ops.Floor(periods)
            return number, raw_ops.Sub(periods, number)

        if isinstance(t_mul, (int, float)):
            number, completed = equal() if t_mul == 1 else growing()
        else:
            number, completed = cond(raw_ops.Equal(factor, one), equal, growing)
        height = raw_ops.Pow(cast(m_mul, dtype), number)
        cosine = raw_ops.Mul(height, _half_cosine(completed))
        return raw_ops.Mul(rate, _above(alpha, cosine), name=scope)


def _in_growing_periods(periods: Tensor, factor: Tensor, one: Tensor) -> tuple[Tensor, Tensor]:
    """The number of a period and how much of it is done: n periods, each `factor` times as long
    as the one before, take (1 - factor^n) / (1 - factor) times the first."""
    rest = raw_ops.Sub(one, factor)
    grown = raw_ops.Sub(one, raw_ops.Mul(periods, rest))
    number = raw_ops.Floor(raw_ops.RealDiv(raw_ops.Log(grown), raw_ops.Log(factor)))
    length = raw_ops.Pow(factor, number)
    before = raw_ops.RealDiv(raw_ops.Sub(one, length), rest)
    return number, raw_ops.RealDiv(raw_ops.Sub(periods, before), length)


def linear_cosine_decay(learning_rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike,
                        num_periods: TensorLike = 0.5, alpha: TensorLike = 0.0,
                        beta: TensorLike = 0.001, name: str | None = None) -> Tensor:
    """Return a rate that falls along a line times a cosine (arXiv:1709.07417)::

        learning_rate * ((alpha + 1 - p) * (1 + cos(2 π num_periods p)) / 2 + beta)
        p = min(global_step, decay_steps) / decay_steps

    Without a name the operations are below "LinearCosineDecay". Raises ``ValueError`` without a
    global step.
    """
    values = [learning_rate, global_step, decay_steps, num_periods, alpha, beta]
    with name_scope(name, "LinearCosineDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        _, completed = _step_and_progress(global_step, decay_steps, rate)
        line = raw_ops.Sub(cast(1.0, rate.dtype), completed)
        return raw_ops.Mul(rate, _line_times_cosine(line, completed, num_periods, alpha, beta),
                           name=scope)


def noisy_linear_cosine_decay(learning_rate: TensorLike, global_step: TensorLike,
                              decay_steps: TensorLike, initial_variance: TensorLike = 1.0,
                              variance_decay: TensorLike = 0.55, num_periods: TensorLike = 0.5,
                              alpha: TensorLike = 0.0, beta: TensorLike = 0.001,
                              name: str | None = None) -> Tensor:
    """As :func:`linear_cosine_decay`, with noise added to the line, another in every step.

    The noise is normal, of the variance ``initial_variance / (1 + step) ** variance_decay`` where
    step is ``min(global_step, decay_steps)``. Without a name the operations are below
    "NoisyLinearCosineDecay".
    """
    values = [learning_rate, global_step, decay_steps, initial_variance, variance_decay,
              num_periods, alpha, beta]
    with name_scope(name, "NoisyLinearCosineDecay", graph_values(values)) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype.base_dtype
        one = cast(1.0, dtype)
        step, completed = _step_and_progress(global_step, decay_steps, rate)
        fading = raw_ops.Pow(raw_ops.Add(one, step), cast(variance_decay, dtype))
        stddev = raw_ops.Sqrt(raw_ops.RealDiv(cast(initial_variance, dtype), fading))
        noise = raw_ops.Mul(random_normal([], dtype=dtype), stddev)
        line = raw_ops.Add(raw_ops.Sub(one, completed), noise)
        return raw_ops.Mul(rate, _line_times_cosine(line, completed, num_periods, alpha, beta),
                           name=scope)


# ---------------------------------------------------------------- parts


def _step_and_progress(global_step: TensorLike, decay_steps: TensorLike,
                       rate: Tensor) -> tuple[Tensor, Tensor]:
    """The step, `decay_steps` at most, and what part of these it is."""
    steps = cast(decay_steps, rate.dtype)
    step = raw_ops.Minimum(checked_step(global_step, rate.dtype), steps)
    return step, raw_ops.RealDiv(step, steps)


def _half_cosine(x: Tensor) -> Tensor:
    """(1 + cos(π x)) / 2."""
    dtype = x.dtype
    turned = raw_ops.Add(cast(1.0, dtype), cos(raw_ops.Mul(cast(math.pi, dtype), x)))
    return raw_ops.Mul(cast(0.5, dtype), turned)


def _above(alpha: TensorLike, x: Tensor) -> Tensor:
    """(1 - alpha) x + alpha."""
    low = cast(alpha, x.dtype)
    return raw_ops.Add(raw_ops.Mul(raw_ops.Sub(cast(1.0, x.dtype), low), x), low)


def _line_times_cosine(line: Tensor, completed: Tensor, num_periods: Any, alpha: TensorLike,
                       beta: TensorLike) -> Tensor:
    """(alpha + line) (1 + cos(2 π num_periods completed)) / 2 + beta."""
    dtype = line.dtype
    half_periods = raw_ops.Mul(cast(2.0, dtype), cast(num_periods, dtype))
    cosine = _half_cosine(raw_ops.Mul(half_periods, completed))
    product = raw_ops.Mul(raw_ops.Add(cast(alpha, dtype), line), cosine)
    return raw_ops.Add(product, cast(beta, dtype))
