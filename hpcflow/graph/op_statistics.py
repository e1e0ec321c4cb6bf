"""Statistics of op types: functions that tell how much one operation computes or holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import Graph

_REGISTRY: dict[tuple[str, str], Callable[[Graph, Any], OpStats]] = {}


class OpStats:
    """One statistic of operations: its type, as "flops", and a number; None where not known."""

    def __init__(self, statistic_type: str, value: float | None = None) -> None:
        self.statistic_type, self.value = statistic_type, value

    def __iadd__(self, other: OpStats) -> OpStats:
        """Add another number; unknown ones are left out. Raises ``ValueError`` for another type."""
        if other.statistic_type != self.statistic_type:
            raise ValueError(f"Can't add an OpStats of type {other.statistic_type} to one of "
                             f"{self.statistic_type}.")
        if other.value is not None:
            self.value = other.value if self.value is None else self.value + other.value
        return self


class RegisterStatistics:
    """A decorator of functions ``f(graph, node_def) -> OpStats`` for one op type and statistic."""

    def __init__(self, op_type: str, statistic_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string, got {op_type!r}.")
        if "," in op_type:
            raise TypeError(f"op_type must not contain a comma, got {op_type!r}.")
        if not isinstance(statistic_type, str):
            raise TypeError(f"statistic_type must be a string, got {statistic_type!r}.")
        if "," in statistic_type:
            raise TypeError(f"statistic_type must not contain a comma, got {statistic_type!r}.")
        self._key = op_type, statistic_type

    def __call__(self, function: Callable) -> Callable:
        """Register `function` and return it. Raises ``KeyError`` where there is one already."""
        if self._key in _REGISTRY:
            raise KeyError(f"The statistic {self._key[1]!r} of op type {self._key[0]!r} is "
                           "registered already.")
        _REGISTRY[self._key] = function
        return function


def get_stats_for_node_def(graph: Graph, node: Any, statistic_type: str) -> OpStats:
    """Return a statistic of a node of `graph`; its value is None where none is registered."""
    function = _REGISTRY.get((node.op, statistic_type))
    return OpStats(statistic_type) if function is None else function(graph, node)
