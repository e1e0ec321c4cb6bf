"""Distinct parts of an array along an axis."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value, with_rank
from hpcflow.ops.common.static_shape import normalize_axis
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _unique_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 1, "axis expects a 1D vector: it")
    dims, axis = op.input_dims(0), constant_value(op.inputs[1])
    if axis is not None and axis.size > 1:
        raise ValueError(f"axis does not support input tensors larger than 1 elements, but is "
                         f"{axis.tolist()}")
    if dims is None or axis is None:
        return [None, (None,), (None,)][: len(op.outputs)]
    if not axis.size:
        with_rank(dims, 1, "x expects a 1D vector: it")
    along = normalize_axis(int(axis[0]), len(dims)) if axis.size else 0
    found: list[Dims] = [tuple(None if i == along else d for i, d in enumerate(dims)),
                         (dims[along] if dims else None,), (None,)]
    return found[: len(op.outputs)]


_UNIQUE = f"T: type; Taxis: {INDEX} = int64; out_idx: {INDEX} = int32"
register_op("UniqueV2", "x: T; axis: Taxis", "y: T; idx: out_idx", _UNIQUE, shape=_unique_shape)
register_op("UniqueWithCountsV2", "x: T; axis: Taxis", "y: T; idx: out_idx; count: out_idx",
            _UNIQUE, shape=_unique_shape)
not_differentiable("UniqueV2", "UniqueWithCountsV2")
