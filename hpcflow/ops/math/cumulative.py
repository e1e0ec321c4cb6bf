"""Running sums and products along an axis: Cumsum and Cumprod."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank_at_least
from hpcflow.ops.common.type_sets import SUMMED

__all__ = ["cumprod", "cumsum"]


def _cumulative_shape(op: Operation) -> list[Dims]:
    # The axis is judged by the kernel: programs expect its error from the step.
    return [with_rank_at_least(op.input_dims(0), 1, "x")]


for _op_type in ("Cumsum", "Cumprod"):
    register_op(_op_type, "x: T; axis: Tidx", "out: T",
                f"exclusive: bool = false; reverse: bool = false; T: {SUMMED}; "
                "Tidx: {int32, int64} = int32", shape=_cumulative_shape)


@RegisterGradient("Cumsum")
def _cumsum_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.Cumsum(grad, op.inputs[1], exclusive=op.attr("exclusive"),
                          reverse=not op.attr("reverse")), None


@RegisterGradient("Cumprod")
def _cumprod_grad(op: Operation, grad: Tensor) -> tuple:
    """Each element divides every product that holds it; NaN where an element is zero."""
    x, axis = op.inputs
    total = raw_ops.Cumsum(raw_ops.Mul(op.outputs[0], grad), axis, exclusive=op.attr("exclusive"),
                           reverse=not op.attr("reverse"))
    return raw_ops.RealDiv(total, x), None


register_op("CumulativeLogsumexp", "x: T; axis: Tidx", "out: T",
            "exclusive: bool = false; reverse: bool = false; T: {bfloat16, half, float, double}; "
            "Tidx: {int32, int64} = int32", shape=_cumulative_shape)


# Of the lowest number of a dtype, so that what is added to it or taken from it stays finite.
_LOW = 0.25


@RegisterGradient("CumulativeLogsumexp")
def _cumulative_logsumexp_grad(op: Operation, grad: Tensor) -> tuple:
    """``exp(x) * cumsum(grad / exp(out))`` against the direction, by logarithms of both signs."""
    x, axis = op.inputs

    def of_sign(part: Any) -> Tensor:
        total = raw_ops.CumulativeLogsumexp(
            raw_ops.Sub(_log_of_positive(part), op.outputs[0]), axis,
            exclusive=op.attr("exclusive"), reverse=not op.attr("reverse"))
        return raw_ops.Exp(raw_ops.Add(total, x))

    return raw_ops.Sub(of_sign(grad), of_sign(raw_ops.Neg(grad))), None


def _log_of_positive(x: Tensor) -> Tensor:
    """The logarithms, of what is not positive a very low number: of an infinity the gradient of
    the gradient would be NaN."""
    zeros = raw_ops.ZerosLike(x)
    positive = raw_ops.Greater(x, zeros)
    dtype = x.dtype.base_dtype
    lowest = raw_ops.Add(zeros, np.asarray(_LOW * float(dtype.min), dtype.np))
    safe = raw_ops.Select(positive, x, raw_ops.OnesLike(x))
    return raw_ops.Select(positive, raw_ops.Log(safe), lowest)


def cumsum(x: TensorLike, axis: TensorLike = 0, exclusive: bool = False, reverse: bool = False,
           name: str | None = None) -> Tensor:
    """Return the running sums along `axis`.

    `exclusive` leaves out the element itself (the first result is zero); `reverse` runs from the
    end.
    """
    return raw_ops.Cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumprod(x: TensorLike, axis: TensorLike = 0, exclusive: bool = False, reverse: bool = False,
            name: str | None = None) -> Tensor:
    """Return the running products along `axis`; options as in :func:`cumsum`, starting at one."""
    return raw_ops.Cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumulative_logsumexp(x: TensorLike, axis: TensorLike = 0, exclusive: bool = False,
                         reverse: bool = False, name: str | None = None) -> Tensor:
    """Return the logarithms of the running sums of exponentials along `axis`; options as in
    :func:`cumsum`. With `exclusive` the first result is the lowest number of the dtype."""
    return raw_ops.CumulativeLogsumexp(x, axis, exclusive=exclusive, reverse=reverse, name=name)
