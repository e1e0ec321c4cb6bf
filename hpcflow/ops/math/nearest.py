"""The nearest of some centers to each of some points."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value, with_rank


def _nearest_shape(op: Operation) -> list[Dims]:
    points = with_rank(op.input_dims(0), 2, "points")[0]
    centers = with_rank(op.input_dims(1), 2, "centers")[0]
    with_rank(op.input_dims(2), 0, "k")
    wanted = constant_value(op.inputs[2])
    count = None if wanted is None or centers is None else min(int(wanted), centers)
    return [(points, count)] * 2


register_op("NearestNeighbors", "points: float; centers: float; k: int64",
            "nearest_center_indices: int64; nearest_center_distances: float",
            shape=_nearest_shape)
not_differentiable("NearestNeighbors")
