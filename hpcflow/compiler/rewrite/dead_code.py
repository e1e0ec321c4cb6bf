"""dead_code: drops values that nobody reads, even where something waits for them."""

from __future__ import annotations

from hpcflow.compiler.ir.effects import is_pure
from hpcflow.compiler.ir.step_graph import (
    FEED,
    SWITCH_TYPES,
    Node,
    StepGraph,
)

# Nodes that are there for the error they may raise.
_CHECKS = frozenset({"CheckNumerics", "PreventGradient"})


def _is_pivot(node: Node) -> bool:
    """True if waiting for `node` says more than waiting for its inputs: that one branch of a Switch
    was taken, or that a variable has a value."""
    return any(s.type in SWITCH_TYPES or s.dtypes[i]._is_ref_dtype for s, i in node.inputs)


def drop_unread(graph: StepGraph) -> None:
    """Drop pure nodes whose outputs are not read.

    Nodes that waited for one wait for what it would have waited for instead, so that order and
    deadness stay what they are.
    """
    reads = dict.fromkeys(graph.nodes, 0)
    waiting: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for source, _ in node.inputs:
            reads[source] += 1
        for control in node.controls:
            waiting.setdefault(control, []).append(node)
    dropped: set[Node] = set()
    for node in reversed(graph.nodes):
        if reads[node] or node.type in _CHECKS or not is_pure(node) or _is_pivot(node):
            continue
        dropped.add(node)
        sources = [s for s, _ in node.inputs]
        for source in sources:
            reads[source] -= 1
        inherited = [s for s in dict.fromkeys([*sources, *node.controls])
                     if not s.is_const and s.type != FEED]
        for reader in waiting.get(node, ()):
            kept = [c for c in reader.controls if c is not node]
            reader.controls = list(dict.fromkeys([*kept, *inherited]))
            for source in inherited:
                waiting.setdefault(source, []).append(reader)
    if dropped:
        graph.nodes = [n for n in graph.nodes if n not in dropped]
