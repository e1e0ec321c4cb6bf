"""Biases added along the channels, and L2Loss."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, scalar, show, with_rank, with_rank_at_least
from hpcflow.ops.common.type_sets import SUMMED

_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"


def channel_axis(op: Operation, rank: int) -> int:
    """The axis of the channels: the last one, or for NCHW the second."""
    return 1 if op.attr("data_format") == b"NCHW" and rank >= 3 else rank - 1


def _least_rank(op: Operation) -> int:
    return 3 if op.attr("data_format", b"NHWC") == b"NCHW" else 2


def _bias_add_shape(op: Operation) -> list[Dims]:
    value, bias = op.input_dims(0), with_rank(op.input_dims(1), 1, "bias")
    if value is None:
        return [None]
    with_rank_at_least(value, _least_rank(op), "value")
    axis = channel_axis(op, len(value))
    try:
        channels = merge_dim(value[axis], bias[0])
    except ValueError:
        raise ValueError(f"bias {show(bias)} does not fit the channels (axis {axis}) of "
                         f"{show(value)}") from None
    return [(*value[:axis], channels, *value[axis + 1 :])]


def _bias_add_grad_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), _least_rank(op), "out_backprop")
    return [(None if dims is None else dims[channel_axis(op, len(dims))],)]


register_op("BiasAdd", "value: T; bias: T", "output: T", f"T: {SUMMED}; {_FORMAT}",
            shape=_bias_add_shape)
register_op("BiasAddV1", "value: T; bias: T", "output: T", f"T: {SUMMED}", shape=_bias_add_shape)
register_op("BiasAddGrad", "out_backprop: T", "output: T", f"T: {SUMMED}; {_FORMAT}",
            shape=_bias_add_grad_shape)


def _data_format(op: Operation) -> bytes:
    return op.attr("data_format", b"NHWC")


@RegisterGradient("BiasAdd")
def _bias_add_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, raw_ops.BiasAddGrad(grad, data_format=_data_format(op))


@RegisterGradient("BiasAddV1")
def _bias_add_v1_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, raw_ops.BiasAddGrad(grad)


@RegisterGradient("BiasAddGrad")
def _bias_add_grad_grad(op: Operation, grad: Tensor) -> Tensor:
    """The bias's gradient repeated over everything that it was summed over."""
    zeros = raw_ops.ZerosLike(op.inputs[0])
    return raw_ops.BiasAdd(zeros, grad, data_format=_data_format(op))


# ---------------------------------------------------------------- L2Loss

register_op("L2Loss", "t: T", "output: T", f"T: {SUMMED}", shape=scalar)


@RegisterGradient("L2Loss")
def _l2_loss_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Mul(op.inputs[0], grad)
