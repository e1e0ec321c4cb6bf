"""sum_products: a sum of matrix products becomes one product.

Weights that the steps of an unrolled network share have the sum of the steps' products as their
gradient. That is the product of what the factors are beside each other: one large product, which
BLAS computes faster than many small ones, and no values as large as the weights to add up.

A product that anything else reads, or that is fetched, stays a value of its own. The order of
additions is that of the one product, and follows from the shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.compiler.ir.single_use import Readers, product_for, readers_of, sources_of, take_out
from hpcflow.compiler.ir.step_graph import Node, Port, StepGraph, device_type, new_node
from hpcflow.dtypes import float32, float64, int32
from hpcflow.graph.opdef import get_op_def
from hpcflow.host.tuning import compiler as tuning


def sum_products(graph: StepGraph) -> None:
    """Join the products that only an AddN reads, where copying their factors costs less than
    adding them up."""
    sums = [n for n in graph.nodes if n.type == "AddN" and _may_join(n)]
    if not sums:
        return
    readers = readers_of(graph)
    made: dict[Node, list[Node]] = {}  # what comes before a sum
    waits: dict[Node, list[Node]] = {}  # what to wait for instead of a node that goes
    for total in sums:
        for chains in _groups(total, readers):
            for chain in chains:
                waits |= sources_of(chain)
            made.setdefault(total, []).extend(_join(total, chains))
    if waits:
        graph.nodes = [n for node in graph.nodes for n in (*made.get(node, ()), node)]
        take_out(graph, waits)


def _may_join(node: Node) -> bool:
    return (len(node.inputs) >= tuning.SUM_LEAST_TERMS and device_type(node.device) == "CPU"
            and node.dtypes[0] in (float32, float64))


def _groups(total: Node, readers: Readers) -> list[list[list[Node]]]:
    """Return the chains of nodes back to products that can be joined, grouped by which factors they
    transpose."""
    groups: dict[tuple[bool, bool], list[list[Node]]] = {}
    for port in total.inputs:
        chain = product_for(total, port, readers)
        if chain is not None and _pays(chain[-1]):
            groups.setdefault(_transposed(chain[-1]), []).append(chain)
    return [chains for chains in groups.values() if len(chains) >= tuning.SUM_LEAST_TERMS]


def _pays(product: Node) -> bool:
    """True if writing and reading the result costs more than copying the factors."""
    sizes = []
    for dims in (product.dims[0], *map(_dims, product.inputs)):
        if dims is None or None in dims:
            return False
        sizes.append(dims[0] * dims[1])
    return sizes[0] > sizes[1] + sizes[2]


def _join(total: Node, chains: list[list[Node]]) -> list[Node]:
    """Let one product take the place of the chains among the inputs of `total`; the new nodes."""
    terms = [chain[-1] for chain in chains]
    factors = [_beside(total, terms, i) for i in (0, 1)]
    gone = {chain[0] for chain in chains}
    inputs = [port for port in total.inputs if port[0] not in gone]
    controls = list(dict.fromkeys(c for chain in chains for n in chain for c in n.controls))
    made = [n for joint in factors for n in (joint.inputs[-1][0], joint)]
    ports: list[Port] = [(joint, 0) for joint in factors]
    attrs = dict(terms[0].attrs)
    if inputs:
        name = f"{total.name}/products_{_tag(terms[0])}"
        product = new_node("MatMul", name, attrs, ports, controls, total.device, total.dims,
                           total.order)
        total.inputs = [*inputs, (product, 0)]
        total.attrs = {**total.attrs, "N": len(total.inputs)}
        return [*made, product]
    total.type, total.op_def, total.attrs = "MatMul", get_op_def("MatMul"), attrs
    total.inputs = ports
    total.controls = list(dict.fromkeys([*total.controls, *controls]))
    return made


def _beside(total: Node, terms: list[Node], index: int) -> Node:
    """Factor `index` of all terms, one after the other along the dimension that is summed over."""
    axis = int(_transposed(terms[0])[index] == bool(index))
    ports = [term.inputs[index] for term in terms]
    dims = list(_dims(ports[0]))
    dims[axis] = sum(_dims(port)[axis] for port in ports)
    name = f"{total.name}/{'ab'[index]}_{_tag(terms[0])}"
    where = new_node("Const", f"{name}/axis", {"dtype": int32, "value": np.array(axis, np.int32)},
                     [], [], total.device, [()], total.order)
    attrs = {"N": len(ports), "T": total.dtypes[0], "Tidx": int32}
    return new_node("ConcatV2", name, attrs, [*ports, (where, 0)], [], total.device,
                    [tuple(dims)], total.order)


def _transposed(product: Node) -> tuple[bool, bool]:
    return bool(product.attrs["transpose_a"]), bool(product.attrs["transpose_b"])


def _tag(product: Node) -> str:
    return "".join(str(int(t)) for t in _transposed(product))


def _dims(port: Port) -> Any:
    return port[0].dims[port[1]]
