"""conditions: which branches have to be taken, and which loops to go on, for a node to run.

A pass that makes a node read less than it did asks here whether what it still reads is dead
wherever the rest would be: an operation inside a loop that reads only what comes from outside runs
once an iteration because something it reads, like a constant, waits for the loop's pivot.
"""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import MERGE_TYPES, SWITCH_TYPES, Node, Port, StepGraph

Condition = tuple[Port, int]  # the predicate of a Switch, and the output that is alive
_NONE: frozenset[Condition] = frozenset()


class Conditions:
    """The conditions of the nodes of `graph` as it is when they are first asked for.

    Passes may make nodes read other values that are equal, but not others.
    """

    def __init__(self, graph: StepGraph) -> None:
        self._graph = graph
        self._found: dict[Node, frozenset[Condition]] | None = None

    def imply(self, port: Port, node: Node) -> bool:
        """True if `node` surely runs where `port` has a value."""
        return self._of_node(node) <= self._of_port(port)

    def may_drop(self, port: Port, kept: Port) -> bool:
        """True if who reads `kept` may do without the constant `port`.

        It may wait for nothing but the pivot of a branch or loop that `kept` is in too: waiting for
        anything else means an order.
        """
        node = port[0]
        return node.is_const or (node.type == "Const" and all(map(_is_pivot, node.controls))
                                 and self.imply(kept, node))

    def _of_node(self, node: Node) -> frozenset[Condition]:
        if self._found is None:
            self._found = {}
            for other in self._graph.nodes:
                self._found[other] = self._derive(other)
        return self._found.get(node, _NONE)

    def _of_port(self, port: Port) -> frozenset[Condition]:
        node, index = port
        found = self._of_node(node)
        return found | {(node.inputs[1], index)} if node.type in SWITCH_TYPES else found

    def _derive(self, node: Node) -> frozenset[Condition]:
        """Return the conditions that follow from the inputs; of a Merge those that all have in
        common, later iterations excepted: without the first there are none."""
        assert self._found is not None
        if node.type == "ControlTrigger":
            return _NONE
        sources = [self._of_port(p) for p in node.inputs if p[0] in self._found]
        if node.type in MERGE_TYPES:
            return frozenset.intersection(*sources) if sources else _NONE
        result = _NONE
        for other in [*sources, *(self._of_node(c) for c in node.controls)]:
            if other and other is not result:
                result = result | other if result else other
        return result


def _is_pivot(node: Node) -> bool:
    """True for an output of a Switch, and for a copy of one."""
    if node.type == "Identity" and not node.controls:
        node = node.inputs[0][0]
    return node.type in SWITCH_TYPES and not node.controls
