"""deterministic: accesses to the same state that nothing orders get an order, that of the graph.

Which of two updates comes first if both are free to come may depend on which value arrived first:
over the network, from a queue. In the deterministic mode the later one (in graph order) waits for
the earlier. Only operations that run in every step are ordered; to wait for one in a branch would
be to die with it.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.frames import FrameInfo, assign_frames, same_everywhere
from hpcflow.compiler.ir import CONTROL_FLOW_TYPES, Node, StepGraph, writes_state
from hpcflow.compiler.schedule import is_state, state_of
from hpcflow.compiler.structure import Conditions


def order_accesses(graph: StepGraph) -> None:
    """Add control edges between unordered accesses of variables, of which one is an update."""
    always = _always_alive(graph)
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


def _always_alive(graph: StepGraph) -> set[Node]:
    """The nodes outside of loops and of branches."""
    if not any(n.type in CONTROL_FLOW_TYPES for n in graph.nodes):
        return set(graph.nodes)
    root = FrameInfo("", None)
    frames = assign_frames(graph.nodes, root, same_everywhere)
    for node in graph.nodes:
        node.absorbed = node.type in CONTROL_FLOW_TYPES or node.type == "LoopCond"
    conditions = Conditions(graph.nodes, frames, root, problems=[])
    for node in graph.nodes:
        node.absorbed = False
    return {n for n in graph.nodes if frames[n] is root and not conditions.of[n]
            and n.type not in CONTROL_FLOW_TYPES}
