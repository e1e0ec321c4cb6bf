"""single_use: values that only one node reads, and the removal of the nodes that make them."""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import Node, Port, StepGraph

Readers = dict[Port, list[Node]]


def readers_of(graph: StepGraph) -> Readers:
    """The nodes that read each output, once for each input."""
    readers: Readers = {}
    for node in graph.nodes:
        for port in node.inputs:
            readers.setdefault(port, []).append(node)
    return readers


def product_for(reader: Node, port: Port, readers: Readers) -> list[Node] | None:
    """As :func:`chain_to` for a MatMul."""
    return chain_to("MatMul", reader, port, readers)


def chain_to(op_type: str, reader: Node, port: Port, readers: Readers) -> list[Node] | None:
    """The nodes from `port`, an input of `reader`, back to the op of a type whose value it is.

    None if it is not the value of one on the device of `reader`, or something else reads it too.
    """
    chain: list[Node] = []
    node, index = port
    while index == 0 and readers[(node, 0)] == [chain[-1] if chain else reader]:
        if node.device != reader.device:
            return None
        chain.append(node)
        if node.type == op_type:
            return chain
        if node.type != "Identity":
            return None
        node, index = node.inputs[0]
    return None


def sources_of(chain: list[Node]) -> dict[Node, list[Node]]:
    """Return, for each node of a chain, the nodes that its readers may wait for in its place."""
    product = chain[-1]
    sources = [s for s, _ in product.inputs if not s.is_const] + product.controls
    return {node: list(dict.fromkeys([*sources, *node.controls])) for node in chain}


def take_out(graph: StepGraph, waits: dict[Node, list[Node]]) -> None:
    """Drop the nodes of `waits`; what waited for one waits for its sources instead."""
    kept = []
    for node in graph.nodes:
        if node in waits:
            # Sources may have gone themselves; producers come first, so theirs are known.
            waits[node] = _without(waits[node], waits)
            continue
        if any(c in waits for c in node.controls):
            node.controls = _without(node.controls, waits)
        kept.append(node)
    graph.nodes = kept


def _without(nodes: list[Node], waits: dict[Node, list[Node]]) -> list[Node]:
    found: dict[Node, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(waits.get(node, [node])))
    return list(found)
