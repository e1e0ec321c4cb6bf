"""Hyperbolic functions and their inverses, and the angle of a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.graph.likes import TensorHandle
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import unchanged
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.common.type_sets import ANY_FLOAT_OR_COMPLEX

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor

__all__: list[str] = []

_HALF_FLOAT = "{half, bfloat16, float, double}"


def _number(x: TensorHandle, value: float) -> Any:
    return x.dtype.base_dtype.np.type(value)


for _op_type in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):
    register_op(_op_type, "x: T", "y: T", f"T: {ANY_FLOAT_OR_COMPLEX}", shape=unchanged)


def _conj(x: TensorHandle) -> Any:
    return raw_ops.Conj(x) if x.dtype.is_complex else x


def _derivative(op_type: str, of: Callable[[Any, Any], Any]) -> None:
    """``of(x, y)`` is the derivative at x, y being the value."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Tensor) -> Any:
        return grad * of(_conj(op.inputs[0]), _conj(op.outputs[0]))


_derivative("Sinh", lambda x, y: raw_ops.Cosh(x))
_derivative("Cosh", lambda x, y: raw_ops.Sinh(x))
_derivative("Asinh", lambda x, y: raw_ops.Reciprocal(raw_ops.Cosh(y)))
_derivative("Acosh", lambda x, y: raw_ops.Reciprocal(raw_ops.Sinh(y)))
_derivative("Atanh", lambda x, y: raw_ops.Reciprocal(_number(x, 1) - x * x))
register_op("Atan2", "y: T; x: T", "z: T", f"T: {_HALF_FLOAT}", shape=broadcast_shape)


@RegisterGradient("Atan2")
def _atan2_grad(op: Operation, grad: Tensor) -> tuple:
    inputs: Any = op.inputs
    y, x = inputs
    over = grad / (x * x + y * y)
    return unbroadcast(y, x, x * over, -y * over)
