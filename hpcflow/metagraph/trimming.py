"""Removal of needless parts of a MetaGraph: attributes with default values, ops of savers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.graph.attr_values import to_proto
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.opdef import REQUIRED, get_op_def, has_op

if TYPE_CHECKING:
    from google.protobuf.message import Message


def strip_default_attrs(meta: Message) -> None:
    """Remove the attributes of nodes, those in functions too, that have their default values.

    Readers that do not know an attribute then read graphs that do not use it.
    """
    for node in _nodes(meta.graph_def):
        if not has_op(node.op):
            continue
        for attr in get_op_def(node.op).attrs:
            if (attr.default is not REQUIRED and attr.name in node.attr
                    and node.attr[attr.name] == to_proto(attr.default)):
                del node.attr[attr.name]
    meta.meta_info_def.stripped_default_attrs = True


def clear_extraneous_savers(meta: Message) -> None:
    """Remove the savers of the collection of savers, and their operations, except for the one that
    the MetaGraph names."""
    from tensorboard.compat.proto.saver_pb2 import SaverDef

    collection = meta.collection_def[GraphKeys.SAVERS].bytes_list.value
    own = _scope(meta.saver_def)
    others = {_scope(SaverDef.FromString(value)) for value in collection} - {own}
    kept = [n for n in meta.graph_def.node if not n.name.startswith(tuple(others))]
    copies = [type(n).FromString(n.SerializeToString()) for n in kept]
    del meta.graph_def.node[:]
    meta.graph_def.node.extend(copies)
    named = [v for v in collection if _scope(SaverDef.FromString(v)) == own]
    del collection[:]
    collection.extend(named)
    if not named:
        del meta.collection_def[GraphKeys.SAVERS]


def _nodes(graph_def: Message) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _scope(saver_def: Message) -> str:
    """The name scope of a saver's operations, with the slash."""
    return f"{saver_def.restore_op_name.rpartition('/')[0]}/"
