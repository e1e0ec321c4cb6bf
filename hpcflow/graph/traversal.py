"""Traversal of graphs: what can be reached from operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hpcflow.graph.operation import Operation


def reachable(start: Iterable[Operation],
              following: Callable[[Operation], Iterable[Operation]]) -> set[Operation]:
    """`start`, and whatever ``following(op)`` leads to from there."""
    seen = set(start)
    stack = list(seen)
    while stack:
        for op in following(stack.pop()):
            if op not in seen:
                seen.add(op)
                stack.append(op)
    return seen


def ancestors(ops: Iterable[Operation]) -> set[Operation]:
    """`ops`, and all that they depend on."""
    return reachable(ops, lambda op: [*(t.op for t in op.inputs), *op.control_inputs])
