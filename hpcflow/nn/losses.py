"""Loss functions: cross entropies, the log Poisson loss, half the squared norm."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.graph.shape_inference import broadcast_dims, merge_dims, show

__all__ = [
    "l2_loss",
    "log_poisson_loss",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
]


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Return sum(t²) / 2, a scalar."""
    return raw_ops.L2Loss(t=t, name=name)


def _check_named(function: str, sentinel: Any, labels: TensorLike, logits: TensorLike) -> None:
    """The order of the two arguments was changed once; only names are unmistakable."""
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., "
                         "...)")
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


def _same_shape(first: str, a: Tensor, second: str, b: Tensor) -> None:
    try:
        merge_dims(a._dims, b._dims)
    except ValueError:
        raise ValueError(f"{first} and {second} must have the same shape ({show(a._dims)} vs "
                         f"{show(b._dims)})") from None


# ---------------------------------------------------------------- softmax


def _in_float32(x: Tensor) -> Tensor:
    """Halves are too short for a loss."""
    half = x.dtype.base_dtype is dtypes.float16
    return raw_ops.Cast(x, DstT="float32") if half else x


@also_called(axis="dim")
def softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None,
                                      logits: Any = None, dim: int = -1,
                                      name: str | None = None) -> Tensor:
    """Return -Σ labels · log softmax(logits) along `dim`: one loss per remaining element.

    `labels` are probability distributions of the shape of `logits`, or one for all rows, and are
    cast to their type; no gradient flows to them. Arguments must be named; ``ValueError`` if they
    are not, or the shapes differ.
    """
    _check_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "SoftmaxCrossEntropyWithLogits", [logits, labels]) as scope:
        logits, labels = _scores_and_labels(logits, labels)
        with counted_as(get_default_graph(), 32):
            fixed = raw_ops.StopGradient(labels, name="labels_stop_gradient")
            return _cross_entropy(logits, fixed, dim, scope)


@also_called(dim="axis")
def softmax_cross_entropy_with_logits_v2(labels: TensorLike, logits: TensorLike,
                                         axis: int | None = None,
                                         name: str | None = None) -> Tensor:
    """As :func:`softmax_cross_entropy_with_logits`, but gradients flow to the labels too, and the
    arguments need no names."""
    dim = -1 if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits, labels = _scores_and_labels(logits, labels)
        with counted_as(get_default_graph(), 31):
            return _cross_entropy(logits, labels, dim, scope)


def _scores_and_labels(logits: TensorLike, labels: TensorLike) -> tuple[Tensor, Tensor]:
    logits = convert_to_tensor(logits, name="logits")
    dtype = logits.dtype.base_dtype
    if not isinstance(labels, Tensor):
        with contextlib.suppress(TypeError, ValueError):
            return logits, convert_to_tensor(labels, dtype, name="labels")
    labels = convert_to_tensor(labels, name="labels")
    return logits, labels if labels.dtype.base_dtype is dtype else raw_ops.Cast(
        labels, DstT=dtype)


def _cross_entropy(logits: Tensor, labels: Tensor, dim: int, scope: str) -> Tensor:
    """The losses by the op, which takes matrices with the classes last."""
    kind = logits.dtype.base_dtype
    wide, labels = _in_float32(logits), _in_float32(labels)
    if wide._dims is not None and len(wide._dims) == 2 and dim in (-1, 1) and (
            kind is not dtypes.float16):
        wide, labels = _alike(wide, labels)
        return raw_ops.SoftmaxCrossEntropyWithLogits(wide, labels, name=scope)[0]
    wide, labels = _dim_last(wide, dim), _dim_last(labels, dim)
    rows = _alike(_as_matrix(wide), _as_matrix(labels))
    loss = raw_ops.SoftmaxCrossEntropyWithLogits(*rows)[0]
    loss = _like_rows(loss, wide)
    if kind is dtypes.float16:
        loss = raw_ops.Cast(loss, DstT="float16")
    return raw_ops.Identity(loss, name=scope)


def _alike(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Two matrices of one shape: single rows or columns are repeated as often as the other has."""
    try:
        together = broadcast_dims(logits._dims, labels._dims)
    except ValueError:
        _same_shape("logits", logits, "labels", labels)
        raise
    if together is None or None in together:
        return logits, labels
    return _repeated(logits, together), _repeated(labels, together)


def _repeated(x: Tensor, dims: tuple) -> Tensor:
    return x if x._dims == dims else raw_ops.BroadcastTo(x, np.array(dims, np.int32))


def _dim_last(x: Tensor, dim: int) -> Tensor:
    """`x` with axis `dim` moved to the end."""
    if dim == -1 or x._dims is not None and dim == len(x._dims) - 1:
        return x
    if x._dims is None:
        return _late_dim_last(x, np.int32(dim))
    rank = len(x._dims)
    if not -rank <= dim < rank:
        raise ValueError(f"dim = {dim} is out of range for logits of rank {rank}")
    order = [i for i in range(rank) if i != dim % rank] + [dim % rank]
    return raw_ops.Transpose(x, np.array(order, np.int32))


def _late_dim_last(x: Tensor, dim: np.int32) -> Tensor:
    """The same for a rank that is known in the step."""
    rank = raw_ops.Rank(x)
    at = raw_ops.AddV2(rank, dim) if dim < 0 else convert_to_tensor(dim)
    before = raw_ops.Range(np.int32(0), at, np.int32(1))
    after = raw_ops.Range(raw_ops.AddV2(at, np.int32(1)), rank, np.int32(1))
    return raw_ops.Transpose(x, raw_ops.ConcatV2([before, after, raw_ops.Pack([at])], 0))


def _as_matrix(x: Tensor) -> Tensor:
    """All but the last dimension in one."""
    if x._dims is not None and len(x._dims) == 2:
        return x
    classes = x._dims[-1] if x._dims else None
    if classes is not None:
        return raw_ops.Reshape(x, np.array([-1, classes], np.int32))
    shape = raw_ops.Shape(x)
    last = raw_ops.Slice(shape, raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(x), np.int32(1)), [1]),
                         np.array([1], np.int32))
    return raw_ops.Reshape(x, raw_ops.ConcatV2([np.array([-1], np.int32), last], 0))


def _like_rows(loss: Tensor, x: Tensor) -> Tensor:
    """The vector `loss` in the shape of `x` without its last dimension."""
    dims = x._dims
    if dims is not None and len(dims) == 2:
        return loss
    if dims is not None and None not in dims[:-1]:
        return raw_ops.Reshape(loss, np.array(dims[:-1], np.int32))
    count = raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(x), np.int32(1)), [1])
    rows = raw_ops.Slice(raw_ops.Shape(x), np.array([0], np.int32), count)
    result = raw_ops.Reshape(loss, rows)
    if dims is not None:
        result.set_shape(dims[:-1])
    return result


def sparse_softmax_cross_entropy_with_logits(_sentinel: Tensor | None = None, labels: Any = None,
                                             logits: Any = None,
                                             name: str | None = None) -> Tensor:
    """Return -log softmax(logits)[label] for one class number per row of `logits`.

    `labels` (int32 or int64) has the shape of `logits` without its last dimension, which the
    classes are. A label out of range is an ``InvalidArgumentError`` when run. Arguments must be
    named; ``ValueError`` if they are not, or the ranks do not fit.
    """
    _check_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    name = name or "SparseSoftmaxCrossEntropyWithLogits"
    with name_scope(name, name, [labels, logits]):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        kind = logits.dtype.base_dtype
        wide = _in_float32(logits)
        _check_label_rank(logits, labels)
        build, is_matrix = raw_ops.SparseSoftmaxCrossEntropyWithLogits, len(wide._dims or ()) == 2
        known = wide.shape.is_fully_defined() and labels.shape.is_fully_defined()
        with counted_as(get_default_graph(), 2 if is_matrix else 18 if known else 34):
            if is_matrix:
                loss = build(wide, labels, name=name)[0]
            else:
                flat = raw_ops.Reshape(labels, np.array([-1], np.int32))
                shape = raw_ops.Shape(labels)
                loss = raw_ops.Reshape(build(_as_matrix(wide), flat, name=name)[0], shape)
                loss.set_shape(labels.shape)
        return raw_ops.Cast(loss, DstT="float16") if kind is dtypes.float16 else loss


def _check_label_rank(logits: Tensor, labels: Tensor) -> None:
    if logits._dims is not None and not logits._dims:
        raise ValueError("Logits cannot be scalars - received shape ().")
    if logits._dims is None or labels._dims is None:
        return
    if len(labels._dims) != len(logits._dims) - 1:
        raise ValueError(f"Rank mismatch: Rank of labels (received {len(labels._dims)}) should "
                         f"equal rank of logits minus 1 (received {len(logits._dims)}): labels "
                         "lack the last dimension of logits.")


# ---------------------------------------------------------------- sigmoid


def sigmoid_cross_entropy_with_logits(_sentinel: Tensor | None = None, labels: Any = None,
                                      logits: Any = None, name: str | None = None) -> Tensor:
    """Return -labels · log sigmoid(logits) - (1 - labels) · log(1 - sigmoid(logits)).

    Element-wise, for classes that do not exclude each other; computed as
    softplus(logits) - logits · labels. Arguments must be named; ``ValueError`` if they are not, or
    the shapes differ.
    """
    _check_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, name="labels")
        _same_shape("logits", logits, "labels", labels)
        with counted_as(get_default_graph(), 10):
            return raw_ops.Sub(raw_ops.Softplus(logits), raw_ops.Mul(logits, labels), name=scope)


@also_called(labels="targets")
def weighted_cross_entropy_with_logits(targets: TensorLike, logits: TensorLike,
                                       pos_weight: TensorLike, name: str | None = None) -> Tensor:
    """Return the sigmoid cross entropy with the positive term weighted by `pos_weight`.

    -targets · log sigmoid(logits) · pos_weight - (1 - targets) · log(1 - sigmoid(logits)),
    computed as (1 - targets) · logits + (1 + (pos_weight - 1) targets) · softplus(-logits).
    Raises ``ValueError`` if the shapes differ.
    """
    with name_scope(name, "logistic_loss", [logits, targets]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        kind = logits.dtype.base_dtype
        targets = convert_to_tensor(targets, kind, name="targets")
        _same_shape("logits", logits, "targets", targets)
        one = kind.np.type(1)
        extra = raw_ops.Sub(convert_to_tensor(pos_weight, kind), one)
        weight = raw_ops.Add(raw_ops.Mul(extra, targets), one)
        negative = raw_ops.Mul(raw_ops.Sub(one, targets), logits)
        positive = raw_ops.Mul(weight, raw_ops.Softplus(raw_ops.Neg(logits)))
        return raw_ops.Add(negative, positive, name=scope)


# ---------------------------------------------------------------- Poisson


def log_poisson_loss(targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False,
                     name: str | None = None) -> Tensor:
    """Return exp(log_input) - targets · log_input, the negative log likelihood of a Poisson
    distribution up to a term of the targets alone.

    `compute_full_loss` adds that term by Stirling's formula, for targets above 1. Raises
    ``ValueError`` if the shapes differ.
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]) as scope:
        log_input = convert_to_tensor(log_input, name="log_input")
        kind = log_input.dtype.base_dtype
        targets = convert_to_tensor(targets, kind, name="targets")
        _same_shape("log_input", log_input, "targets", targets)
        exponential = raw_ops.Exp(log_input)
        product = raw_ops.Mul(log_input, targets)
        if not compute_full_loss:
            return raw_ops.Sub(exponential, product, name=scope)
        rest = _stirling(targets, kind.np.type)
        return raw_ops.Add(raw_ops.Sub(exponential, product), rest, name=scope)


def _stirling(z: Tensor, number: type) -> Tensor:
    """z log z - z + log(2 π z) / 2 for z > 1, else zero."""
    above = raw_ops.Greater(z, number(1))
    safe = raw_ops.Select(above, z, raw_ops.OnesLike(z))
    logarithm = raw_ops.Log(safe)
    root = raw_ops.Mul(number(0.5), raw_ops.Add(logarithm, number(math.log(2 * math.pi))))
    value = raw_ops.Add(raw_ops.Sub(raw_ops.Mul(safe, logarithm), safe), root)
    return raw_ops.Select(above, value, raw_ops.ZerosLike(value))
