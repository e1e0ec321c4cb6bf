"""Values that may be missing: what conditionals of newer graphs hand to their gradients."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import scalar

__all__: list[str] = []


def _value_shapes(op: Operation) -> list[Dims]:
    return [s._dims for s in op.attr("output_shapes")]


register_op("OptionalFromValue", "components: Toutput_types", "optional: variant",
            "Toutput_types: list(type) >= 1", shape=scalar)
register_op("OptionalNone", outputs="optional: variant", shape=scalar)
register_op("OptionalHasValue", "optional: variant", "has_value: bool", shape=scalar)
register_op("OptionalGetValue", "optional: variant", "components: output_types",
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1", shape=_value_shapes)
not_differentiable("OptionalNone", "OptionalHasValue")
