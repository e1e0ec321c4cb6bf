"""The arithmetic of the training updates, in place over blocks of arrays.

A rule is called as ``rule(xp, arrays, scalars, scratch)``: `arrays` are blocks of the variable, of
its slots and, last, of the gradient, all of one shape; the gradient is never written. `scalars`
are the other inputs in the op's order, or what the rule's ``prepare`` made of them; `scratch` is
as many arrays of the same shape as the rule asks for. Each rule states its formula.
"""

from __future__ import annotations

from typing import Any


def gradient_descent(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``var -= alpha * delta``"""
    var, delta = arrays
    (alpha,), (t,) = scalars, scratch
    xp.multiply(delta, alpha, t)
    xp.subtract(var, t, var)


def momentum(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum = momentum * accum + grad; var -= lr * accum``"""
    var, accum, grad = arrays
    (lr, decay), (t,) = scalars, scratch
    xp.multiply(accum, decay, accum)
    xp.add(accum, grad, accum)
    xp.multiply(accum, lr, t)
    xp.subtract(var, t, var)


def nesterov_momentum(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum = momentum * accum + grad; var -= lr * grad + lr * momentum * accum``"""
    var, accum, grad = arrays
    (lr, decay), (t,) = scalars, scratch
    xp.multiply(accum, decay, accum)
    xp.add(accum, grad, accum)
    xp.multiply(grad, lr, t)
    xp.subtract(var, t, var)
    xp.multiply(accum, decay * lr, t)
    xp.subtract(var, t, var)


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


def add_square(xp: Any, total: Any, x: Any, t: Any) -> None:
    """``total += x**2``"""
    xp.multiply(x, x, t)
    xp.add(total, t, total)


def follow(xp: Any, mean: Any, x: Any, gain: Any, t: Any) -> None:
    """``mean += (x - mean) * gain``; `t` may be `x`."""
    xp.subtract(x, mean, t)
    xp.multiply(t, gain, t)
    xp.add(mean, t, mean)


def adagrad(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum += grad**2; var -= lr * grad / sqrt(accum)`` (Duchi et al., 2011)"""
    var, accum, grad = arrays
    (lr,), (t,) = scalars, scratch
    add_square(xp, accum, grad, t)
    xp.sqrt(accum, t)
    xp.divide(grad, t, t)
    xp.multiply(t, lr, t)
    xp.subtract(var, t, var)


def adagrad_v2(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum += grad**2``, then :func:`adagrad_step`."""
    _, accum, grad = arrays
    add_square(xp, accum, grad, scratch[0])
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


def adagrad_da(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adagrad by dual averaging::

        g += grad; gg += grad**2
        var = -lr * sign(g) * max(abs(g) - l1 * step, 0) / (l2 * step * lr + sqrt(gg))
    """
    var, total, squares, grad = arrays
    (lr, l1, l2, step), (t, u) = scalars, scratch
    step = step.astype(lr.dtype) if lr.dtype != step.dtype else step
    xp.add(total, grad, total)
    add_square(xp, squares, grad, t)
    shrink(xp, total, l1 * step, t, u)
    xp.multiply(t, -lr, t)
    xp.sqrt(squares, u)
    xp.add(u, l2 * step * lr, u)
    xp.divide(t, u, var)


def shrink(xp: Any, x: Any, threshold: Any, out: Any, scratch: Any) -> None:
    """Soft threshold: ``out = sign(x) * max(abs(x) - threshold, 0)``.

    `out` and `scratch` are not `x`; `threshold` is a number or an array, which may be `scratch`.
    """
    xp.absolute(x, out)
    xp.subtract(out, threshold, out)
    xp.maximum(out, out.dtype.type(0), out=out)
    xp.sign(x, scratch)
    xp.multiply(out, scratch, out)


def proximal_gradient_descent(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``p = var - alpha * delta``, then the proximal step of both penalties::

        var = sign(p) * max(abs(p) - alpha * l1, 0) / (1 + alpha * l2)
    """
    var, delta = arrays
    (alpha, l1, l2), (t, u) = scalars, scratch
    xp.multiply(delta, alpha, t)
    xp.subtract(var, t, var)
    shrink(xp, var, alpha * l1, t, u)
    xp.divide(t, alpha * l2 + alpha.dtype.type(1), var)


def proximal_adagrad(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """``accum += grad**2; rate = lr / sqrt(accum)``, then as the proximal gradient step with it."""
    var, accum, grad = arrays
    (lr, l1, l2), (t, u, rate) = scalars, scratch
    add_square(xp, accum, grad, t)
    xp.sqrt(accum, rate)
    xp.divide(lr, rate, rate)
    xp.multiply(grad, rate, t)
    xp.subtract(var, t, var)
    xp.multiply(rate, l1, t)
    shrink(xp, var, t, u, t)
    xp.multiply(rate, l2, rate)
    xp.add(rate, rate.dtype.type(1), rate)
    xp.divide(u, rate, var)


def rms_prop(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """RMSProp (Tieleman and Hinton, 2012)::

        ms += (grad**2 - ms) * (1 - rho)
        mom = momentum * mom + lr * grad / sqrt(ms + epsilon)
        var -= mom
    """
    var, ms, mom, grad = arrays
    (lr, rho, decay, epsilon), (t, u) = scalars, scratch
    _track_square(xp, ms, grad, rho, t)
    xp.add(ms, epsilon, t)
    _rms_step(xp, var, mom, grad, lr, decay, t, u)


def centered_rms_prop(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """RMSProp by the variance instead of the mean square::

        ms += (grad**2 - ms) * (1 - rho); mg += (grad - mg) * (1 - rho)
        mom = momentum * mom + lr * grad / sqrt(ms - mg**2 + epsilon)
        var -= mom
    """
    var, mg, ms, mom, grad = arrays
    (lr, rho, decay, epsilon), (t, u) = scalars, scratch
    _track_square(xp, ms, grad, rho, t)
    follow(xp, mg, grad, rho.dtype.type(1) - rho, t)
    xp.multiply(mg, mg, t)
    xp.subtract(ms, t, t)
    xp.add(t, epsilon, t)
    _rms_step(xp, var, mom, grad, lr, decay, t, u)


def _track_square(xp: Any, ms: Any, grad: Any, rho: Any, t: Any) -> None:
    xp.multiply(grad, grad, t)
    follow(xp, ms, t, rho.dtype.type(1) - rho, t)


def _rms_step(xp: Any, var: Any, mom: Any, grad: Any, lr: Any, decay: Any, t: Any, u: Any) -> None:
    """``mom = decay * mom + lr * grad / sqrt(t); var -= mom``"""
    xp.sqrt(t, t)
    xp.multiply(grad, lr, u)
    xp.divide(u, t, u)
    xp.multiply(mom, decay, mom)
    xp.add(mom, u, mom)
    xp.subtract(var, mom, var)


def adadelta(xp: Any, arrays: Any, scalars: Any, scratch: Any) -> None:
    """Adadelta (Zeiler, 2012)::

        accum = rho * accum + (1 - rho) * grad**2
        update = grad * sqrt(accum_update + epsilon) / sqrt(accum + epsilon)
        accum_update = rho * accum_update + (1 - rho) * update**2
        var -= lr * update
    """
    var, accum, accum_update, grad = arrays
    (lr, rho, epsilon), (t, u) = scalars, scratch
    gain = rho.dtype.type(1) - rho
    _decayed_square(xp, accum, grad, rho, gain, t)
    xp.add(accum_update, epsilon, u)
    xp.sqrt(u, u)
    xp.add(accum, epsilon, t)
    xp.sqrt(t, t)
    xp.divide(u, t, u)
    xp.multiply(u, grad, u)
    _decayed_square(xp, accum_update, u, rho, gain, t)
    xp.multiply(u, lr, u)
    xp.subtract(var, u, var)


def _decayed_square(xp: Any, accum: Any, x: Any, rho: Any, gain: Any, t: Any) -> None:
    """``accum = rho * accum + gain * x**2``"""
    xp.multiply(x, x, t)
    xp.multiply(t, gain, t)
    xp.multiply(accum, rho, accum)
    xp.add(accum, t, accum)
