"""fold: nodes whose inputs are constants are computed once, when the step is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.ir.sizes import known_bytes
from hpcflow.compiler.ir.step_graph import (
    CONTROL_FLOW_TYPES,
    FEED,
    FETCH,
    Node,
    Port,
    StepGraph,
    new_node,
)
from hpcflow.host import memory
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC, find_kernel

# What has no value of its own, or whose value is not a function of its inputs.
_NEVER = CONTROL_FLOW_TYPES | {FEED, FETCH, "_FetchOp", "Const", "NoOp", "ControlTrigger"}


def fold_constants(graph: StepGraph, instantiate: Callable[[Node, list], Any]) -> None:
    """Replace stateless nodes on constants by Const nodes.

    `instantiate(node, constants)` gives the CPU kernel function of a node. A node whose kernel
    raises is left in the graph, so that the error comes when and if the node runs.
    """
    _Folder(graph, instantiate).run()


class _Folder:
    def __init__(self, graph: StepGraph, instantiate: Callable[[Node, list], Any]) -> None:
        self.graph = graph
        self.instantiate = instantiate
        self.replaced: dict[Port, Node] = {}  # outputs of nodes with several
        self.gone: set[Node] = set()
        self.conditional: set[Node] = set()  # nodes that do not run in every step, or often

    def run(self) -> None:
        result: list[Node] = []
        for node in self.graph.nodes:
            self._redirect(node)
            self._note_conditional(node)
            values = self._values(node)
            if values is None:
                result.append(node)
            elif len(values) == 1:
                _become_constant(node, values[0])
                result.append(node)
            else:
                result.extend(self._replace(node, values))
        self.graph.nodes = result
        self.graph.sweep()

    def _redirect(self, node: Node) -> None:
        if not self.gone:
            return
        if any(s in self.gone for s, _ in node.inputs):
            node.inputs = [(self.replaced[p], 0) if p in self.replaced else p
                           for p in node.inputs]
        if any(c in self.gone for c in node.controls):
            node.controls = [c for c in node.controls if c not in self.gone]

    def _note_conditional(self, node: Node) -> None:
        if node.type in CONTROL_FLOW_TYPES or self.conditional and (
                any(s in self.conditional for s, _ in node.inputs)
                or any(c in self.conditional for c in node.controls)):
            self.conditional.add(node)

    def _values(self, node: Node) -> list | None:
        """The outputs of `node`, if they are the same in every step."""
        if node.type in ("Shape", "ShapeN", "Size", "Rank") and not node.controls:
            return None if node in self.conditional else _static_shapes(node)
        return self._evaluate(node) if _foldable(node) else None

    def _evaluate(self, node: Node) -> list | None:
        kernel = find_kernel(node.type, "CPU", node.attrs)
        values = [s.attrs["value"] for s, _ in node.inputs]
        limit = max(tuning.FOLD_MOST_BYTES, sum(v.nbytes for v in values))
        if kernel is None or kernel.mode != SYNC or known_bytes(node) > limit:
            return None
        try:
            with np.errstate(all="ignore"):
                result = self.instantiate(node, values)(*values)
        except Exception:  # noqa: BLE001  (reported when the node runs)
            return None
        outputs = list(result) if len(node.dtypes) > 1 else [result]
        arrays = [as_constant(v, t.name == "string") for v, t in zip(outputs, node.dtypes,
                                                                    strict=True)]
        return arrays if sum(a.nbytes for a in arrays) <= limit else None

    def _replace(self, node: Node, values: list) -> list[Node]:
        constants = []
        for i, value in enumerate(values):
            const = _constant(node, value, i)
            self.replaced[(node, i)] = const
            constants.append(const)
        self.gone.add(node)
        return constants


def _static_shapes(node: Node) -> list | None:
    """The outputs of Shape, ShapeN, Size or Rank of tensors whose shapes are known."""
    values = []
    for (source, index), dtype in zip(node.inputs, node.dtypes, strict=True):
        dims = source.dims[index]
        if dims is None or (None in dims and node.type != "Rank"):
            return None
        value: Any = (len(dims) if node.type == "Rank" else
                      math.prod(dims) if node.type == "Size" else dims)
        try:
            values.append(np.array(value, dtype.np))
        except OverflowError:  # there is no such tensor
            return None
    return values


def _foldable(node: Node) -> bool:
    return (not node.controls and bool(node.dtypes)
            and node.type not in _NEVER and not node.op_def.is_stateful
            and all(s.is_const for s, _ in node.inputs)
            and not any(t._is_ref_dtype or t.name in ("resource", "variant") for t in node.dtypes)
            and not node.type.startswith("Placeholder"))


def as_constant(value: np.ndarray | np.generic | bytes, is_string: bool) -> np.ndarray:
    """`value` as an array of which nobody can change anything."""
    array = np.asarray(value, dtype=object if is_string else None)
    if array.flags.writeable or not memory.owns_memory(array):
        array = memory.copy(array)
    array.flags.writeable = False
    return array


def _constant(node: Node, value: np.ndarray, index: int) -> Node:
    const = new_node("Const", node.name, {"dtype": node.dtypes[index], "value": value}, [], [],
                     node.device, [value.shape], node.order)
    const.op, const.site = node.op, node.site
    return const


def _become_constant(node: Node, value: np.ndarray) -> None:
    """Constants keep the node's attributes of placement, so that nothing moves by folding."""
    const = _constant(node, as_constant(value, node.dtypes[0].name == "string"), 0)
    for field in ("type", "op_def", "attrs", "inputs", "dims"):
        setattr(node, field, getattr(const, field))
