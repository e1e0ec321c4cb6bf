"""Contexts of imported operations: which loops and branches they form.

A GraphDef holds conditionals and loops as single operations. From how they are connected it follows
which loop and which branch each belongs to; gradients need to know it. A loop whose operations do
not form what `while_loop` builds runs all the same, but has no context and no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcflow.graph import importer
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import (
    ENTER_TYPES,
    EXIT_TYPES,
    MERGE_TYPES,
    SWITCH_TYPES,
    ControlFlowContext,
    building_in,
    chain,
    is_loop_merge,
    is_loop_switch,
    loop_of,
)
from hpcflow.ops.flow.while_context import LoopVariable, WhileContext

_BACK_TYPES = ("NextIteration", "RefNextIteration")
_IDENTITIES = ("Identity", "RefIdentity")
_TYPES = frozenset((*ENTER_TYPES, *EXIT_TYPES, *MERGE_TYPES, *SWITCH_TYPES, *_BACK_TYPES))


class Irregular(Exception):
    """An error: the operations do not form loops or conditionals of the known kind."""


def recognize(graph: Graph, ops: list[Operation]) -> None:
    """Give `ops`, which were imported together and come after what they read, their contexts."""
    if any(op.type in _TYPES for op in ops):
        _Recognition(graph, ops).run()


importer.AFTERWARDS.append(recognize)


class _Recognition:
    """The recognition of the loops and conditionals of one import."""

    def __init__(self, graph: Graph, ops: list[Operation]) -> None:
        self.graph = graph
        self.ops = ops
        self.base = graph._control_flow_context
        self.loops: dict[bytes, WhileContext] = {}
        self.members: dict[WhileContext, list[Operation]] = {}
        self.branches: dict[tuple, CondContext] = {}
        self.found: dict[Operation, ControlFlowContext | None] = {}
        # Of every Switch of a conditional, the context around the conditional.
        self.around: dict[Operation, ControlFlowContext | None] = {}

    def run(self) -> None:
        """Find the contexts, and set them if they are as they should be."""
        before = {op: op._control_flow_context for op in self.ops}
        try:
            for op in self.ops:
                self.found[op] = self._context(op)
            self._set_pivots()
            for op, context in self.found.items():
                op._set_control_flow_context(context)
            for loop in self.loops.values():
                _complete(loop, self.members[loop])
            for loop in self.loops.values():
                _add_exits(loop)
            for op, context in self.found.items():
                _protect(op, context)
        except Irregular:
            for op, context in before.items():
                op._set_control_flow_context(context)

    # ------------------------------------------------------------ one operation

    def _context(self, op: Operation) -> ControlFlowContext | None:
        if op.type in ENTER_TYPES:
            return self._loop(op)
        if op.type in MERGE_TYPES and not is_loop_merge(op):
            return self._merged(op)
        context = self._around(op)
        if op.type in EXIT_TYPES and loop_of(context) is not context:
            raise Irregular
        if op.type in SWITCH_TYPES and not is_loop_switch(op):
            return self._switch_context(op, context)
        if isinstance(context, WhileContext) and context in self.members:
            self.members[context].append(op)
        return context

    def _around(self, op: Operation) -> ControlFlowContext | None:
        """Return the innermost context among those of the inputs and control inputs of `op`."""
        found = self.base
        for tensor in op.inputs:
            if tensor.op.type not in _BACK_TYPES:
                found = self._inner(found, self._tensor_context(tensor))
        for source in op.control_inputs:
            found = self._inner(found, self._output_context(source))
        return found

    @staticmethod
    def _inner(a: ControlFlowContext | None,
               b: ControlFlowContext | None) -> ControlFlowContext | None:
        if any(c is a for c in chain(b)):
            return b
        if a is None or any(c is b for c in chain(a)) or b is None:
            return b if a is None else a
        if loop_of(a) is not loop_of(b):
            raise Irregular
        return a  # of two branches: the operation never runs

    def _output_context(self, op: Operation) -> ControlFlowContext | None:
        context = self.around.get(op, self.found.get(op, op._control_flow_context))
        if op.type in EXIT_TYPES and context is not None and context.is_loop:
            return context.outer_context
        return context

    def _tensor_context(self, tensor: Tensor) -> ControlFlowContext | None:
        op = tensor.op
        if op in self.around:
            return self._branch(op, tensor.value_index)
        return self._output_context(op)

    # ------------------------------------------------------------ loops

    def _loop(self, enter: Operation) -> WhileContext:
        outer = self._around(enter)
        name = enter.attr("frame_name")
        loop = self.loops.get(name)
        if loop is None:
            loop = self.loops[name] = WhileContext(
                self.graph, outer, parallel_iterations=int(enter.attr("parallel_iterations")),
                frame=name.decode())
            self.members[loop] = []
        if any(c is loop for c in chain(outer)):  # what enters a loop comes from inside it
            raise Irregular
        loop.outer_context = self._inner(loop.outer_context, outer)
        self.members[loop].append(enter)
        return loop

    # ------------------------------------------------------------ conditionals

    def _switch_context(self, op: Operation,
                        around: ControlFlowContext | None) -> ControlFlowContext | None:
        """Return the context of a Switch: the branch, if it brings a value into one branch only."""
        self.around[op] = around
        read = {t.value_index for t in op.outputs if t._consumers}
        if len(read) != 1 or _plain(op.inputs[0]) is _plain(op.inputs[1]):
            return around
        side = read.pop()
        branch = self._branch(op, side)
        branch._captured.setdefault(op.inputs[0], op.outputs[side])
        return branch

    def _branch(self, switch: Operation, side: int) -> CondContext:
        outer, pred = self.around[switch], _plain(switch.inputs[1])
        key = (outer, pred, side)
        if key not in self.branches:
            self.branches[key] = CondContext(self.graph, outer, pred, switch.outputs[side], side)
        return self.branches[key]

    def _merged(self, op: Operation) -> ControlFlowContext | None:
        """Return the context of a Merge: that around the branches which it joins."""
        contexts = [self._tensor_context(t) for t in op.inputs]
        if len(contexts) == 2 and all(isinstance(c, CondContext) for c in contexts):
            a, b = contexts
            assert a is not None and b is not None
            if a.outer_context is b.outer_context:
                return a.outer_context
        shared = next((c for c in chain(contexts[0])
                       if all(c in list(chain(o)) for o in contexts[1:])), None)
        if isinstance(shared, CondContext) and len(set(contexts)) == 1:
            return shared.outer_context
        return shared

    def _set_pivots(self) -> None:
        """Set the pivots of branches: operations that run if a branch is taken, preferably the
        Identity of its predicate."""
        first: dict[CondContext, Operation] = {}
        for op, context in self.found.items():
            if isinstance(context, CondContext) and op.outputs and op.type not in _TYPES:
                known = first.get(context)
                if known is None or _is_pivot(op) and not _is_pivot(known):
                    first[context] = op
        for branch in self.branches.values():
            if branch in first:
                branch.set_pivot(first[branch].outputs[0])


def _plain(tensor: Tensor) -> Tensor:
    """Return the tensor that `tensor` is a copy of, through all identities."""
    while tensor.op.type in _IDENTITIES and not tensor.op.inputs[0].dtype._is_ref_dtype:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_pivot(op: Operation) -> bool:
    """True for the Identity of a predicate on one side of its own Switch."""
    if op.type not in _IDENTITIES or op.inputs[0].op.type not in SWITCH_TYPES:
        return False
    data, pred = op.inputs[0].op.inputs
    return _plain(data) is _plain(pred)


def _protect(op: Operation, context: ControlFlowContext | None) -> None:
    """Forbid to fetch or feed `op` in a loop or a branch, where tensors have no value, or many."""
    if op.type in EXIT_TYPES and context is not None:
        context = context.outer_context
    if context is not None:
        op.graph.prevent_fetching(op)
        for output in op.outputs:
            op.graph.prevent_feeding(output)


# ---------------------------------------------------------------- loops


def _complete(loop: WhileContext, members: Iterable[Operation]) -> None:
    """Find the variables of a loop, its predicate, and what it reads from outside."""
    members = list(members)
    predicates = [op for op in members if op.type == "LoopCond"]
    if len(predicates) != 1:
        raise Irregular
    loop.predicate = predicates[0].outputs[0]
    loop.is_gradient = any(op.type in ("StackPop", "StackPopV2") for op in members)
    for op in members:
        if op.type in ENTER_TYPES and op.attr("is_constant"):
            entered, outside = op.outputs[0], op.inputs[0]
            loop._captured[entered if outside in loop._captured else outside] = entered
        elif op.type in ENTER_TYPES and op.outputs[0]._consumers:  # 1.15 leaves some unread
            loop.variables.append(_variable(loop, op))
    if not loop.variables:
        raise Irregular
    loop.set_pivot(_pivot(loop))


def _variable(loop: WhileContext, enter: Operation) -> LoopVariable:
    variable = LoopVariable()
    variable.enter = enter.outputs[0]
    merge = _only(variable.enter, MERGE_TYPES)
    if merge is None or len(variable.enter._consumers) > 1 or len(merge.inputs) != 2 or (
            merge.inputs[0] is not variable.enter or merge.inputs[1].op.type not in _BACK_TYPES):
        raise Irregular
    variable.merge = merge.outputs[0]
    switch = _only(variable.merge, SWITCH_TYPES)
    if switch is None or switch.inputs[1] is not loop.predicate:
        raise Irregular
    variable.leaves, variable.stays = switch.outputs
    identity = _only(variable.stays, _IDENTITIES)
    variable.value = variable.stays if identity is None else identity.outputs[0]
    return variable


def _only(tensor: Tensor, types: tuple[str, ...]) -> Operation | None:
    """Return the only reader of this type, or None."""
    found = [op for op in tensor._consumers if op.type in types]
    return found[0] if len(found) == 1 else None


def _pivot(loop: WhileContext) -> Tensor:
    """Something that is computed in every iteration, but not after the last."""
    for variable in loop.variables:
        if variable.value is not variable.stays:
            return variable.value
    readers = (op for v in loop.variables for op in v.stays._consumers if op.outputs)
    found = next((op for op in readers if op.type not in _TYPES), None)
    if found is None:
        raise Irregular
    return found.outputs[0]


def _add_exits(loop: WhileContext) -> None:
    """Let every variable have an Exit, also where the graph was pruned to what is read."""
    for variable in loop.variables:
        leaves = _only(variable.leaves, EXIT_TYPES)
        if leaves is not None:
            variable.exit = leaves.outputs[0]
            continue
        with building_in(loop.graph, loop):
            variable.exit = raw_ops.Exit(variable.leaves)
