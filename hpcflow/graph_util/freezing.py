"""Freezing: the variables of a GraphDef become constants, and what reads them reads these.

A variable reaches its readers as a handle or a reference, perhaps through control flow: the nodes
on the way pass its value on instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.attr_values import to_proto
from hpcflow.graph.importer import split_input
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.opdef import get_op_def
from hpcflow.graph.operation import arg_length
from hpcflow.graph.raw import raw_ops

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph

VARIABLE_TYPES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_PASSING = frozenset({"Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"})
_RESOURCE = dtypes.resource.enum
# Reader of a handle -> the op that reads a value, and for each of its attributes the one it was.
_READERS = {
    "ReadVariableOp": ("Identity", {"T": "dtype"}),
    "ResourceGather": ("GatherV2", {"Tparams": "dtype", "Tindices": "Tindices",
                                    "batch_dims": "batch_dims"}),
    "ResourceGatherNd": ("GatherNd", {"Tparams": "dtype", "Tindices": "Tindices"}),
    "VariableShape": ("Shape", {"out_type": "out_type"}),
}  # fmt: skip
_ASKS = frozenset({"VarIsInitializedOp", "IsVariableInitialized"})


class Frozen:
    """The nodes of `graph_def`, changed in place: each variable of `values` (name -> array) is a
    constant.

    Raises ``ValueError`` for a node that needs such a variable as more than a value, as what
    writes it does.
    """

    def __init__(self, graph_def: Message, values: dict[str, np.ndarray]) -> None:
        self._graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        self._variables = {name: name for name in values}  # what carries one -> the variable
        self._types = {name: self._nodes[name].attr["dtype"].type for name in values}
        self._follow()
        for node in list(graph_def.node):
            self._convert(node)
        for name, value in values.items():
            _make_constant(self._nodes[name], value)

    def _carried(self, node: Message) -> Iterator[tuple[int, str]]:
        """(position, variable) of the inputs that carry one."""
        for position, text in enumerate(node.input):
            source = split_input(text)[0]
            if not text.startswith("^") and source in self._variables:
                yield position, self._variables[source]

    def _follow(self) -> None:
        """Find the nodes that pass a variable on; those of loops need more than one look."""
        candidates = [n for n in self._graph_def.node if _passes_variables(n)]
        found = True
        while found:
            found = False
            for node in candidates:
                carried = [v for position, v in self._carried(node)
                           if position == 0 or node.op.endswith("Merge")]
                if carried and node.name not in self._variables:
                    self._variables[node.name] = carried[0]
                    found = True

    def _convert(self, node: Any) -> None:
        carried = dict(self._carried(node))
        if not carried or node.name in self._types:
            return
        variable = next(iter(carried.values()))
        if node.name in self._variables:
            node.op = node.op.removeprefix("Ref")
            node.attr["T"].type = self._types[variable]
            return
        if node.op in _ASKS:
            _rewrite(node, "Const", {})
            node.input[:] = [t for t in node.input if t.startswith("^")]
            _set_value(node, np.array(True), dtypes.bool)
        elif node.op == "DisableCopyOnRead":
            _rewrite(node, "NoOp", {})
            node.input[:] = [t for t in node.input if t.startswith("^")]
        elif node.op in _READERS and list(carried) == [0]:
            self._read(node, variable)
        elif self._is_handle(variable) or self._takes_reference(node, set(carried)):
            raise ValueError(
                f"Cannot make variable '{variable}' a constant: node '{node.name}' of type "
                f"{node.op} needs the variable itself, and not just its value; name outputs that "
                "do not depend on it, or keep the variable (variable_names_blacklist)")

    def _is_handle(self, variable: str) -> bool:
        return self._nodes[variable].op == "VarHandleOp"

    def _takes_reference(self, node: Message, positions: set[int]) -> bool:
        """True if one of the inputs at `positions` has to be a reference."""
        if any(f.signature.name == node.op for f in self._graph_def.library.function):
            return False
        op_def = get_op_def(node.op)
        if not any(a.is_ref for a in op_def.inputs):
            return False
        flags = [a.is_ref for a in op_def.inputs for _ in range(arg_length(a, _lengths(node)))]
        return any(flags[p] for p in positions)

    def _read(self, node: Any, variable: str) -> None:
        kind, attrs = _READERS[node.op]
        _rewrite(node, kind, attrs)
        if kind == "Shape":
            node.attr["T"].type = self._types[variable]
        if kind == "GatherV2":
            axis = self._graph_def.node.add(name=self._free_name(f"{node.name}/axis"), op="Const",
                                            device=node.device)
            source = split_input(node.input[0])[0]
            if source not in self._types:  # alive where the variable is: in a branch, in a loop
                axis.input.append(f"^{source}")
            _set_value(axis, np.array(0, np.int32), dtypes.int32)
            data = [t for t in node.input if not t.startswith("^")]
            node.input[:] = [*data, axis.name, *node.input[len(data):]]
            node.attr["Taxis"].type = dtypes.int32.enum

    def _free_name(self, name: str) -> str:
        while name in self._nodes:
            name += "_1"
        return name


def values_of(sess: SessionLike, graph_def: Message, names: list[str]) -> dict[str, np.ndarray]:
    """The values that the variables `names` of `graph_def` have in a session."""
    kinds = {node.name: node.op for node in graph_def.node if node.name in names}
    fetches = [_read_of(sess.graph, n) if kinds[n] == "VarHandleOp" else f"{n}:0" for n in names]
    return dict(zip(names, sess.run(fetches), strict=True)) if names else {}


def _read_of(graph: Graph, variable: str) -> Any:
    """A tensor that has the value behind a handle, and waits for nothing."""
    handle = graph.get_tensor_by_name(f"{variable}:0")
    for op in handle.consumers():
        if op.type == "ReadVariableOp" and not op.control_inputs:
            return op.outputs[0]
    with graph.as_default(), graph.control_dependencies(None):
        return raw_ops.ReadVariableOp(resource=handle, dtype=handle.op.attr("dtype"))


def _passes_variables(node: Message) -> bool:
    kind = node.op.removeprefix("Ref")
    if kind not in _PASSING:
        return False
    return node.op != kind or node.attr["T"].type == _RESOURCE


def _lengths(node: Any) -> dict[str, Any]:
    return {name: value.i if value.HasField("i") else list(value.list.type)
            for name, value in node.attr.items()}


def _rewrite(node: Message, kind: str, attrs: dict[str, str]) -> None:
    """Make a node one of type `kind`, whose attributes have the values of those it had."""
    kept = {new: type(node.attr[old]).FromString(node.attr[old].SerializeToString())
            for new, old in attrs.items() if old in node.attr}
    node.op = kind
    node.attr.clear()
    for name, value in kept.items():
        node.attr[name].CopyFrom(value)


def _make_constant(node: Message, value: np.ndarray | np.generic) -> None:
    dtype = dtypes.as_dtype(node.attr["dtype"].type)
    _rewrite(node, "Const", {})
    _set_value(node, value, dtype)


def _set_value(node: Message, value: np.ndarray | np.generic, dtype: dtypes.DType) -> None:
    from hpcflow.graph.tensor_proto import make_tensor_proto

    node.attr["dtype"].CopyFrom(to_proto(dtype))
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype))
