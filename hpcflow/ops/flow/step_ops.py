"""Op types of the step itself: feeds, fetches, Send and Recv, the primitives of control flow."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dims,
    no_outputs,
    passed_on,
    register_constant_shape,
    register_constant_value,
    unchanged,
    unknown,
    with_rank,
)

_EDGE = ("tensor_name: string; send_device: string; send_device_incarnation: int; "
         "recv_device: string; client_terminated: bool = false")

register_op("_Feed", outputs="output: dtype", attrs="dtype: type; index: int", shape=unknown)
register_op("_Fetch", inputs="input: T", attrs="T: type; index: int")
register_op("_FetchOp", attrs="index: int", stateful=True)
# Reads the values of a fetched operation on its device, so that they are computed.
register_op("_Keep", inputs="input: T", attrs="T: list(type)", stateful=True)
register_op("_Send", inputs="tensor: T", attrs=f"T: type; {_EDGE}", stateful=True)
register_op("_Recv", outputs="tensor: tensor_type", attrs=f"tensor_type: type; {_EDGE}",
            stateful=True, shape=unknown)
# Control edges between devices: an empty message.
register_op("_SendControl", attrs=_EDGE, stateful=True)
register_op("_RecvControl", attrs=_EDGE, stateful=True)
# On each task of a loop that is spread over several: begins the next iteration there. `loop` is
# its number in the step; the owner, which has the LoopCond, knows the followers.
register_op("_LoopGate", inputs="pred: bool",
            attrs="loop: int; frame_name: string; owner: string; followers: list(string)",
            stateful=True, shape=no_outputs)


def _switch_shape(op: Operation) -> list[Dims]:
    pred = op.input_dims(1)
    if pred is not None and len(pred) != 0:
        raise ValueError(f"Switch: the predicate must be a scalar, got rank {len(pred)}")
    return passed_on(op)


def _merge_shape(op: Operation) -> list[Dims]:
    """The shape all inputs agree on; the back edge of a loop is not known yet."""
    if any(t.op.type in ("Enter", "RefEnter") for t in op.inputs):
        return [None, ()]
    first, *rest = [t._dims for t in op.inputs]
    out = first
    for dims in rest:
        if out is None or dims is None or len(out) != len(dims):
            return [None, ()]
        out = tuple(a if a == b else None for a, b in zip(out, dims, strict=True))
    return [out, ()]


def _select_shape(op: Operation) -> list[Dims]:
    """The shape that all inputs have."""
    with_rank(op.input_dims(0), 0, "the index")
    found = {t._dims for t in op.inputs[1:]}
    return [found.pop() if len(found) == 1 else None]


def _loop_cond_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), ())]


_FRAME = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10"
register_op("Switch", "data: T; pred: bool", "output_false: T; output_true: T", "T: type",
            shape=_switch_shape)
register_op("RefSwitch", "data: Ref(T); pred: bool", "output_false: Ref(T); output_true: Ref(T)",
            "T: type", shape=_switch_shape, allows_uninitialized_input=True)
register_op("Merge", "inputs: N * T", "output: T; value_index: int32", "T: type; N: int >= 1",
            shape=_merge_shape)
register_op("RefMerge", "inputs: N * Ref(T)", "output: Ref(T); value_index: int32",
            "T: type; N: int >= 1", shape=_merge_shape)
register_op("Enter", "data: T", "output: T", _FRAME, shape=passed_on)
register_op("RefEnter", "data: Ref(T)", "output: Ref(T)", _FRAME, shape=unchanged)
register_op("Exit", "data: T", "output: T", "T: type", shape=passed_on)
register_op("RefExit", "data: Ref(T)", "output: Ref(T)", "T: type", shape=unchanged)
register_op("NextIteration", "data: T", "output: T", "T: type", shape=passed_on)
register_op("RefNextIteration", "data: Ref(T)", "output: Ref(T)", "T: type", shape=unchanged)
register_op("LoopCond", "input: bool", "output: bool", shape=_loop_cond_shape)
register_op("RefSelect", "index: int32; inputs: N * Ref(T)", "output: Ref(T)",
            "T: type; N: int >= 1", shape=_select_shape)
register_op("Abort", attrs='error_msg: string = ""; exit_without_error: bool = false',
            stateful=True, shape=no_outputs)


@register_constant_value("Enter")
def _enter_value(op: Operation) -> Any:
    """Return the constant value of a loop invariant, which is the same in all iterations."""
    return constant_value(op.inputs[0]) if op.attr("is_constant") else None


@register_constant_shape("Enter")
def _enter_dims(op: Operation) -> Dims:
    """Return the shape that a loop invariant is, as far as it is known."""
    return constant_value_as_dims(op.inputs[0]) if op.attr("is_constant") else None


@register_constant_value("Switch")
def _switch_value(op: Operation) -> Any:
    """Return the constant value of a Switch: that of its input, on the side that is taken."""
    return constant_value(op.inputs[0])


@register_constant_shape("Switch", output=0)
@register_constant_shape("Switch", output=1)
def _switch_dims(op: Operation) -> Dims:
    return constant_value_as_dims(op.inputs[0])


not_differentiable("_Feed", "_Fetch", "_FetchOp", "_Keep", "_Send", "_Recv", "_SendControl",
                   "_RecvControl", "_LoopGate", "LoopCond", "RefSelect", "Abort")
