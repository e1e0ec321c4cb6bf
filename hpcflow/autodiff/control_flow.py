"""Gradients of conditionals, and of single operations of loops.

The gradient goes back through the branch that was taken: a Merge sends it there by a Switch on the
same predicate, and the Switch that brought a value into the branch merges it with zeros from the
branch that was not taken. Whole loops are the matter of :mod:`hpcflow.autodiff.loops`.
"""

from __future__ import annotations

from typing import Any

from hpcflow.autodiff.zeros import (
    has_gradient,
    shape_of_gradient,
    variable_type,
    zeros_like,
)
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import (
    chain,
    is_invariant,
    is_loop_merge,
    is_loop_switch,
    loop_of,
    switch,
)
from hpcflow.ops.flow.routing import merge

# ---------------------------------------------------------------- Switch


@RegisterGradient("Switch")
def _switch_grad(op: Operation, *grads: Any) -> tuple:
    """Return the gradient of a Switch: that of the side that is alive."""
    if is_loop_switch(op):
        raise _not_by_itself(op)
    sides = list(grads)
    if not has_gradient(op.inputs[0]):
        return None, None
    branch = op._control_flow_context
    if isinstance(branch, CondContext) and branch in chain(op.graph._control_flow_context):
        return grads[branch.branch], None  # the gradient is taken in the branch itself
    if not isinstance(branch, CondContext):  # both sides may be alive here
        sides = [g if g is None else switch_any(g, op.inputs[1])[i] for i, g in enumerate(sides)]
    for i, grad in enumerate(sides):
        if grad is None:
            sides[i] = _nothing(op, i, sides[1 - i])
        elif isinstance(grad, IndexedSlices):
            sides[i] = _alive_with_its_values(grad, op.inputs[1], i)
    return _merge(sides), None


def _alive_with_its_values(grad: IndexedSlices, pred: Tensor, side: int) -> IndexedSlices:
    """Make the row numbers of `grad`, which do not depend on the gradient, alive only where its
    values are."""
    return IndexedSlices(grad.values, switch(grad.indices, pred)[side], grad.dense_shape)


def _nothing(op: Operation, side: int, other: Tensor) -> Any:
    """Zeros in the form of `other`, alive only if output `side` of the Switch `op` is."""
    data, pred = op.inputs
    if not isinstance(other, IndexedSlices):
        if _in_loop(op):
            return switch(zeros_like(data), pred)[side]
        if variable_type(data) is not None:
            return switch(zeros_like(data), pred)[side]
        return raw_ops.ZerosLike(op.outputs[side])
    measured = _in_loop(op) or variable_type(data) is not None
    shape = (switch(shape_of_gradient(data), pred)[side] if measured
             else raw_ops.Shape(op.outputs[side]))
    row = raw_ops.Slice(shape, [1], [-1])
    zero = other.values.dtype.base_dtype.np.type(0)
    values = raw_ops.Fill(raw_ops.ConcatV2([[0], row], 0), zero)
    indices = raw_ops.Cast(raw_ops.Slice(shape, [0], [0]), DstT=other.indices.dtype.base_dtype)
    dense = other.dense_shape
    return IndexedSlices(values, indices, None if dense is None else raw_ops.Cast(
        shape, DstT=dense.dtype.base_dtype))


def _in_loop(op: Operation) -> bool:
    """True if gradients are being built inside a loop, where forward values have to be kept."""
    return loop_of(op.graph._control_flow_context) is not None


def _merge(sides: list) -> Any:
    if not any(isinstance(s, IndexedSlices) for s in sides):
        return raw_ops.Merge(sides)[0]
    return merge(sides)[0]


def switch_any(value: Tensor, pred: Tensor) -> list:
    """(false side, true side) of a tensor or of IndexedSlices."""
    if not isinstance(value, IndexedSlices):
        return switch(value, pred)
    parts = [switch(p, pred) for p in (value.values, value.indices)]
    shapes = ([None, None] if value.dense_shape is None else switch(value.dense_shape, pred))
    return [IndexedSlices(parts[0][i], parts[1][i], shapes[i]) for i in (0, 1)]


# ---------------------------------------------------------------- Merge


@RegisterGradient("Merge")
def _merge_grad(op: Operation, grad: Tensor, index_grad: object) -> list:
    """Return the gradients of a Merge: that of the input that was alive."""
    if is_loop_merge(op):
        raise _not_by_itself(op)
    branches = [t.op._control_flow_context for t in op.inputs]
    if _are_branches(branches):
        sides = switch_any(grad, branches[0].pred)
        return [sides[b.branch] for b in branches]
    taken = op.outputs[1]
    return [switch_any(grad, raw_ops.Equal(taken, i))[1] for i in range(len(op.inputs))]


def _are_branches(contexts: list) -> bool:
    """True for the two branches of one conditional."""
    return (len(contexts) == 2 and all(isinstance(c, CondContext) for c in contexts)
            and contexts[0].pred is contexts[1].pred
            and contexts[0].branch != contexts[1].branch)


# ---------------------------------------------------------------- parts of loops


@RegisterGradient("Enter")
def _enter_grad(op: Operation, grad: Tensor) -> Any:
    """Return the gradient of an Enter in one iteration: that of the value read from outside."""
    if not is_invariant(op.outputs[0]):
        raise _not_by_itself(op)
    return grad


def _part_grad(op: Operation, *grads: Any) -> Any:
    raise _not_by_itself(op)


for _op_type in ("Exit", "NextIteration", "RefExit", "RefNextIteration"):
    RegisterGradient(_op_type)(_part_grad)
RegisterGradient("RefSwitch")(_switch_grad)
RegisterGradient("RefMerge")(_merge_grad)
RegisterGradient("RefEnter")(_enter_grad)


def _not_by_itself(op: Operation) -> ValueError:
    context = op._control_flow_context
    if context is None:
        return ValueError(
            f"No gradient through op '{op.name}' ({op.type}): it belongs to a loop of which only "
            "the operations are known, not how they form a loop (as after import_graph_def)")
    return ValueError(
        f"No gradient through op '{op.name}' ({op.type}): inside the loop '{context.name}' "
        "gradients can be taken with respect to what one iteration reads (the arguments of its "
        "body, and what comes from outside unchanged), not with respect to the initial value of a "
        "loop variable")
