"""Kinds of control flow operations (``python.ops.control_flow_util``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.operation import Operation
from hpcflow.ops.flow.control_flow_context import output_context

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


def IsCondSwitch(op: Operation) -> bool:
    """Return whether `op` is a Switch of a cond: that of its predicate, or one that is read in
    branches only."""
    if not IsSwitch(op) or not op.outputs:
        return False
    if op.inputs[0] is op.inputs[1]:
        return True
    contexts = [_outside_of_loop(reader) for t in op.outputs for reader in t.consumers()]
    return all(c is not None and c.IsCondContext() for c in contexts)


def _outside_of_loop(reader: Operation) -> Any:
    """The context of `reader`; of what enters a loop, that around the loop."""
    context: Any = reader._get_control_flow_context()
    return context.outer_context if IsLoopEnter(reader) and context is not None else context


def IsCondMerge(op: Operation) -> bool:
    """Return whether `op` is a Merge of a cond: all that it reads is in a branch."""
    if not IsMerge(op) or not op.inputs:
        return False
    contexts = [output_context(t.op) for t in op.inputs]
    return all(c is not None and c.IsCondContext() for c in contexts)


def IsLoopSwitch(op: Operation) -> bool:
    """Return whether `op` is a Switch of a loop."""
    context: Any = op._get_control_flow_context()
    return (IsSwitch(op) and context is not None and context.IsWhileContext()
            and not IsCondSwitch(op))


def IsLoopMerge(op: Operation) -> bool:
    """Return whether `op` is a Merge of a loop."""
    context: Any = op._get_control_flow_context()
    return (IsMerge(op) and context is not None and context.IsWhileContext()
            and not IsCondMerge(op))


def GetContainingXLAContext(ctxt: object) -> None:
    """Return None: nothing is compiled by XLA."""


def GraphOrParentsInXlaContext(graph: Graph) -> bool:
    """Return False: nothing is compiled by XLA."""
    return False


def InXlaContext(graph: Graph) -> bool:
    """Return False: nothing is compiled by XLA."""
    return False
