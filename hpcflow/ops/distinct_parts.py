"""Distinct parts of an array along an axis."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import (
    constant_value,
)
from hpcflow.ops.type_sets import INDEX

__all__: list[str] = []


def _unique_shape(op: Operation) -> list[Dims]:
    dims, axis = op.input_dims(0), constant_value(op.inputs[1])
    if dims is None or axis is None or axis.size > 1:
        return [None, (None,), (None,)][: len(op.outputs)]
    along = int(axis[0]) % max(len(dims), 1) if axis.size else 0
    found: list[Dims] = [tuple(None if i == along else d for i, d in enumerate(dims)),
                         (dims[along] if dims else None,), (None,)]
    return found[: len(op.outputs)]


_UNIQUE = f"T: type; Taxis: {INDEX} = int64; out_idx: {INDEX} = int32"
register_op("UniqueV2", "x: T; axis: Taxis", "y: T; idx: out_idx", _UNIQUE, shape=_unique_shape)
register_op("UniqueWithCountsV2", "x: T; axis: Taxis", "y: T; idx: out_idx; count: out_idx",
            _UNIQUE, shape=_unique_shape)
not_differentiable("UniqueV2", "UniqueWithCountsV2")
