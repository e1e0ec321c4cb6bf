"""Training for quantized inference: a graph whose products see values of few bits."""

from __future__ import annotations

from typing import Any

_PRODUCTS = frozenset({"Conv2D", "DepthwiseConv2dNative", "MatMul"})
# What hands values on, so that the range is that of what comes before.
_PASSES_ON = frozenset({"Identity", "MaxPool", "AvgPool", "Reshape", "Squeeze", "ExpandDims"})
# Activation -> (signed, range known beforehand).
_RANGES: dict[str, tuple[bool, tuple[float, float] | None]] = {
    "Relu": (False, None), "Relu6": (False, (0.0, 6.0)), "Sigmoid": (False, (0.0, 1.0)),
    "Tanh": (True, (-1.0, 1.0)),
}  # fmt: skip


def do_quantize_training_on_graphdef(input_graph: Any, num_bits: int) -> Any:
    """Return a copy of a ``GraphDef`` in which the inputs of products go through `num_bits` bits.

    Every input of a Conv2D, DepthwiseConv2dNative or MatMul of floats is rounded by a
    ``QuantizeAndDequantize`` node: to the range of its activation (Relu6, Sigmoid, Tanh), or to
    that of its values. Gradients pass through unchanged. Raises ``ValueError`` unless `num_bits`
    is between 1 and 62.
    """
    from tensorboard.compat.proto import graph_pb2

    if not 1 <= num_bits <= 62:
        raise ValueError(f"num_bits must be between 1 and 62, but is {num_bits}")
    result = graph_pb2.GraphDef()
    result.CopyFrom(input_graph)
    nodes = {n.name: n for n in result.node}
    made: dict[str, str] = {}
    for node in list(result.node):
        if node.op in _PRODUCTS:
            for position in (0, 1):
                source = node.input[position]
                if source not in made:
                    made[source] = _insert(result, nodes, node, source, num_bits)
                node.input[position] = made[source]
    return result


def _insert(graph: Any, nodes: dict[str, Any], reader: Any, source: str, num_bits: int) -> str:
    """Add the node that rounds the value of `source`; returns its name."""
    base = f"{source.replace(':', '_')}/quantized"
    name, number = base, 0
    while name in nodes:
        number += 1
        name = f"{base}_{number}"
    signed, limits = _range_of(nodes, source)
    out = graph.node.add(name=name, op="QuantizeAndDequantize", device=reader.device)
    out.input.append(source)
    out.attr["T"].type = reader.attr["T"].type
    out.attr["signed_input"].b = signed
    out.attr["num_bits"].i = num_bits
    out.attr["range_given"].b = limits is not None
    out.attr["input_min"].f, out.attr["input_max"].f = limits or (0.0, 0.0)
    nodes[name] = out
    return name


def _range_of(nodes: dict[str, Any], source: str) -> tuple[bool, tuple[float, float] | None]:
    while True:
        node = nodes.get(source.partition(":")[0])
        if node is None or node.op not in _PASSES_ON or not node.input:
            break
        source = node.input[0]
    return _RANGES.get(node.op if node is not None else "", (True, None))
