"""The arithmetic of Ftrl's updates; called as those of `update_rules`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpcflow.kernels.training.update_rules import add_square, shrink


def power(xp: Any, accum: Any, lr_power: Any, out: Any) -> None:
    """``accum ** -lr_power``"""
    xp.power(accum, -lr_power, out)


def _root(xp: Any, accum: Any, lr_power: Any, out: Any) -> None:
    """The same where `lr_power` is -0.5."""
    xp.sqrt(accum, out)


def for_scalars(rule: Callable, scalars: tuple) -> Callable:
    """The rule for these scalars, of which the last is ``lr_power``: mostly one with roots, which
    loops can be made of."""
    return _with_roots(rule) if scalars[-1] == -0.5 else rule


@functools.lru_cache(maxsize=8)
def _with_roots(rule: Callable) -> Callable:
    return functools.partial(rule, power=_root)


def ftrl(xp: Any, arrays: Any, scalars: Any, scratch: Any, power: Callable = power) -> None:
    """Follow the regularized leader (McMahan et al., 2013), with ``p = -lr_power``::

        new = accum + grad**2
        linear += grad - (new**p - accum**p) / lr * var
        var = (sign(linear) * l1 - linear) / (new**p / lr + 2 * l2) if abs(linear) > l1 else 0
        accum = new
    """
    var, accum, linear, grad = arrays
    (lr, l1, l2, lr_power), (t, u) = scalars, scratch
    _grow(xp, accum, grad, lr_power, t, u, power)
    xp.divide(t, lr, t)
    xp.multiply(t, var, t)
    xp.subtract(grad, t, t)
    xp.add(linear, t, linear)
    xp.divide(u, lr, u)
    xp.add(u, l2 + l2, u)
    shrink(xp, linear, l1, t, var)
    xp.divide(t, u, var)
    xp.negative(var, var)


def _grow(xp: Any, accum: Any, grad: Any, lr_power: Any, t: Any, u: Any,
          power: Callable) -> None:
    """``old = accum**p; accum += grad**2; u = accum**p; t = u - old`` with ``p = -lr_power``"""
    power(xp, accum, lr_power, t)
    add_square(xp, accum, grad, u)
    power(xp, accum, lr_power, u)
    xp.subtract(u, t, t)


def ftrl_shrunk(xp: Any, arrays: Any, scalars: Any, scratch: Any,
                power: Callable = power) -> None:
    """As :func:`ftrl`, but `linear` grows by ``grad + 2 * l2_shrinkage * var``."""
    lr = scalars[0]
    _ftrl(xp, arrays, scalars, scratch, lr.dtype.type(1), lr, power)


def ftrl_scaled(xp: Any, arrays: Any, scalars: Any, scratch: Any,
                power: Callable = power) -> None:
    """As :func:`ftrl_shrunk`, with `linear` (and what is compared with it) multiplied by lr."""
    lr = scalars[0]
    _ftrl(xp, arrays, scalars, scratch, lr, lr.dtype.type(1), power)


def _ftrl(xp: Any, arrays: Any, scalars: Any, scratch: Any, linear_rate: Any,
          power_rate: Any, power: Callable) -> None:
    """With ``p = -lr_power``::

        new = accum + grad**2
        linear += (grad + 2 * l2_shrinkage * var) * linear_rate
        linear -= (new**p - accum**p) / power_rate * var
        bound = l1 * linear_rate
        slope = new**p / power_rate + 2 * l2 * linear_rate
        var = (clip(linear, -bound, bound) - linear) / slope
        accum = new
    """
    var, accum, linear, grad = arrays
    (_, l1, l2, shrinkage, lr_power), (t, u, w) = scalars, scratch
    xp.multiply(var, shrinkage + shrinkage, w)
    xp.add(grad, w, w)
    xp.multiply(w, linear_rate, w)
    xp.add(linear, w, linear)
    _grow(xp, accum, grad, lr_power, t, u, power)
    xp.divide(t, power_rate, t)
    xp.multiply(t, var, t)
    xp.subtract(linear, t, linear)
    xp.divide(u, power_rate, u)
    xp.add(u, (l2 + l2) * linear_rate, u)
    shrink(xp, linear, l1 * linear_rate, t, w)
    xp.divide(t, u, var)
    xp.negative(var, var)
