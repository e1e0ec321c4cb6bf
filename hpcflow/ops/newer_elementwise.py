"""Element-wise op types that the format got after its first version: Sinh, LeakyRelu, SelectV2, ...

They have no functions here; graphs of later writers have them, and ``raw_ops`` builds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import broadcast_dims, merge_dims, unchanged
from hpcflow.ops.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.type_sets import ANY_FLOAT_OR_COMPLEX

__all__: list[str] = []

_HALF_FLOAT = "{half, bfloat16, float, double}"
_INTEGERS = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"


def _number(x: Any, value: float) -> Any:
    return x.dtype.base_dtype.np.type(value)


# ---------------------------------------------------------------- one input

for _op_type in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):
    register_op(_op_type, "x: T", "y: T", f"T: {ANY_FLOAT_OR_COMPLEX}", shape=unchanged)
register_op("Invert", "x: T", "y: T", f"T: {_INTEGERS}", shape=unchanged)
not_differentiable("Invert")


def _any(op: Operation) -> list[Any]:
    """The inputs, with operators."""
    return list(op.inputs)


def _conj(x: Any) -> Any:
    return raw_ops.Conj(x) if x.dtype.is_complex else x


def _derivative(op_type: str, of: Callable[[Any, Any], Any]) -> None:
    """``of(x, y)`` is the derivative at x, y being the value."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Any) -> Any:
        return grad * of(_conj(op.inputs[0]), _conj(op.outputs[0]))


_derivative("Sinh", lambda x, y: raw_ops.Cosh(x))
_derivative("Cosh", lambda x, y: raw_ops.Sinh(x))
_derivative("Asinh", lambda x, y: raw_ops.Reciprocal(raw_ops.Cosh(y)))
_derivative("Acosh", lambda x, y: raw_ops.Reciprocal(raw_ops.Sinh(y)))
_derivative("Atanh", lambda x, y: raw_ops.Reciprocal(_number(x, 1) - x * x))

# ---------------------------------------------------------------- two inputs


def _two(op_type: str, types: str, out: str = "z") -> None:
    register_op(op_type, "x: T; y: T", f"{out}: T", f"T: {types}", shape=broadcast_shape)


for _op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
    _two(_op_type, _INTEGERS)
    not_differentiable(_op_type)
register_op("Atan2", "y: T; x: T", "z: T", f"T: {_HALF_FLOAT}", shape=broadcast_shape)
for _op_type in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py"):
    _two(_op_type, ANY_FLOAT_OR_COMPLEX)


@RegisterGradient("Atan2")
def _atan2_grad(op: Operation, grad: Any) -> tuple:
    y, x = _any(op)
    over = grad / (x * x + y * y)
    return unbroadcast(y, x, x * over, -y * over)


@RegisterGradient("DivNoNan")
def _div_no_nan_grad(op: Operation, grad: Any) -> tuple:
    x, y = (_conj(t) for t in op.inputs)
    grad_x = raw_ops.DivNoNan(grad, y)
    grad_y = grad * raw_ops.DivNoNan(raw_ops.DivNoNan(-x, y), y)
    return unbroadcast(op.inputs[0], op.inputs[1], grad_x, grad_y)


@RegisterGradient("MulNoNan")
def _mul_no_nan_grad(op: Operation, grad: Any) -> tuple:
    x, y = (_conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], raw_ops.MulNoNan(grad, y),
                       raw_ops.MulNoNan(x, grad))


def _present(x: Any) -> Any:
    """1 where `x` is not 0, else 0."""
    return raw_ops.Cast(raw_ops.NotEqual(x, _number(x, 0)), DstT=x.dtype.base_dtype)


@RegisterGradient("Xdivy")
def _xdivy_grad(op: Operation, grad: Any) -> tuple:
    x, y = (_conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xdivy(_present(x), y),
                       grad * raw_ops.Xdivy(-x, y * y))


@RegisterGradient("Xlogy")
def _xlogy_grad(op: Operation, grad: Any) -> tuple:
    x, y = (_conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xlogy(_present(x), y),
                       grad * raw_ops.Xdivy(x, y))


@RegisterGradient("Xlog1py")
def _xlog1py_grad(op: Operation, grad: Any) -> tuple:
    x, y = (_conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xlog1py(_present(x), y),
                       grad * raw_ops.Xdivy(x, y + _number(y, 1)))


# ---------------------------------------------------------------- activations


def _same_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), op.input_dims(1))]


_ALPHA = f"alpha: float = 0.2; T: {_HALF_FLOAT} = float"
register_op("LeakyRelu", "features: T", "activations: T", _ALPHA, shape=unchanged)
register_op("LeakyReluGrad", "gradients: T; features: T", "backprops: T", _ALPHA,
            shape=_same_shape)
register_op("Selu", "features: T", "activations: T", f"T: {_HALF_FLOAT}", shape=unchanged)
register_op("SeluGrad", "gradients: T; outputs: T", "backprops: T", f"T: {_HALF_FLOAT}",
            shape=_same_shape)


@RegisterGradient("LeakyRelu")
def _leaky_relu_grad(op: Operation, grad: Any) -> Any:
    return raw_ops.LeakyReluGrad(grad, op.inputs[0], alpha=op.attr("alpha"))


@RegisterGradient("LeakyReluGrad")
def _leaky_relu_grad_grad(op: Operation, grad: Any) -> tuple:
    return raw_ops.LeakyReluGrad(grad, op.inputs[1], alpha=op.attr("alpha")), None


@RegisterGradient("Selu")
def _selu_grad(op: Operation, grad: Any) -> Any:
    return raw_ops.SeluGrad(grad, op.outputs[0])


@RegisterGradient("SeluGrad")
def _selu_grad_grad(op: Operation, grad: Any) -> tuple:
    """For negative outputs the derivative is the output plus a constant."""
    gradients, outputs = _any(op)
    zeros = raw_ops.ZerosLike(grad)
    below = raw_ops.Less(outputs, _number(outputs, 0))
    return (raw_ops.SeluGrad(grad, outputs), raw_ops.Select(below, grad * gradients, zeros))


# ---------------------------------------------------------------- SelectV2


def _select_shape(op: Operation) -> list[Dims]:
    dims = broadcast_dims(op.input_dims(1), op.input_dims(2))
    return [broadcast_dims(op.input_dims(0), dims)]


register_op("SelectV2", "condition: bool; t: T; e: T", "output: T", "T: type", shape=_select_shape)


@RegisterGradient("SelectV2")
def _select_grad(op: Operation, grad: Any) -> tuple:
    condition, t, e = op.inputs
    zero = np.zeros((), grad.dtype.base_dtype.np)
    for_t = raw_ops.SelectV2(condition, grad, zero)
    for_e = raw_ops.SelectV2(condition, zero, grad)
    return None, unbroadcast(t, op.outputs[0], for_t, None)[0], (
        unbroadcast(e, op.outputs[0], for_e, None)[0])
