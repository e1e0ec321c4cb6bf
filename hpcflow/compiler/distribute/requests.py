"""The devices that operations of a graph ask for, checked before anything of it runs.

A step may not contain an operation, and a pass may remove one from it; a request that cannot be
kept is a mistake of the program all the same.
"""

from __future__ import annotations

from hpcflow.compiler.distribute.place import Placer
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX, Operation


def check_requests(graph: Graph, placer: Placer) -> None:
    """Raise ``InvalidArgumentError`` if an operation asks for a device that does not exist, or is
    colocated with operations whose requests contradict.
    """
    asking: dict[str, Operation] = {}
    colocated: dict[Operation, None] = {}
    for op in graph.get_operations():
        if op._device and not (placer.pinned and placer.pinned(op.name, op.type)):
            asking.setdefault(op._device, op)
        for named in op._attrs.get(COLOCATION_ATTR, ()):
            anchor = graph._nodes_by_name.get(named.removeprefix(COLOCATION_PREFIX).decode())
            colocated.update({op: None} if anchor is None else {anchor: None, op: None})
    for op in asking.values():
        placer.check_exists(_node(op))
    if colocated and not placer.pinned:
        placer.check_colocated([_node(op) for op in sorted(colocated, key=lambda op: op._id)])


def _node(op: Operation) -> Node:
    """A node with the request of an operation, and no edges."""
    return Node(op.type, op.name, op.op_def, op._attrs, [], [], op._device, [], [], op._id, op)
