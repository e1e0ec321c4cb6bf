"""dead_branches: what a constant predicate rules out is removed before the step runs.

Deadness is followed as the executor would: from the output of a Switch that is never alive through
everything that reads or waits for it, up to the Merge that has another live input.
"""

from __future__ import annotations

import numpy as np

from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    MERGE_TYPES,
    Node,
    Port,
    StepGraph,
    new_node,
)
from hpcflow.dtypes import int32
from hpcflow.graph.opdef import get_op_def


def remove_dead_branches(graph: StepGraph) -> None:
    """Resolve every Switch whose predicate is a constant, and the Merges that it decides.

    A step that fetches a dead value is left as it is: it fails when it runs, and says why.
    """
    if not any(_is_decided(node) for node in graph.nodes):
        return
    dead = _Dead(graph)
    if any(f in dead.nodes and f.inputs for f in graph.fetches):
        return
    if all(dead.can_resolve(node) for node in graph.nodes):
        dead.remove()


def _is_decided(node: Node) -> bool:
    return node.type == "Switch" and node.inputs[1][0].is_const and (
        np.ndim(node.inputs[1][0].attrs["value"]) == 0)


class _Dead:
    """The nodes and outputs that are never alive."""

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.nodes: set[Node] = set()
        self.ports: set[Port] = set()  # of nodes that are alive
        for node in graph.nodes:
            if self._is_dead(node):
                self.nodes.add(node)
            elif _is_decided(node):
                self.ports.add((node, 1 - _taken(node)))

    def _is_dead(self, node: Node) -> bool:
        if node.type == "ControlTrigger":
            return False
        if any(c in self.nodes for c in node.controls):
            return True
        if node.type in MERGE_TYPES:
            forward = [p for p in node.inputs if p[0].type not in BACK_EDGE_TYPES]
            return bool(forward) and all(self.is_dead_port(p) for p in forward)
        return any(self.is_dead_port(p) for p in node.inputs)

    def is_dead_port(self, port: Port) -> bool:
        """True if the value never exists."""
        return port in self.ports or port[0] in self.nodes

    def can_resolve(self, node: Node) -> bool:
        """False for a Merge of which some inputs, but not all but one, are dead."""
        if node in self.nodes or node.type not in MERGE_TYPES:
            return True
        alive = len(self._alive(node))
        return alive == len(node.inputs) or alive == 1

    def _alive(self, node: Node) -> list[int]:
        return [k for k, p in enumerate(node.inputs) if not self.is_dead_port(p)]

    def remove(self) -> None:
        """Take the dead nodes out of the graph."""
        graph = self.graph
        kept: list[Node] = []
        indices: dict[Port, Port] = {}  # second output of a Merge -> the constant it is
        for node in graph.nodes:
            if node in self.nodes and node not in graph.fetches:
                continue
            alive = self._alive(node) if node.type in MERGE_TYPES else []
            resolved = len(alive) == 1 < len(node.inputs)
            if resolved:
                node.inputs = [node.inputs[alive[0]]]
            node.inputs = [indices.get(p, p) for p in map(_output_of_identity, node.inputs)]
            node.controls = [c for c in node.controls if c not in self.nodes]
            kept.append(node)
            if resolved:
                _become_identity(node)
                kept.append(_value_index(node, alive[0]))
                indices[(node, 1)] = (kept[-1], 0)
        for node in kept:
            if _is_decided(node):
                _become_identity(node)
        graph.nodes = kept
        graph.sweep()


def _taken(node: Node) -> int:
    """The output of a decided Switch that is alive."""
    return int(bool(node.inputs[1][0].attrs["value"]))


def _output_of_identity(port: Port) -> Port:
    """Return the output to read in place of `port`: that of an Identity if its Switch was
    decided."""
    return (port[0], 0) if _is_decided(port[0]) else port


def _value_index(merge: Node, position: int) -> Node:
    index = new_node("Const", f"{merge.name}/value_index",
                     {"dtype": int32, "value": np.array(position, np.int32)}, [], [merge],
                     merge.device, [()], merge.order)
    index.op, index.site = merge.op, merge.site
    return index


def _become_identity(node: Node) -> None:
    node.type, node.op_def = "Identity", get_op_def("Identity")
    source, index = node.inputs[0]
    node.inputs = [(source, index)]
    kept = {k: v for k, v in node.attrs.items() if k.startswith("_")}
    node.attrs = {"T": source.dtypes[index].base_dtype, **kept}
    node.dtypes, node.dims = [node.attrs["T"]], [node.dims[0]]
