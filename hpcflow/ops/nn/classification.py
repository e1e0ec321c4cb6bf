"""Class scores: Softmax, LogSoftmax, the softmax cross entropies, TopK and InTopK."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    constant_value,
    merge_dim,
    show,
    with_rank,
    with_rank_at_least,
)
from hpcflow.ops.common.type_sets import ANY_FLOAT, INDEX, ORDERED

# ---------------------------------------------------------------- Softmax


def _softmax_shape(op: Operation) -> list[Dims]:
    return [with_rank_at_least(op.input_dims(0), 1, "logits")]


register_op("Softmax", "logits: T", "softmax: T", f"T: {ANY_FLOAT}", shape=_softmax_shape)
register_op("LogSoftmax", "logits: T", "logsoftmax: T", f"T: {ANY_FLOAT}", shape=_softmax_shape)

_LAST = np.array([-1], np.int32)


@RegisterGradient("Softmax")
def _softmax_grad(op: Operation, grad: Tensor) -> Tensor:
    """(grad - Σ grad·softmax) · softmax, row by row."""
    softmax = op.outputs[0]
    total = raw_ops.Sum(raw_ops.Mul(grad, softmax), _LAST, keep_dims=True)
    return raw_ops.Mul(raw_ops.Sub(grad, total), softmax)


@RegisterGradient("LogSoftmax")
def _log_softmax_grad(op: Operation, grad: Tensor) -> Tensor:
    """grad - softmax · Σ grad, row by row."""
    softmax = raw_ops.Exp(op.outputs[0])
    total = raw_ops.Sum(grad, _LAST, keep_dims=True)
    return raw_ops.Sub(grad, raw_ops.Mul(total, softmax))


# ---------------------------------------------------------------- cross entropies


def _cross_entropy_shape(op: Operation) -> list[Dims]:
    dims = broadcast_dims(op.input_dims(0), op.input_dims(1))
    if dims is not None and len(dims) != 2:
        raise ValueError(f"Shape must be broadcasted with rank 2, but is rank {len(dims)}: logits "
                         f"{show(op.input_dims(0))}, labels {show(op.input_dims(1))}")
    return [None if dims is None else (dims[0],), dims]


def _sparse_cross_entropy_shape(op: Operation) -> list[Dims]:
    rows, classes = with_rank(op.input_dims(0), 2, "logits")
    labels = with_rank(op.input_dims(1), 1, "labels")
    try:
        rows = merge_dim(rows, labels[0])
    except ValueError:
        raise ValueError(f"logits and labels must have the same first dimension, got logits shape "
                         f"{show(op.input_dims(0))} and labels shape {show(labels)}") from None
    return [(rows,), (rows, classes)]


register_op("SoftmaxCrossEntropyWithLogits", "features: T; labels: T", "loss: T; backprop: T",
            f"T: {ANY_FLOAT}", shape=_cross_entropy_shape)
register_op("SparseSoftmaxCrossEntropyWithLogits", "features: T; labels: Tlabels",
            "loss: T; backprop: T", f"T: {ANY_FLOAT}; Tlabels: {INDEX} = int64",
            shape=_sparse_cross_entropy_shape)


def _column(x: Tensor) -> Tensor:
    return raw_ops.ExpandDims(x, np.int32(-1))


def _is_zero(grad: Tensor) -> bool:
    """True for the zeros that stand for a gradient nobody asked about."""
    return grad is None or getattr(grad, "op", None) is not None and grad.op.type == "ZerosLike"


def _scores_grad(op: Operation, grad_loss: Tensor, grad_backprop: Tensor) -> Tensor:
    """The loss's gradient is the second output; its own gradient is that of a softmax."""
    softmax_minus_labels = op.outputs[1]
    grad = raw_ops.Mul(_column(grad_loss), softmax_minus_labels)
    if not _is_zero(grad_backprop):
        softmax = raw_ops.Softmax(op.inputs[0])
        total = raw_ops.Sum(raw_ops.Mul(grad_backprop, softmax), _LAST, keep_dims=True)
        through = raw_ops.Mul(raw_ops.Sub(grad_backprop, total), softmax)
        grad = raw_ops.Add(grad, through)
    return grad


@RegisterGradient("SoftmaxCrossEntropyWithLogits")
def _cross_entropy_grad(op: Operation, grad_loss: Tensor, grad_backprop: Tensor) -> tuple:
    """The loss is linear in the labels; so is the second output, which subtracts them."""
    by_labels = raw_ops.Neg(raw_ops.Mul(_column(grad_loss), raw_ops.LogSoftmax(op.inputs[0])))
    if not _is_zero(grad_backprop):
        by_labels = raw_ops.Sub(by_labels, grad_backprop)
    return _scores_grad(op, grad_loss, grad_backprop), by_labels


@RegisterGradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy_grad(op: Operation, grad_loss: Tensor, grad_backprop: Tensor) -> tuple:
    """Labels that are numbers of classes have no gradient."""
    return _scores_grad(op, grad_loss, grad_backprop), None

# ---------------------------------------------------------------- TopK, InTopK


def _top_k_shape(op: Operation) -> list[Dims]:
    if op.type == "TopK":
        k = op.attr("k")
    else:
        known = constant_value(op.inputs[1])
        with_rank(op.input_dims(1), 0, "k")
        k = None if known is None else int(known)
    dims = with_rank_at_least(op.input_dims(0), 1, "input")
    if dims is None:
        return [None, None]
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}: it must be non-negative")
    if k is not None and dims[-1] is not None and dims[-1] < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {show(dims)}")
    return [(*dims[:-1], k)] * 2


register_op("TopK", "input: T", "values: T; indices: int32",
            f"k: int >= 0; sorted: bool = true; T: {ORDERED}", shape=_top_k_shape,
            deprecated="TopKV2 takes k as an input")
_PLACES = "{int16, int32, int64} = int32"
register_op("TopKV2", "input: T; k: Tk", "values: T; indices: index_type",
            f"sorted: bool = true; T: {ORDERED}; Tk: {_PLACES}; index_type: {_PLACES}",
            shape=_top_k_shape)


def _top_k_grad(op: Operation, grad: Tensor, _: object) -> Tensor:
    """The gradients go back to where the values came from, through flat positions."""
    x, indices = op.inputs[0], op.outputs[1]
    shape = raw_ops.Shape(x)
    columns = raw_ops.Gather(shape, raw_ops.Sub(raw_ops.Size(shape), np.int32(1)))
    k = raw_ops.Gather(raw_ops.Shape(indices), raw_ops.Sub(raw_ops.Size(shape), np.int32(1)))
    table = raw_ops.Reshape(indices, raw_ops.Pack([np.int32(-1), k], axis=0))
    rows = raw_ops.Gather(raw_ops.Shape(table), np.int32(0))
    starts = raw_ops.Mul(raw_ops.Range(np.int32(0), rows, np.int32(1)), columns)
    positions = raw_ops.Reshape(raw_ops.Add(table, _column(starts)), [-1])
    flat = raw_ops.UnsortedSegmentSum(raw_ops.Reshape(grad, [-1]), positions, raw_ops.Size(x))
    return raw_ops.Reshape(flat, shape)


@RegisterGradient("TopK")
def _top_k_v1_grad(op: Operation, grad: Tensor, grad_indices: Any) -> Tensor:
    return _top_k_grad(op, grad, grad_indices)


@RegisterGradient("TopKV2")
def _top_k_v2_grad(op: Operation, grad: Tensor, grad_indices: Any) -> tuple:
    return _top_k_grad(op, grad, grad_indices), None


def _in_top_k_shape(op: Operation) -> list[Dims]:
    rows = with_rank(op.input_dims(0), 2, "predictions")[0]
    return [(merge_dim(rows, with_rank(op.input_dims(1), 1, "targets")[0]),)]


register_op("InTopK", "predictions: float; targets: T", "precision: bool",
            f"k: int; T: {INDEX} = int32", shape=_in_top_k_shape)
not_differentiable("InTopK")

register_op("InTopKV2", "predictions: float; targets: T; k: T", "precision: bool",
            f"T: {INDEX} = int32", shape=lambda op: [op.input_dims(1)])
not_differentiable("InTopKV2")
