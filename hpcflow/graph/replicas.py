"""What is asked of a graph that is built as one of several replicas (see ``hpcflow.distribute``).

Optimizers, initializers and monitored sessions ask; the strategies of ``hpcflow.distribute``
answer. ``graph._place`` is where the thread builds, None outside of every strategy;
``graph._replicas`` is what has made the graph one of several, None if it is alone.

Monitored sessions of a graph with several replicas begin in three steps. All ranks run the
initializer, which may need all; those that have a checkpoint restore it; then all take the values
of the first replica, by :meth:`Replicas.hook`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Place(Protocol):
    """Where a thread builds: within a strategy, for all replicas or for one of them."""

    def scaled(self, loss: Any) -> Any:
        """This replica's part of the loss: those of all replicas are added."""

    def reduced(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Pairs (gradient, variable) with the sums of all replicas' gradients."""


class Replicas(Protocol):
    """Several replicas of one graph, each on a rank of its own."""

    def with_equal_values(self, initialized: Any, variables: Sequence[Any], name: str) -> Any:
        """An operation that gives `variables` the values of the first replica, after the operation
        `initialized`; all ranks must run it."""

    def hook(self) -> Any:
        """A hook of sessions that does so."""
