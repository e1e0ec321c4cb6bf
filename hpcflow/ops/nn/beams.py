"""Beams: sequences put together from the steps of a beam search."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import merge_dims, with_rank

__all__: list[str] = []


def _beams_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(2), 1, "max_sequence_lengths")
    with_rank(op.input_dims(3), 0, "end_token")
    return [merge_dims(with_rank(op.input_dims(0), 3, "step_ids"),
                       with_rank(op.input_dims(1), 3, "parent_ids"))]


register_op("GatherTree",
            "step_ids: T; parent_ids: T; max_sequence_lengths: int32; end_token: T", "beams: T",
            "T: {int32}", shape=_beams_shape)
not_differentiable("GatherTree")
