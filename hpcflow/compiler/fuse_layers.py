"""fuse_layers: a convolution, its bias and its relu are computed in one pass over the result, and
a pooling tells its gradient where the maxima are, and the gradient of a local response
normalization knows that it gets the result of just that.

What is fetched, or read by anybody else, stays a value of its own.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.ir import Node, StepGraph, device_type
from hpcflow.dtypes import float32, uint8
from hpcflow.graph.opdef import get_op_def


def fuse_layers(graph: StepGraph) -> None:
    """Join convolutions with what follows them, and ops with their gradients."""
    _fuse_convolutions(graph)
    for node in graph.nodes:
        if node.type == "MaxPoolGrad":
            _share_places(node)
        elif node.type == "LRNGrad":
            _recognize_response(node)


def _fuse_convolutions(graph: StepGraph) -> None:
    """Replace Conv2D, BiasAdd and Relu, as far as each is read by the next alone, by _ConvBias."""
    consumers = graph.consumers()
    gone: set[Node] = set()
    for bias in graph.nodes:
        if bias.type != "BiasAdd":
            continue
        conv, _ = bias.inputs[0]
        if not (_may_fuse(conv, bias) and consumers[conv] == [bias]):
            continue
        readers = consumers[bias]
        relu = readers[0] if len(readers) == 1 and _is_relu_of(readers[0], bias) else None
        last = relu or bias
        gone.update({conv, bias} - {last})
        _become_layer(last, conv, bias, relu is not None)
    if gone:
        graph.nodes = [n for n in graph.nodes if n not in gone]


def _may_fuse(conv: Node, bias: Node) -> bool:
    """True for single precision on the CPU, in one layout and in one place."""
    return (conv.type == "Conv2D" and conv.dtypes[0] is float32 and conv.device == bias.device
            and device_type(conv.device) == "CPU" and not bias.controls
            and conv.attrs.get("data_format") == bias.attrs.get("data_format"))


def _is_relu_of(node: Node, bias: Node) -> bool:
    return (node.type == "Relu" and node.inputs == [(bias, 0)] and node.device == bias.device
            and not node.controls)


def _become_layer(last: Node, conv: Node, bias: Node, relu: bool) -> None:
    """`last` takes the place of all; messages name the convolution, which may find bad input."""
    kept = ("T", "strides", "padding", "data_format")
    attrs = {name: conv.attrs[name] for name in kept if name in conv.attrs}
    _become(last, "_ConvBias", attrs | {"relu": relu})
    last.inputs = [*conv.inputs, bias.inputs[1]]
    last.controls = list(conv.controls)
    last.name, last.op, last.site = conv.name, conv.op, conv.site


# ---------------------------------------------------------------- poolings

_POOL_ATTRS = ("T", "ksize", "strides", "padding", "data_format")


def _share_places(gradient: Node) -> None:
    """Let `gradient` read where the maxima are, if it has the pooling of its own input."""
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


# ---------------------------------------------------------------- local responses

_RESPONSE_ATTRS = ("T", "depth_radius", "bias", "alpha", "beta")


def _recognize_response(gradient: Node) -> None:
    """Let `gradient` compute from the input alone, if what it gets beside is its LRN."""
    response, _ = gradient.inputs[2]
    attrs = {name: response.attrs.get(name) for name in _RESPONSE_ATTRS}
    if (response.type == "LRN" and response.dtypes[0] is float32
            and response.inputs[0] == gradient.inputs[1]
            and device_type(gradient.device) == "CPU"
            and attrs == {name: gradient.attrs.get(name) for name in _RESPONSE_ATTRS}):
        _become(gradient, "_LRNGrad", attrs)


def _become(node: Node, op_type: str, attrs: dict[str, Any]) -> None:
    node.type, node.op_def, node.attrs = op_type, get_op_def(op_type), dict(attrs)
