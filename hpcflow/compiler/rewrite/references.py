"""references: control flow that takes values reads the variables that it is given.

A Switch, Merge, Enter, Exit or NextIteration of values may be given the reference of a variable;
so may the predicate of one that passes references on. The executor hands on what it gets, so the
value is read before.
"""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    Node,
    Port,
    StepGraph,
    new_node,
    ref_inputs,
)
from hpcflow.graph.opdef import get_op_def

_TAKE_VALUES = CONTROL_FLOW_TYPES | {"LoopCond"}


def read_references(graph: StepGraph) -> None:
    """Insert a read where such a node takes the value of a reference."""
    before: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.type in _TAKE_VALUES:
            _read_inputs(node, before)
    if before:
        graph.nodes = [n for node in graph.nodes for n in (*before.get(node, ()), node)]


def _read_inputs(node: Node, before: dict[Node, list[Node]]) -> None:
    flags = ref_inputs(node)
    for position, (source, index) in enumerate(node.inputs):
        if not source.dtypes[index]._is_ref_dtype or flags and flags[position]:
            continue
        if source.type in BACK_EDGE_TYPES:  # nothing may stand between it and its Merge
            source.type, source.op_def = "NextIteration", get_op_def("NextIteration")
            source.dtypes = [t.base_dtype for t in source.dtypes]
            _read_inputs(source, before)
            continue
        read = _read((source, index), node, position)
        before.setdefault(node, []).append(read)
        node.inputs[position] = (read, 0)


def _read(port: Port, reader: Node, position: int) -> Node:
    source, index = port
    read = new_node("Identity", f"{reader.name}/_value_{position}",
                    {"T": source.dtypes[index].base_dtype}, [port], [], source.device,
                    [source.dims[index]], reader.order - 0.5)
    read.op, read.site = reader.op, reader.site
    return read
