"""CondContext: one branch of a conditional."""

from __future__ import annotations

from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.flow.control_flow_context import (
    ControlFlowContext,
    building_in,
    loop_of,
    output_context,
    switch,
)


class CondContext(ControlFlowContext):
    """The operations that run only if `pred` is true (`branch` 1), or only if it is false (0).

    Args:
        pred: the predicate, a bool tensor outside the branch.
        pivot: a tensor that is alive exactly when the branch is taken.
    """

    def __init__(self, graph: Graph, outer: ControlFlowContext | None, pred: Tensor, pivot: Tensor,
                 branch: int) -> None:
        super().__init__(graph, outer)
        self.pred = pred
        self.branch = branch
        self._pivot = pivot
        # Both are what they are inside.
        self._captured[pred] = pred
        self._captured[pivot] = pivot

    @property
    def name(self) -> str:
        """The pivot's name."""
        return self._pivot.op.name

    @property
    def pivot(self) -> Tensor:
        """A tensor that is alive exactly when the branch is taken."""
        return self._pivot

    def set_pivot(self, pivot: Tensor) -> None:
        """Let operations of the branch without inputs wait for `pivot`."""
        self._pivot = self._captured[pivot] = pivot

    def bring_control(self, op: Operation) -> Operation | None:
        """Return the operation to wait for instead of `op`: `op` itself within the same loop."""
        if loop_of(output_context(op)) is loop_of(self) or self.outer_context is None:
            return op
        return self.outer_context.bring_control(op)

    def _capture(self, tensor: Tensor) -> Tensor:
        with building_in(self.graph, self.outer_context):
            if self.outer_context is not None:  # where it is brought to, the Switch is
                tensor = self.outer_context.AddValue(tensor)
            inside = switch(tensor, self.pred)[self.branch]
        inside.op._set_control_flow_context(self)
        self.graph.prevent_fetching(inside.op)
        return inside

    def _is_unanchored(self, op: Operation) -> bool:
        if op.inputs:
            return False
        return not any(c is self._pivot.op or self.contains(c) for c in op.control_inputs)
