"""Kinds of control flow operations (``python.ops.control_flow_util``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcflow.graph.operation import Operation

if TYPE_CHECKING:
    from hpcflow.graph.graph import Graph

ENABLE_CONTROL_FLOW_V2 = False


def IsSwitch(op: Operation) -> bool:
    """Return whether `op` is a Switch."""
    return op.type in ("Switch", "RefSwitch")


def IsMerge(op: Operation) -> bool:
    """Return whether `op` is a Merge."""
    return op.type in ("Merge", "RefMerge")


def IsLoopEnter(op: Operation) -> bool:
    """Return whether `op` is an Enter."""
    return op.type in ("Enter", "RefEnter")


def IsLoopExit(op: Operation) -> bool:
    """Return whether `op` is an Exit."""
    return op.type in ("Exit", "RefExit")


def IsLoopConstantEnter(op: Operation) -> bool:
    """Return whether `op` brings a value into a loop that is the same in every iteration."""
    return IsLoopEnter(op) and bool(op.get_attr("is_constant"))


def GetContainingXLAContext(ctxt: object) -> None:
    """Return None: nothing is compiled by XLA."""


def GraphOrParentsInXlaContext(graph: Graph) -> bool:
    """Return False: nothing is compiled by XLA."""
    return False


def InXlaContext(graph: Graph) -> bool:
    """Return False: nothing is compiled by XLA."""
    return False
