"""Fractional pooling: FractionalMaxPool, FractionalAvgPool and their gradient ops."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, with_rank


def _pooled_shape(op: Operation) -> list[Dims]:
    dims = with_rank(op.input_dims(0), 4, "value")
    ratios = op.attr("pooling_ratio")
    if len(ratios) != 4:
        raise ValueError(f"pooling_ratio must have 4 elements, got {list(ratios)}")
    if min(ratios) < 1:
        raise ValueError(f"pooling_ratio cannot be smaller than 1, got {list(ratios)}")
    out = tuple(None if d is None else int(d / r) for d, r in zip(dims, ratios, strict=True))
    return [out, *((None if d is None else d + 1,) for d in out[1:3])]


def _original_shape(op: Operation) -> list[Dims]:
    return [with_rank(op.input_dims(0), 4, "orig_input")]


def _described_shape(op: Operation) -> list[Dims]:
    return [with_rank(constant_value_as_dims(op.inputs[0]), 4, "orig_input_tensor_shape")]


_TYPES = "T: {float, double, int32, int64}"
_SEQUENCES = "row_pooling_sequence: int64; col_pooling_sequence: int64"
_ATTRS = ("pooling_ratio: list(float) >= 4; pseudo_random: bool = false; "
          "overlapping: bool = false; deterministic: bool = false; seed: int = 0; "
          f"seed2: int = 0; {_TYPES}")

# Not stateful by their definitions, but random: they must not be computed once and for all.
for _name in ("FractionalMaxPool", "FractionalAvgPool"):
    register_op(_name, "value: T", f"output: T; {_SEQUENCES}", _ATTRS, shape=_pooled_shape,
                stateful=True)
register_op("FractionalMaxPoolGrad",
            f"orig_input: T; orig_output: T; out_backprop: T; {_SEQUENCES}", "output: T",
            f"overlapping: bool = false; {_TYPES}", shape=_original_shape)
register_op("FractionalAvgPoolGrad",
            f"orig_input_tensor_shape: int64; out_backprop: T; {_SEQUENCES}", "output: T",
            f"overlapping: bool = false; {_TYPES}", shape=_described_shape)
not_differentiable("FractionalMaxPoolGrad", "FractionalAvgPoolGrad")


@RegisterGradient("FractionalMaxPool")
def _max_grad(op: Operation, grad: Tensor, *_: Tensor) -> Tensor:
    y, rows, columns = op.outputs
    return raw_ops.FractionalMaxPoolGrad(op.inputs[0], y, grad, rows, columns,
                                         overlapping=op.attr("overlapping"))


@RegisterGradient("FractionalAvgPool")
def _avg_grad(op: Operation, grad: Tensor, *_: Tensor) -> Tensor:
    rows, columns = op.outputs[1:]
    shape = raw_ops.Shape(op.inputs[0], out_type=dtypes.int64)
    return raw_ops.FractionalAvgPoolGrad(shape, grad, rows, columns,
                                         overlapping=op.attr("overlapping"))
