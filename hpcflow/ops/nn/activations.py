"""Activation functions with gradient ops of their own: Relu, Relu6, Elu, Softplus, Softsign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged
from hpcflow.ops.common.type_sets import ANY_FLOAT, ORDERED
from hpcflow.ops.common.unary import number

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


def _merged(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), op.input_dims(1))]


for _op_type in ("Relu", "Relu6", "Elu", "Softplus", "Softsign"):
    _types = ORDERED if "Relu" in _op_type else ANY_FLOAT
    register_op(_op_type, "features: T", "activations: T", f"T: {_types}", shape=unchanged)
    _seen = "outputs" if _op_type == "Elu" else "features"
    register_op(f"{_op_type}Grad", f"gradients: T; {_seen}: T", "backprops: T", f"T: {_types}",
                shape=_merged)


# ---------------------------------------------------------------- gradients


@RegisterGradient("Relu")
def _relu_grad(op: Operation, grad: Tensor) -> Any:
    """By the output: it is positive where the input is, and the input need not be kept."""
    return raw_ops.ReluGrad(grad, op.outputs[0])


@RegisterGradient("ReluGrad")
def _relu_grad_grad(op: Operation, grad: Tensor) -> tuple:
    x = op.inputs[1]
    return raw_ops.ReluGrad(grad, x), raw_ops.ZerosLike(x)


@RegisterGradient("Relu6")
def _relu6_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.Relu6Grad(grad, op.outputs[0])


@RegisterGradient("Relu6Grad")
def _relu6_grad_grad(op: Operation, grad: Tensor) -> tuple:
    x = op.inputs[1]
    return raw_ops.Relu6Grad(grad, x), raw_ops.ZerosLike(x)


@RegisterGradient("Elu")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.EluGrad(grad, op.outputs[0])


@RegisterGradient("EluGrad")
def _elu_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = dy (y + 1) where y < 0, else dy."""
    dy, y = op.inputs
    below = raw_ops.Less(y, raw_ops.ZerosLike(y))
    product = raw_ops.Mul(grad, dy)
    return raw_ops.EluGrad(grad, y), raw_ops.Select(below, product, raw_ops.ZerosLike(product))


@RegisterGradient("Softplus")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.SoftplusGrad(grad, op.inputs[0])


@RegisterGradient("SoftplusGrad")
def _softplus_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = dy sigmoid(x), whose derivative by x is dy sigmoid(x) sigmoid(-x)."""
    dy, x = op.inputs
    slope = raw_ops.SoftplusGrad(raw_ops.SoftplusGrad(dy, x), raw_ops.Neg(x))
    return raw_ops.SoftplusGrad(grad, x), raw_ops.Mul(grad, slope)


@RegisterGradient("Softsign")
def _softsign_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.SoftsignGrad(grad, op.inputs[0])


@RegisterGradient("SoftsignGrad")
def _softsign_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """z = dy / (1 + |x|)², whose derivative by x is -2 dy sign(x) / (1 + |x|)³."""
    dy, x = op.inputs
    width = raw_ops.Add(raw_ops.Abs(x), number(x, 1))
    slope = raw_ops.RealDiv(raw_ops.Mul(number(x, -2), raw_ops.Sign(x)), width)
    along_dy = raw_ops.SoftsignGrad(grad, x)
    return along_dy, raw_ops.Mul(raw_ops.Mul(along_dy, dy), slope)


# ---------------------------------------------------------------- leaky and scaled units

_HALF_FLOAT = "{half, bfloat16, float, double}"
_ALPHA = f"alpha: float = 0.2; T: {_HALF_FLOAT} = float"
register_op("LeakyRelu", "features: T", "activations: T", _ALPHA, shape=unchanged)
register_op("LeakyReluGrad", "gradients: T; features: T", "backprops: T", _ALPHA,
            shape=_merged)
register_op("Selu", "features: T", "activations: T", f"T: {_HALF_FLOAT}", shape=unchanged)
register_op("SeluGrad", "gradients: T; outputs: T", "backprops: T", f"T: {_HALF_FLOAT}",
            shape=_merged)


@RegisterGradient("LeakyRelu")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.LeakyReluGrad(grad, op.inputs[0], alpha=op.attr("alpha"))


@RegisterGradient("LeakyReluGrad")
def _leaky_relu_grad_grad(op: Operation, grad: Tensor) -> tuple:
    x = op.inputs[1]
    return raw_ops.LeakyReluGrad(grad, x, alpha=op.attr("alpha")), raw_ops.ZerosLike(x)


@RegisterGradient("Selu")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.SeluGrad(grad, op.outputs[0])


@RegisterGradient("SeluGrad")
def _selu_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """For negative outputs the derivative is the output plus a constant."""
    inputs: Any = op.inputs
    gradients, outputs = inputs
    zeros = raw_ops.ZerosLike(grad)
    below = raw_ops.Less(outputs, number(outputs, 0))
    return (raw_ops.SeluGrad(grad, outputs), raw_ops.Select(below, grad * gradients, zeros))
