"""reads: a variable read on another device is read where it lives.

A node that takes the value of a reference reads it when it runs. Across devices that read becomes
a node of its own next to the variable, which waits for what its reader waits for: an update that
the reader has to follow comes before it.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.ir.step_graph import CONTROL_FLOW_TYPES, Node, StepGraph, new_node, ref_inputs


def split_reads(graph: StepGraph) -> None:
    """Insert the reads; one for all readers on a device that wait for the same."""
    reads: dict[Any, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.type not in CONTROL_FLOW_TYPES:
            _split(node, reads, nodes)
        nodes.append(node)
    graph.nodes = nodes


def _split(node: Node, reads: dict[Any, Node], nodes: list[Node]) -> None:
    flags = ref_inputs(node)
    for position, (source, index) in enumerate(node.inputs):
        takes_reference = position < len(flags) and flags[position]
        if source.device == node.device or takes_reference or (
                not source.dtypes[index]._is_ref_dtype):
            continue
        key = (source, index, node.device, tuple(node.controls))
        read = reads.get(key)
        if read is None:
            read = reads[key] = _read(source, index, node, position)
            nodes.append(read)
        node.inputs[position] = (read, 0)


def _read(source: Node, index: int, reader: Node, position: int) -> Node:
    """Return a new read, named after its reader: edges between devices are told apart by names."""
    attrs = {"T": source.dtypes[index].base_dtype}
    read = new_node("Identity", f"{reader.name}/_read_{position}", attrs, [(source, index)],
                    list(reader.controls), source.device, [source.dims[index]], reader.order - 0.5)
    read.op, read.site = reader.op, reader.site
    return read
