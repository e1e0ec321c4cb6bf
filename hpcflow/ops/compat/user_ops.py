"""Ops of users: an example."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.shape_inference import scalar

__all__: list[str] = []

register_op("Fact", outputs="fact: string", shape=scalar)
not_differentiable("Fact")
