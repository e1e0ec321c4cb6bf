"""fold: nodes whose inputs are constants are computed once, when the step is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.ir import (
    CONTROL_FLOW_TYPES,
    FEED,
    FETCH,
    Node,
    StepGraph,
    new_node,
)
from hpcflow.kernels.registry import SYNC, find_kernel

_LIMIT = 10 << 20  # bytes of a folded value

# What has no value of its own, or whose value is not a function of its inputs.
_NEVER = CONTROL_FLOW_TYPES | {FEED, FETCH, "_FetchOp", "Const", "NoOp", "ControlTrigger"}


def fold_constants(graph: StepGraph, instantiate: Callable[[Node, list], Any]) -> None:
    """Replace stateless nodes on constants by Const nodes.

    `instantiate(node, constants)` gives the CPU kernel function of a node. A kernel that raises
    is left in the graph, so that the error comes when and if the node runs.
    """
    for node in graph.nodes:
        _forward_static_shape(node)
        if not _foldable(node):
            continue
        values = [s.attrs["value"] for s, _ in node.inputs]
        outputs = _evaluate(node, values, instantiate)
        if outputs is not None:
            _become_constant(node, outputs)
    graph.sweep()


def _forward_static_shape(node: Node) -> None:
    """Shape, Size and Rank of a tensor of known shape do not need the tensor."""
    if node.type not in ("Shape", "Size", "Rank") or not node.inputs:
        return
    source, index = node.inputs[0]
    dims = source.dims[index] if index < len(source.dims) else None
    if dims is None or (None in dims and node.type != "Rank") or source.type in CONTROL_FLOW_TYPES:
        return
    if node.controls:
        return
    dtype = node.dtypes[0].np
    value = {"Shape": lambda: np.array(dims, dtype), "Rank": lambda: np.array(len(dims), dtype),
             "Size": lambda: np.array(np.prod(dims, dtype=np.int64), dtype)}[node.type]()
    _become_constant(node, [value])


def _foldable(node: Node) -> bool:
    return (bool(node.inputs) and not node.controls and len(node.dtypes) == 1
            and node.type not in _NEVER and not node.op_def.is_stateful
            and not node.dtypes[0]._is_ref_dtype and node.dtypes[0].name != "resource"
            and all(s.is_const for s, _ in node.inputs) and not node.type.startswith("Placeholder"))


def _evaluate(node: Node, values: list, instantiate: Callable) -> list | None:
    kernel = find_kernel(node.type, "CPU", node.attrs)
    if kernel is None or kernel.mode != SYNC:
        return None
    try:
        with np.errstate(all="ignore"):
            out = instantiate(node, values)(*values)
    except Exception:  # noqa: BLE001  (reported when the node runs)
        return None
    out = np.asarray(out, dtype=object if node.dtypes[0].name == "string" else None)
    return [out] if out.nbytes <= _LIMIT else None


def _become_constant(node: Node, values: list) -> None:
    value = values[0]
    if value.flags.writeable:
        value = value.copy()
        value.flags.writeable = False
    const = new_node("Const", node.name, {"dtype": node.dtypes[0], "value": value}, [], [],
                     node.device, [value.shape], node.order)
    for field in ("type", "op_def", "attrs", "inputs", "dims"):
        setattr(node, field, getattr(const, field))
