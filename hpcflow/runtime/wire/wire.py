"""The wire format between tasks: control messages, and partitions as GraphDefs.

A control message is a fixed header, and for all but start and done a JSON part and a binary part.
Nothing here unpickles: a message can only be data.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.attr_values import Func, from_proto, to_proto
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.graph.opdef import get_op_def, has_op
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

# Kinds of messages.
(START, DONE, FAILED, ABORT, REQUEST, REPLY, LANE_OPEN, DEREGISTER, FINISHED, ALL_FINISHED,
 ANNOUNCE, REPORT, LOOP_VALUE, LOOP_DONE, COLLECTIVE, HEALTH,
 LOOP_GRANT, PREEMPT, CLOSED) = range(1, 20)

# Kind, flags, plan, lane, length of the JSON part (inside loops: the rank of the master), step.
HEADER = struct.Struct("<BxHIIIQ")


def pack(kind: int, plan: int = 0, lane: int = 0, step: int = 0, flags: int = 0,
         body: Any = None, blob: bytes = b"") -> bytes:
    """A control message."""
    text = b"" if body is None else json.dumps(body).encode()
    return HEADER.pack(kind, flags, plan, lane, len(text), step) + text + blob


def unpack(payload: bytes) -> tuple[int, int, int, int, int]:
    """(kind, flags, plan, lane, step) of a control message."""
    kind, flags, plan, lane, _, step = HEADER.unpack_from(payload)
    return kind, flags, plan, lane, step


def parts_of(payload: bytes) -> tuple[Any, bytes]:
    """The JSON part and the binary part of a control message."""
    length = HEADER.unpack_from(payload)[4]
    start = HEADER.size
    text = payload[start : start + length]
    return (json.loads(text) if text else None), payload[start + length :]


# ---------------------------------------------------------------- partitions


def encode_nodes(nodes: list[Node], library: FunctionLibrary | None = None) -> bytes:
    """A partition as a serialized GraphDef; what passes found out travels as attributes, and the
    functions of `library` that kernels of the nodes may call go with it."""
    from tensorboard.compat.proto import graph_pb2

    proto = graph_pb2.GraphDef()
    names = _unique_names(nodes)
    for node in nodes:
        out = proto.node.add(name=names[node], op=node.type, device=node.device)
        out.input.extend(f"{names[s]}:{i}" for s, i in node.inputs)
        out.input.extend(f"^{names[c]}" for c in node.controls)
        for key, value in node.attrs.items():
            out.attr[key].CopyFrom(to_proto(value))
        out.attr["_shapes"].CopyFrom(to_proto([TensorShape(d) for d in node.dims]))
        out.attr["_dtypes"].CopyFrom(to_proto(list(node.dtypes)))
        out.attr["_region"].s = repr(node.region).encode()
        out.attr["_absorbed"].b = node.absorbed
        out.attr["_order"].f = float(node.order) if node.order < 1e30 else 1e30
        out.attr["_name"].s = node.name.encode()
        site = node.creation_site
        if site is not None:
            out.attr["_site"].s = json.dumps(list(site)).encode()
    if library is not None and any(isinstance(v, Func) for n in nodes for v in n.attrs.values()):
        library.fill(proto.library)
    return proto.SerializeToString()


def _unique_names(nodes: list[Node]) -> dict[Node, str]:
    used: dict[str, int] = {}
    names = {}
    for node in nodes:
        count = used[node.name] = used.get(node.name, -1) + 1
        names[node] = node.name if not count else f"{node.name}#{count}"
    return names


def decode_nodes(data: bytes) -> tuple[list[Node], FunctionLibrary]:
    """The nodes of a partition, and the functions that their kernels may call;
    ``InvalidArgumentError`` lists op types that are not known here."""
    from tensorboard.compat.proto import graph_pb2

    proto = graph_pb2.GraphDef.FromString(data)
    missing = sorted({n.op for n in proto.node if not has_op(n.op)})
    if missing:
        raise InvalidArgumentError(None, None, "This task does not know the op types "
                                   f"{', '.join(missing)}: import what registers them on every "
                                   "rank")
    nodes: dict[str, Node] = {}
    for item in proto.node:
        nodes[item.name] = _decode(item)
    for item in proto.node:
        node = nodes[item.name]
        for text in item.input:
            if text.startswith("^"):
                node.controls.append(nodes[text[1:]])
            else:
                source, _, index = text.rpartition(":")
                node.inputs.append((nodes[source], int(index)))
    library = FunctionLibrary()
    library.add_protos(proto.library)
    return list(nodes.values()), library


def _decode(item: Message) -> Node:
    extra = {k: item.attr[k] for k in ("_shapes", "_dtypes", "_region", "_absorbed", "_order",
                                       "_name", "_site") if k in item.attr}
    attrs = {k: from_proto(v) for k, v in item.attr.items() if k not in extra}
    for attr in get_op_def(item.op).attrs:
        attrs.setdefault(attr.name, attr.default)
    dims = [s._dims for s in from_proto(extra["_shapes"])]
    node = Node(item.op, extra["_name"].s.decode(), get_op_def(item.op), attrs, [], [], item.device,
                from_proto(extra["_dtypes"]), dims, extra["_order"].f)
    node.region = extra["_region"].s.decode()
    node.absorbed = extra["_absorbed"].b
    if "_site" in extra:
        node.site = tuple(json.loads(extra["_site"].s))
    return node
