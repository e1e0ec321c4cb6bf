"""Transforms of constants: what can be computed beforehand, and weights of fewer values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.dtypes import as_dtype, quint8
from hpcflow.errors import OpError
from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def, split_input
from hpcflow.graph.opdef import registered_ops
from hpcflow.graph.tensor_proto import make_ndarray, make_tensor_proto
from hpcflow.graph_util.graph_defs import extract_sub_graph
from hpcflow.runtime.session.session import Session
from hpcflow.tools.graph_transforms.specs import Parameters, one
from hpcflow.tools.graph_transforms.steps import Task


def array_of(node: Any) -> np.ndarray:
    """The value of a Const node."""
    return make_ndarray(node.attr["value"].tensor)


def constant(node_type: Any, name: str, value: np.ndarray, dtype: Any = None) -> Any:
    """A Const node, of a quantized `dtype` if one is given."""
    dtype = as_dtype(value.dtype if dtype is None else dtype)
    node = node_type(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype=dtype))
    return node


def fold(task: Task, parameters: Parameters) -> None:
    """Put constants in the place of what depends on constants alone.

    What would have more than `max_constant_size_in_bytes` stays computed. With
    ``ignore_errors=true`` the graph stays as it is where folding fails.
    """
    try:
        _fold(task, int(one(parameters, "max_constant_size_in_bytes", "10485760")))
    except OpError:
        if one(parameters, "ignore_errors", "false").lower() != "true":
            raise


def _fold(task: Task, most: int) -> None:
    by_name = task.by_name()
    known = _known(task, by_name)
    read = {split_input(text)[0] for node in task.graph_def.node if node.name not in known
            for text in node.input}
    wanted = [n for n in by_name if n in known and by_name[n].op != "Const"
              and (n in read or n in task.outputs)]
    for name, value in _values(task, wanted).items():
        if value.nbytes <= most:
            device = by_name[name].device
            by_name[name].CopyFrom(constant(type(by_name[name]), name, value))
            by_name[name].device = device
    task.graph_def = extract_sub_graph(task.graph_def, [
        *task.outputs, *(n for n in task.inputs if n in by_name)])


def _known(task: Task, by_name: dict[str, Any]) -> set[str]:
    """The nodes whose only output depends on constants alone."""
    known: set[str] = set()
    waiting = list(by_name.values())
    while True:
        found = {n.name for n in waiting if _is_known(task, n, known)}
        if not found:
            return known
        known |= found
        waiting = [n for n in waiting if n.name not in found]


def _is_known(task: Task, node: Any, known: set[str]) -> bool:
    op_def = registered_ops().get(node.op)
    if op_def is None or op_def.is_stateful or len(op_def.outputs) != 1 or (
            node.name in task.inputs):
        return False
    if not node.input:
        return node.op == "Const"
    return all(not text.startswith("^") and text in known for text in node.input)


def _values(task: Task, names: list[str]) -> dict[str, np.ndarray]:
    if not names:
        return {}
    graph = Graph()
    with graph.as_default():
        import_graph_def(extract_sub_graph(task.graph_def, names), name="")
    with Session(graph=graph) as session:
        values = session.run([f"{name}:0" for name in names])
    return {n: np.asarray(v) for n, v in zip(names, values, strict=True)}


def round_weights(task: Task, parameters: Parameters) -> None:
    """Round the elements of each large float32 constant to `num_steps` values."""
    steps = int(one(parameters, "num_steps", "256"))
    for node in task.graph_def.node:
        if node.op != "Const":
            continue
        value = array_of(node)
        if value.dtype != np.float32 or value.size < 16:
            continue
        low, high = float(value.min()), float(value.max())
        step = (high - low) / steps or 1.0
        rounded = low + (np.floor((value - low) / step) + 0.5) * step
        node.CopyFrom(constant(type(node), node.name, rounded.astype(np.float32)))


def quantize_weights(task: Task, parameters: Parameters) -> None:
    """Keep each float32 constant of at least `minimum_size` elements as 8-bit numbers between its
    least and its largest element, or zero, which are made float32 again where it is read."""
    least = int(one(parameters, "minimum_size", "1024"))
    nodes = []
    for node in task.graph_def.node:
        value = array_of(node) if node.op == "Const" else None
        if value is None or value.dtype != np.float32 or value.size < least:
            nodes.append(node)
        else:
            nodes += _quantized(node, value)
    task.replace_nodes(nodes)


def _quantized(node: Any, value: np.ndarray) -> list[Any]:
    low = min(np.float32(0), value.min())
    high = max(np.finfo(np.float32).tiny, value.max())
    numbers = np.floor((value - low) / (high - low) * np.float32(255) + np.float32(0.5))
    kind = type(node)
    made = [constant(kind, f"{node.name}_quantized_const", numbers.astype(np.uint8), quint8),
            constant(kind, f"{node.name}_quantized_min", np.float32(low)),
            constant(kind, f"{node.name}_quantized_max", np.float32(high))]
    again = kind(name=node.name, op="Dequantize", input=[n.name for n in made])
    again.attr["T"].type = quint8.as_datatype_enum
    again.attr["mode"].s = b"MIN_FIRST"
    return [*made, again]
