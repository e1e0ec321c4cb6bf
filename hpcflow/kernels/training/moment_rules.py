"""The arithmetic of updates that follow moments of the gradient: Adam and its kin, AddSign,
PowerSign; called as those of `update_rules`."""

from __future__ import annotations

from typing import Any

from hpcflow.kernels.training.update_rules import follow


def adam_scalars(xp: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
                 epsilon: Any) -> tuple:
    """The bias-corrected rate and the complements of the decays."""
    one = lr.dtype.type(1)
    rate = lr * xp.sqrt(one - beta2_power) / (one - beta1_power)
    return rate, one - beta1, one - beta2, epsilon


def adam(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adam (Kingma and Ba, 2014) with ``rate = lr * sqrt(1 - beta2**t) / (1 - beta1**t)``::

        m += (grad - m) * (1 - beta1)
        v += (grad**2 - v) * (1 - beta2)
        var -= rate * m / (sqrt(v) + epsilon)
    """
    var, m, v, grad = arrays
    (rate, gain1, gain2, epsilon), (t, u) = scalars, scratch
    _follow_moments(xp, m, v, grad, gain1, gain2, t)
    _adam_step(xp, var, m, v, rate, epsilon, t, u)


def nesterov_adam(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adam that looks a step ahead (Dozat, 2016)::

        m += (grad - m) * (1 - beta1)
        v += (grad**2 - v) * (1 - beta2)
        var -= rate * (m + (grad - m) * (1 - beta1)) / (sqrt(v) + epsilon)
    """
    var, m, v, grad = arrays
    (rate, gain1, gain2, epsilon), (t, u) = scalars, scratch
    _follow_moments(xp, m, v, grad, gain1, gain2, t)
    xp.subtract(grad, m, u)
    xp.multiply(u, gain1, u)
    xp.add(u, m, u)
    _adam_step(xp, var, u, v, rate, epsilon, t, u)


def amsgrad(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adam with the largest second moment so far (Reddi et al., 2018)::

        m += (grad - m) * (1 - beta1)
        v += (grad**2 - v) * (1 - beta2)
        vhat = max(vhat, v)
        var -= rate * m / (sqrt(vhat) + epsilon)
    """
    var, m, v, vhat, grad = arrays
    (rate, gain1, gain2, epsilon), (t, u) = scalars, scratch
    _follow_moments(xp, m, v, grad, gain1, gain2, t)
    xp.maximum(vhat, v, out=vhat)
    _adam_step(xp, var, m, vhat, rate, epsilon, t, u)


def _follow_moments(xp: Any, m: Any, v: Any, grad: Any, gain1: Any, gain2: Any, t: Any) -> None:
    """``m += (grad - m) * gain1; v += (grad**2 - v) * gain2``"""
    follow(xp, m, grad, gain1, t)
    xp.multiply(grad, grad, t)
    follow(xp, v, t, gain2, t)


def _adam_step(xp: Any, var: Any, m: Any, v: Any, rate: Any, epsilon: Any, t: Any,
               u: Any) -> None:
    """``var -= rate * m / (sqrt(v) + epsilon)``"""
    xp.sqrt(v, t)
    xp.add(t, epsilon, t)
    xp.multiply(m, rate, u)
    xp.divide(u, t, u)
    xp.subtract(var, u, var)


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
    follow(xp, m, grad, gain1, t)
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
