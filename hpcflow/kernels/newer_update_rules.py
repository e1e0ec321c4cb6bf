"""The arithmetic of the training updates that came after 1.0; called as those of `update_rules`."""

from __future__ import annotations

from typing import Any

from hpcflow.kernels.registry import invalid
from hpcflow.kernels.update_rules import power, shrink


def rate_in_momentum(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum = momentum * accum - lr * grad; var += accum``"""
    var, accum, grad = arrays
    (lr, decay), (t,) = scalars, scratch
    _descend_with(xp, accum, grad, lr, decay, t)
    xp.add(var, accum, var)


def nesterov_rate_in_momentum(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum = momentum * accum - lr * grad; var += momentum * accum - lr * grad``"""
    var, accum, grad = arrays
    (lr, decay), (t,) = scalars, scratch
    _descend_with(xp, accum, grad, lr, decay, t)
    xp.subtract(var, t, var)
    xp.multiply(accum, decay, t)
    xp.add(var, t, var)


def _descend_with(xp: Any, accum: Any, grad: Any, lr: Any, decay: Any, step: Any) -> None:
    """``accum = decay * accum - step`` with ``step = lr * grad``"""
    xp.multiply(accum, decay, accum)
    xp.multiply(grad, lr, step)
    xp.subtract(accum, step, accum)


def adagrad_v2(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum += grad**2``, then :func:`adagrad_step`."""
    _, accum, grad = arrays
    (t,) = scratch
    xp.multiply(grad, grad, t)
    xp.add(accum, t, accum)
    adagrad_step(xp, arrays, scalars, scratch)


def adagrad_step(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``var -= lr * grad / (sqrt(accum) + epsilon)``"""
    var, accum, grad = arrays
    (lr, epsilon), (t,) = scalars, scratch
    xp.sqrt(accum, t)
    xp.add(t, epsilon, t)
    xp.divide(grad, t, t)
    xp.multiply(t, lr, t)
    xp.subtract(var, t, var)


def checked_ftrl_v2(xp: Any, lr: Any, l1: Any, l2: Any, shrinkage: Any, lr_power: Any) -> tuple:
    """The scalars, refused where they are out of range."""
    if not lr > 0:
        raise invalid(f"the learning rate must be positive, got {lr}")
    for name, value in (("l1", l1), ("l2", l2), ("l2 shrinkage", shrinkage)):
        if not value >= 0:
            raise invalid(f"the {name} regularization strength must not be negative, got {value}")
    if not lr_power <= 0:
        raise invalid(f"lr_power must not be positive, got {lr_power}")
    return lr, l1, l2, shrinkage, lr_power


def ftrl_shrunk(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """As ``update_rules.ftrl``, but `linear` grows by ``grad + 2 * l2_shrinkage * var``."""
    lr = scalars[0]
    _ftrl(xp, arrays, scalars, scratch, linear_rate=lr.dtype.type(1), power_rate=lr)


def ftrl_scaled(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """As :func:`ftrl_shrunk`, with `linear` (and what is compared with it) multiplied by lr."""
    lr = scalars[0]
    _ftrl(xp, arrays, scalars, scratch, linear_rate=lr, power_rate=lr.dtype.type(1))


def _ftrl(xp: Any, arrays: Any, scalars: Any, scratch: Any, linear_rate: Any,
          power_rate: Any) -> None:
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
    power(xp, accum, lr_power, t)
    xp.multiply(grad, grad, u)
    xp.add(accum, u, accum)
    power(xp, accum, lr_power, u)
    xp.subtract(u, t, t)
    xp.divide(t, power_rate, t)
    xp.multiply(t, var, t)
    xp.subtract(linear, t, linear)
    xp.divide(u, power_rate, u)
    xp.add(u, (l2 + l2) * linear_rate, u)
    shrink(xp, linear, l1 * linear_rate, t, w)
    xp.divide(t, u, var)
    xp.negative(var, var)


def amsgrad(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adam with the largest second moment so far (Reddi et al., 2018)::

        m += (grad - m) * (1 - beta1)
        v += (grad**2 - v) * (1 - beta2)
        vhat = max(vhat, v)
        var -= rate * m / (sqrt(vhat) + epsilon)
    """
    var, m, v, vhat, grad = arrays
    (rate, gain1, gain2, epsilon), (t, u) = scalars, scratch
    _follow(xp, m, grad, gain1, t)
    xp.multiply(grad, grad, u)
    _follow(xp, v, u, gain2, t)
    xp.maximum(vhat, v, out=vhat)
    xp.sqrt(vhat, t)
    xp.add(t, epsilon, t)
    xp.multiply(m, rate, u)
    xp.divide(u, t, u)
    xp.subtract(var, u, var)


def _follow(xp: Any, mean: Any, x: Any, gain: Any, t: Any) -> None:
    """``mean += (x - mean) * gain``"""
    xp.subtract(x, mean, t)
    xp.multiply(t, gain, t)
    xp.add(mean, t, mean)


def ada_max_scalars(xp: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any,
                    epsilon: Any) -> tuple:
    """The bias-corrected rate, the complement of the first decay, the second decay."""
    one = lr.dtype.type(1)
    return lr / (one - beta1_power), one - beta1, beta2, epsilon


def ada_max(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """AdaMax (Kingma and Ba, 2014) with ``rate = lr / (1 - beta1**t)``::

        m += (grad - m) * (1 - beta1)
        v = max(beta2 * v, abs(grad))
        var -= rate * m / (v + epsilon)
    """
    var, m, v, grad = arrays
    (rate, gain1, beta2, epsilon), (t, u) = scalars, scratch
    _follow(xp, m, grad, gain1, t)
    xp.multiply(v, beta2, v)
    xp.absolute(grad, t)
    xp.maximum(v, t, out=v)
    xp.add(v, epsilon, t)
    xp.divide(m, t, u)
    xp.multiply(u, rate, u)
    xp.subtract(var, u, var)


def add_sign(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """AddSign (Bello et al., 2017)::

        m = beta * m + (1 - beta) * grad
        var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad
    """
    var, m, grad = arrays
    (lr, alpha, decay, beta), (t, u) = scalars, scratch
    _agreement(xp, m, grad, beta, t, u)
    xp.multiply(t, decay, t)
    xp.add(t, alpha, t)
    xp.multiply(t, lr, t)
    xp.multiply(t, grad, t)
    xp.subtract(var, t, var)


def power_sign(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """PowerSign (Bello et al., 2017)::

        m = beta * m + (1 - beta) * grad
        var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad
    """
    var, m, grad = arrays
    (lr, logbase, decay, beta), (t, u) = scalars, scratch
    _agreement(xp, m, grad, beta, t, u)
    xp.multiply(t, logbase * decay, t)
    xp.exp(t, t)
    xp.multiply(t, lr, t)
    xp.multiply(t, grad, t)
    xp.subtract(var, t, var)


def _agreement(xp: Any, m: Any, grad: Any, beta: Any, t: Any, u: Any) -> None:
    """``m = beta * m + (1 - beta) * grad; t = sign(grad) * sign(m)``"""
    xp.multiply(m, beta, m)
    xp.multiply(grad, beta.dtype.type(1) - beta, t)
    xp.add(m, t, m)
    xp.sign(grad, t)
    xp.sign(m, u)
    xp.multiply(t, u, t)
