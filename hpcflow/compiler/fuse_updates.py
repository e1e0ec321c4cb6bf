"""fuse_updates: a product that is only the gradient of a descent is added to the variable as it is
computed, so that the gradient, as large as the variable, is never stored.

A gradient that anything else reads, or that is fetched, stays a value of its own.
"""

from __future__ import annotations

import math

from hpcflow.compiler.ir import Node, Port, StepGraph, device_type
from hpcflow.dtypes import float32
from hpcflow.graph.opdef import get_op_def

# Elements of a gradient below which the call costs more than the memory.
_LARGE = 1 << 16


def fuse_updates(graph: StepGraph) -> None:
    """Replace ApplyGradientDescent of a MatMul by _MatMulGradientDescent where it pays."""
    readers: dict[Port, list[Node]] = {}
    for node in graph.nodes:
        for port in node.inputs:
            readers.setdefault(port, []).append(node)
    waits: dict[Node, list[Node]] = {}  # what to wait for instead of a node that goes
    for node in graph.nodes:
        if node.type == "ApplyGradientDescent":
            chain = _gradient(node, readers)
            if chain is not None:
                _fuse(node, chain, waits)
    if waits:
        _redirect(graph, waits)


def _gradient(update: Node, readers: dict[Port, list[Node]]) -> list[Node] | None:
    """The nodes from the update's gradient back to the product, if nothing else reads them."""
    chain: list[Node] = []
    node, index = update.inputs[2]
    while index == 0 and readers[(node, 0)] == [chain[-1] if chain else update]:
        chain.append(node)
        if node.type == "MatMul":
            return chain if _pays(node, update) else None
        if node.type != "Identity" or node.device != update.device:
            return None
        node, index = node.inputs[0]
    return None


def _pays(product: Node, update: Node) -> bool:
    dims = product.dims[0]
    return (product.device == update.device and device_type(product.device) == "CPU"
            and product.dtypes[0] is float32 and dims is not None and None not in dims
            and math.prod(d or 0 for d in dims) >= _LARGE)


def _fuse(update: Node, chain: list[Node], waits: dict[Node, list[Node]]) -> None:
    product = chain[-1]
    sources = [s for s, _ in product.inputs if not s.is_const] + product.controls
    for node in chain:
        waits[node] = list(dict.fromkeys([*sources, *node.controls]))
    update.type, update.op_def = "_MatMulGradientDescent", get_op_def("_MatMulGradientDescent")
    update.attrs = {"T": float32, "transpose_a": bool(product.attrs["transpose_a"]),
                    "transpose_b": bool(product.attrs["transpose_b"])}
    update.inputs = [*update.inputs[:2], *product.inputs]
    controls = [c for node in chain for c in node.controls]
    update.controls = list(dict.fromkeys([*update.controls, *controls]))


def _redirect(graph: StepGraph, waits: dict[Node, list[Node]]) -> None:
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
