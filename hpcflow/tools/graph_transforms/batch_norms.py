"""Transforms of batch normalization behind convolutions and products: folded into their weights."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from hpcflow.graph.importer import split_input
from hpcflow.graph_util.graph_defs import extract_sub_graph
from hpcflow.tools.graph_transforms.constants import array_of, constant
from hpcflow.tools.graph_transforms.specs import Parameters
from hpcflow.tools.graph_transforms.steps import Task

_PRODUCTS = ("Conv2D", "MatMul", "DepthwiseConv2dNative")
_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
# Op type -> the places of mean, variance, offset and scale among the inputs.
_NORMALIZATIONS = {
    "BatchNormWithGlobalNormalization": (1, 2, 3, 4), **dict.fromkeys(_FUSED, (3, 4, 2, 1))}


class _Product(NamedTuple):
    """A product with constant weights that one node alone reads."""

    node: Any
    weights: Any

    def scaled(self, scale: np.ndarray) -> np.ndarray:
        """The weights with each output channel times `scale`."""
        value = array_of(self.weights)
        if self.node.op == "DepthwiseConv2dNative":
            return value * scale.reshape(value.shape[2:])
        return value * scale


def fold_scales(task: Task, parameters: Parameters) -> None:
    """Multiply the weights of a product by the constant that its result is multiplied by."""
    by_name, readers = task.by_name(), _readers(task)
    for node in list(task.graph_def.node):
        if node.op != "Mul" or len(node.input) != 2:
            continue
        for product, factor in (node.input, reversed(node.input)):
            found, scale = _product(product, by_name, readers), _value(factor, by_name)
            if found is None or scale is None or not _fits(scale, found):
                continue
            weights = found.scaled(np.broadcast_to(scale.reshape(-1), _channels(found)))
            _replace(task, node, found, weights)
            break
    _drop_unused(task)


def fold_normalizations(task: Task, parameters: Parameters) -> None:
    """Put a product and a sum in the place of a product and its normalization for inference."""
    by_name, readers = task.by_name(), _readers(task)
    for node in list(task.graph_def.node):
        places = _NORMALIZATIONS.get(node.op)
        if places is None or (node.op in _FUSED and node.attr["is_training"].b):
            continue
        found = _product(node.input[0], by_name, readers)
        values = [_value(node.input[i], by_name) for i in places]
        if found is None or any(v is None for v in values):
            continue
        scale, offset = _linear(node, *values)
        _replace(task, node, found, found.scaled(scale), offset)
    _drop_unused(task)


def _linear(node: Any, mean: Any, variance: Any, offset: Any, gamma: Any) -> tuple[Any, Any]:
    fused = node.op in _FUSED
    epsilon = node.attr["epsilon" if fused else "variance_epsilon"].f
    scale = 1 / np.sqrt(variance + np.float32(epsilon))
    if fused or node.attr["scale_after_normalization"].b:
        scale = scale * gamma
    return scale.astype(variance.dtype), (offset - mean * scale).astype(variance.dtype)


def _readers(task: Task) -> Counter[str]:
    found = Counter(split_input(text)[0] for node in task.graph_def.node for text in node.input)
    found.update([*task.inputs, *task.outputs])
    return found


def _product(text: str, by_name: dict[str, Any], readers: Counter[str]) -> _Product | None:
    node = by_name.get(text)
    if node is None or node.op not in _PRODUCTS or readers[node.name] != 1:
        return None
    if node.op == "MatMul" and node.attr["transpose_b"].b:
        return None
    weights = by_name.get(node.input[1])
    if weights is None or weights.op != "Const" or node.attr["data_format"].s == b"NCHW":
        return None
    return _Product(node, weights)


def _value(text: str, by_name: dict[str, Any]) -> np.ndarray | None:
    node = by_name.get(text)
    return array_of(node) if node is not None and node.op == "Const" else None


def _channels(product: _Product) -> int:
    shape = array_of(product.weights).shape
    return shape[-1] * (shape[-2] if product.node.op == "DepthwiseConv2dNative" else 1)


def _fits(scale: np.ndarray, product: _Product) -> bool:
    return scale.size in (1, _channels(product)) and scale.shape[-1:] in (
        (), (scale.size,))


def _replace(task: Task, node: Any, product: _Product, weights: np.ndarray,
             offset: np.ndarray | None = None) -> None:
    """Give `node` the product with `weights`, and the sum with `offset`, if there is one."""
    name = node.name
    scaled = constant(type(node), f"{product.weights.name}_scaled_for_{name}".replace("/", "_"),
                      weights.astype(array_of(product.weights).dtype))
    inner = type(node)()
    inner.CopyFrom(product.node)
    inner.input[1] = scaled.name
    added = [scaled]
    if offset is None:
        inner.name = name
        node.CopyFrom(inner)
    else:
        bias = constant(type(node), f"{name}_offset", offset)
        inner.name = f"{name}_product"
        added += [bias, inner]
        dtype = inner.attr["T"].type
        node.Clear()
        node.name, node.op = name, "BiasAdd"
        node.input[:] = [inner.name, bias.name]
        node.attr["T"].type = dtype
        node.attr["data_format"].s = b"NHWC"
    task.graph_def.node.extend(added)


def _drop_unused(task: Task) -> None:
    names = task.by_name()
    task.graph_def = extract_sub_graph(
        task.graph_def, [*task.outputs, *(n for n in task.inputs if n in names)])
