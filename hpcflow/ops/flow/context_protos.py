"""Contexts of conditionals and loops as protobufs, which MetaGraphs carry.

Other readers need them to take gradients; here the contexts follow from the operations, so reading
means to find the context that a protobuf describes.
"""

from __future__ import annotations

from typing import Any

from hpcflow.base.formats.protos import message_class
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.operation import Tensor
from hpcflow.ops.common.slice_info import prepend_scope, strip_scope
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import (
    ControlFlowContext,
    chain,
    context_from_proto,
    context_to_proto,
)
from hpcflow.ops.flow.while_context import WhileContext

__all__: list[str] = []


@context_to_proto.provide
def to_proto(context: ControlFlowContext, export_scope: str | None = None) -> Any:
    """The ``CondContextDef`` or ``WhileContextDef`` of a context; None if it is not in the scope.

    Names are relative to `export_scope`.
    """
    name = context.imported_name or context.name
    if export_scope and not name.startswith(export_scope.rstrip("/") + "/"):
        return None
    if isinstance(context, CondContext):
        proto = message_class("CondContextDef")(
            pred_name=strip_scope(context.pred.name, export_scope), branch=context.branch)
    else:
        proto = _loop_proto(context, export_scope)
    proto.context_name = strip_scope(name, export_scope)
    proto.pivot_name = strip_scope(_pivot_of(context).name, export_scope)
    _fill_values(proto.values_def, context, export_scope)
    for inner in _directly_inside(context):
        nested = proto.nested_contexts.add()
        part = nested.cond_ctxt if isinstance(inner, CondContext) else nested.while_ctxt
        part.CopyFrom(to_proto(inner, export_scope))
    return proto


def _directly_inside(context: ControlFlowContext) -> list[ControlFlowContext]:
    """The contexts around which there is none before `context`."""
    found = {c: None for op in context.graph.get_operations()
             for c in chain(op._control_flow_context) if c.outer_context is context}
    return list(found)


def _pivot_of(context: Any) -> Tensor:
    """For a loop its predicate."""
    return context.predicate if isinstance(context, WhileContext) else context.pivot


def _loop_proto(context: Any, scope: str | None) -> Any:
    first = context.variables[0]
    return message_class("WhileContextDef")(
        parallel_iterations=context.parallel_iterations, back_prop=context.back_prop,
        swap_memory=context.swap_memory,
        pivot_for_pred_name=strip_scope(first.merge.name, scope),
        pivot_for_body_name=strip_scope(first.value.name, scope),
        loop_exit_names=[strip_scope(v.exit.name, scope) for v in context.variables],
        loop_enter_names=[strip_scope(v.enter.name, scope) for v in context.variables])


def _fill_values(proto: Any, context: ControlFlowContext, scope: str | None) -> None:
    """The tensors inside, and what those from outside are called inside."""
    inside = [t for op in context.graph.get_operations() for t in op.outputs
              if op._control_flow_context is context]
    outside = {t: i for t, i in context._captured.items() if t is not i}
    if isinstance(context, CondContext):
        outside[context.pred] = context.pred
    named = [*inside, *outside, *([context.pivot] if isinstance(context, CondContext) else [])]
    proto.values.extend(sorted({strip_scope(t.name, scope) for t in named}))
    for tensor, form in outside.items():
        proto.external_values[strip_scope(tensor.name, scope)] = strip_scope(form.name, scope)


@context_from_proto.provide
def from_proto(proto: Any, import_scope: str | None = None) -> ControlFlowContext | None:
    """The context of the default graph that `proto` describes; None if it is not known as one.

    It takes the name and the predicate that it has there, as far as the graph has that.
    """
    context = _described(proto, import_scope)
    if context is not None:
        context.imported_name = prepend_scope(proto.context_name, import_scope or "")
        named = prepend_scope(getattr(proto, "pred_name", ""), import_scope or "")
        if isinstance(context, CondContext) and named.rpartition(":")[0] in (
                context.graph._nodes_by_name):
            context.pred = context.graph.get_tensor_by_name(named)
    return context


def _described(proto: Any, import_scope: str | None) -> ControlFlowContext | None:
    name = prepend_scope(proto.pivot_name, import_scope or "")
    graph = get_default_graph()
    pivot = graph.get_tensor_by_name(name)
    kind = CondContext if proto.DESCRIPTOR.name == "CondContextDef" else WhileContext
    for c in chain(pivot.op._control_flow_context):
        if isinstance(c, kind):
            return c
    # The pivot of a branch may be outside of it; what is inside was added soon after it.
    inside = (c for op in graph.get_operations()[pivot.op._id:]
              for c in chain(op._control_flow_context))
    return next((c for c in inside if isinstance(c, kind) and _pivot_of(c) is pivot), None)
