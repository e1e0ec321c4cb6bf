"""Activations: functions of tensors, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import nn
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Identifier, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.keras import lookup
from hpcflow.ops.math import clipping, elementwise, reductions


def linear(x: Tensor) -> Tensor:
    """Return `x`."""
    return x


def relu(x: TensorLike, alpha: float = 0.0, max_value: float | None = None,
         threshold: float = 0.0) -> Tensor:
    """Return x above the threshold, alpha (x - threshold) below, and at most `max_value`."""
    x = convert_to_tensor(x)
    dtype = x.dtype.base_dtype.np.type
    if alpha and max_value is None and not threshold:
        return raw_ops.LeakyRelu(x, alpha=float(alpha))
    if threshold:
        above = raw_ops.Cast(raw_ops.Greater(x, dtype(threshold)), DstT=x.dtype.base_dtype)
        positive = raw_ops.Mul(x, above)
    else:
        positive = raw_ops.Relu(x)
    if max_value is not None:
        positive = clipping.clip_by_value(positive, dtype(0), dtype(max_value))
    if not alpha:
        return positive
    below = raw_ops.Relu(raw_ops.Sub(dtype(threshold), x))
    return raw_ops.Sub(positive, raw_ops.Mul(dtype(alpha), below))


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Return exp(x) over its sum along `axis`. ``ValueError`` for a vector."""
    x = convert_to_tensor(x)
    rank = x.shape.ndims
    if rank == 1:
        raise ValueError("Cannot apply softmax to a tensor that is 1D")
    if axis in (-1, (rank or 0) - 1):
        return nn.softmax(x)
    shifted = elementwise.exp(x - reductions.reduce_max(x, axis, keepdims=True))
    return shifted / reductions.reduce_sum(shifted, axis, keepdims=True)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, alpha (exp(x) - 1) elsewhere."""
    x = convert_to_tensor(x)
    result = raw_ops.Elu(x)
    if alpha == 1:
        return result
    return raw_ops.Select(raw_ops.Greater(x, x.dtype.base_dtype.np.type(0)), result,
                          alpha * result)


def selu(x: TensorLike) -> Tensor:
    """Return the scaled exponential linear unit of `x` (arXiv:1706.02515)."""
    return raw_ops.Selu(convert_to_tensor(x))


def softplus(x: TensorLike) -> Tensor:
    """Return log(exp(x) + 1)."""
    return raw_ops.Softplus(convert_to_tensor(x))


def softsign(x: TensorLike) -> Tensor:
    """Return x / (|x| + 1)."""
    return raw_ops.Softsign(convert_to_tensor(x))


def tanh(x: TensorLike) -> Tensor:
    """Return the hyperbolic tangent of `x`."""
    return raw_ops.Tanh(convert_to_tensor(x))


def sigmoid(x: TensorLike) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return raw_ops.Sigmoid(convert_to_tensor(x))


def exponential(x: TensorLike) -> Tensor:
    """Return exp(x)."""
    return raw_ops.Exp(convert_to_tensor(x))


def hard_sigmoid(x: TensorLike) -> Tensor:
    """Return 0.2 x + 0.5 between 0 and 1."""
    x = convert_to_tensor(x)
    dtype = x.dtype.base_dtype.np.type
    line = raw_ops.Add(raw_ops.Mul(dtype(0.2), x), dtype(0.5))
    return clipping.clip_by_value(line, dtype(0), dtype(1))


_NAMED = {function.__name__: function for function in (
    linear, relu, softmax, elu, selu, softplus, softsign, tanh, sigmoid, exponential,
    hard_sigmoid)}


def get(identifier: Any) -> Callable:
    """Return the activation of a name, or itself; None stands for :func:`linear`."""
    if identifier is None:
        return linear
    return lookup.instance(_NAMED, identifier, "activation function")


def serialize(activation: Identifier) -> Any:
    """Return the name of an activation."""
    return lookup.serialized(activation)


deserialize = get
