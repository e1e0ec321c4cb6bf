"""The layers of a graph: a product with weights, its biases, bypasses and activation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor

_PRODUCTS = ("Conv2D", "MatMul", "DepthwiseConv2dNative")
_SUMS = ("Add", "AddV2")
_ACTIVATIONS = ("Relu", "Relu6", "Identity")


class Layer(NamedTuple):
    """A product with weights, and what is behind it; None for what there is not.

    Attributes:
        product: the operation with the weights.
        weights: the tensor of these.
        activation: the last operation of the layer.
        biased: the sum with the biases.
        bypass: the sum of this with something else, before the activation.
        late_bypass: such a sum behind the activation.
    """

    product: Operation
    weights: Tensor
    activation: Operation
    biased: Operation | None = None
    bypass: Operation | None = None
    late_bypass: Operation | None = None


def find_layers(graph: Graph) -> list[Layer]:
    """Return the layers of a graph, each product once: first those with a sum behind the
    activation, then with an activation, with biases alone, and with another product behind."""
    found: dict[Operation, Layer] = {}
    for search in (_late_bypass, _activated, _final, _between_products):
        for op in graph.get_operations():
            layer = search(op)
            if layer is not None:
                found.setdefault(layer.product, layer)
    return list(found.values())


def _late_bypass(op: Operation) -> Layer | None:
    if op.type not in _SUMS:
        return None
    layer = _first(_activation, reversed(op.inputs))
    return layer and layer._replace(late_bypass=op)


def _activated(op: Operation) -> Layer | None:
    layer = _activation(op)
    if layer is not None and op.type == "Identity" and len(op.outputs[0].consumers()) == 1 \
            and op.outputs[0].consumers()[0].type.startswith("FusedBatchNorm"):
        return None
    return layer


def _final(op: Operation) -> Layer | None:
    layer = _biased(op)
    return layer and layer._replace(biased=None)


def _between_products(op: Operation) -> Layer | None:
    if op.type not in _PRODUCTS:
        return None
    layer = _first(_product, op.inputs)
    return layer and Layer(layer.product, layer.weights, layer.product)


def _first(search: Callable[[Operation], Layer | None],
           tensors: list[Tensor] | Iterator[Tensor]) -> Layer | None:
    """What `search` finds first among the operations of some tensors."""
    return next((layer for t in tensors if (layer := search(t.op)) is not None), None)


def _product(op: Operation) -> Layer | None:
    """The layer whose product `op` is, or moves from blocks back into space."""
    if op.type == "BatchToSpaceND":
        op = op.inputs[0].op
    if op.type not in _PRODUCTS:
        return None
    weights = next((t for t in reversed(op.inputs) if _is_weights(t.op)), None)
    return None if weights is None else Layer(op, weights, op)


def _is_weights(op: Operation) -> bool:
    """Is `op` the value of a variable, or of a variable's parts, or one with factors?"""
    if op.type in ("ReadVariableOp", "Mul"):
        return True
    if op.type != "Identity":
        return False
    below = op.inputs[0].op
    if below.type == "ConcatV2":
        below = below.inputs[0].op
    if below.type == "Identity":
        below = below.inputs[0].op
    return below.type in ("Variable", "VariableV2")


def _biased(op: Operation) -> Layer | None:
    """The layer whose product and biases `op` adds, or the correction of a folded one."""
    layer = _first(_product, op.inputs) if op.type in (*_SUMS, "BiasAdd") else None
    if layer is None and op.type in _SUMS:
        layer = _first(_corrected, op.inputs)
    return layer and layer._replace(activation=op, biased=op)


def _corrected(op: Operation) -> Layer | None:
    """The layer of a sum over a product with a factor, which folding leaves in training."""
    if op.type not in _SUMS:
        return None
    return _first(lambda below: _first(_product, below.inputs) if below.type == "Mul" else None,
                  op.inputs)


def _with_biases(op: Operation) -> Layer | None:
    """As :func:`_biased`, or the identity of a folded one."""
    layer = _biased(op)
    if layer is None and op.type == "Identity":
        below = op.inputs[0].op
        folded = below.type in _SUMS and _first(_corrected, below.inputs) is not None
        return _biased(below) if folded else None
    return layer


def _activation(op: Operation) -> Layer | None:
    """The layer whose activation `op` is."""
    if op.type not in _ACTIVATIONS:
        return None
    below = op.inputs[0].op
    layer = _with_biases(below)
    if layer is None and below.type in _SUMS:
        layer = _first(_with_biases, below.inputs)
        layer = layer and layer._replace(bypass=below)
    layer = layer or _product(below)
    return layer and layer._replace(activation=op)
