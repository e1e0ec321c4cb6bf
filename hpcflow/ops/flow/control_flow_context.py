"""Contexts: in which branch of a conditional, or in which loop, an operation is built.

A graph has one current context (None at the top level). Every operation that is added is shown to
it: what comes from outside is brought inside (through Switch in a branch, through Enter in a loop),
and an operation that depends on nothing inside is made to wait for the context's pivot, so that it
runs exactly when the branch is taken, or once in every iteration.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.base.hooks import Hook
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops

if TYPE_CHECKING:
    from google.protobuf.message import Message

EXIT_TYPES = ("Exit", "RefExit")
ENTER_TYPES = ("Enter", "RefEnter")
SWITCH_TYPES = ("Switch", "RefSwitch")
MERGE_TYPES = ("Merge", "RefMerge")


#: Contexts as protobufs and back; `context_protos` provides them.
context_to_proto = Hook("the writer of contexts")
context_from_proto = Hook("the reader of contexts")


class ControlFlowContext:
    """A branch or a loop under construction.

    The graph calls :meth:`AddOp` of its current context; where it has none, it calls
    :meth:`check_reader` of what an operation reads.

    Args:
        graph: the graph that is built.
        outer: the context around this one, or None.
    """

    is_loop = False

    def __init__(self, graph: Graph, outer: ControlFlowContext | None) -> None:
        self.graph = graph
        self.outer_context = outer
        self.imported_name: str | None = None  # as the MetaGraph called it that it is from
        self._captured: dict[Tensor, Tensor] = {}  # a tensor outside -> its form inside

    @property
    def name(self) -> str:
        """The name of this context in messages."""
        raise NotImplementedError

    @property
    def pivot(self) -> Tensor:
        """The tensor that operations without inputs wait for."""
        raise NotImplementedError

    # ------------------------------------------------------------ protobufs

    def IsWhileContext(self) -> bool:
        """Return whether this is a loop."""
        return self.is_loop

    def IsCondContext(self) -> bool:
        """Return whether this is a branch."""
        return not self.is_loop

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the ``CondContextDef`` or ``WhileContextDef``, with names relative to
        `export_scope`; None if the context is not in that scope."""
        return context_to_proto(self, export_scope)

    @staticmethod
    def from_proto(context_def: Message, import_scope: str | None = None) -> Any:
        """Return the context of the default graph that a protobuf describes."""
        return context_from_proto(context_def, import_scope)

    # ------------------------------------------------------------ questions

    def contains(self, op: Operation) -> bool:
        """True if the outputs of `op` can be read in this context as they are."""
        return any(c is self for c in chain(output_context(op)))

    def is_left_by(self, op: Operation) -> bool:
        """True if this is a loop and `op` is an Exit out of it."""
        return False

    def can_read(self, loop: ControlFlowContext) -> bool:
        """True if tensors of `loop` may be read here: it is this context, or one around it."""
        return any(c is loop for c in chain(self))

    def check_reader(self, source: Operation, reader: Operation) -> None:
        """Raise ``ValueError`` if `reader`, outside every context, cannot read `source`."""
        check_frames(reader, source, None)

    # ------------------------------------------------------------ building

    def AddOp(self, op: Operation) -> None:
        """Take `op`, which was just made in this context, in: bring its inputs inside."""
        for source in [*(t.op for t in op.inputs), *op.control_inputs]:
            check_frames(op, source, self)
        op._set_control_flow_context(self)
        for i, tensor in enumerate(op.inputs):
            inside = self.AddValue(tensor)
            if inside is not tensor:
                op._update_input(i, inside)
        controls = [self.bring_control(c) for c in op.control_inputs]
        op._control_inputs[:] = dict.fromkeys(c for c in controls if c is not None)
        if self._is_unanchored(op):
            op._add_control_input(self.pivot.op)
        if output_context(op) is not None:
            self.graph.prevent_fetching(op)
            for output in op.outputs:
                self.graph.prevent_feeding(output)

    def AddValue(self, tensor: Tensor) -> Tensor:
        """Return the form of `tensor` that operations of this context read."""
        if self.contains(tensor.op):
            return tensor
        inside = self._captured.get(tensor)
        if inside is None:
            inside = self._captured[tensor] = self._capture(tensor)
        return inside

    def bring_control(self, op: Operation) -> Operation | None:
        """The operation to wait for instead of `op`; None if it is waited for anyway."""
        raise NotImplementedError

    def _capture(self, tensor: Tensor) -> Tensor:
        """Bring an outside `tensor` into this context."""
        raise NotImplementedError

    def _is_unanchored(self, op: Operation) -> bool:
        """True if nothing that `op` reads or waits for tells when it has to run."""
        raise NotImplementedError


# ---------------------------------------------------------------- where something is


def chain(context: ControlFlowContext | None) -> Iterator[ControlFlowContext]:
    """`context` and those around it, from the inside outwards."""
    while context is not None:
        yield context
        context = context.outer_context


def output_context(op: Operation) -> ControlFlowContext | None:
    """The context in which the outputs of `op` are read: what leaves a loop is outside it."""
    context = op._control_flow_context
    if context is not None and op.type in EXIT_TYPES and context.is_left_by(op):
        return context.outer_context
    return context


def loop_of(context: ControlFlowContext | None) -> ControlFlowContext | None:
    """The innermost loop that `context` is or lies in, or None."""
    return next((c for c in chain(context) if c.is_loop), None)


def is_invariant(tensor: Tensor) -> bool:
    """True for a value that a loop reads from outside: the same in all iterations."""
    return tensor.op.type in ENTER_TYPES and bool(tensor.op.attr("is_constant"))


def is_loop_switch(op: Operation) -> bool:
    """True if `op` is the Switch at which a loop variable enters the body or leaves the loop."""
    return op.type in SWITCH_TYPES and op.inputs[1].op.type == "LoopCond"


def is_loop_merge(op: Operation) -> bool:
    """True if `op` is the Merge of a loop variable: of its first and its next values."""
    return op.type in MERGE_TYPES and any(t.op.type in ENTER_TYPES for t in op.inputs)


def check_frames(reader: Operation, source: Operation,
                 context: ControlFlowContext | None) -> None:
    """Raise ``ValueError`` unless `reader`, made in `context`, may read or wait for `source`.

    What is inside a loop can be read there, and in what lies inside that loop.
    """
    loop = loop_of(output_context(source))
    if loop is None or (context is not None and context.can_read(loop)):
        return
    where = loop_of(context)
    here = "outside of it" if where is None else f"in the loop '{where.name}'"
    reason = "they are in different while loops" if where else f"'{source.name}' is in a while loop"
    details = (f"'{source.name}' is inside the loop '{loop.name}' and '{reader.name}' is {here}; "
               "only what the loop returns can be used outside of it")
    logging.getLogger("hpcflow").info("%s was made in %s", details, source._stack)
    raise ValueError(f"Cannot use '{source.name}' as input to '{reader.name}' because {reason}. "
                     f"See info log for more details. {details}")


# ---------------------------------------------------------------- changing the current context


@contextlib.contextmanager
def building_in(graph: Graph, context: ControlFlowContext | None,
                waiting_for: Iterable[Operation] = ()) -> Iterator[None]:
    """Build in `context`, whatever the current one is; of control dependencies only these hold."""
    with graph.control_dependencies(None):
        graph._control_flow_context = context
        with graph.control_dependencies(list(waiting_for)):
            yield


@contextlib.contextmanager
def current(context: ControlFlowContext) -> Iterator[None]:
    """Make `context` the current one; control dependencies around it stay."""
    graph = context.graph
    previous = graph._control_flow_context
    graph._control_flow_context = context
    try:
        yield
    finally:
        graph._control_flow_context = previous


def switch(data: Tensor, pred: Tensor, name: str | None = None) -> list[Tensor]:
    """(false output, true output) of a Switch beside `data`; of a variable, by reference."""
    op_type = raw_ops.RefSwitch if data.dtype._is_ref_dtype else raw_ops.Switch
    with data.graph.colocate_with(data.op, ignore_existing=True):
        outputs: Any = op_type(data=data, pred=pred, name=name)
    return outputs
