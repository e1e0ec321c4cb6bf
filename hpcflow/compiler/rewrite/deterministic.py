"""deterministic: accesses to the same state that nothing orders get an order, that of the graph.

Which of two updates comes first if both are free to come may depend on which value arrived first:
over the network, from a queue. In the deterministic mode the later one (in graph order) waits for
the earlier. Only operations that run in every step are ordered; to wait for one in a branch would
be to die with it.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.ir.effects import is_state, state_of
from hpcflow.compiler.ir.step_graph import CONTROL_FLOW_TYPES, Node, StepGraph, writes_state
from hpcflow.compiler.regions.structure import always_alive


def order_accesses(graph: StepGraph) -> None:
    """Add control edges between unordered accesses of variables, of which one is an update."""
    always = {n for n in always_alive(graph) if n.type not in CONTROL_FLOW_TYPES}
    last: dict[Any, tuple[Node | None, list[Node]]] = {}  # the last update, and reads since
    for node in graph.nodes:
        if node not in always:
            continue
        for state in dict.fromkeys(state_of(p) for p in node.inputs if is_state(p)):
            update, reads = last.get(state, (None, []))
            if writes_state(node):
                _wait(node, [*reads, *([update] if update is not None else [])])
                last[state] = (node, [])
            else:
                _wait(node, [update] if update is not None else [])
                last[state] = (update, [*reads, node])


def _wait(node: Node, others: list[Node]) -> None:
    sources = {s for s, _ in node.inputs}
    node.controls = list(dict.fromkeys(
        [*node.controls, *(n for n in others if n is not node and n not in sources)]))
