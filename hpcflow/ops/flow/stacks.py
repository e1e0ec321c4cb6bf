"""Stacks of tensors that live as long as a step: where loops keep values for their gradients."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import no_outputs, resource_handle, unknown, with_rank

__all__: list[str] = []


def _handle_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "the maximal size")
    return [None]  # here a scalar; other runtimes call it a vector of two, and compare


def _pushed_shape(op: Operation) -> list[Dims]:
    return [op.input_dims(1)]


_PUSH = "T: type; swap_memory: bool = false"
register_op("Stack", outputs="handle: Ref(string)",
            attrs='elem_type: type; stack_name: string = ""', stateful=True, shape=resource_handle)
register_op("StackPush", "handle: Ref(string); elem: T", "output: T", _PUSH, stateful=True,
            shape=_pushed_shape)
register_op("StackPop", "handle: Ref(string)", "elem: elem_type", "elem_type: type", stateful=True,
            shape=unknown)
register_op("StackClose", "handle: Ref(string)", stateful=True, shape=no_outputs)
register_op("StackV2", "max_size: int32", "handle: resource",
            'elem_type: type; stack_name: string = ""', stateful=True, shape=_handle_shape)
register_op("StackPushV2", "handle: resource; elem: T", "output: T", _PUSH, stateful=True,
            shape=_pushed_shape)
register_op("StackPopV2", "handle: resource", "elem: elem_type", "elem_type: type", stateful=True,
            shape=unknown)
register_op("StackCloseV2", "handle: resource", stateful=True, shape=no_outputs)
not_differentiable("Stack", "StackPush", "StackPop", "StackClose", "StackV2", "StackPushV2",
                   "StackPopV2", "StackCloseV2")


PUSH_TYPES = ("StackPush", "StackPushV2")


def stack_of(op: Operation) -> Operation:
    """The operation that made the stack which `op` pushes onto or pops from, as far as it shows.

    A handle comes through Enter and Switch from where it was made, or from another stack.
    """
    source = op.inputs[0].op
    while source.type in ("Enter", "RefEnter", "Switch", "RefSwitch", "Identity", "RefIdentity"):
        source = source.inputs[0].op
    return source
