"""BackwardContext: the backward pass of a loop, and the values of the forward loop in it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from hpcflow.graph.convert import constant_array
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import (
    SWITCH_TYPES,
    ControlFlowContext,
    building_in,
    chain,
    current,
    is_invariant,
    is_loop_switch,
    loop_of,
    output_context,
    switch,
)
from hpcflow.ops.flow.while_context import LoopVariable, WhileContext

# Read by gradient functions of values that may be large, while their results are small.
_MEASURES = ("Shape", "Size", "Rank", "TensorListLength", "TensorListElementShape")
_IDENTITIES = ("Identity", "RefIdentity")


class BackwardContext(WhileContext):
    """The loop that goes back over the iterations of the loop `forward`.

    Operations built in it may read tensors of the forward loop: these are pushed onto a stack
    there, in every iteration, and popped here. The pushes of an iteration come before those of the
    next, because the counter waits for them; where iterations overlap, so do the pops.

    Args:
        forward: the loop to go back over.
        outer: the context in which gradients are built; if the forward loop lies in another loop,
            this is that loop's backward context.
    """

    is_gradient = True

    def __init__(self, forward: WhileContext, outer: ControlFlowContext | None) -> None:
        super().__init__(forward.graph, outer, "while_context", forward.parallel_iterations,
                         forward.back_prop, forward.swap_memory)
        self.forward = forward
        self._overlaps = forward.parallel_iterations > 1
        self._popped: dict[Tensor, Tensor] = {}
        self._count_forward()
        self._counter = self.open(self._iterations, ())
        with current(self):
            again = raw_ops.Greater(self._counter.merge, 0)
        self.decide(again)
        self.split(self._counter)
        with building_in(self.graph, self):
            self._popped_all = raw_ops.ControlTrigger(name="b_sync")

    # ------------------------------------------------------------ counting

    def _count_forward(self) -> None:
        """Let the forward loop count its iterations, each after the pushes of the one before."""
        forward, graph = self.forward, self.graph
        with building_in(graph, forward.outer_context):
            counter = forward.open(constant_array(np.zeros((), np.int32), name="f_count"), (),
                                   late=True)
        with building_in(graph, forward):
            self._pushed_all = raw_ops.ControlTrigger(name="f_sync")
        # The backward loop waits for the count, and so for all pushes.
        with building_in(graph, forward, [self._pushed_all]):
            following = raw_ops.Add(counter.value, 1)
        with building_in(graph, forward):
            forward.close(counter, following)
            self._iterations = forward.leave(counter)
        self._index: LoopVariable = counter

    def end(self) -> None:
        """Count back; to be called when everything else is built."""
        waits = [self._popped_all] if self._overlaps else []
        with building_in(self.graph, self, waits):
            following = raw_ops.Sub(self._counter.value, 1)
        self.close(self._counter, following)

    # ------------------------------------------------------------ forward values

    def can_read(self, loop: ControlFlowContext) -> bool:
        """True also for the forward loops that this context and outer ones go back over."""
        return super().can_read(loop) or self._goes_back_over(loop)

    def _goes_back_over(self, loop: ControlFlowContext | None) -> bool:
        return loop is not None and any(
            isinstance(c, BackwardContext) and c.forward is loop for c in chain(self))

    def AddOp(self, op: Operation) -> None:
        """Take `op` in; the shape of a forward value is taken forward, and kept instead of it."""
        if op.type in _MEASURES:
            source = output_context(op.inputs[0].op)
            if source is not None and self._goes_back_over(loop_of(source)):
                op._control_inputs.clear()
                source.AddOp(op)
                return
        super().AddOp(op)

    def AddValue(self, tensor: Tensor) -> Tensor:
        """Return the form of `tensor` that operations of this context read."""
        if loop_of(output_context(tensor.op)) is not self.forward:
            return super().AddValue(tensor)
        found = self._captured.get(tensor)
        if found is None:
            found = self._captured[tensor] = self._restore(tensor)
        return found

    def _restore(self, tensor: Tensor) -> Tensor:
        """The value that `tensor`, of the forward loop, had in the iteration gone back over."""
        outside = _read_from_outside(tensor)
        if outside is not None:
            return self.AddValue(outside)
        value = constant_value(tensor)
        if value is not None:
            with building_in(self.graph, self):
                return constant_array(value, tensor.dtype.base_dtype)
        tensor = _without_identities(tensor)
        if tensor not in self._popped:
            self._popped[tensor] = self._through_stack(tensor)
        return self._popped[tensor]

    # ------------------------------------------------------------ stacks

    def _through_stack(self, tensor: Tensor) -> Tensor:
        dtype = tensor.dtype.base_dtype
        with building_in(self.graph, self.forward.outer_context), self._beside(tensor):
            stack = raw_ops.StackV2(max_size=-1, elem_type=dtype, name="f_acc")
        self._push(stack, tensor)
        popped = self._pop(stack, tensor)
        popped._dims = tensor._dims
        popped._handle_data = tensor._handle_data
        return popped

    def _beside(self, tensor: Tensor) -> AbstractContextManager:
        return self.graph.colocate_with(tensor.op, ignore_existing=True)

    def _push(self, stack: Tensor, tensor: Tensor) -> None:
        """Push `tensor` onto the stack, in the branch, if any, that the tensor is in; and not after
        the last iteration."""
        waits = [self._index.value.op]
        with building_in(self.graph, output_context(tensor.op), waits), self._beside(stack):
            pushed = raw_ops.StackPushV2(handle=stack, elem=tensor,
                                         swap_memory=self.forward.swap_memory)
        self._pushed_all._add_control_input(pushed.op)

    def _pop(self, stack: Tensor, tensor: Tensor) -> Tensor:
        with building_in(self.graph, self):
            handle = self.AddValue(stack)
            for branch in _branches(tensor, self.forward):
                handle = switch(handle, self.AddValue(branch.pred))[branch.branch]
            with self._beside(stack):
                popped = raw_ops.StackPopV2(handle=handle, elem_type=tensor.dtype.base_dtype)
        self._popped_all._add_control_input(popped.op)
        return popped


def _read_from_outside(tensor: Tensor) -> Tensor | None:
    """Return the tensor outside of the loop that `tensor` is, in a branch or not; or None.

    What an iteration reads from a variable is a value of that iteration: others may write it.
    """
    while tensor.op.type in _IDENTITIES or (
            tensor.op.type in SWITCH_TYPES and not is_loop_switch(tensor.op)):
        source = tensor.op.inputs[0]
        if source.dtype._is_ref_dtype and not tensor.dtype._is_ref_dtype:
            return None
        tensor = source
    return tensor.op.inputs[0] if is_invariant(tensor) else None


def _without_identities(tensor: Tensor) -> Tensor:
    """Return the tensor that `tensor` is a copy of, in the same branch."""
    while tensor.op.type in _IDENTITIES:
        source = tensor.op.inputs[0]
        if source.op._control_flow_context is not tensor.op._control_flow_context or (
                source.dtype._is_ref_dtype):
            break
        tensor = source
    return tensor


def _branches(tensor: Tensor, loop: WhileContext) -> list[CondContext]:
    """The branches inside `loop` that `tensor` is in, the outermost first."""
    found: list[CondContext] = []
    for context in chain(output_context(tensor.op)):
        if context is loop:
            break
        if isinstance(context, CondContext):
            found.append(context)
    return found[::-1]
