"""Ops of users (``hpcflow.user_ops``): an example of how an op is wrapped."""

from __future__ import annotations

from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__ = ["my_fact"]


def my_fact() -> Tensor:
    """Return a string scalar that states a fact of mathematics."""
    return raw_ops.Fact()
