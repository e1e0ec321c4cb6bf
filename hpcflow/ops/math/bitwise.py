"""Integers bit by bit."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.shape_inference import (
    unchanged,
)
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
