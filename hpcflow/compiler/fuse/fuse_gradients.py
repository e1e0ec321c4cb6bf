"""fuse_gradients: the gradients of layers touch their arrays as few times as they can.

A relu before a max pooling lets the gradient through where the largest of a window is positive. So
the mask may go before the gradient of the pooling, whose arrays are the smaller ones. The gradient
of the bias, which is the sum of what the relu lets through, is added up in the same pass.

What is fetched, or read by anybody else, stays a value of its own.
"""

from __future__ import annotations

import math

from hpcflow.compiler.ir.frames import nodes_in_loops
from hpcflow.compiler.ir.sizes import elements_of
from hpcflow.compiler.ir.step_graph import Node, StepGraph, device_type
from hpcflow.dtypes import float32
from hpcflow.graph.opdef import get_op_def
from hpcflow.host.tuning import compiler as tuning


def fuse_gradients(graph: StepGraph) -> None:
    """Move masks of relus before the gradients of poolings, and join them with sums of biases."""
    consumers = graph.consumers()
    for node in graph.nodes:
        if _follows_pooling(node, consumers):
            _mask_before_pooling(node, consumers[node])
    _sum_while_masking(graph)


# ---------------------------------------------------------------- poolings


def _follows_pooling(mask: Node, consumers: dict[Node, list[Node]]) -> bool:
    """True for the mask of a relu, of the gradient of a pooling of what the relu gave."""
    if mask.type != "ReluGrad":
        return False
    gradient, _ = mask.inputs[0]
    return (gradient.type == "_MaxPoolGrad" and gradient.inputs[0] == mask.inputs[1]
            and consumers[gradient] == [mask] and gradient.device == mask.device
            and math.prod(gradient.attrs["strides"]) > 1)


def _mask_before_pooling(mask: Node, readers: list[Node]) -> None:
    """Let the two nodes change their places, and sums over positions read the smaller array."""
    gradient, _ = mask.inputs[0]
    image, pooled, incoming, places = gradient.inputs
    gradient.inputs, mask.inputs = [incoming, pooled], [image, pooled, (gradient, 0), places]
    gradient.dims = [pooled[0].dims[pooled[1]]]
    for name in ("type", "op_def", "attrs", "name", "op", "site"):
        old = getattr(mask, name)
        setattr(mask, name, getattr(gradient, name))
        setattr(gradient, name, old)
    for reader in readers:
        if reader.type == "BiasAddGrad" and _keeps_channels(mask, reader):
            reader.inputs = [(gradient, 0)]


def _keeps_channels(pooling: Node, total: Node) -> bool:
    """True if the gradient of each channel adds up to the same before and after a pooling."""
    layout = pooling.attrs.get("data_format", b"NHWC")
    channel = 1 if layout == b"NCHW" else 3
    return (pooling.attrs["ksize"][channel] == pooling.attrs["strides"][channel] == 1
            and total.attrs.get("data_format", b"NHWC") == layout)


# ---------------------------------------------------------------- biases


def _sum_while_masking(graph: StepGraph) -> None:
    """Let one node make the gradient of a relu and that of the bias before it."""
    fixed = nodes_in_loops(graph) | set(graph.kept)
    sums: dict[Node, Node] = {}  # BiasAddGrad -> ReluGrad
    for total in graph.nodes:
        if total.type == "BiasAddGrad" and total not in fixed:
            mask, _ = total.inputs[0]
            if mask not in sums.values() and _may_join(mask, total):
                sums[total] = mask
    for total, mask in sums.items():
        mask.type, mask.op_def = "_ReluBiasGrad", get_op_def("_ReluBiasGrad")
        mask.dtypes, mask.dims = [float32, float32], [mask.dims[0], total.dims[0]]
    if sums:
        graph.nodes = [n for n in graph.nodes if n not in sums]
        for node in graph.nodes:
            node.inputs = [(sums[s], 1) if s in sums else (s, i) for s, i in node.inputs]
            node.controls = list(dict.fromkeys(sums.get(c, c) for c in node.controls))


def _may_join(mask: Node, total: Node) -> bool:
    return (mask.type == "ReluGrad" and mask.dtypes[0] is float32
            and mask.device == total.device and device_type(mask.device) == "CPU"
            and total.attrs.get("data_format", b"NHWC") == b"NHWC" and not total.controls
            and mask.dims[0] is not None and elements_of((mask, 0)) >= tuning.GRADIENT_LARGE)
