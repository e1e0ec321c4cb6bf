"""Select: elements of one tensor or another, by a condition."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims


def _select_shape(op: Operation) -> list[Dims]:
    """The condition has the shape of both inputs, is a scalar, or picks rows."""
    condition = op.input_dims(0)
    dims = merge_dims(op.input_dims(1), op.input_dims(2))
    if condition is None or dims is None or condition == ():
        return [dims]
    if len(condition) == 1 and len(dims) > 1:
        return [(*(merge_dims(condition, dims[:1]) or ()), *dims[1:])]
    return [merge_dims(condition, dims)]


register_op("Select", "condition: bool; t: T; e: T", "output: T", "T: type", shape=_select_shape)


@RegisterGradient("Select")
def _select_grad(op: Operation, grad: Any) -> tuple:
    condition = op.inputs[0]
    zeros = raw_ops.ZerosLike(grad)
    return (None, raw_ops.Select(condition, grad, zeros), raw_ops.Select(condition, zeros, grad))
