"""Ops of users (``hpcflow.user_ops``): an example of an op type, and of how it is wrapped."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar

__all__: list[str] = []

register_op("Fact", outputs="fact: string", shape=scalar)
not_differentiable("Fact")


def my_fact() -> Tensor:
    """Return a string scalar that states a fact of mathematics."""
    return raw_ops.Fact()
