"""Decay schedules for the sign term of AddSign and PowerSign, functions of the global step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.casting import to_float
from hpcflow.optimizers.optimizer import cast


def get_linear_decay_fn(decay_steps: int) -> Callable[[Any], Tensor]:
    """Return a function that falls from 1 to 0 within `decay_steps`."""
    _check_steps(decay_steps)
    return lambda global_step: 1.0 - _progress(global_step, decay_steps)


def get_cosine_decay_fn(decay_steps: int, num_periods: float = 0.5,
                        zero_after: float | None = None) -> Callable[[Any], Tensor]:
    """Return a function that follows a cosine from 1, `num_periods` times within `decay_steps`;
    it is 0 after `zero_after` periods, if given."""
    _check_steps(decay_steps)

    def decay(global_step: TensorLike) -> Tensor:
        periods = _progress(global_step, decay_steps) * (2.0 * num_periods)
        value = 0.5 * (1.0 + raw_ops.Cos(math.pi * periods))
        if zero_after is None:
            return value
        return raw_ops.Select(periods >= 2.0 * zero_after, raw_ops.ZerosLike(value), value)

    return decay


def get_restart_decay_fn(decay_steps: int, num_periods: int = 1,
                         zero_after: float | None = None) -> Callable[[Any], Tensor]:
    """Return a function that falls along a cosine from 1 to 0, `num_periods` times within
    `decay_steps`; it is 0 after `zero_after` periods, if given."""
    _check_steps(decay_steps)

    def decay(global_step: TensorLike) -> Tensor:
        done = _progress(global_step, decay_steps) * float(num_periods)
        value = 0.5 * (1.0 + raw_ops.Cos(math.pi * raw_ops.FloorMod(done, 1.0)))
        if zero_after is None:
            return value
        return raw_ops.Select(done >= float(zero_after), raw_ops.ZerosLike(value), value)

    return decay


def _check_steps(decay_steps: int) -> None:
    if decay_steps is None or decay_steps <= 0:
        raise ValueError(f"decay_steps must be positive, got {decay_steps}")


def _progress(global_step: TensorLike, decay_steps: int) -> Any:
    """Return the fraction of the decay steps that is done."""
    if global_step is None:
        raise ValueError("global_step is required for a decay function")
    step = cast(global_step, dtypes.int64)
    done = raw_ops.Minimum(step, raw_ops.OnesLike(step) * decay_steps)
    return to_float(done) / float(decay_steps)
