"""Special functions of several arguments: Igamma, Zeta, Polygamma, Betainc, and lbeta."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims
from hpcflow.ops.broadcasting import broadcast_shape, unbroadcast

__all__ = ["betainc", "igamma", "igammac", "lbeta", "polygamma", "zeta"]

_FLOAT = "T: {float, double}"

for _op_type, _inputs in (("Igamma", "a: T; x: T"), ("Igammac", "a: T; x: T"),
                          ("Zeta", "x: T; q: T"), ("Polygamma", "a: T; x: T")):
    register_op(_op_type, _inputs, "z: T", _FLOAT, shape=broadcast_shape)


def _betainc_shape(op: Operation) -> list[Dims]:
    """The shape of all that are no scalars."""
    dims: Dims = None
    for tensor in op.inputs:
        if tensor._dims:
            dims = merge_dims(dims, tensor._dims)
    return [() if all(t._dims == () for t in op.inputs) else dims]


register_op("Betainc", "a: T; b: T; x: T", "z: T", _FLOAT, shape=_betainc_shape)

# ---------------------------------------------------------------- gradients


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x^(a-1) exp(-x) / Γ(a), the derivative of Igamma by x, computed from logarithms."""
    one = a.dtype.base_dtype.np.type(1)
    power = raw_ops.Mul(raw_ops.Sub(a, one), raw_ops.Log(x))
    return raw_ops.Exp(raw_ops.Sub(raw_ops.Sub(power, x), raw_ops.Lgamma(a)))


@RegisterGradient("Igamma")
def _igamma_grad(op: Operation, grad: Any) -> tuple:
    """By x; no gradient flows to a."""
    a, x = op.inputs
    return None, unbroadcast(x, a, raw_ops.Mul(grad, _gamma_density(a, x)), None)[0]


@RegisterGradient("Igammac")
def _igammac_grad(op: Operation, grad: Any) -> tuple:
    a, x = op.inputs
    grad_x = raw_ops.Neg(raw_ops.Mul(grad, _gamma_density(a, x)))
    return None, unbroadcast(x, a, grad_x, None)[0]


@RegisterGradient("Zeta")
def _zeta_grad(op: Operation, grad: Any) -> tuple:
    """By q: -x ζ(x + 1, q); no gradient flows to x."""
    x, q = op.inputs
    one = x.dtype.base_dtype.np.type(1)
    slope = raw_ops.Neg(raw_ops.Mul(x, raw_ops.Zeta(raw_ops.Add(x, one), q)))
    return None, unbroadcast(q, x, raw_ops.Mul(grad, slope), None)[0]


@RegisterGradient("Polygamma")
def _polygamma_grad(op: Operation, grad: Any) -> tuple:
    """By x the next higher order; no gradient flows to the order."""
    n, x = op.inputs
    one = n.dtype.base_dtype.np.type(1)
    slope = raw_ops.Polygamma(raw_ops.Add(n, one), x)
    return None, unbroadcast(x, n, raw_ops.Mul(grad, slope), None)[0]


@RegisterGradient("Betainc")
def _betainc_grad(op: Operation, grad: Any) -> tuple:
    """By x: x^(a-1) (1-x)^(b-1) / B(a, b), from logarithms; no gradient flows to a and b."""
    a, b, x = op.inputs
    one = x.dtype.base_dtype.np.type(1)
    log_beta = raw_ops.Sub(raw_ops.Add(raw_ops.Lgamma(a), raw_ops.Lgamma(b)),
                           raw_ops.Lgamma(raw_ops.Add(a, b)))
    powers = raw_ops.Add(raw_ops.Mul(raw_ops.Sub(b, one), raw_ops.Log1p(raw_ops.Neg(x))),
                         raw_ops.Mul(raw_ops.Sub(a, one), raw_ops.Log(x)))
    slope = raw_ops.Exp(raw_ops.Sub(powers, log_beta))
    return None, None, unbroadcast(x, op.outputs[0], raw_ops.Mul(grad, slope), None)[0]


# ---------------------------------------------------------------- public functions


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the lower regularized incomplete gamma function P(a, x), for a > 0 and x >= 0."""
    return raw_ops.Igamma(a=a, x=x, name=name)


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return raw_ops.Igammac(a=a, x=x, name=name)


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Return the Hurwitz zeta function Σ (q + n)^-x over n >= 0, for x > 1."""
    return raw_ops.Zeta(x=x, q=q, name=name)


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the derivative of order `a` of the digamma function at `x`."""
    return raw_ops.Polygamma(a=a, x=x, name=name)


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the regularized incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1."""
    return raw_ops.Betainc(a=a, b=b, x=x, name=name)


def lbeta(x: Any, name: str = "lbeta") -> Tensor:
    """Return log |B(x)| over the last dimension: Σ log Γ(x_i) - log Γ(Σ x_i).

    Of an empty last dimension it is minus infinity.
    """
    with name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x, name="x")
        last = np.array([-1], np.int32)
        logs = raw_ops.Sum(raw_ops.Lgamma(x), last)
        total = raw_ops.Lgamma(raw_ops.Sum(x, last))
        return logs - total
