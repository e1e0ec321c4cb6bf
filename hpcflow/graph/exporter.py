"""GraphDef export: operations and op definitions as protobufs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.added_attrs import ADDED_LATER
from hpcflow.graph.attr_values import to_proto
from hpcflow.graph.opdef import REQUIRED, ArgDef, OpDef, op_def_proto
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph
    from hpcflow.graph.operation import Operation


def node_def(op: Operation) -> Any:
    """Return the ``NodeDef`` of `op`."""
    from tensorboard.compat.proto import node_def_pb2

    node = node_def_pb2.NodeDef(name=op.name, op=op.type, device=op.device)
    _fill(node, op)
    return node


def _fill(node: Message, op: Operation) -> None:
    node.input.extend([t._as_node_def_input() for t in op._inputs])
    node.input.extend([f"^{c.name}" for c in op._control_inputs])
    for key, value in op._attrs.items():
        if key not in ADDED_LATER or value != op.op_def.attr_map[key].default:
            node.attr[key].CopyFrom(to_proto(value))


def graph_def(graph: Graph, from_version: int | None, add_shapes: bool) -> Any:
    """Return the ``GraphDef`` of `graph`; see :meth:`Graph.as_graph_def`."""
    from tensorboard.compat.proto import graph_pb2

    proto = graph_pb2.GraphDef()
    proto.versions.CopyFrom(graph.graph_def_versions)
    for op in graph._ops[from_version or 0 :]:
        node = proto.node.add(name=op.name, op=op.type, device=op.device)
        _fill(node, op)
        if add_shapes and op._outputs:
            shapes = [TensorShape(t._dims) for t in op._outputs]
            node.attr["_output_shapes"].CopyFrom(to_proto(shapes))
    graph._library.fill(proto.library)
    return proto


@op_def_proto.provide
def op_def_to_proto(op_def: OpDef) -> Any:
    """Return `op_def` as an ``OpDef`` protobuf."""
    from tensorboard.compat.proto import op_def_pb2

    proto = op_def_pb2.OpDef(
        name=op_def.name, is_stateful=op_def.is_stateful, is_commutative=op_def.is_commutative,
        is_aggregate=op_def.is_aggregate,
        allows_uninitialized_input=op_def.allows_uninitialized_input,
    )
    for args, field in ((op_def.inputs, proto.input_arg), (op_def.outputs, proto.output_arg)):
        for arg in args:
            _fill_arg(field.add(), arg)
    for attr in op_def.attrs:
        out = proto.attr.add(name=attr.name, type=attr.type)
        if attr.default is not REQUIRED:
            out.default_value.CopyFrom(to_proto(attr.default))
        if attr.allowed is not None:
            out.allowed_values.CopyFrom(to_proto(list(attr.allowed)))
        if attr.minimum is not None:
            out.has_minimum, out.minimum = True, attr.minimum
    if op_def.deprecated:
        out = proto.deprecation
        out.explanation = op_def.deprecated
    return proto


def _fill_arg(out: Message, arg: ArgDef) -> None:
    out.name = arg.name
    out.is_ref = arg.is_ref
    if arg.type is not None:
        out.type = arg.type.enum
    for field in ("type_attr", "number_attr", "type_list_attr"):
        if getattr(arg, field):
            setattr(out, field, getattr(arg, field))
