"""Operations that have to run though nobody reads what they compute."""

from __future__ import annotations

import re

from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import (
    SWITCH_TYPES,
    ControlFlowContext,
    building_in,
    output_context,
    switch,
)
from hpcflow.ops.flow.while_context import WhileContext

# Types that have state, but do nothing that anybody could see: they make handles, or read.
_HARMLESS = re.compile(
    "_Arg|Placeholder.*|Variable.*|VarHandleOp|ReadVariableOp|ResourceGather(Nd)?|"
    "VarIsInitializedOp|VariableShape|DisableCopyOnRead|.*Queue(V2)?|.*Barrier|"
    "(Mutable)?HashTable.*|LookupTable(Find|Size)(V2)?|"
    "Random.*|Truncated.*|ParameterizedTruncatedNormal|Multinomial|.*Sampler|"
    "Stack(V2)?|StackPush(V2)?|StackPop(V2)?|TensorArray.*|.*Accumulator|"
    ".*Dataset(V2)?|Iterator(V2)?|OneShotIterator|Iterator(To|From)StringHandle(V2)?")
_BY_REFERENCE = frozenset(("RefIdentity", "RefSelect", "RefSwitch", "RefMerge", "RefEnter",
                           "RefExit", "RefNextIteration", "IsVariableInitialized"))


def has_effect(op: Operation) -> bool:
    """True if running `op` does more than to compute its outputs."""
    if any(a.is_ref for a in op.op_def.inputs):
        return op.type not in _BY_REFERENCE
    return op.op_def.is_stateful and _HARMLESS.fullmatch(op.type) is None


def bring_out(op: Operation, context: ControlFlowContext | None) -> Operation:
    """An operation in `context` that runs when `op`, somewhere inside of it, has run or will not.

    Out of a branch leads a Merge of both sides; a loop goes on when `op` has run, and what follows
    waits for its end.
    """
    inside = output_context(op)
    while inside is not context and inside is not None:
        op = _out_of_branch(op, inside) if isinstance(inside, CondContext) else (
            _out_of_loop(op, inside))
        inside = inside.outer_context
    return op


def _out_of_branch(op: Operation, branch: CondContext) -> Operation:
    graph = branch.graph
    with building_in(graph, branch.outer_context):
        sides = switch(branch.pred, branch.pred, name="ran")
        taken: Tensor = sides[branch.branch]
        with graph.control_dependencies([op] if op.type not in SWITCH_TYPES else []):
            done = raw_ops.Identity(taken)
        other = raw_ops.Identity(sides[1 - branch.branch])
        merged = raw_ops.Merge([done, other])[0]
    return merged.op


def _out_of_loop(op: Operation, loop: ControlFlowContext) -> Operation:
    assert isinstance(loop, WhileContext)
    variable = loop.variables[0]
    variable.merge.op.inputs[1].op._add_control_input(op)
    return variable.exit.op
