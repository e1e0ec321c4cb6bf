"""Activation functions, biases and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.elementwise import sigmoid, tanh
from hpcflow.ops.matmul import matmul
from hpcflow.ops.random_ops import random_uniform
from hpcflow.other_names import also_called

__all__ = [
    "bias_add",
    "crelu",
    "dropout",
    "elu",
    "log_softmax",
    "relu",
    "relu6",
    "relu_layer",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
    "xw_plus_b",
]


def relu(features: Any, name: str | None = None) -> Tensor:
    """Return max(features, 0)."""
    return raw_ops.Relu(features=features, name=name)


def relu6(features: Any, name: str | None = None) -> Tensor:
    """Return min(max(features, 0), 6)."""
    return raw_ops.Relu6(features=features, name=name)


def elu(features: Any, name: str | None = None) -> Tensor:
    """Return features where positive, else exp(features) - 1 (arXiv:1511.07289)."""
    return raw_ops.Elu(features=features, name=name)


def softplus(features: Any, name: str | None = None) -> Tensor:
    """Return log(1 + exp(features))."""
    return raw_ops.Softplus(features=features, name=name)


def softsign(features: Any, name: str | None = None) -> Tensor:
    """Return features / (1 + |features|)."""
    return raw_ops.Softsign(features=features, name=name)


def crelu(features: Any, name: str | None = None) -> Tensor:
    """Return relu of [features, -features], joined along the last axis (arXiv:1603.05201)."""
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        both = raw_ops.ConcatV2([features, raw_ops.Neg(features)], np.int32(-1), name=scope)
        return raw_ops.Relu(both)


def _along(op_type: str, logits: Any, dim: int, name: str | None) -> Tensor:
    """A softmax along `dim`, which the op itself takes along the last one."""
    logits = convert_to_tensor(logits, name="logits")
    rank = None if logits._dims is None else len(logits._dims)
    build = getattr(raw_ops, op_type)
    if dim == -1 or rank is not None and dim == rank - 1:
        return build(logits, name=name)
    if rank is None:
        raise ValueError(f"{op_type} along dimension {dim} needs logits of known rank")
    if not -rank <= dim < rank:
        raise ValueError(f"dim {dim} is out of range for logits of rank {rank}")
    order = list(range(rank))
    order[dim], order[-1] = order[-1], order[dim]
    swap = np.array(order, np.int32)
    with name_scope(name, op_type, [logits]) as scope:
        return raw_ops.Transpose(build(raw_ops.Transpose(logits, swap)), swap, name=scope)


def swish(features: Any, name: str | None = None) -> Tensor:
    """Return x · sigmoid(x) (Ramachandran et al., 2017)."""
    with name_scope(name, "swish", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        return raw_ops.Mul(features, raw_ops.Sigmoid(features), name=scope)


@also_called(axis="dim")
def softmax(logits: Any, dim: int = -1, name: str | None = None) -> Tensor:
    """Return exp(logits) / Σ exp(logits) along `dim`."""
    return _along("Softmax", logits, dim, name)


@also_called(axis="dim")
def log_softmax(logits: Any, dim: int = -1, name: str | None = None) -> Tensor:
    """Return logits - log Σ exp(logits) along `dim`."""
    return _along("LogSoftmax", logits, dim, name)


def bias_add(value: Any, bias: Any, data_format: str | None = None,
             name: str | None = None) -> Tensor:
    """Add the vector `bias` along the channels of `value`, a tensor of two or more dimensions.

    `data_format` is ``"NHWC"`` (the default: channels last) or ``"NCHW"`` (channels second).
    Raises ``ValueError`` for shapes that do not fit.
    """
    value = convert_to_tensor(value, name="input")
    return raw_ops.BiasAdd(value, bias, data_format=data_format, name=name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Return matmul(x, weights) + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        biases = convert_to_tensor(biases, name="biases")
        return raw_ops.BiasAdd(matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Return relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return raw_ops.Relu(raw_ops.BiasAdd(matmul(x, weights), biases), name=scope)


def dropout(x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: int | None = None,
            name: str | None = None, rate: Any = None) -> Tensor:
    """Return x with each element kept with probability `keep_prob` and scaled by its inverse,
    else zero (Srivastava et al., JMLR 15, 2014).

    `noise_shape`, which must broadcast to the shape of `x`, says which elements are dropped
    together; `rate` is 1 - `keep_prob`. Raises ``ValueError`` unless 0 < keep_prob <= 1, where it
    is known.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout: give keep_prob or rate, one of them")
    keep_prob = 1.0 - rate if keep_prob is None else keep_prob
    with name_scope(name, "dropout", [x]):
        x = convert_to_tensor(x, name="x")
        if not isinstance(keep_prob, Tensor) and not hasattr(keep_prob, "graph"):
            _check_keep_prob(keep_prob)
        keep_prob = convert_to_tensor(keep_prob, x.dtype.base_dtype, name="keep_prob")
        if keep_prob._dims not in ((), None):
            raise ValueError(f"keep_prob must be a scalar, got shape {keep_prob.shape}")
        known = constant_value(keep_prob)
        if known is not None and known == 1:
            return x
        shape = raw_ops.Shape(x) if noise_shape is None else noise_shape
        noise = random_uniform(shape, dtype=x.dtype.base_dtype, seed=seed)
        kept = raw_ops.Floor(raw_ops.Add(keep_prob, noise, name="add"))
        result = raw_ops.Mul(raw_ops.RealDiv(x, keep_prob, name="div"), kept, name="mul")
        result.set_shape(x.shape)
        return result


def _check_keep_prob(keep_prob: Any) -> None:
    if isinstance(keep_prob, (int, float, np.number)) and not 0 < keep_prob <= 1:
        raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got "
                         f"{keep_prob:g}")
