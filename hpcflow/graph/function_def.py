"""FunctionDef: the body of a function as nodes of a GraphDef, and back.

In a FunctionDef an input is called by its argument (``x``), or by a node and its output argument
(``node:output:0``); in a GraphDef outputs are numbered (``node:0``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import dtypes
from hpcflow.graph.attr_values import canonical, from_proto, to_proto
from hpcflow.graph.opdef import ArgDef, AttrDef, OpDef
from hpcflow.graph.operation import (
    COLOCATION_ATTR,
    COLOCATION_PREFIX,
    Operation,
    Tensor,
    arg_length,
)
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message


class BodyDef(NamedTuple):
    """The nodes of a body, and the names of what it returns and must run (control outputs)."""

    nodes: list
    outputs: list[str]
    controls: list[str]


# ---------------------------------------------------------------- signatures


def op_def_from_proto(proto: Message) -> OpDef:
    """The definition that an ``OpDef`` protobuf describes.

    Raises ``ValueError`` for arguments whose types are not said.
    """
    attrs = [_attr_def(a) for a in proto.attr]
    kinds = {attr.name: attr.type for attr in attrs}
    for arg in (*proto.input_arg, *proto.output_arg):
        _check_arg(proto.name, arg, kinds)
    op_def = OpDef(proto.name, map(_arg_def, proto.input_arg), map(_arg_def, proto.output_arg),
                   attrs)
    op_def.is_stateful = proto.is_stateful
    return op_def


def _arg_def(proto: Message) -> ArgDef:
    return ArgDef(proto.name, dtypes.as_dtype(proto.type) if proto.type else None,
                  proto.type_attr or None, proto.number_attr or None, proto.type_list_attr or None,
                  proto.is_ref)


def _check_arg(owner: str, arg: Message, kinds: dict[str, str]) -> None:
    """Raise ``ValueError`` unless an argument of `owner` has a type, or attributes that say it."""
    if not (arg.type or arg.type_attr or arg.type_list_attr):
        raise ValueError(f"Argument '{arg.name}' of '{owner}' has no type")
    for name, kind in ((arg.type_attr, "type"), (arg.number_attr, "int"),
                       (arg.type_list_attr, "list(type)")):
        if name and kinds.get(name) != kind:
            raise ValueError(f"Argument '{arg.name}' of '{owner}' needs an attribute '{name}' of "
                             f"type {kind}, which it does not have")


def _attr_def(proto: Message) -> AttrDef:
    attr = AttrDef(proto.name, proto.type,
                   allowed=tuple(from_proto(proto.allowed_values) or ())
                   if proto.HasField("allowed_values") else None,
                   minimum=proto.minimum if proto.has_minimum else None)
    if not proto.HasField("default_value"):
        return attr
    return attr._replace(default=canonical(from_proto(proto.default_value), attr, ""))


# ---------------------------------------------------------------- from FunctionDef


def body_of(function_def: Message, attrs: dict[str, Any],
            op_def_of: Callable[[str], OpDef]) -> BodyDef:
    """The body for the attributes `attrs` of a call (own form).

    Raises ``ValueError`` for a placeholder that is no attribute, and for names that do not exist.
    """
    nodes = []
    for node in function_def.node_def:
        copy = type(node)()
        copy.CopyFrom(node)
        for key in node.attr:
            _substitute(copy.attr[key], attrs, f"'{key}' of node '{node.name}'")
        nodes.append(copy)
    known = {n.name for n in nodes}
    for node in nodes:
        _drop_groups(node, known)
    names = _Names(function_def, nodes, attrs, op_def_of)
    for node in nodes:
        node.input[:] = [names.translate(text) for text in node.input]
    outputs = []
    for arg in function_def.signature.output_arg:
        if arg.name not in function_def.ret:
            raise ValueError(f"Function '{function_def.signature.name}' does not say what it "
                             f"returns as '{arg.name}'")
        first = function_def.ret[arg.name]
        outputs += names.several(first, arg_length(_arg_def(arg), attrs))
    return BodyDef(nodes, outputs, [function_def.control_ret[k] for k in function_def.control_ret])


def _substitute(value: Message, attrs: dict[str, Any], where: str) -> None:
    """Replace placeholders, also those in the attributes of functions."""
    kind = value.WhichOneof("value")
    if kind == "placeholder":
        name = value.placeholder
        if name not in attrs:
            raise ValueError(f"Attribute {where} stands for '{name}', which the call does not have")
        value.CopyFrom(to_proto(attrs[name]))
    elif kind == "func":
        for key in value.func.attr:
            _substitute(value.func.attr[key], attrs, where)
    elif kind == "list":
        for func in value.list.func:
            for key in func.attr:
                _substitute(func.attr[key], attrs, where)


def _drop_groups(node: Message, known: set[str]) -> None:
    """Where an argument comes from is not known, so nothing is colocated with it."""
    if COLOCATION_ATTR not in node.attr:
        return
    groups = node.attr[COLOCATION_ATTR].list.s
    own = {COLOCATION_PREFIX + name.encode() for name in known}
    kept = [g for g in groups if not g.startswith(COLOCATION_PREFIX) or g in own]
    groups[:] = kept
    if not kept:
        del node.attr[COLOCATION_ATTR]


class _Names:
    """Translates the names of values."""

    def __init__(self, function_def: Message, nodes: list, attrs: dict[str, Any],
                 op_def_of: Callable[[str], OpDef]) -> None:
        self.function = function_def.signature.name
        self.args = {a.name for a in function_def.signature.input_arg}
        self.nodes = {n.name: n for n in nodes}
        self.op_def_of = op_def_of

    def translate(self, text: str) -> str:
        """The GraphDef form of an input."""
        if text.startswith("^"):
            return text
        name, *rest = text.split(":")
        if name in self.args:
            return f"{name}:{rest[-1]}" if rest else name
        if name not in self.nodes:
            raise ValueError(f"Function '{self.function}' has no value called '{text}'")
        if len(rest) < 2:
            return text if not rest or rest[0].isdigit() else f"{name}:{self._start(name, rest[0])}"
        return f"{name}:{self._start(name, rest[0]) + int(rest[1])}"

    def several(self, text: str, count: int) -> list[str]:
        """The GraphDef forms of `count` values from `text` on."""
        first = self.translate(text)
        if count == 1:
            return [first]
        name, _, index = first.partition(":")
        return [f"{name}:{int(index or 0) + i}" for i in range(count)]

    def _start(self, node_name: str, output: str) -> int:
        """The number of the first output of an output argument."""
        node, start = self.nodes[node_name], 0
        op_def = self.op_def_of(node.op)
        attrs = {a.name: from_proto(node.attr[a.name]) if a.name in node.attr else a.default
                 for a in op_def.attrs}
        for arg in op_def.outputs:
            if arg.name == output:
                return start
            start += arg_length(arg, attrs)
        raise ValueError(f"Function '{self.function}': {node.op} node '{node_name}' has no output "
                         f"'{output}'")


# ---------------------------------------------------------------- to FunctionDef


def function_def(name: str, ops: list[Operation], inputs: list[Tensor], input_names: list[str],
                 outputs: list[Tensor], output_names: list[str], controls: list[Operation],
                 attrs: dict[str, Any]) -> Any:
    """The ``FunctionDef`` of a body: `ops` compute `outputs` from `inputs`; `controls` must run."""
    from tensorboard.compat.proto import function_pb2

    proto = function_pb2.FunctionDef()
    signature = proto.signature
    signature.name = name
    signature.is_stateful = any(op.op_def.is_stateful for op in ops)
    names: dict[Tensor, str] = {}
    for tensor, arg in zip(inputs, input_names, strict=True):
        signature.input_arg.add(name=arg, type=tensor.dtype.base_dtype.enum)
        names[tensor] = arg
    awaited = {tensor.op: arg for tensor, arg in names.items()}
    for i, tensor in enumerate(inputs):
        if tensor._dims is not None:
            shapes = to_proto([TensorShape(tensor._dims)])
            proto.arg_attr[i].attr["_output_shapes"].CopyFrom(shapes)
    for op in ops:
        node = proto.node_def.add(name=op.name, op=op.type, device=op.device)
        node.input.extend(_name_in(t, names) for t in op._inputs)
        node.input.extend(f"^{awaited.get(c, c.name)}" for c in op._control_inputs)
        for key, value in op._attrs.items():
            node.attr[key].CopyFrom(to_proto(value))
    for tensor, result in zip(outputs, output_names, strict=True):
        signature.output_arg.add(name=result, type=tensor.dtype.base_dtype.enum)
        proto.ret[result] = _name_in(tensor, names)
    for op in controls:
        signature.control_output.append(op.name)
        proto.control_ret[op.name] = op.name
    for key, value in attrs.items():
        proto.attr[key].CopyFrom(to_proto(value))
    return proto


def _name_in(tensor: Tensor, names: dict[Tensor, str]) -> str:
    """``node:output argument:number``, or the name of an argument of the function."""
    found = names.get(tensor)
    if found is not None:
        return found
    op, start = tensor.op, 0
    for arg in op.op_def.outputs:
        count = arg_length(arg, op._attrs)
        if tensor.value_index < start + count:
            return f"{op.name}:{arg.name}:{tensor.value_index - start}"
        start += count
    raise AssertionError(f"{tensor!r} is no output of its operation")

