"""Placement apart from the model: devices of a GraphDef replaced by a function or a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.distribute.placement_file import NO_DEVICE, Placement, checked_device
from hpcflow.graph.graph import Graph

if TYPE_CHECKING:
    from google.protobuf.message import Message

Rule = Callable[[Any], str | None]


def replace_devices(graph_def: Message, placement: Any) -> Any:
    """Return a copy of a GraphDef with other devices, also in its functions.

    Args:
        graph_def: a ``GraphDef``.
        placement: what decides: the path of a placement file (``hpcflow.placement``); a function of
            a ``NodeDef`` that returns a device, None to leave the node's as it is or "" for none;
            or a dict from patterns to devices, as in a file.

    Raises ``ValueError`` naming the line or the node for a device or a pattern that is not one,
    ``OSError`` for a file that cannot be read, ``TypeError`` for anything else as `placement`.
    """
    choose = _rule(placement)
    result = type(graph_def)()
    result.CopyFrom(graph_def)
    for nodes in (result.node, *(f.node_def for f in result.library.function)):
        for node in nodes:
            device = choose(node)
            if device is not None:
                node.device = checked_device(device, f"node '{node.name}'")
    return result


def write_placement(graph: Graph, path: str) -> None:
    """Write the devices of a Graph or GraphDef as a placement file, to be edited."""
    proto = graph.as_graph_def() if isinstance(graph, Graph) else graph
    Placement({re.escape(n.name): n.device for n in proto.node}).save(path)


def _rule(placement: Any) -> Rule:
    if isinstance(placement, dict):
        rules = Placement({p: "" if d == NO_DEVICE else d for p, d in placement.items()})
    elif callable(placement):
        return placement
    elif isinstance(placement, (str, os.PathLike)):
        rules = Placement.load(placement)
    else:
        raise TypeError(f"a placement is a file, a dict or a function, got {placement!r}")
    choose = rules.choice()
    return lambda node: choose(node.name, node.op)
