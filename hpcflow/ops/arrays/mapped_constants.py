"""Constants that stay in a file and are mapped into memory."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation


def _shape(op: Operation) -> list[Dims]:
    return [op.attr("shape")._dims]


register_op("ImmutableConst", "", "tensor: dtype",
            "dtype: type; shape: shape; memory_region_name: string", shape=_shape)
not_differentiable("ImmutableConst")
