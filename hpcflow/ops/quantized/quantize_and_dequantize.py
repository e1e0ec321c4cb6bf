"""Op types of later writers that round to integers and back: QuantizeAndDequantizeV2, V3, V4."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged, with_rank

__all__: list[str] = []

_FLOATS = "{bfloat16, half, float, double}"


def _along_axis(op: Operation) -> list[Dims]:
    """The range is of scalars, or has a number for each place along the axis."""
    dims, axis = op.input_dims(0), op.attr("axis")
    if axis < -1:
        raise ValueError(f"axis should be at least -1, got {axis}")
    wanted: Dims = ()
    if axis >= 0:
        if dims is not None and axis >= len(dims):
            raise ValueError(f"axis {axis} is not one of {len(dims)} dimensions")
        wanted = (None if dims is None else dims[axis],)
    for i in (1, 2):
        if axis < 0:
            with_rank(op.input_dims(i), 0, "the range")
        else:
            merge_dims(op.input_dims(i), wanted)
    return unchanged(op)


_ROUNDING = ("round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; "
             "narrow_range: bool = false; axis: int = -1")
for _version in ("V2", "V4"):
    register_op(f"QuantizeAndDequantize{_version}", "input: T; input_min: T; input_max: T",
                "output: T", "signed_input: bool = true; num_bits: int = 8; "
                f"range_given: bool = false; T: {_FLOATS}; {_ROUNDING}", shape=_along_axis)
register_op("QuantizeAndDequantizeV3",
            "input: T; input_min: T; input_max: T; num_bits: int32", "output: T",
            f"signed_input: bool = true; range_given: bool = true; T: {_FLOATS}; "
            "narrow_range: bool = false; axis: int = -1", shape=_along_axis)
register_op("QuantizeAndDequantizeV4Grad",
            "gradients: T; input: T; input_min: T; input_max: T",
            "input_backprop: T; input_min_backprop: T; input_max_backprop: T",
            f"T: {_FLOATS}; axis: int = -1",
            shape=lambda op: [merge_dims(op.input_dims(0), op.input_dims(1)), op.input_dims(2),
                              op.input_dims(3)])

@RegisterGradient("QuantizeAndDequantizeV3")
@RegisterGradient("QuantizeAndDequantizeV2")
def _straight_through(op: Operation, grad: Tensor) -> list:
    """As if the numbers were not rounded."""
    return [grad, *[None] * (len(op.inputs) - 1)]


@RegisterGradient("QuantizeAndDequantizeV4")
def _within_range(op: Operation, grad: Tensor) -> list:
    """As if the numbers were not rounded, and nothing for those outside of the range."""
    return list(raw_ops.QuantizeAndDequantizeV4Grad(grad, *op.inputs, axis=op.attr("axis")))


@RegisterGradient("QuantizeAndDequantizeV4Grad")
def _within_range_again(op: Operation, grad: Tensor, *_: object) -> list:
    """Linear in the gradients."""
    within = raw_ops.QuantizeAndDequantizeV4Grad(grad, *op.inputs[1:], axis=op.attr("axis"))[0]
    return [within, None, None, None]
