"""Products and quotients that are 0 where a factor is, whatever the other is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.likes import TensorHandle
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.common.type_sets import ANY_FLOAT_OR_COMPLEX
from hpcflow.ops.common.unary import conj, number

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor

__all__: list[str] = []


for _op_type in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py"):
    register_op(_op_type, "x: T; y: T", "z: T", f"T: {ANY_FLOAT_OR_COMPLEX}",
                shape=broadcast_shape)


@RegisterGradient("DivNoNan")
def _div_no_nan_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = (conj(t) for t in op.inputs)
    grad_x = raw_ops.DivNoNan(grad, y)
    grad_y = grad * raw_ops.DivNoNan(raw_ops.DivNoNan(-x, y), y)
    return unbroadcast(op.inputs[0], op.inputs[1], grad_x, grad_y)


@RegisterGradient("MulNoNan")
def _mul_no_nan_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = (conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], raw_ops.MulNoNan(grad, y),
                       raw_ops.MulNoNan(x, grad))


def _present(x: TensorHandle) -> Any:
    """1 where `x` is not 0, else 0."""
    return raw_ops.Cast(raw_ops.NotEqual(x, number(x, 0)), DstT=x.dtype.base_dtype)


@RegisterGradient("Xdivy")
def _xdivy_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = (conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xdivy(_present(x), y),
                       grad * raw_ops.Xdivy(-x, y * y))


@RegisterGradient("Xlogy")
def _xlogy_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = (conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xlogy(_present(x), y),
                       grad * raw_ops.Xdivy(x, y))


@RegisterGradient("Xlog1py")
def _xlog1py_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = (conj(t) for t in op.inputs)
    return unbroadcast(op.inputs[0], op.inputs[1], grad * raw_ops.Xlog1py(_present(x), y),
                       grad * raw_ops.Xdivy(x, y + number(y, 1)))
