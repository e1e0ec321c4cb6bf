"""Float operations of ops by their static shapes, counted as in 1.x."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.op_statistics import OpStats, get_stats_for_node_def
from hpcflow.graph.operation import Operation


def float_operations(op: Operation) -> int:
    """The number of float operations of `op`; 0 where shapes are not known or nothing is counted.

    A multiplication with an addition counts as two.
    """
    count = _RULES.get(op.type)
    if count is None:
        return 0
    try:
        return int(count(op))
    except _UnknownError:
        return 0


def stats_for_node_def(graph: Graph, node: Any, statistic_type: str) -> OpStats:
    """Return a statistic of a node of `graph`: "flops", if a program registers no function for
    it, as counted here; the value is None where none is known."""
    found = get_stats_for_node_def(graph, node, statistic_type)
    if found.value is None and statistic_type == "flops":
        found.value = float_operations(graph.get_operation_by_name(node.name)) or None
    return found


class _UnknownError(Exception):
    """A shape is not known."""


def _dims(dims: tuple | None) -> tuple:
    if dims is None or None in dims:
        raise _UnknownError
    return dims


def _in(op: Operation, index: int = 0) -> tuple:
    return _dims(op.inputs[index]._dims)


def _out(op: Operation) -> tuple:
    return _dims(op.outputs[0]._dims)


def _per_output(times: int) -> Callable[[Operation], int]:
    return lambda op: times * math.prod(_out(op))


def _reduction(last: int) -> Callable[[Operation], int]:
    """One for each element that is taken in, and `last` for each result."""
    return lambda op: math.prod(_in(op)) + (last - 1) * math.prod(_out(op))


def _window(op: Operation) -> int:
    return math.prod(op.get_attr("ksize"))


def _matmul(op: Operation) -> int:
    inner = _in(op)[-2 if op.get_attr("transpose_a") else -1]
    return 2 * inner * math.prod(_out(op))


def _batch_matmul(op: Operation) -> int:
    inner = _in(op)[-2 if op.get_attr("adj_x") else -1]
    return 2 * inner * math.prod(_out(op))


def _convolution(op: Operation) -> int:
    return 2 * math.prod(_out(op)) * math.prod(_in(op, 1)[:-1])


def _depthwise(op: Operation) -> int:
    return 2 * math.prod(_out(op)) * math.prod(_in(op, 1)[:2])


def _back(image: tuple, kernel: tuple, op: Operation) -> int:
    steps = math.prod(op.get_attr("strides"))
    return 2 * math.prod(image) * math.prod(kernel) // (image[-1] * steps)


def _sum_of_many(op: Operation) -> int:
    return math.prod(_in(op)) * (len(op.inputs) - 1)


_RULES: dict[str, Callable[[Operation], int]] = {
    **dict.fromkeys(("Reciprocal", "Square", "Log", "Neg", "AssignSub", "AssignAdd", "Add",
                     "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow", "Greater",
                     "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"), _per_output(1)),
    "Rsqrt": _per_output(2), "SquaredDifference": _per_output(2), "RsqrtGrad": _per_output(4),
    "Softmax": _per_output(5), "L2Loss": lambda op: 3 * math.prod(_in(op)) - 1,
    "BiasAdd": lambda op: math.prod(_in(op)), "AddN": _sum_of_many,
    **dict.fromkeys(("Sum", "ArgMax", "ArgMin", "BiasAddGrad"), _reduction(0)),
    "Mean": _reduction(1),
    **dict.fromkeys(("AvgPool", "MaxPool"), lambda op: _window(op) * math.prod(_out(op))),
    "MaxPoolGrad": lambda op: _window(op) * math.prod(_in(op, 1)) + math.prod(_in(op, 1)),
    "AvgPoolGrad": lambda op: 2 * _window(op) * math.prod(_in(op, 1)),
    "MatMul": _matmul, **dict.fromkeys(("BatchMatMul", "BatchMatMulV2"), _batch_matmul),
    **dict.fromkeys(("Conv2D", "Conv3D"), _convolution),
    **dict.fromkeys(("DepthwiseConv2dNative", "Dilation2D"), _depthwise),
    "Conv2DBackpropInput": lambda op: _back(_out(op), _in(op, 1), op),
    "Conv2DBackpropFilter": lambda op: _back(_in(op), _out(op), op),
}  # fmt: skip
