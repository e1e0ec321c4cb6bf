"""Element-wise functions of one input: Abs, Exp, Tanh, Floor, IsNan, ..."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged
from hpcflow.ops.common.type_sets import ANY_FLOAT, ANY_FLOAT_OR_COMPLEX, ORDERED, SIGNED
from hpcflow.ops.common.unary import (
    conj,
    derivative,
    derivative_by_value,
    number,
    over_values,
    register_unary,
)

__all__ = [
    "abs",
    "ceil",
    "exp",
    "expm1",
    "floor",
    "is_finite",
    "is_inf",
    "is_nan",
    "log",
    "log1p",
    "negative",
    "reciprocal",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sqrt",
    "square",
    "tanh",
]

# ---------------------------------------------------------------- signatures


def _same_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op._inputs[0]._dims, op._inputs[1]._dims)]


def _unary_grad(*op_types: str, deprecated: str | None = None) -> None:
    """The derivative of a function in terms of its output x and the gradient y."""
    for op_type in op_types:
        register_op(op_type, "x: T; y: T", "z: T", f"T: {ANY_FLOAT_OR_COMPLEX}", shape=_same_shape,
                    deprecated=deprecated)


register_unary("{half, float, double, int32, int64, bfloat16, int8, int16}", "Abs")
register_unary(f"{SIGNED[:-1]}, bfloat16, int8, int16}}", "Neg", "Sign")
register_unary(f"{ORDERED[:-1]}, complex64, complex128}}", "Square")
register_unary(f"{SIGNED[:-1]}, bfloat16}}", "Reciprocal", "Round")
register_unary(f"{SIGNED[:-1]}, bfloat16}}", "Inv", deprecated="Reciprocal is the same")
register_unary(ANY_FLOAT_OR_COMPLEX, "Sqrt", "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Tanh",
               "Sigmoid")
register_unary(ANY_FLOAT, "Floor", "Ceil")
register_unary("{float, double}", "Rint")
_unary_grad("ReciprocalGrad", "SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad")
_unary_grad("InvGrad", deprecated="ReciprocalGrad is the same")
for _op_type in ("IsNan", "IsInf", "IsFinite"):
    register_op(_op_type, "x: T", "y: bool", f"T: {ANY_FLOAT}", shape=unchanged)

# ---------------------------------------------------------------- gradients

not_differentiable("Floor", "Ceil", "Round", "Rint", "IsNan", "IsInf", "IsFinite")


def _by_output(op_type: str, grad_op: str) -> None:
    """Register the op that computes the gradient from the output."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Tensor) -> Tensor:
        output = op.outputs[0]
        if grad_op in ("TanhGrad", "SigmoidGrad"):  # the others conjugate in their kernels
            output = conj(output)
        dims, of_grad = output._dims, grad._dims
        if dims is not None and of_grad is not None and len(dims) != len(of_grad):
            # A list with one tensor is taken for `grad_ys`: the values are those of the output.
            grad = raw_ops.Reshape(grad, raw_ops.Shape(output))
        return getattr(raw_ops, grad_op)(output, grad)


for _op_type, _grad_op in (("Tanh", "TanhGrad"), ("Sigmoid", "SigmoidGrad"), ("Sqrt", "SqrtGrad"),
                           ("Rsqrt", "RsqrtGrad"), ("Reciprocal", "ReciprocalGrad"),
                           ("Inv", "ReciprocalGrad")):
    _by_output(_op_type, _grad_op)


@RegisterGradient("Abs")
def _abs_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Mul(grad, raw_ops.Sign(op.inputs[0]))


@RegisterGradient("Sign")
def _sign_grad(op: Operation, grad: Tensor) -> Tensor:
    """Zeros, not None: programs add it to other gradients."""
    del grad
    return raw_ops.ZerosLike(op.inputs[0])


@RegisterGradient("Neg")
def _neg_grad(op: Operation, grad: Any) -> Any:
    return -grad


derivative_by_value("Exp", lambda y: y)
derivative("Expm1", lambda x: raw_ops.Exp(x))
derivative("Log", lambda x: raw_ops.Reciprocal(x))
derivative("Log1p", lambda x: raw_ops.Reciprocal(raw_ops.Add(x, number(x, 1))))
derivative("Square", lambda x: raw_ops.Mul(x, number(x, 2)))


# The ops below are gradients themselves; theirs serve second derivatives. In each, x is the output
# of the function, y the gradient that reached it, and x* the conjugate.


@RegisterGradient("TanhGrad")
def _tanh_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y (1 - x²)."""
    x, y = op.inputs
    return (raw_ops.Mul(raw_ops.Mul(number(x, -2), grad), raw_ops.Mul(conj(y), conj(x))),
            raw_ops.TanhGrad(conj(x), grad))


@RegisterGradient("SigmoidGrad")
def _sigmoid_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y x (1 - x)."""
    x, y = (conj(t) for t in op.inputs)
    slope = raw_ops.Sub(number(x, 1), raw_ops.Mul(number(x, 2), x))
    return (raw_ops.Mul(raw_ops.Mul(grad, y), slope),
            raw_ops.SigmoidGrad(x, grad))


@RegisterGradient("SqrtGrad")
def _sqrt_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y / (2 x*)."""
    x, z = op.inputs[0], op.outputs[0]
    scaled = raw_ops.RealDiv(grad, x)
    return (raw_ops.Neg(raw_ops.Mul(conj(scaled), z)),
            raw_ops.Mul(scaled, number(x, 0.5)))


@RegisterGradient("RsqrtGrad")
def _rsqrt_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = -y x*³ / 2."""
    x, y = op.inputs
    slope = raw_ops.Mul(number(x, -1.5), raw_ops.Square(conj(x)))
    return (raw_ops.Mul(raw_ops.Mul(conj(grad), y), slope),
            raw_ops.RsqrtGrad(conj(x), grad))


def _reciprocal_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = -y x*²."""
    x, y = op.inputs
    slope = raw_ops.Mul(number(x, -2), conj(x))
    return (raw_ops.Mul(raw_ops.Mul(conj(grad), y), slope),
            raw_ops.ReciprocalGrad(conj(x), grad))


RegisterGradient("ReciprocalGrad")(_reciprocal_grad_grad)
RegisterGradient("InvGrad")(_reciprocal_grad_grad)


# ---------------------------------------------------------------- public functions


def abs(x: Any, name: str | None = None) -> Any:
    """Return |x| element-wise: of a complex tensor the real modulus. Sparse tensors stay sparse."""
    return over_values(lambda values: _dense_abs(values, name), x)


def _dense_abs(x: TensorLike, name: str | None) -> Tensor:
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return raw_ops.ComplexAbs(x, Tout=x.dtype.base_dtype.real_dtype, name=name)
    return raw_ops.Abs(x, name=name)


def negative(x: TensorLike, name: str | None = None) -> Any:
    """Return -x element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Neg(values, name=name), x)


def sign(x: Any, name: str | None = None) -> Any:
    """Return -1, 0 or 1 by the sign of each element (complex: x / |x|, 0 at 0).

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Sign(values, name=name), x)


def reciprocal(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / x element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Reciprocal(x=x, name=name)


def square(x: Any, name: str | None = None) -> Any:
    """Return x² element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Square(values, name=name), x)


def sqrt(x: TensorLike, name: str | None = None) -> Any:
    """Return the square root element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Sqrt(values, name=name), x)


def rsqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / √x element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Rsqrt(x=x, name=name)


def round(x: TensorLike, name: str | None = None) -> Tensor:
    """Round to the nearest integer element-wise, halves to the even one.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else raw_ops.Round(x=x, name=name)


def rint(x: TensorLike, name: str | None = None) -> Tensor:
    """Round to the nearest integer element-wise, halves to the even one.

    `x` has any shape, and elements that are float32 or float64; so has the result.
    """
    return raw_ops.Rint(x=x, name=name)


def exp(x: TensorLike, name: str | None = None) -> Tensor:
    """Return e to the power x element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Exp(x=x, name=name)


def expm1(x: TensorLike, name: str | None = None) -> Tensor:
    """Return exp(x) - 1 element-wise, exact for small x.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Expm1(x=x, name=name)


def log(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the natural logarithm element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Log(x=x, name=name)


def log1p(x: TensorLike, name: str | None = None) -> Tensor:
    """Return log(1 + x) element-wise, exact for small x.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Log1p(x=x, name=name)


def tanh(x: TensorLike, name: str | None = None) -> Any:
    """Return the hyperbolic tangent element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return over_values(lambda values: raw_ops.Tanh(values, name=name), x)


def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)) element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Sigmoid(x=x, name=name)


def is_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """Return which elements are NaN."""
    return raw_ops.IsNan(x=x, name=name)


def is_inf(x: TensorLike, name: str | None = None) -> Tensor:
    """Return which elements are infinite."""
    return raw_ops.IsInf(x=x, name=name)


def is_finite(x: TensorLike, name: str | None = None) -> Tensor:
    """Return which elements are finite."""
    return raw_ops.IsFinite(x=x, name=name)


def floor(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the largest integer not above each element.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Floor(x=x, name=name)


def ceil(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the smallest integer not below each element.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Ceil(x=x, name=name)
