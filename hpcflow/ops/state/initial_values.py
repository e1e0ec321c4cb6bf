"""Initial values that are computed of other variables.

All initializers of a graph run in one step, in any order. So an initializer does not read a
variable that may have no value yet: it takes what that variable will be initialized with.
"""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import control_dependencies, device, get_default_graph, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation, Tensor

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_ASKING = ("IsVariableInitialized", "VarIsInitializedOp")
_LOOPS = ("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond")
# Forms for references, and those for the values that take their place.
_OF_VALUES = {"RefSwitch": "Switch", "RefMerge": "Merge", "RefIdentity": "Identity"}


def reading_no_uninitialized(value: Tensor, name: str) -> Tensor:
    """`value`, with the ``initialized_value()`` of each variable that it is computed of.

    Operations that depend on variables are made again, their names followed by `name`, that of
    the variable to be initialized. What loops compute, and what operations on references give,
    stays as it is.
    """
    ops = _ancestors(value.op)
    if ops is None or not any(op.type in _VARIABLES for op in ops):
        return value
    variables = _known_variables()
    new: dict[Operation, Operation] = {}
    for op in ops:
        if op.type == "ReadVariableOp" and op.inputs[0].op in variables:
            new[op] = variables[op.inputs[0].op].initialized_value().op
        elif op in variables and op.type != "VarHandleOp":
            new[op] = variables[op].initialized_value().op
        elif any(before in new for before in _before(op)):
            new[op] = _again(op, new, name)
    return _of(new, value)


def _of(new: dict[Operation, Operation], tensor: Tensor) -> Tensor:
    """Return the replacement of `tensor`, or `tensor` itself."""
    return new[tensor.op].outputs[tensor.value_index] if tensor.op in new else tensor


def _ancestors(last: Operation) -> list[Operation] | None:
    """Return the operations that `last` depends on, in topological order; None if they loop."""
    ordered: list[Operation] = []
    seen = {last}
    stack = [(last, iter(_before(last)))]
    while stack:
        op, rest = stack[-1]
        if op.type in _LOOPS:
            return None
        before = next(rest, None)
        if before is None:
            ordered.append(op)
            stack.pop()
        elif before not in seen:
            seen.add(before)
            stack.append((before, iter(_before(before))))
    return ordered


def _before(op: Operation) -> list[Operation]:
    """Return the operations before `op` that may be replaced; none if `op` queries or changes a
    variable itself."""
    if op.type in _ASKING or _reads_if_initialized(op):
        return []
    if op.type not in _OF_VALUES and any(arg.is_ref for arg in op.op_def.inputs):
        return []
    return [*(t.op for t in op.inputs), *op.control_inputs]


def _reads_if_initialized(op: Operation) -> bool:
    """True for the switch of ``initialized_value()`` before the read of the variable."""
    if op.type not in ("RefSwitch", "Switch") or op.inputs[0].op.type not in _VARIABLES:
        return False
    predicate = op.inputs[1].op
    while predicate.type == "Identity":
        predicate = predicate.inputs[0].op
    return (predicate.type in _ASKING
            and predicate.inputs[0] is op.inputs[0])


def _known_variables() -> dict[Operation, Any]:
    graph = get_default_graph()
    return {v.op: v for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
            for v in graph.get_collection(key)}


def _again(op: Operation, new: dict[Operation, Operation], name: str) -> Operation:
    """Copy an operation, with replaced control inputs and the given name."""
    waits = [new.get(c, c) for c in op.control_inputs]
    with name_scope(None), control_dependencies(waits), device(op.device or None):
        return op.graph.create_op(
            _OF_VALUES.get(op.type, op.type), [_of(new, t) for t in op.inputs],
            name=f"{op.name}_{name.strip('/')}", attrs=dict(op._attrs))
