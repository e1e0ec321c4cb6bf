"""compress: marks the edges between tasks that carry only half of the bits of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.ir.step_graph import RECV, SEND, Node
from hpcflow.device_spec import DeviceSpec
from hpcflow.dtypes import float32

#: The attribute of Send and Recv nodes whose edge is compressed.
ATTR = "compress"


class Rule(NamedTuple):
    """Edges from devices that `source` names to those that `destination` names (each may be
    partial, "" names all) carry `dtype`, or their own if it is None."""

    dtype: str | None
    source: str = ""
    destination: str = ""


def compress_edges(nodes: Sequence[Node], rules: Sequence[Rule]) -> None:
    """Mark the edges of float32 between tasks for which the last rule that fits says so."""
    for node in nodes:
        if node.type not in (SEND, RECV):
            continue
        if node.attrs["T" if node.type == SEND else "tensor_type"] is not float32:
            continue
        ends = (node.attrs["send_device"].decode(), node.attrs["recv_device"].decode())
        if task_of(ends[0]) == task_of(ends[1]):
            continue
        fitting = [r for r in rules if _names(r.source, ends[0]) and _names(r.destination, ends[1])]
        if fitting and fitting[-1].dtype is not None:
            node.attrs[ATTR] = fitting[-1].dtype.encode()


def _names(partial: str, device: str) -> bool:
    """True if `device` is one of those that the partial name stands for."""
    want, have = DeviceSpec.from_string(partial), DeviceSpec.from_string(device)
    return all(getattr(want, part) in (None, getattr(have, part))
               for part in ("job", "replica", "task", "device_type", "device_index"))
