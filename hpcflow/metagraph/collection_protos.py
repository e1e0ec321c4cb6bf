"""Conversion of the items of graph collections to protobufs and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.flow import context_protos

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.ops.state.variables import Variable
    from hpcflow.train.saver import Saver


class ProtoFunctions(NamedTuple):
    """The forms of a collection's items.

    ``proto_type()`` is the protobuf class; ``to_proto(item, export_scope)`` returns a protobuf or
    None; ``from_proto(proto, import_scope)`` returns an item.
    """

    proto_type: Callable[[], Any]
    to_proto: Callable[[Any, str | None], Any]
    from_proto: Callable[[Any, str | None], Any]


_REGISTRY: dict[str, ProtoFunctions] = {}


def register_proto_function(collection_name: str, proto_type: Callable[[], Any],
                            to_proto: Callable, from_proto: Callable) -> None:
    """Let MetaGraphs carry the items of a collection; see :class:`ProtoFunctions`.

    Raises KeyError if the collection has been registered.
    """
    if collection_name in _REGISTRY:
        raise KeyError(f"collection '{collection_name}' has proto functions already")
    _REGISTRY[collection_name] = ProtoFunctions(proto_type, to_proto, from_proto)


def proto_functions(collection_name: str) -> ProtoFunctions | None:
    """The functions registered for a collection, or None."""
    return _REGISTRY.get(collection_name)


def own_proto(item: Variable | Saver, export_scope: str | None) -> Any:
    """Return the protobuf that `item` makes of itself."""
    return item.to_proto(export_scope=export_scope)


def _variable_type() -> Any:
    from tensorboard.compat.proto.variable_pb2 import VariableDef

    return VariableDef


def _variable_from_proto(proto: Message, import_scope: str | None) -> Any:
    from hpcflow.ops.state.variables import Variable

    return Variable.from_proto(proto, import_scope=import_scope)


_VARIABLE_COLLECTIONS = (
    GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES, GraphKeys.LOCAL_VARIABLES,
    GraphKeys.METRIC_VARIABLES,
    GraphKeys.MODEL_VARIABLES, GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.WEIGHTS,
    GraphKeys.BIASES, GraphKeys.GLOBAL_STEP)  # fmt: skip
for _key in _VARIABLE_COLLECTIONS:
    register_proto_function(_key, _variable_type, own_proto, _variable_from_proto)


def _context_type(name: str) -> Callable[[], Any]:
    def proto_type() -> Any:
        from hpcflow.base.formats.protos import message_class

        return message_class(name)

    return proto_type


register_proto_function(
    GraphKeys.COND_CONTEXT, _context_type("CondContextDef"), context_protos.to_proto,
    context_protos.from_proto)
register_proto_function(
    GraphKeys.WHILE_CONTEXT, _context_type("WhileContextDef"), context_protos.to_proto,
    context_protos.from_proto)
