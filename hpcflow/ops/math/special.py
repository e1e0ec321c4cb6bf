"""Special functions: of gamma and beta, zeta, of errors and their inverses, Bessel's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.common.type_sets import ANY_FLOAT, FLOAT
from hpcflow.ops.common.unary import derivative, number, over_values, register_unary

__all__ = ["betainc", "digamma", "erf", "erfc", "igamma", "igammac", "lbeta", "lgamma",
           "polygamma", "zeta"]  # fmt: skip

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

register_op("IgammaGradA", "a: T; x: T", "z: T", _FLOAT, shape=broadcast_shape)
register_op("RandomGammaGrad", "alpha: T; sample: T", "output: T", f"T: {FLOAT}",
            shape=broadcast_shape)
register_unary(ANY_FLOAT, "Lgamma", "Digamma", "Erf", "Erfc", "Erfinv", "Ndtri", "BesselI0",
               "BesselI0e", "BesselI1", "BesselI1e")
not_differentiable("IgammaGradA", "RandomGammaGrad")

# ---------------------------------------------------------------- gradients


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x^(a-1) exp(-x) / Γ(a), the derivative of Igamma by x, computed from logarithms."""
    one = number(a, 1)
    power = raw_ops.Mul(raw_ops.Sub(a, one), raw_ops.Log(x))
    return raw_ops.Exp(raw_ops.Sub(raw_ops.Sub(power, x), raw_ops.Lgamma(a)))


@RegisterGradient("Igamma")
def _igamma_grad(op: Operation, grad: Tensor) -> tuple:
    a, x = op.inputs
    return unbroadcast(a, x, raw_ops.Mul(grad, raw_ops.IgammaGradA(a, x)),
                       raw_ops.Mul(grad, _gamma_density(a, x)))


@RegisterGradient("Igammac")
def _igammac_grad(op: Operation, grad: Tensor) -> tuple:
    """The two functions add up to one."""
    a, x = op.inputs
    grad = raw_ops.Neg(grad)
    return unbroadcast(a, x, raw_ops.Mul(grad, raw_ops.IgammaGradA(a, x)),
                       raw_ops.Mul(grad, _gamma_density(a, x)))


@RegisterGradient("Zeta")
def _zeta_grad(op: Operation, grad: Tensor) -> tuple:
    """By q: -x ζ(x + 1, q); no gradient flows to x."""
    x, q = op.inputs
    one = number(x, 1)
    slope = raw_ops.Neg(raw_ops.Mul(x, raw_ops.Zeta(raw_ops.Add(x, one), q)))
    return None, unbroadcast(q, x, raw_ops.Mul(grad, slope), None)[0]


@RegisterGradient("Polygamma")
def _polygamma_grad(op: Operation, grad: Tensor) -> tuple:
    """By x the next higher order; no gradient flows to the order."""
    n, x = op.inputs
    one = number(n, 1)
    slope = raw_ops.Polygamma(raw_ops.Add(n, one), x)
    return None, unbroadcast(x, n, raw_ops.Mul(grad, slope), None)[0]


derivative("Lgamma", lambda x: raw_ops.Digamma(x))
derivative("Digamma", lambda x: raw_ops.Polygamma(number(x, 1), x))
derivative("Erf", lambda x: _bell(x, 2 / math.sqrt(math.pi)))
derivative("Erfc", lambda x: _bell(x, -2 / math.sqrt(math.pi)))


def _bell(x: Tensor, scale: float) -> Tensor:
    """scale · exp(-x²)."""
    return raw_ops.Mul(number(x, scale), raw_ops.Exp(raw_ops.Neg(raw_ops.Square(x))))


@RegisterGradient("BesselI0")
def _bessel_i0_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Mul(grad, raw_ops.BesselI1(op.inputs[0]))


@RegisterGradient("BesselI0e")
def _bessel_i0e_grad(op: Operation, grad: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    damped = raw_ops.Mul(raw_ops.Sign(x), y)
    return raw_ops.Mul(grad, raw_ops.Sub(raw_ops.BesselI1e(x), damped))


@RegisterGradient("BesselI1")
def _bessel_i1_grad(op: Operation, grad: Tensor) -> Tensor:
    """I0(x) - I1(x) / x, a half at 0."""
    x, y = op.inputs[0], op.outputs[0]
    slope = raw_ops.Sub(raw_ops.BesselI0(x), raw_ops.DivNoNan(y, x))
    return raw_ops.Mul(grad, _near_zero(x, _slope_of_i1(x), slope))


@RegisterGradient("BesselI1e")
def _bessel_i1e_grad(op: Operation, grad: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    damped = raw_ops.Mul(raw_ops.Sign(x), y)
    series = raw_ops.Mul(raw_ops.Exp(raw_ops.Neg(raw_ops.Abs(x))), _slope_of_i1(x))
    slope = raw_ops.Sub(raw_ops.BesselI0e(x), raw_ops.DivNoNan(y, x))
    return raw_ops.Mul(grad, raw_ops.Sub(_near_zero(x, series, slope), damped))


# Of the derivative of I1, by (x / 2)²: (2 k + 1) / (2 k! (k + 1)!).
_I1_SLOPE = [(2 * k + 1) / (2 * math.factorial(k) * math.factorial(k + 1)) for k in range(11)]


def _slope_of_i1(x: Tensor) -> Tensor:
    """The derivative of I1 by its series, for |x| <= 1.

    Of its own derivatives no nearly equal terms cancel, as do those of I1(x) / x near zero.
    """
    quarter = raw_ops.Mul(number(x, 0.25), raw_ops.Square(x))
    found = raw_ops.Add(raw_ops.ZerosLike(x), number(x, _I1_SLOPE[-1]))
    for coefficient in _I1_SLOPE[-2::-1]:
        found = raw_ops.Add(raw_ops.Mul(found, quarter), number(x, coefficient))
    return found


def _near_zero(x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    return raw_ops.Select(raw_ops.LessEqual(raw_ops.Abs(x), number(x, 1)), near, far)


@RegisterGradient("Erfinv")
def _erfinv_grad(op: Operation, grad: Tensor) -> Tensor:
    """sqrt(π) / 2 exp(y²)."""
    y = op.outputs[0]
    bell = raw_ops.Mul(raw_ops.Exp(raw_ops.Square(y)), number(y, 0.5 * math.sqrt(math.pi)))
    return raw_ops.Mul(grad, bell)


@RegisterGradient("Ndtri")
def _ndtri_grad(op: Operation, grad: Tensor) -> Tensor:
    """sqrt(2π) exp(y² / 2)."""
    y = op.outputs[0]
    bell = raw_ops.Exp(raw_ops.Mul(raw_ops.Square(y), number(y, 0.5)))
    return raw_ops.Mul(grad, raw_ops.Mul(bell, number(y, math.sqrt(2 * math.pi))))


@RegisterGradient("Betainc")
def _betainc_grad(op: Operation, grad: Tensor) -> tuple:
    """By x: x^(a-1) (1-x)^(b-1) / B(a, b), from logarithms; no gradient flows to a and b."""
    a, b, x = op.inputs
    one = number(x, 1)
    log_beta = raw_ops.Sub(raw_ops.Add(raw_ops.Lgamma(a), raw_ops.Lgamma(b)),
                           raw_ops.Lgamma(raw_ops.Add(a, b)))
    powers = raw_ops.Add(raw_ops.Mul(raw_ops.Sub(b, one), raw_ops.Log1p(raw_ops.Neg(x))),
                         raw_ops.Mul(raw_ops.Sub(a, one), raw_ops.Log(x)))
    slope = raw_ops.Exp(raw_ops.Sub(powers, log_beta))
    return None, None, unbroadcast(x, op.outputs[0], raw_ops.Mul(grad, slope), None)[0]


# ---------------------------------------------------------------- public functions


def lgamma(x: TensorLike, name: str | None = None) -> Tensor:
    """Return log |Γ(x)| element-wise.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Lgamma(x=x, name=name)


def digamma(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the derivative of log Γ(x) element-wise.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Digamma(x=x, name=name)


def erf(x: Any, name: str | None = None) -> Any:
    """Return the error function element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Erf(values, name=name), x)


def erfc(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 - erf(x) element-wise, exact in the tail.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Erfc(x=x, name=name)


def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower regularized incomplete gamma function P(a, x), for a > 0 and x >= 0."""
    return raw_ops.Igamma(a=a, x=x, name=name)


def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return raw_ops.Igammac(a=a, x=x, name=name)


def zeta(x: TensorLike, q: TensorLike, name: str | None = None) -> Tensor:
    """Return the Hurwitz zeta function Σ (q + n)^-x over n >= 0, for x > 1."""
    return raw_ops.Zeta(x=x, q=q, name=name)


def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the derivative of order `a` of the digamma function at `x`."""
    return raw_ops.Polygamma(a=a, x=x, name=name)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the regularized incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1."""
    return raw_ops.Betainc(a=a, b=b, x=x, name=name)


def lbeta(x: TensorLike, name: str = "lbeta") -> Tensor:
    """Return log |B(x)| over the last dimension: Σ log Γ(x_i) - log Γ(Σ x_i).

    Of an empty last dimension it is minus infinity.
    """
    with name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x, name="x")
        last = np.array([-1], np.int32)
        logs = raw_ops.Sum(raw_ops.Lgamma(x), last)
        total = raw_ops.Lgamma(raw_ops.Sum(x, last))
        return logs - total
