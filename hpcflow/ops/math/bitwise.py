"""Integers bit by bit."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import show, unchanged
from hpcflow.ops.common.broadcasting import broadcast_shape

__all__: list[str] = []

_INTEGERS = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"
register_op("Invert", "x: T", "y: T", f"T: {_INTEGERS}", shape=unchanged)
not_differentiable("Invert")
for _op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
    register_op(_op_type, "x: T; y: T", "z: T", f"T: {_INTEGERS}", shape=broadcast_shape)
    not_differentiable(_op_type)
register_op("PopulationCount", "x: T", "y: uint8", f"T: {_INTEGERS}", shape=unchanged)
not_differentiable("PopulationCount")


def _packed_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    if dims is None:
        return [None]
    if not dims or (dims[-1] is not None and dims[-1] % 8):
        raise ValueError(f"The last dimension of input must be a multiple of 8, got {show(dims)}")
    return [(*dims[:-1], None if dims[-1] is None else dims[-1] // 8)]


register_op("CompareAndBitpack", "input: T; threshold: T", "output: uint8",
            "T: {bool, half, float, double, int8, int16, int32, int64}", shape=_packed_shape)
not_differentiable("CompareAndBitpack")
