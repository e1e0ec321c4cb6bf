"""costs: what a node is expected to cost, from its type and static shapes.

An estimate is a number of arithmetic operations, of bytes moved, and of bytes that the outputs
take. How long that lasts is up to a device's rates; measured times of a traced step go first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hpcflow.compiler.distribute.schedule import VIEWS
from hpcflow.compiler.ir.sizes import elements_of
from hpcflow.compiler.ir.step_graph import Node, Port
from hpcflow.device_spec import STREAM_ROW
from hpcflow.host.tuning import compiler as tuning


class Cost(NamedTuple):
    """The cost of running a node once.

    Attributes:
        flops: arithmetic operations.
        nbytes: bytes read and written.
        dense: True for products and convolutions, which run at a device's matrix rate.
    """

    flops: float
    nbytes: float
    dense: bool = False


class Rates(NamedTuple):
    """The speed of a device: operations and bytes a second, seconds per op, bytes of memory."""

    matrix_flops: float = 5e10
    vector_flops: float = 2e9
    memory_bandwidth: float = 1e10
    op_overhead: float = 1e-6
    memory: float = 8e9

    def seconds(self, cost: Cost) -> float:
        """The time that `cost` takes: arithmetic or memory, whichever is longer."""
        rate = self.matrix_flops if cost.dense else self.vector_flops
        return self.op_overhead + max(cost.flops / rate, cost.nbytes / self.memory_bandwidth)


def cost_of(node: Node) -> Cost:
    """The static estimate of `node`; unknown dimensions count as ``SIZES_UNKNOWN_DIMENSION``."""
    if node.type in VIEWS or node.type in _FREE:
        return Cost(0, 0)
    rule = _DENSE.get(node.type)
    outputs = [(node, i) for i in range(len(node.dtypes))]
    moved = sum(_traffic(p) for p in [*node.inputs, *outputs])
    if rule is not None:
        return Cost(rule(node), moved, True)
    if _ROWS.fullmatch(node.type):
        return _cost_of_rows(node)
    if node.type in _MOVES:
        return Cost(0, moved)
    largest = max([elements_of(p) for p in [*node.inputs, *outputs]], default=0)
    if node.type.startswith(("Apply", "ResourceApply")):  # the state is read and written
        slots = max(1, len(node.inputs) - 3)
        return Cost(6 * largest, largest * 4 * 2 * slots)
    return Cost(_OPERATIONS.get(node.type, 1) * largest, moved)


class MeasuredCosts:
    """Times of ops by name, as traced steps measured them.

    Args:
        step_stats: ``StepStats`` protobufs; an op's time is the mean over them.
    """

    def __init__(self, step_stats: Iterable[Any]) -> None:
        # Of what ran on a GPU the times of its streams count, not those of the host beside it.
        hosts: dict[str, tuple[float, int]] = {}
        gpus: dict[str, tuple[float, int]] = {}
        for stats in step_stats:
            for device in stats.dev_stats:
                totals = gpus if STREAM_ROW in device.device else hosts
                for node in device.node_stats:
                    seconds = node.op_end_rel_nanos * 1e-9 or node.op_end_rel_micros * 1e-6
                    total, count = totals.get(node.node_name, (0.0, 0))
                    totals[node.node_name] = (total + seconds, count + 1)
        self._means = {name: total / count for name, (total, count) in {**hosts, **gpus}.items()}

    def seconds(self, node: Node) -> float | None:
        """The measured time of the op that `node` stands for; None if it was not traced."""
        return self._means.get(node.name)


# ---------------------------------------------------------------- by type

_FREE = frozenset({"Const", "NoOp", "_Feed", "_Fetch", "_FetchOp", "_Keep", "_Recv", "_SendControl",
                   "_RecvControl", "Variable", "VariableV2", "VarHandleOp", "Merge", "LoopCond",
                   "ControlTrigger", "Placeholder", "Shape", "ShapeN", "Size", "Rank"})
_MOVES = frozenset({"Transpose", "Concat", "ConcatV2", "Split", "SplitV", "Slice", "StridedSlice",
                    "Pad", "Tile", "Pack", "Unpack", "Fill", "ZerosLike", "OnesLike",
                    "Assign", "AssignVariableOp", "Cast", "DynamicStitch", "DynamicPartition"})
# Of the table that they read or change, only some rows are touched.
_ROWS = re.compile(r"(Resource)?Gather(V2)?|(Resource)?Scatter(Add|Sub|Update|Mul|Div|Min|Max)|"
                   r"(Resource)?SparseApply\w+")
# Operations per element of the largest tensor, where it is not about one.
_OPERATIONS = {"Exp": 10, "Log": 10, "Tanh": 12, "Sigmoid": 12, "Pow": 20, "Sqrt": 4, "Rsqrt": 5,
               "Softmax": 15, "LogSoftmax": 15, "SoftmaxCrossEntropyWithLogits": 20,
               "SparseSoftmaxCrossEntropyWithLogits": 20, "LRN": 20, "LRNGrad": 40,
               "FusedBatchNorm": 8, "FusedBatchNormGrad": 16, "RandomStandardNormal": 30,
               "TruncatedNormal": 40, "RandomUniform": 10, "MaxPool": 9, "MaxPoolGrad": 9,
               "AvgPool": 9, "AvgPoolGrad": 9}  # fmt: skip


def _cost_of_rows(node: Node) -> Cost:
    """Return the cost of an op on some rows of a table. Of the inputs that are as large as the
    table (its slots, too) only as many rows count as the other inputs and the outputs have."""
    table = elements_of(node.inputs[0])
    outputs = [(node, i) for i in range(len(node.dtypes))]
    rest = [p for p in [*node.inputs[1:], *outputs] if elements_of(p) != table]
    rows = max([_traffic(p) for p in rest], default=_traffic(node.inputs[0]))
    tables = [p for p in node.inputs if elements_of(p) == table]
    if "Gather" in node.type:
        return Cost(0, rows + sum(map(_traffic, rest)))
    return Cost(rows / 2, 2 * len(tables) * rows + sum(map(_traffic, rest)))


def _product(node: Node) -> float:
    inner = _dims(node, 0)
    k = inner[-2 if node.attrs.get("transpose_a") or node.attrs.get("adj_x") else -1]
    return 2.0 * elements_of((node, 0)) * k


def _convolution(node: Node) -> float:
    taps = _dims(node, 1)  # height, width, in, out
    return 2.0 * elements_of((node, 0)) * _product_of(taps[:-1])


def _back_to_input(node: Node) -> float:
    return 2.0 * elements_of(node.inputs[2]) * _product_of(_dims(node, 1)[:-1])


def _back_to_filter(node: Node) -> float:
    dims = node.dims[0]
    taps = _product_of(dims[:-1]) if dims is not None and None not in dims else 9 * 64
    return 2.0 * elements_of(node.inputs[2]) * taps


def _depthwise(node: Node) -> float:
    return 2.0 * elements_of((node, 0)) * _product_of(_dims(node, 1)[:2])


_DENSE: dict[str, Callable[[Node], float]] = {
    "MatMul": _product, "BatchMatMul": _product, "BatchMatMulV2": _product,
    "SparseMatMul": _product, "_MatMulBias": _product,
    "Conv2D": _convolution, "Conv3D": _convolution,
    "Conv2DBackpropInput": _back_to_input, "Conv3DBackpropInputV2": _back_to_input,
    "Conv2DBackpropFilter": _back_to_filter, "Conv3DBackpropFilterV2": _back_to_filter,
    "DepthwiseConv2dNative": _depthwise,
}  # fmt: skip


def _traffic(port: Port) -> int:
    """The bytes of a value, also where it is read from a variable."""
    node, index = port
    return (node.dtypes[index].base_dtype.size or 8) * elements_of(port)


def _dims(node: Node, index: int) -> list[int]:
    source, port = node.inputs[index]
    dims = source.dims[port]
    if not dims:
        return [tuning.SIZES_UNKNOWN_DIMENSION] * 4
    return [tuning.SIZES_UNKNOWN_DIMENSION if d is None else d for d in dims]


def _product_of(dims: Iterable[int]) -> float:
    total = 1.0
    for d in dims:
        total *= d
    return total
