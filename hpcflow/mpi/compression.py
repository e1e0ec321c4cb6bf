"""Edges between ranks that carry fewer bits."""

from __future__ import annotations

from hpcflow.compiler.distribute.compress import Rule
from hpcflow.device_spec import DeviceSpec
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.graph import Graph, get_default_graph


def compress(dtype: str | None = "bfloat16", source: str = "", destination: str = "",
             graph: Graph | None = None) -> None:
    """Let edges between tasks carry float32 values as `dtype`, by device pair.

    Holds for all sessions on `graph` (the default graph), for edges from the devices that `source`
    names to those that `destination` names; both may be partial device names, and "" names all.
    The last call that fits an edge decides; None as `dtype` sends all bits again. ``"bfloat16"``
    sends the upper 16 bits of each element, and the receiver fills the lower ones with zeros: the
    range is that of float32, the precision 8 bits, rounded towards zero. Other dtypes, and edges
    between devices of one task, are left alone.

    Raises ``InvalidArgumentError`` for another `dtype`, ``ValueError`` for a malformed device.
    """
    if dtype not in ("bfloat16", None):
        raise InvalidArgumentError(
            None, None, f"Edges cannot be compressed to {dtype!r}: expected 'bfloat16' or None")
    for name in (source, destination):
        DeviceSpec.from_string(name)
    graph = graph or get_default_graph()
    graph._compression.append(Rule(dtype, source, destination))
    graph._mutated()
