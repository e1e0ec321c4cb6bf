"""Sine, cosine, tangent, the hyperbolic ones, the inverses of both, and the angle of a point."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.common.type_sets import ANY_FLOAT_OR_COMPLEX, SIGNED
from hpcflow.ops.common.unary import derivative, derivative_by_value, number, register_unary

__all__ = ["acos", "asin", "atan", "cos", "sin", "tan"]

_HALF_FLOAT = "{half, bfloat16, float, double}"

register_unary(ANY_FLOAT_OR_COMPLEX, "Sin", "Cos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")
register_unary(f"{SIGNED[:-1]}, bfloat16}}", "Tan", "Asin", "Acos", "Atan")

derivative("Sin", lambda x: raw_ops.Cos(x))
derivative("Cos", lambda x: raw_ops.Neg(raw_ops.Sin(x)))
derivative("Tan", lambda x: raw_ops.Reciprocal(raw_ops.Square(raw_ops.Cos(x))))
derivative("Asin", lambda x: raw_ops.Rsqrt(_one_minus_square(x)))
derivative("Acos", lambda x: raw_ops.Neg(raw_ops.Rsqrt(_one_minus_square(x))))
derivative("Atan", lambda x: raw_ops.Reciprocal(raw_ops.Add(number(x, 1), raw_ops.Square(x))))
derivative("Sinh", lambda x: raw_ops.Cosh(x))
derivative("Cosh", lambda x: raw_ops.Sinh(x))
derivative_by_value("Asinh", lambda y: raw_ops.Reciprocal(raw_ops.Cosh(y)))
derivative_by_value("Acosh", lambda y: raw_ops.Reciprocal(raw_ops.Sinh(y)))
derivative("Atanh", lambda x: raw_ops.Reciprocal(_one_minus_square(x)))


def _one_minus_square(x: Tensor) -> Tensor:
    return raw_ops.Sub(number(x, 1), raw_ops.Square(x))


register_op("Atan2", "y: T; x: T", "z: T", f"T: {_HALF_FLOAT}", shape=broadcast_shape)


@RegisterGradient("Atan2")
def _atan2_grad(op: Operation, grad: Tensor) -> tuple:
    inputs: Any = op.inputs
    y, x = inputs
    over = grad / (x * x + y * y)
    return unbroadcast(y, x, x * over, -y * over)


# ---------------------------------------------------------------- public functions


def sin(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the sine element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Sin(x=x, name=name)


def cos(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the cosine element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Cos(x=x, name=name)


def tan(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the tangent element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Tan(x=x, name=name)


def asin(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse sine element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Asin(x=x, name=name)


def acos(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse cosine element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Acos(x=x, name=name)


def atan(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse tangent element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Atan(x=x, name=name)
