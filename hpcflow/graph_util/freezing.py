"""Freezing: the variables of a GraphDef become constants, and what reads them reads these.

A variable reaches its readers as a handle or a reference, perhaps through control flow or calls of
functions: the nodes on the way pass its value on instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.attr_values import to_proto
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
# Op that calls functions -> the attributes that name them, that of the arguments' types, and the
# position of the first argument.
_CALLS = {
    "PartitionedCall": (("f",), "Tin", 0), "StatefulPartitionedCall": (("f",), "Tin", 0),
    "If": (("then_branch", "else_branch"), "Tin", 1),
    "StatelessIf": (("then_branch", "else_branch"), "Tin", 1),
    "While": (("cond", "body"), "T", 0), "StatelessWhile": (("cond", "body"), "T", 0),
    "Case": (("branches",), "Tin", 1), "StatelessCase": (("branches",), "Tin", 1),
}
_ASKS = frozenset({"VarIsInitializedOp", "IsVariableInitialized"})


class _Nodes:
    """Nodes that are changed in place: what carries one of some variables carries its value.

    Args:
        nodes: the nodes, a repeated field of a protobuf.
        carried: names of what carries a variable at the beginning, each with its element type.
        functions: makes functions that take values.
    """

    def __init__(self, nodes: Any, carried: dict[str, int], functions: _Functions) -> None:
        self._all, self._functions = nodes, functions
        self._nodes = {node.name: node for node in nodes}
        self._variables = {name: name for name in carried}  # what carries one -> the variable
        self._types = dict(carried)
        self._follow()
        for node in list(nodes):
            self._convert(node)

    def _carried(self, node: Message) -> Iterator[tuple[int, str]]:
        """(position, variable) of the inputs that carry one."""
        for position, text in enumerate(node.input):
            source = text.split(":")[0]
            if source in self._variables:
                yield position, self._variables[source]

    def _follow(self) -> None:
        """Find the nodes that pass a variable on; those of loops need more than one look."""
        candidates = [n for n in self._all if _passes_variables(n)]
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
        elif self._is_handle(variable) and self._functions.are_called_by(node):
            self._functions.call_with_values(node, {
                position: self._types[name] for position, name in carried.items()})
        elif self._is_handle(variable) or self._takes_reference(node, set(carried)):
            raise ValueError(
                f"Cannot make variable '{variable}' a constant: node '{node.name}' of type "
                f"{node.op} needs the variable itself, and not just its value; name outputs that "
                "do not depend on it, or keep the variable (variable_names_blacklist)")

    def _is_handle(self, variable: str) -> bool:
        return variable not in self._nodes or self._nodes[variable].op == "VarHandleOp"

    def _takes_reference(self, node: Message, positions: set[int]) -> bool:
        """True if one of the inputs at `positions` has to be a reference."""
        if self._functions.are_called_by(node):
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
            self._add_axis(node)

    def _add_axis(self, node: Any) -> None:
        """Give a GatherV2 its third input, the axis 0."""
        axis = self._all.add(name=self._free_name(f"{node.name}/axis"), op="Const",
                             device=node.device)
        source = node.input[0].split(":")[0]
        if source not in self._types:  # alive where the variable is: in a branch, in a loop
            axis.input.append(f"^{source}")
        _set_value(axis, np.array(0, np.int32), dtypes.int32)
        data = [t for t in node.input if not t.startswith("^")]
        node.input[:] = [*data, self._first_output(axis.name), *node.input[len(data):]]
        node.attr["Taxis"].type = dtypes.int32.enum

    def _first_output(self, name: str) -> str:
        """The text of an input that reads the first output of a node."""
        return name

    def _free_name(self, name: str) -> str:
        while name in self._nodes:
            name += "_1"
        return name


class Frozen(_Nodes):
    """The nodes of `graph_def`, changed in place: each variable of `values` (name -> array) is a
    constant. Functions that take a variable take its value.

    Raises ``ValueError`` for a node that needs such a variable as more than a value, as what
    writes it does.
    """

    def __init__(self, graph_def: Message, values: dict[str, np.ndarray]) -> None:
        nodes: Any = graph_def.node  # type: ignore[attr-defined]
        types = {node.name: node.attr["dtype"].type for node in nodes if node.name in values}
        functions = _Functions(graph_def)
        super().__init__(nodes, types, functions)
        functions.drop_replaced(nodes)
        for name, value in values.items():
            _make_constant(self._nodes[name], value)


class _Body(_Nodes):
    """The nodes of a function some of whose arguments are values instead of handles."""

    def __init__(self, function: Any, types: dict[str, int], functions: _Functions) -> None:
        before = {node.name: node.op for node in function.node_def}
        super().__init__(function.node_def, types, functions)
        changed = {n.name for n in function.node_def if before.get(n.name) in _READERS}
        for node in function.node_def:
            node.input[:] = [_renamed(text, changed) for text in node.input]
        outputs = {arg.name: arg for arg in function.signature.output_arg}
        for name, text in list(function.ret.items()):
            function.ret[name] = _renamed(text, changed)
            variable = self._variables.get(text.split(":")[0])
            if variable is not None:
                outputs[name].type = self._types[variable]

    def _first_output(self, name: str) -> str:
        return f"{name}:output:0"


def _renamed(text: str, changed: set[str]) -> str:
    """The text of an input of a function's node; outputs of readers are called ``output`` now."""
    name, *rest = text.split(":")
    return f"{name}:output:{rest[-1]}" if rest and name in changed else text


class _Functions:
    """The functions of a GraphDef, and copies of them that take values for handles."""

    def __init__(self, graph_def: Any) -> None:
        self._library = graph_def.library
        self._by_name = {f.signature.name: f for f in self._library.function}
        self._made: dict[tuple, str] = {}

    def are_called_by(self, node: Any) -> bool:
        """True for a node that calls functions with its inputs."""
        return node.op in self._by_name or node.op in _CALLS

    def call_with_values(self, node: Any, types: dict[int, int]) -> None:
        """Let a node call functions that take values at the positions of `types`."""
        if node.op in self._by_name:
            node.op = self._with_values(node.op, types)
            return
        attrs, list_attr, offset = _CALLS[node.op]
        for attr in attrs:
            value = node.attr[attr]
            for function in value.list.func if value.HasField("list") else [value.func]:
                function.name = self._with_values(function.name, {
                    position - offset: kind for position, kind in types.items()})
        for position, kind in types.items():
            node.attr[list_attr].list.type[position - offset] = kind

    def _with_values(self, name: str, types: dict[int, int]) -> str:
        """The name of the copy of a function whose arguments have the `types`."""
        key = name, tuple(sorted(types.items()))
        if key not in self._made:
            self._made[key] = self._free(f"{name}_frozen")
            function = self._library.function.add()
            function.CopyFrom(self._by_name[name])
            function.signature.name = self._made[key]
            self._by_name[self._made[key]] = function
            arguments = function.signature.input_arg
            for position, kind in types.items():
                arguments[position].type = kind
            _Body(function, {arguments[p].name: kind for p, kind in types.items()}, self)
        return self._made[key]

    def drop_replaced(self, nodes: Any) -> None:
        """Remove functions whose copies have taken their place everywhere."""
        replaced = {name for name, _ in self._made}
        used: set[str] = set()
        found = _called_by(nodes) & self._by_name.keys()
        while found:
            used |= found
            found = {other for name in found for other in _called_by(self._by_name[name].node_def)
                     if other in self._by_name} - used
        kept = [f for f in self._library.function if f.signature.name not in replaced - used]
        copies = [type(f).FromString(f.SerializeToString()) for f in kept]
        del self._library.function[:]
        self._library.function.extend(copies)

    def _free(self, name: str) -> str:
        while name in self._by_name:
            name += "_1"
        return name


def _called_by(nodes: Any) -> set[str]:
    """The names of functions that nodes call or hold."""
    found = {node.op for node in nodes}
    for node in nodes:
        for value in node.attr.values():
            held = value.list.func if value.HasField("list") else [value.func]
            found |= {function.name for function in held if function.name}
    return found


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
