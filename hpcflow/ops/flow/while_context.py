"""WhileContext: a loop; and the operations by which its variables go round."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import constant_array
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.control_flow_context import (
    ControlFlowContext,
    building_in,
    current,
    is_invariant,
    is_loop_switch,
    switch,
)


class LoopVariable:
    """One variable of a loop, by the tensors that carry it.

    Attributes:
        enter: the initial value, in the loop.
        merge: the value that the condition reads in every iteration.
        stays, leaves: the outputs of the Switch: the value if there is another iteration, or none.
        value: what the body reads.
        exit: the value after the loop.
    """

    __slots__ = ("enter", "merge", "stays", "leaves", "value", "exit")

    enter: Tensor
    merge: Tensor
    stays: Tensor
    leaves: Tensor
    value: Tensor
    exit: Tensor

    @property
    def next(self) -> Tensor:
        """The next value of the variable, which the body computes."""
        return self.merge.op.inputs[1].op.inputs[0]


class WhileContext(ControlFlowContext):
    """A loop: built by :meth:`open` for each variable, :meth:`decide`, :meth:`split` for each
    variable, the body, then :meth:`close` and :meth:`leave` for each variable.

    Args:
        name: becomes, made unique, the name of the frame.
        parallel_iterations: how many iterations may be under way at a time.
        back_prop: whether gradients can be taken through the loop.
        swap_memory: whether values kept for gradients may go from the device to the host.
        frame: the name of the frame, where the loop exists already.

    Attributes:
        is_gradient: True for the backward loop of another one.
        variables, late: its variables, and those that were added when the loop existed already.
    """

    is_loop = True
    is_gradient = False

    def __init__(self, graph: Graph, outer: ControlFlowContext | None, name: str = "while_context",
                 parallel_iterations: int = 10, back_prop: bool = True,
                 swap_memory: bool = False, frame: str | None = None) -> None:
        super().__init__(graph, outer)
        self._name = frame or graph.unique_name(name)
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        self.swap_memory = swap_memory
        self.variables: list[LoopVariable] = []
        self.late: list[LoopVariable] = []
        self.predicate: Any = None  # the LoopCond, once decided
        self._pivot: Tensor | None = None
        # The loop starts after these, so nothing inside has to wait for them.
        self._awaited = graph._current_control_dependencies()
        self._tokens: dict[Operation, Operation] = {}

    @property
    def name(self) -> str:
        """The name of the frame."""
        return self._name

    @property
    def scope(self) -> str:
        """The name scope in which the loop was built."""
        return self._name.rpartition("/")[0] or self._name

    @property
    def pivot(self) -> Tensor:
        """The first variable: its merged value in the condition, its value in the body."""
        if self._pivot is None:
            raise ValueError(f"The loop '{self.name}' has no variables yet")
        return self._pivot

    def set_pivot(self, pivot: Tensor) -> None:
        """Let operations of the body without inputs wait for `pivot`."""
        self._pivot = pivot

    @property
    def invariants(self) -> dict[Tensor, Tensor]:
        """Tensor outside -> the Enter output that stands for it in the loop."""
        return {t: e for t, e in self._captured.items() if is_invariant(e)}

    def is_left_by(self, op: Operation) -> bool:
        """True for an Exit of one of the variables, not for that of an imported loop inside."""
        source = op.inputs[0].op
        return is_loop_switch(source) and source.inputs[1] is self.predicate

    # ------------------------------------------------------------ variables

    def open(self, initial: Tensor, dims: Dims = None, late: bool = False) -> LoopVariable:
        """Begin a variable that starts as `initial` and has shape `dims` in every iteration.

        With `late` the loop exists already: the variable goes through all of it at once, except
        for :meth:`close` and :meth:`leave`.
        """
        variable = LoopVariable()
        variable.enter = self._enter(initial, is_constant=False)
        variable.enter._dims = dims
        with current(self):
            variable.merge = raw_ops.Merge([variable.enter, variable.enter])[0]
        variable.merge._dims = dims
        if self._pivot is None:
            self._pivot = variable.merge
        if late:
            self.late.append(variable)
            self.split(variable)
        else:
            self.variables.append(variable)
        return variable

    def decide(self, pred: Tensor) -> None:
        """Go on while `pred`, a scalar bool of the condition, is true."""
        with current(self):
            self.predicate = raw_ops.LoopCond(pred)

    def split(self, variable: LoopVariable) -> None:
        """Add the Switch by which the variable enters the body or leaves the loop."""
        first = self.variables and variable is self.variables[0]
        with current(self):
            variable.leaves, variable.stays = switch(variable.merge, self.predicate)
            variable.value = raw_ops.Identity(variable.stays)
        if first:
            self._pivot = variable.value

    def close(self, variable: LoopVariable, following: Tensor) -> None:
        """Make `following` the value of the next iteration."""
        with current(self):
            back = raw_ops.NextIteration(following)
        variable.merge.op._update_input(1, back)

    def leave(self, variable: LoopVariable) -> Tensor:
        """Return the variable's value after the loop."""
        with current(self):
            variable.exit = raw_ops.Exit(variable.leaves)
        return variable.exit

    # ------------------------------------------------------------ from outside

    def _enter(self, tensor: Tensor, is_constant: bool) -> Tensor:
        """Build an Enter in the context around the loop, to which its input is brought first."""
        by_reference = tensor.dtype._is_ref_dtype and is_constant
        op_type = raw_ops.RefEnter if by_reference else raw_ops.Enter
        options = {"frame_name": self.name, "is_constant": is_constant,
                   "parallel_iterations": self.parallel_iterations}
        previous = self.graph._control_flow_context
        self.graph._control_flow_context = self.outer_context
        try:
            # A handle stays where it is, and so does a variable.
            if by_reference or tensor.dtype.base_dtype.name == "resource":
                with self.graph.colocate_with(tensor.op, ignore_existing=True):
                    entered = op_type(tensor, **options)
            else:
                entered = op_type(tensor, **options)
        finally:
            self.graph._control_flow_context = previous
        entered.op._set_control_flow_context(self)
        self.graph.prevent_fetching(entered.op)
        self.graph.prevent_feeding(entered)
        return entered

    def _capture(self, tensor: Tensor) -> Tensor:
        with self.graph.control_dependencies(None):
            return self._enter(tensor, is_constant=True)

    def bring_control(self, op: Operation) -> Operation | None:
        """For an operation outside, an Enter that stands for it; None if the loop waits for it."""
        if self.contains(op):
            return op
        if op in self._awaited:
            return None
        token = self._tokens.get(op)
        if token is None:
            awaited = op if self.outer_context is None else self.outer_context.bring_control(op)
            if awaited is None:
                return None
            with building_in(self.graph, self.outer_context, [awaited]):
                waits = constant_array(np.zeros((), bool), name="control_dependency")
            token = self._tokens[op] = self.AddValue(waits).op
        return token

    def _is_unanchored(self, op: Operation) -> bool:
        """True if all sources of `op` are loop invariants, which outlast the last iteration."""
        sources = [t.op for t in op.inputs] + op.control_inputs
        return all(s.outputs and self._is_invariant(s.outputs[0]) for s in sources)

    def _is_invariant(self, tensor: Tensor) -> bool:
        return is_invariant(tensor) and tensor.op.attr("frame_name") == self.name.encode()
