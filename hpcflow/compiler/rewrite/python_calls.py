"""python_calls: calls of Python functions that nothing orders run at the same time.

A user's function may wait for another one of the step: for its place at a barrier, for an item of a
Python queue. In a region of both it would wait for ever. A call that is alone, or that comes before
or after all others, stays where it is, which costs nothing.
"""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import Node, StepGraph
from hpcflow.graph.opdef import get_op_def

_CALLS = {"PyFunc", "PyFuncStateless"}


def separate_calls(graph: StepGraph) -> None:
    """Give calls of Python functions that are not ordered among each other threads of their own."""
    calls = [n for n in graph.nodes if n.type in _CALLS]
    if len(calls) < 2:
        return
    before = _calls_before(graph, calls)
    after = dict.fromkeys(calls, 0)
    for node in calls:
        for i, other in enumerate(calls):
            if before[node] >> i & 1:
                after[other] += 1
    for node in calls:
        if before[node].bit_count() + after[node] < len(calls) - 1:
            node.type = "_PyFuncInThread"
            node.op_def = get_op_def(node.type)


def _calls_before(graph: StepGraph, calls: list[Node]) -> dict[Node, int]:
    """Node -> the calls that it waits for, directly or not, as bits. (An edge back to the begin of
    a loop orders nothing: iterations overlap.)"""
    bits = {n: 1 << i for i, n in enumerate(calls)}
    before: dict[Node, int] = {}
    for node in graph.nodes:
        found = 0
        for source in (*(s for s, _ in node.inputs), *node.controls):
            found |= before.get(source, 0) | bits.get(source, 0)
        before[node] = found
    return before
