"""Element-wise functions of one input: Abs, Exp, Tanh, Floor, Erf, ..."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from math import sqrt as _root
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged
from hpcflow.ops.common.type_sets import ANY_FLOAT, ANY_FLOAT_OR_COMPLEX, ORDERED, SIGNED

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "is_finite",
    "is_inf",
    "is_nan",
    "lgamma",
    "log",
    "log1p",
    "negative",
    "reciprocal",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

# ---------------------------------------------------------------- signatures


def _unary(types: str, *op_types: str, deprecated: str | None = None) -> None:
    for op_type in op_types:
        register_op(op_type, "x: T", "y: T", f"T: {types}", shape=unchanged,
                    deprecated=deprecated)


def _same_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op._inputs[0]._dims, op._inputs[1]._dims)]


def _unary_grad(*op_types: str, deprecated: str | None = None) -> None:
    """The derivative of a function in terms of its output x and the gradient y."""
    for op_type in op_types:
        register_op(op_type, "x: T; y: T", "z: T", f"T: {ANY_FLOAT_OR_COMPLEX}", shape=_same_shape,
                    deprecated=deprecated)


_unary("{half, float, double, int32, int64, bfloat16, int8, int16}", "Abs")
_unary(f"{SIGNED[:-1]}, bfloat16, int8, int16}}", "Neg", "Sign")
_unary(f"{ORDERED[:-1]}, complex64, complex128}}", "Square")
_unary(f"{SIGNED[:-1]}, bfloat16}}", "Reciprocal", "Round", "Tan", "Asin", "Acos", "Atan")
_unary(f"{SIGNED[:-1]}, bfloat16}}", "Inv", deprecated="Reciprocal is the same")
_unary(ANY_FLOAT_OR_COMPLEX, "Sqrt", "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Tanh", "Sigmoid",
       "Sin", "Cos")
_unary(ANY_FLOAT, "Lgamma", "Digamma", "Erf", "Erfc", "Floor", "Ceil")
_unary("{float, double}", "Rint")
_unary_grad("ReciprocalGrad", "SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad")
_unary_grad("InvGrad", deprecated="ReciprocalGrad is the same")
for _op_type in ("IsNan", "IsInf", "IsFinite"):
    register_op(_op_type, "x: T", "y: bool", f"T: {ANY_FLOAT}", shape=unchanged)

# ---------------------------------------------------------------- gradients

not_differentiable("Floor", "Ceil", "Round", "Rint", "IsNan", "IsInf", "IsFinite")


def _conj(x: Tensor) -> Any:
    return raw_ops.Conj(x) if x.dtype.is_complex else x


def _number(like: Tensor, value: float) -> Any:
    """`value` as a scalar of the dtype of `like`."""
    return like.dtype.base_dtype.np.type(value)


def _by_derivative(op_type: str) -> Callable:
    """Register ``f(x)`` as the derivative: the gradient is ``grad * conj(f(x))``."""

    def register(derivative: Callable[[Tensor], Tensor]) -> Callable:
        @RegisterGradient(op_type)
        def gradient(op: Operation, grad: Tensor) -> Tensor:
            return raw_ops.Mul(grad, derivative(_conj(op.inputs[0])))

        return derivative

    return register


def _by_output(op_type: str, grad_op: str) -> None:
    """Register the op that computes the gradient from the output."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Tensor) -> Tensor:
        output = op.outputs[0]
        if grad_op in ("TanhGrad", "SigmoidGrad"):  # the others conjugate in their kernels
            output = _conj(output)
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


@RegisterGradient("Exp")
def _exp_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Mul(grad, _conj(op.outputs[0]))


@_by_derivative("Square")
def _square_derivative(x: Tensor) -> Tensor:
    return raw_ops.Mul(x, _number(x, 2))


@_by_derivative("Expm1")
def _expm1_derivative(x: Tensor) -> Tensor:
    return raw_ops.Exp(x)


@_by_derivative("Log")
def _log_derivative(x: Tensor) -> Tensor:
    return raw_ops.Reciprocal(x)


@_by_derivative("Log1p")
def _log1p_derivative(x: Tensor) -> Tensor:
    return raw_ops.Reciprocal(raw_ops.Add(x, _number(x, 1)))


@_by_derivative("Sin")
def _sin_derivative(x: Tensor) -> Tensor:
    return raw_ops.Cos(x)


@_by_derivative("Cos")
def _cos_derivative(x: Tensor) -> Tensor:
    return raw_ops.Neg(raw_ops.Sin(x))


@_by_derivative("Tan")
def _tan_derivative(x: Tensor) -> Tensor:
    return raw_ops.Reciprocal(raw_ops.Square(raw_ops.Cos(x)))


def _one_minus_square(x: Tensor) -> Tensor:
    return raw_ops.Sub(_number(x, 1), raw_ops.Square(x))


@_by_derivative("Asin")
def _asin_derivative(x: Tensor) -> Tensor:
    return raw_ops.Rsqrt(_one_minus_square(x))


@_by_derivative("Acos")
def _acos_derivative(x: Tensor) -> Tensor:
    return raw_ops.Neg(raw_ops.Rsqrt(_one_minus_square(x)))


@_by_derivative("Atan")
def _atan_derivative(x: Tensor) -> Tensor:
    return raw_ops.Reciprocal(raw_ops.Add(_number(x, 1), raw_ops.Square(x)))


@_by_derivative("Lgamma")
def _lgamma_derivative(x: Tensor) -> Tensor:
    return raw_ops.Digamma(x)


@_by_derivative("Digamma")
def _digamma_derivative(x: Tensor) -> Tensor:
    return raw_ops.Polygamma(_number(x, 1), x)


def _bell(x: Tensor, scale: float) -> Tensor:
    """scale · exp(-x²)."""
    return raw_ops.Mul(_number(x, scale), raw_ops.Exp(raw_ops.Neg(raw_ops.Square(x))))


@_by_derivative("Erf")
def _erf_derivative(x: Tensor) -> Tensor:
    return _bell(x, 2 / _root(pi))


@_by_derivative("Erfc")
def _erfc_derivative(x: Tensor) -> Tensor:
    return _bell(x, -2 / _root(pi))


# The ops below are gradients themselves; theirs serve second derivatives. In each, x is the output
# of the function, y the gradient that reached it, and x* the conjugate.


@RegisterGradient("TanhGrad")
def _tanh_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y (1 - x²)."""
    x, y = op.inputs
    return (raw_ops.Mul(raw_ops.Mul(_number(x, -2), grad), raw_ops.Mul(_conj(y), _conj(x))),
            raw_ops.TanhGrad(_conj(x), grad))


@RegisterGradient("SigmoidGrad")
def _sigmoid_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y x (1 - x)."""
    x, y = (_conj(t) for t in op.inputs)
    slope = raw_ops.Sub(_number(x, 1), raw_ops.Mul(_number(x, 2), x))
    return (raw_ops.Mul(raw_ops.Mul(grad, y), slope),
            raw_ops.SigmoidGrad(x, grad))


@RegisterGradient("SqrtGrad")
def _sqrt_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = y / (2 x*)."""
    x, z = op.inputs[0], op.outputs[0]
    scaled = raw_ops.RealDiv(grad, x)
    return (raw_ops.Neg(raw_ops.Mul(_conj(scaled), z)),
            raw_ops.Mul(scaled, _number(x, 0.5)))


@RegisterGradient("RsqrtGrad")
def _rsqrt_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = -y x*³ / 2."""
    x, y = op.inputs
    slope = raw_ops.Mul(_number(x, -1.5), raw_ops.Square(_conj(x)))
    return (raw_ops.Mul(raw_ops.Mul(_conj(grad), y), slope),
            raw_ops.RsqrtGrad(_conj(x), grad))


def _reciprocal_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = -y x*²."""
    x, y = op.inputs
    slope = raw_ops.Mul(_number(x, -2), _conj(x))
    return (raw_ops.Mul(raw_ops.Mul(_conj(grad), y), slope),
            raw_ops.ReciprocalGrad(_conj(x), grad))


RegisterGradient("ReciprocalGrad")(_reciprocal_grad_grad)
RegisterGradient("InvGrad")(_reciprocal_grad_grad)


# ---------------------------------------------------------------- public functions


def _is_sparse(x: TensorLike) -> bool:
    """True for a sparse tensor: its function applies to the values it holds."""
    return (not isinstance(x, Tensor) and hasattr(x, "indices") and hasattr(x, "values")
            and hasattr(x, "dense_shape"))


def _of_values(x: Any, function: Callable) -> Any:
    return type(x)(indices=x.indices, values=function(x.values), dense_shape=x.dense_shape)


def _apply(op_type: str, x: TensorLike, name: str | None) -> Any:
    build = getattr(raw_ops, op_type)
    if _is_sparse(x):
        return _of_values(x, lambda values: build(values, name=name))
    return build(x, name=name)


def abs(x: Any, name: str | None = None) -> Any:
    """Return |x| element-wise: of a complex tensor the real modulus. Sparse tensors stay sparse."""
    if _is_sparse(x):
        return _of_values(x, lambda values: abs(values, name))
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return raw_ops.ComplexAbs(x, Tout=x.dtype.base_dtype.real_dtype, name=name)
    return raw_ops.Abs(x, name=name)


def negative(x: TensorLike, name: str | None = None) -> Any:
    """Return -x element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return _apply("Neg", x, name)


def sign(x: Any, name: str | None = None) -> Any:
    """Return -1, 0 or 1 by the sign of each element (complex: x / |x|, 0 at 0).

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return _apply("Sign", x, name)


def reciprocal(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / x element-wise.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return raw_ops.Reciprocal(x=x, name=name)


def square(x: Any, name: str | None = None) -> Any:
    """Return x² element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are real or complex numbers; so has the result.
    """
    return _apply("Square", x, name)


def sqrt(x: TensorLike, name: str | None = None) -> Any:
    """Return the square root element-wise. Sparse tensors stay sparse.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return _apply("Sqrt", x, name)


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
    return _apply("Tanh", x, name)


def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)) element-wise.

    `x` has any shape, and elements that are floating-point or complex numbers; so has the result.
    """
    return raw_ops.Sigmoid(x=x, name=name)


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
    return _apply("Erf", x, name)


def erfc(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 - erf(x) element-wise, exact in the tail.

    `x` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Erfc(x=x, name=name)


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
