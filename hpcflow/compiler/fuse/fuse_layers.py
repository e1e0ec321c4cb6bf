"""fuse_layers: a convolution or a product, its bias and its relu are computed in one pass over the
result, and a pooling tells its gradient where the maxima are, and the gradient of a local response
normalization knows that it gets the result of just that; batches of products lie in the order in
which they are read.

What is fetched, or read by anybody else, stays a value of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow.compiler.ir.frames import nodes_in_loops
from hpcflow.compiler.ir.single_use import chain_to, readers_of
from hpcflow.compiler.ir.step_graph import Node, Port, StepGraph, device_type
from hpcflow.dtypes import float16, float32, uint8
from hpcflow.graph.opdef import get_op_def
from hpcflow.host import blas
from hpcflow.host.tuning import compiler as tuning


def fuse_layers(graph: StepGraph) -> None:
    """Join convolutions with what follows them, and ops with their gradients."""
    _recognize_biases(graph)
    _fuse_with_bias(graph)
    for node in graph.nodes:
        if node.type == "MaxPoolGrad":
            _share_places(node)
        elif node.type == "LRNGrad":
            _recognize_response(node)
    _order_products(graph)


def _recognize_biases(graph: StepGraph) -> None:
    """Make additions of vectors to convolutions and products BiasAdd, and the gradients of such
    vectors, which are sums of what a relu lets through, BiasAddGrad."""
    in_loops = nodes_in_loops(graph)
    for node in graph.nodes:
        if node in in_loops:
            continue
        if node.type in ("Add", "AddV2"):
            layer = next((i for i, (s, _) in enumerate(node.inputs)
                          if _is_layer(s) or (_is_view(s) and _is_layer(s.inputs[0][0], s))), None)
            if layer is not None and _adds_vector(node, layer):
                inputs = [node.inputs[layer], node.inputs[1 - layer]]
                _become(node, "BiasAdd", {"T": node.attrs["T"], "data_format": b"NHWC"})
                node.inputs = inputs
        elif node.type == "Sum" and node.inputs[0][0].type == "ReluGrad" and _sums_channels(node):
            _become(node, "BiasAddGrad", {"T": node.attrs["T"], "data_format": b"NHWC"})
            node.inputs = node.inputs[:1]


def _is_layer(node: Node, view: Node | None = None) -> bool:
    if node.type == "Conv2D":
        return node.attrs.get("data_format", b"NHWC") == b"NHWC"
    return _is_product(node, view)


def _adds_vector(node: Node, layer: int) -> bool:
    """True if the other operand of an addition to input `layer` has one element for each of the
    last dimension."""
    dims, other = (source.dims[index] for source, index in (node.inputs[layer],
                                                            node.inputs[1 - layer]))
    return bool(dims and other and len(dims) > 1 and len(other) == 1 and other[0] is not None
                and dims[-1] == other[0])


def _sums_channels(node: Node) -> bool:
    """True if the last dimension is left by a sum over all the others."""
    (source, index), (axes, _) = node.inputs
    dims = source.dims[index]
    if dims is None or len(dims) < 2 or not axes.is_const or node.attrs.get("keep_dims"):
        return False
    found = sorted(int(a) % len(dims) for a in np.ravel(axes.attrs["value"]))
    return found == list(range(len(dims) - 1))


def _fuse_with_bias(graph: StepGraph) -> None:
    """Replace Conv2D or MatMul, BiasAdd and Relu, as far as each is read by the next alone.

    A view between them that keeps the channels, as of a dense layer of sequences, comes after all.
    """
    consumers, in_loops = graph.consumers(), nodes_in_loops(graph)
    gone: set[Node] = set()
    moved: dict[Node, Node] = {}  # a layer in the place of a view -> what it comes after
    order = {n: i for i, n in enumerate(graph.nodes)}
    for bias in graph.nodes:
        if bias.type != "BiasAdd":
            continue
        before, vector = bias.inputs[0][0], bias.inputs[1]
        view = before if _is_view(before) and _keeps_channels(before, bias) else None
        first = before if view is None else view.inputs[0][0]
        fits = _is_convolution(first, bias) or (
            first not in in_loops and _is_product(first, view))
        if not (fits and _may_fuse(first, bias) and consumers[before] == [bias]):
            continue
        anchor = before if order[before] > order[vector[0]] else vector[0]
        if view is not None and not all([
                n is view or (order[n] > order[anchor] and _reads_shape(n, first))
                for n in consumers[first]]):
            continue
        readers = consumers[bias]
        relu = readers[0] if len(readers) == 1 and _is_relu_of(readers[0], bias) else None
        last = relu or bias
        gone.update({first, bias} - {last})
        if view is not None:
            _change_places(view, last, consumers[first])
            moved[view] = anchor
        _become_layer(view or last, first, vector, relu is not None)
    if gone:
        graph.nodes = _in_order([n for n in graph.nodes if n not in gone], moved)


def _in_order(nodes: list[Node], moved: dict[Node, Node]) -> list[Node]:
    """Return `nodes`, each of those in `moved` behind the node that it is mapped to there."""
    behind: dict[Node, list[Node]] = {}
    for node, anchor in moved.items():
        behind.setdefault(anchor, []).append(node)
    return [m for n in nodes for m in (*(() if n in moved else (n,)), *behind.get(n, ()))]


def _is_view(node: Node) -> bool:
    return node.type in ("Reshape", "Squeeze", "ExpandDims") and not node.controls


def _keeps_channels(view: Node, bias: Node) -> bool:
    """True if the last dimension of what is viewed, the channels, is that of the view."""
    source, index = view.inputs[0]
    dims, viewed = source.dims[index], view.dims[0]
    return bool(dims and viewed and dims[-1] is not None and dims[-1] == viewed[-1]
                and view.device == bias.device
                and bias.attrs.get("data_format", b"NHWC") == b"NHWC")


def _reads_shape(node: Node, source: Node) -> bool:
    """True if `node` uses only the shape of `source`, as gradients of views do."""
    return node.type == "Shape" and source not in node.controls


def _change_places(view: Node, last: Node, readers: list[Node]) -> None:
    """Swap a view and the node after it: `view` becomes the computation, and `last` the view of its
    result. Those of the `readers` that only ask for the shape of the input read that of the
    result."""
    source, index = view.inputs[0]
    last.inputs = [(view, 0), *view.inputs[1:]]
    for reader in readers:
        if reader is not view:
            reader.inputs = [(view, 0)]
    view.dims = [source.dims[index]]
    _become(last, view.type, view.attrs)
    last.name, last.op, last.site = view.name, view.op, view.site


def _may_fuse(first: Node, bias: Node) -> bool:
    """True in one place: in single precision on the CPU, for convolutions on GPUs too, and there in
    half."""
    on_gpu = device_type(first.device) == "GPU" and first.type == "Conv2D"
    return ((on_gpu or device_type(first.device) == "CPU")
            and (first.dtypes[0] is float32 or (on_gpu and first.dtypes[0] is float16))
            and first.device == bias.device and not bias.controls)


def _is_convolution(node: Node, bias: Node) -> bool:
    """True for one in the layout of its bias."""
    return (node.type == "Conv2D"
            and node.attrs.get("data_format", b"NHWC") == bias.attrs.get("data_format", b"NHWC"))


def _is_product(node: Node, view: Node | None = None) -> bool:
    """True for a product that may be large; small ones join loops over elements instead.

    Its `view` may know more of its rows.
    """
    if node.type != "MatMul":
        return False
    a, b = (source.dims[index] for source, index in node.inputs)
    if a is None or b is None or None in b:
        return False
    rows = [a[1 if node.attrs.get("transpose_a") else 0]]
    viewed = view.dims[0] if view is not None else None
    if rows == [None] and viewed is not None:
        rows = list(viewed[:-1])
    size = math.prod(tuning.LAYER_USUAL_ROWS if n is None else n for n in rows)
    return not blas.is_small(size * math.prod(b))


def _is_relu_of(node: Node, bias: Node) -> bool:
    return (node.type == "Relu" and node.inputs == [(bias, 0)] and node.device == bias.device
            and not node.controls)


_FUSED = {"Conv2D": ("_ConvBias", ("T", "strides", "padding", "data_format", "dilations",
                                      "explicit_paddings")),
          "MatMul": ("_MatMulBias", ("T", "transpose_a", "transpose_b"))}


def _become_layer(last: Node, first: Node, bias: Port, relu: bool) -> None:
    """Turn `last` into the fused layer; messages name `first`, the op that may find bad input."""
    op_type, kept = _FUSED[first.type]
    attrs = {name: first.attrs[name] for name in kept if name in first.attrs}
    _become(last, op_type, attrs | {"relu": relu})
    last.inputs = [*first.inputs, bias]
    last.controls = list(first.controls)
    last.name, last.op, last.site = first.name, first.op, first.site


# ---------------------------------------------------------------- poolings

_POOL_ATTRS = ("T", "ksize", "strides", "padding", "data_format")


def _share_places(gradient: Node) -> None:
    """Let `gradient` read where the maxima are, if it reads the pooling of its own input."""
    pool, index = gradient.inputs[1]
    attrs = {name: pool.attrs.get(name) for name in _POOL_ATTRS}
    if not (pool.type in ("MaxPool", "_MaxPool") and index == 0 and pool.dtypes[0] is float32
            and pool.inputs[0] == gradient.inputs[0] and pool.device == gradient.device
            and device_type(pool.device) == "CPU"
            and attrs == {name: gradient.attrs.get(name) for name in _POOL_ATTRS}):
        return
    if pool.type == "MaxPool":
        _become(pool, "_MaxPool", attrs)
        pool.dtypes, pool.dims = [float32, uint8], [pool.dims[0], None]
    _become(gradient, "_MaxPoolGrad", attrs)
    gradient.inputs = [*gradient.inputs, (pool, 1)]


# ---------------------------------------------------------------- transposed products


def _order_products(graph: StepGraph) -> None:
    """Let batches of products lie as the transposition that alone reads them would copy them, as
    the heads of an attention beside each other."""
    readers = readers_of(graph)
    for node in graph.nodes:
        order = _order_of(node)
        chain = order and (chain_to("BatchMatMul", node, node.inputs[0], readers)
                           or chain_to("BatchMatMulV2", node, node.inputs[0], readers))
        if chain and device_type(node.device) == "CPU" and chain[-1].dtypes[0] is float32:
            chain[-1].attrs = {**chain[-1].attrs, "_order": order}


def _order_of(node: Node) -> list[int] | None:
    """The permutation of a transposition of some axes before the last, if it is known."""
    if node.type != "Transpose" or not node.inputs[1][0].is_const:
        return None
    order = [int(axis) for axis in np.ravel(node.inputs[1][0].attrs["value"])]
    rank = len(order)
    is_one = sorted(order) == list(range(rank)) and rank > 2
    return order if is_one and order[-1] == rank - 1 else None


# ---------------------------------------------------------------- local responses

_RESPONSE_ATTRS = ("T", "depth_radius", "bias", "alpha", "beta")


def _recognize_response(gradient: Node) -> None:
    """Let `gradient` compute from its input alone, if its third operand is the LRN of that
    input."""
    response, _ = gradient.inputs[2]
    attrs = {name: response.attrs.get(name) for name in _RESPONSE_ATTRS}
    if (response.type == "LRN" and response.dtypes[0] is float32
            and response.inputs[0] == gradient.inputs[1]
            and device_type(gradient.device) == "CPU"
            and attrs == {name: gradient.attrs.get(name) for name in _RESPONSE_ATTRS}):
        _become(gradient, "_LRNGrad", attrs)


def _become(node: Node, op_type: str, attrs: dict[str, Any]) -> None:
    node.type, node.op_def, node.attrs = op_type, get_op_def(op_type), dict(attrs)
