"""Gradients of loops: a loop that runs the iterations of the forward loop backwards.

In the backward walk a loop is one node. When the gradients of all its results are there, a second
loop is built: the forward loop counts its iterations and pushes the values that the gradient
functions read onto stacks, and the backward loop runs as often, pops them, and computes from the
gradients of the loop variables after an iteration those before it; the gradients of what the loop
reads from outside are summed up over the iterations. The scheme is that of "Dynamic control flow
in large-scale machine learning" (EuroSys 2018).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.autodiff.backward_context import BackwardContext
from hpcflow.autodiff.zeros import (
    dims_of_gradient,
    has_gradient,
    is_trainable,
    shape_of_gradient,
    zeros_like,
)
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.control_flow_context import EXIT_TYPES, current, loop_of
from hpcflow.ops.flow.while_context import LoopVariable, WhileContext

if TYPE_CHECKING:
    from hpcflow.autodiff.gradients import Walk


class Loops:
    """The loops in one backward walk: each is walked when all its results have been.

    Args:
        walk: the walk.
        between: the operations that it covers.
    """

    def __init__(self, walk: Walk, between: Iterable[Operation]) -> None:
        self._walk = walk
        self._exits: dict[WhileContext, int] = {}  # loop -> results that are still to be walked
        for op in between:
            if self.is_exit(op):
                loop = op._control_flow_context
                self._exits[loop] = self._exits.get(loop, 0) + 1

    @staticmethod
    def is_exit(op: Operation) -> bool:
        """True for a result of a loop that is known as a loop."""
        loop = op._control_flow_context
        return op.type in EXIT_TYPES and loop is not None and loop.is_left_by(op)

    def leave(self, op: Operation) -> Iterable[Tensor]:
        """A result of a loop has its gradient: with the last one, walk the loop.

        Returns the tensors that the loop reads, once for each time.
        """
        loop = op._control_flow_context
        if loop.is_gradient and self._walk.result(op.outputs[0]) is not None:
            raise TypeError(
                "Second-order gradients for while loops are not supported: the loop "
                f"'{loop.name}' computes the gradient of another loop")
        self._exits[loop] -= 1
        if self._exits[loop]:
            return ()
        entering = [v.enter for v in (*loop.variables, *loop.late)]
        read = [e.op.inputs[0] for e in (*entering, *loop.invariants.values())
                if self._walk.covers(e.op)]
        if loop.is_gradient:  # none of its results has a gradient
            return read
        grads = {v: self._walk.result(v.exit) for v in loop.variables
                 if self._walk.covers(v.exit.op)}
        grads = {v: g for v, g in grads.items() if g is not None}
        if grads and loop.back_prop:
            _BackwardLoop(self._walk, loop).build(grads)
        return read


class _BackwardLoop:
    """The loop that computes the gradients of one forward loop."""

    def __init__(self, walk: Walk, forward: WhileContext) -> None:
        self.walk = walk
        self.forward = forward
        self.graph = forward.graph
        # The body is walked from the next values of the variables down to these.
        self.cut = {op for v in forward.variables for op in (v.merge.op, v.stays.op, v.exit.op)}
        self.cut |= {e.op for e in forward.invariants.values()}

    def _check_place(self) -> None:
        here = loop_of(self.graph._control_flow_context)
        around = loop_of(self.forward.outer_context)
        if here is around or isinstance(here, BackwardContext) and here.forward is around:
            return
        raise ValueError(
            f"gradients: loop '{self.forward.name}' is outside of loop '{here and here.name}', in "
            "which its gradient is asked for; they are in different while loops. Compute the "
            "gradient before the loop, and use it inside")

    def build(self, grads: dict[LoopVariable, Any]) -> None:
        """Add the loop, and give the walk the gradients of what the forward loop reads.

        Raises ``ValueError`` in a loop that the forward loop is not in: what it kept of its
        iterations can be taken once only.
        """
        self._check_place()
        with self.graph.name_scope(f"{self.forward.scope}_grad"):
            variables, invariants = self._needed(list(grads))
            back = BackwardContext(self.forward, self.graph._control_flow_context)
            slots = {v: back.open(_initial(v, grads.get(v)), v.merge._dims, late=True)
                     for v in variables}
            with current(back):
                inner = self.walk.nested(
                    [v.next for v in variables],
                    [t for v in variables for t in (v.merge, v.stays)] + invariants, self.cut)
                inner.seed([v.next for v in variables], [slots[v].value for v in variables])
                inner.run()
                following = [_gradient_before(v, inner) for v in variables]
                sums = [(e, inner.result(e)) for e in invariants]
            for v, tensor in zip(variables, following, strict=True):
                self._finish(back, slots[v], tensor, v.enter)
            for entered, grad in sums:
                self._sum_up(back, entered, grad)
            back.end()

    def _needed(self, start: list[LoopVariable]) -> tuple[list[LoopVariable], list[Tensor]]:
        """The variables and invariants that a gradient can reach from the variables in `start`."""
        by_op = {t.op: v for v in self.forward.variables for t in (v.merge, v.stays)}
        entered = {e.op: e for e in self.forward.invariants.values()}
        variables: dict[LoopVariable, bool] = {}
        invariants: dict[Tensor, bool] = {}
        waiting = [v for v in start if is_trainable(v.exit.dtype)]
        while waiting:
            variable = waiting.pop()
            if variable in variables:
                continue
            variables[variable] = True
            for op in self._behind(variable.next):
                if not self.walk.covers(op):
                    continue
                if op in by_op and is_trainable(by_op[op].exit.dtype):
                    waiting.append(by_op[op])
                elif op in entered and has_gradient(entered[op]):
                    invariants[entered[op]] = True
        return ([v for v in self.forward.variables if v in variables],
                [e for e in entered.values() if e in invariants])

    def _behind(self, tensor: Tensor) -> list[Operation]:
        """Return the variables and invariants of the loop that gradients of `tensor` may flow
        to."""
        found, seen, stack = [], {tensor.op}, [tensor.op]
        while stack:
            op = stack.pop()
            if op in self.cut:
                found.append(op)
                continue
            for source in op.inputs:
                if has_gradient(source) and source.op not in seen:
                    seen.add(source.op)
                    stack.append(source.op)
        return found

    def _finish(self, back: BackwardContext, slot: LoopVariable, following: Tensor,
                entered: Tensor) -> None:
        """Close a variable of the backward loop; what it ends with is the gradient of what the
        forward loop got through `entered`."""
        back.close(slot, following)
        result = back.leave(slot)
        if self.walk.covers(entered.op):
            self.walk.add(entered.op.inputs[0], result)

    # ------------------------------------------------------------ sums over the iterations

    def _sum_up(self, back: BackwardContext, entered: Tensor, grad: Tensor) -> None:
        """Add up the gradients of an invariant."""
        if isinstance(grad, IndexedSlices):
            self._sum_up_slices(back, entered, grad)
        elif grad is not None:
            read = entered.op.inputs[0]
            slot = back.open(zeros_like(read), dims_of_gradient(read), late=True)
            with current(back):
                following = _sum(slot.value, grad)
            self._finish(back, slot, following, entered)

    def _sum_up_slices(self, back: BackwardContext, entered: Tensor, grad: IndexedSlices) -> None:
        """Rows of all iterations, one after the other."""
        read = entered.op.inputs[0]
        row = raw_ops.Slice(shape_of_gradient(read), [1], [-1])
        none = raw_ops.Fill(raw_ops.ConcatV2([[0], row], 0), _zero_of(grad.values))
        values = self._append(back, none, grad.values, _rows(grad.values))
        indices = self._append(back, raw_ops.Fill([0], _zero_of(grad.indices)), grad.indices,
                               (None,))
        if self.walk.covers(entered.op):
            shape = None if grad.dense_shape is None else shape_of_gradient(
                read, grad.dense_shape.dtype.base_dtype)
            self.walk.add(read, IndexedSlices(values, indices, shape))

    def _append(self, back: BackwardContext, initial: Tensor, part: Tensor, dims: Dims) -> Tensor:
        slot = back.open(initial, dims, late=True)
        with current(back):
            following = raw_ops.ConcatV2([slot.value, part], 0)
        back.close(slot, following)
        return back.leave(slot)


def _zero_of(tensor: Tensor) -> Any:
    return tensor.dtype.base_dtype.np.type(0)


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """Add two tensors, or two lists of tensors."""
    is_list = a.dtype.base_dtype.name == "variant"
    return raw_ops.AddN([a, b]) if is_list else raw_ops.Add(a, b)


def _rows(values: Tensor) -> Dims:
    return None if values._dims is None else (None, *values._dims[1:])


def _initial(variable: LoopVariable, grad: Tensor | None) -> Tensor:
    """The gradient with which a variable enters the backward loop."""
    return zeros_like(variable.exit) if grad is None else convert_to_tensor(grad)


def _gradient_before(variable: LoopVariable, inner: Walk) -> Tensor:
    """The gradient of a variable before an iteration, from the walk over the body."""
    found = [g for g in (inner.result(variable.merge), inner.result(variable.stays))
             if g is not None]
    if not found:  # the body does not read the variable
        return zeros_like(variable.stays)
    tensors = [convert_to_tensor(g) for g in found]
    return tensors[0] if len(tensors) == 1 else _sum(*tensors)
