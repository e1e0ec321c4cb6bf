"""fuse_updates: a product that is only the gradient of a descent is added to the variable as it is
computed, so that the gradient, as large as the variable, is never stored.

A gradient that anything else reads, or that is fetched, stays a value of its own.
"""

from __future__ import annotations

import math

from hpcflow.compiler.ir.single_use import product_for, readers_of, sources_of, take_out
from hpcflow.compiler.ir.step_graph import Node, StepGraph, device_type
from hpcflow.dtypes import float32
from hpcflow.graph.opdef import get_op_def
from hpcflow.host.tuning import compiler as tuning


def fuse_updates(graph: StepGraph) -> None:
    """Replace ApplyGradientDescent of a MatMul by _MatMulGradientDescent where it pays."""
    readers = readers_of(graph)
    waits: dict[Node, list[Node]] = {}  # what to wait for instead of a node that goes
    for node in graph.nodes:
        if node.type == "ApplyGradientDescent":
            chain = product_for(node, node.inputs[2], readers)
            if chain is not None and _pays(chain[-1], node):
                waits |= sources_of(chain)
                _fuse(node, chain)
    if waits:
        take_out(graph, waits)


def _pays(product: Node, update: Node) -> bool:
    """True for large ones; on a GPU, which updates all variables in one launch, for very large ones
    whose rate the host knows."""
    dims, kind = product.dims[0], device_type(product.device)
    least = {"CPU": tuning.UPDATE_LARGE, "GPU": tuning.UPDATE_LARGE_GPU}.get(kind)
    return (least is not None and product.dtypes[0] is float32
            and (kind == "CPU" or update.inputs[1][0].is_const)
            and dims is not None and None not in dims
            and math.prod(d or 0 for d in dims) >= least)


def _fuse(update: Node, chain: list[Node]) -> None:
    product = chain[-1]
    update.type, update.op_def = "_MatMulGradientDescent", get_op_def("_MatMulGradientDescent")
    update.attrs = {"T": float32, "transpose_a": bool(product.attrs["transpose_a"]),
                    "transpose_b": bool(product.attrs["transpose_b"])}
    update.inputs = [*update.inputs[:2], *product.inputs]
    controls = [c for node in chain for c in node.controls]
    update.controls = list(dict.fromkeys([*update.controls, *controls]))
