"""withdrawable: marks the elements taken from queues that a step can put back as long as it has not
ended.

An element that was taken in a step whose client gets an error instead of the results may go back
to its queue if nothing that follows from it changes anything: then nobody has seen it. Operations
for which that holds are marked. All others say in the error what they have done.
"""

from __future__ import annotations

import re

from hpcflow.compiler.ir.step_graph import CONTROL_FLOW_TYPES, FETCH, Node, StepGraph, writes_state

#: The mark: an attribute of what takes elements, and nobody acts on these.
ATTR = "_withdrawable"

_TAKES = re.compile("QueueDequeue.*|(.*Map)?Unstage(NoKey)?|BarrierTakeMany|IteratorGetNext.*|"
                    "ReaderRead.*|.*AccumulatorTakeGradient")
_GIVES = re.compile("QueueEnqueue.*|(.*Map)?Stage")
#: Stateful, but without consequences.
_HARMLESS = re.compile(
    "Variable.*|VarHandleOp|ReadVariableOp|Random.*|TruncatedNormal|Multinomial|ParameterizedT.*|"
    "QueueSize.*|.*Queue(V2)?|Iterator(V2)?|.*Reader(V2)?|StagePeek|.*MapPeek|"
    "Placeholder.*|Optional.*")


def acts_on_queues(node: Node) -> bool:
    """True for operations that take elements from a queue, an iterator or the like, or add some:
    the results of a step that has done so are wanted, also if they come late."""
    return _TAKES.fullmatch(node.type) is not None or _GIVES.fullmatch(node.type) is not None


def mark_withdrawable(graph: StepGraph) -> None:
    """Mark operations that take elements, if nothing in the step acts on the elements. In partial
    runs none are marked, since the client may have got an element already."""
    takes = [n for n in graph.nodes if _TAKES.fullmatch(n.type)]
    if not takes or graph.incremental:
        return
    consumers = graph.consumers()
    for node in takes:
        if not any(_acts(reader) for reader in _descendants(node, consumers)):
            node.attrs = {**node.attrs, ATTR: True}


def _acts(node: Node) -> bool:
    if writes_state(node):
        return True
    return node.op_def.is_stateful and node.type not in CONTROL_FLOW_TYPES | {FETCH} and not (
        _TAKES.fullmatch(node.type) or _HARMLESS.fullmatch(node.type))


def _descendants(node: Node, consumers: dict[Node, list[Node]]) -> set[Node]:
    found: set[Node] = set()
    stack = [node]
    while stack:
        for reader in consumers[stack.pop()]:
            if reader not in found:
                found.add(reader)
                stack.append(reader)
    return found
