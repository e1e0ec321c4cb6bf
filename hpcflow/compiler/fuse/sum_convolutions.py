"""sum_convolutions: the gradients of convolutions by one image are added up as they are computed.

An image that several pointwise convolutions read, as those of the branches of a module, gets the
sum of their gradients. Each is added to what is there already, instead of being stored beside the
others. The order of the additions may be another: what is no convolution comes first.

A gradient that anything else reads, or that is fetched, stays a value of its own.
"""

from __future__ import annotations

from hpcflow.compiler.ir.single_use import Readers, chain_to, readers_of, sources_of, take_out
from hpcflow.compiler.ir.step_graph import Node, StepGraph, device_type, new_node
from hpcflow.dtypes import float32
from hpcflow.graph.opdef import get_op_def

_GRADIENT, _SUM = "Conv2DBackpropInput", "_Conv2DBackpropInputSum"


def sum_convolutions(graph: StepGraph) -> None:
    """Replace sums of gradients of pointwise convolutions by gradients that are added on."""
    sums = [n for n in graph.nodes if n.type == "AddN" and n.dtypes[0] is float32
            and device_type(n.device) == "CPU"]
    if not sums:
        return
    readers = readers_of(graph)
    made: dict[Node, list[Node]] = {}  # what comes before a sum
    waits: dict[Node, list[Node]] = {}  # what to wait for instead of a node that goes
    for total in sums:
        chains = _chains(total, readers)
        if len(chains) == len(total.inputs):
            chains = chains[1:]  # one to begin with
        if chains:
            for chain in chains:
                waits |= sources_of(chain)
            made[total] = _add_on(total, chains)
    if waits:
        graph.nodes = [n for node in graph.nodes for n in (*made.get(node, ()), node)]
        take_out(graph, waits)


def _chains(total: Node, readers: Readers) -> list[list[Node]]:
    """The chains of nodes from inputs of `total` back to gradients that can be added on."""
    found = [chain_to(_GRADIENT, total, port, readers) for port in total.inputs]
    return [chain for chain in found if chain is not None and _is_pointwise(chain[-1])]


def _is_pointwise(gradient: Node) -> bool:
    source, index = gradient.inputs[1]
    dims = source.dims[index]
    return (dims is not None and tuple(dims[:2]) == (1, 1) and set(gradient.attrs["strides"]) == {1}
            and gradient.attrs["padding"] != b"EXPLICIT")


def _add_on(total: Node, chains: list[list[Node]]) -> list[Node]:
    """Let the last of the gradients take the place of `total`; what comes before it."""
    gone = {chain[0] for chain in chains}
    rest = [port for port in total.inputs if port[0] not in gone]
    made, so_far = [], rest[0]
    if len(rest) > 1:
        attrs = {**total.attrs, "N": len(rest)}
        made.append(new_node("AddN", f"{total.name}/rest", attrs, rest, [], total.device,
                             total.dims, total.order))
        so_far = made[0], 0
    for number, chain in enumerate(chains):
        gradient = chain[-1]
        inputs = [so_far, *gradient.inputs]
        controls = list(dict.fromkeys(c for node in chain for c in node.controls))
        if number < len(chains) - 1:
            node = new_node(_SUM, gradient.name, dict(gradient.attrs), inputs, controls,
                            total.device, total.dims, total.order)
            made.append(node)
            so_far = node, 0
        else:
            node, node.type, node.op_def = total, _SUM, get_op_def(_SUM)
            node.attrs, node.inputs = dict(gradient.attrs), inputs
            node.controls = list(dict.fromkeys([*node.controls, *controls]))
            node.name = gradient.name
        node.op, node.site = gradient.op, gradient.site
    return made
