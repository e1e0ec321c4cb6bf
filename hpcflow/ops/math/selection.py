"""Select: elements of one tensor or another, by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import broadcast_dims, merge_dims
from hpcflow.ops.common.broadcasting import unbroadcast

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


def _select_shape(op: Operation) -> list[Dims]:
    """The condition has the shape of both inputs, is a scalar, or picks rows.

    One that picks rows says nothing of their number: programs rely on shapes that loops left open.
    """
    condition = op.input_dims(0)
    dims = merge_dims(op.input_dims(1), op.input_dims(2))
    if condition is None or dims is None or condition == ():
        return [dims]
    if len(condition) == 1 and dims:
        merge_dims(condition, dims[:1])
        return [dims]
    return [merge_dims(condition, dims)]


register_op("Select", "condition: bool; t: T; e: T", "output: T", "T: type", shape=_select_shape)


@RegisterGradient("Select")
def _select_grad(op: Operation, grad: Tensor) -> tuple:
    condition = op.inputs[0]
    zeros = raw_ops.ZerosLike(grad)
    return (None, raw_ops.Select(condition, grad, zeros), raw_ops.Select(condition, zeros, grad))


def _broadcast_shape(op: Operation) -> list[Dims]:
    dims = broadcast_dims(op.input_dims(1), op.input_dims(2))
    return [broadcast_dims(op.input_dims(0), dims)]


register_op("SelectV2", "condition: bool; t: T; e: T", "output: T", "T: type",
            shape=_broadcast_shape)


@RegisterGradient("SelectV2")
def _select_broadcast_grad(op: Operation, grad: Tensor) -> tuple:
    condition, t, e = op.inputs
    zero = np.zeros((), grad.dtype.base_dtype.np)
    for_t = raw_ops.SelectV2(condition, grad, zero)
    for_e = raw_ops.SelectV2(condition, zero, grad)
    return None, unbroadcast(t, op.outputs[0], for_t, None)[0], (
        unbroadcast(e, op.outputs[0], for_e, None)[0])
