"""Activation functions, biases and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, show
from hpcflow.ops.linalg.matmul import matmul
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.random.random_ops import random_uniform
from hpcflow.shapes import ShapeLike, as_shape

__all__ = [
    "bias_add",
    "crelu",
    "dropout",
    "elu",
    "leaky_relu",
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


def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return max(features, 0).

    `features` has any shape, and elements that are real numbers; so has the result.
    """
    return raw_ops.Relu(features=features, name=name)


def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """Return min(max(features, 0), 6).

    `features` has any shape, and elements that are real numbers; so has the result.
    """
    return raw_ops.Relu6(features=features, name=name)


def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return features where positive, else exp(features) - 1 (arXiv:1511.07289).

    `features` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Elu(features=features, name=name)


def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """Return log(1 + exp(features)).

    `features` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Softplus(features=features, name=name)


def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """Return features / (1 + |features|).

    `features` has any shape, and elements that are real floating-point numbers; so has the result.
    """
    return raw_ops.Softsign(features=features, name=name)


def crelu(features: TensorLike, name: str | None = None, axis: int = -1) -> Tensor:
    """Return relu of [features, -features], joined along an axis (arXiv:1603.05201)."""
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        both = raw_ops.ConcatV2([features, raw_ops.Neg(features)], np.int32(axis), name=scope)
        return raw_ops.Relu(both)


def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """Return features where they are positive, else alpha features; integers become float32."""
    with name_scope(name, "LeakyRelu", [features, alpha]) as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = raw_ops.Cast(features, DstT=dtypes.float32)
        if isinstance(alpha, (int, float)):
            return raw_ops.LeakyRelu(features, alpha=alpha, name=scope)
        return raw_ops.Maximum(raw_ops.Mul(alpha, features), features, name=scope)


def _along(op_type: str, logits: TensorLike, dim: Any, name: str | None) -> Tensor:
    """A softmax along `dim`, which the op itself takes along the last one."""
    logits = convert_to_tensor(logits, name="logits")
    if is_dynamic(dim):
        known = constant_value(dim)
        dim = dim if known is None else int(known)
    dim = -1 if dim is None else dim
    rank = None if logits._dims is None else len(logits._dims)
    build = getattr(raw_ops, op_type)
    if not is_dynamic(dim) and dim in (-1, rank if rank is None else rank - 1):
        return build(logits, name=name)
    if rank is None or is_dynamic(dim):
        return _swapped(build, logits, _swap_of_unknown(logits, dim), op_type, name)
    if not -rank <= dim < rank:
        raise InvalidArgumentError(None, None, f"dim: Dimension ({dim}) must be in the range "
                                   f"[{-rank}, {rank}) of logits of rank {rank}")
    order = list(range(rank))
    order[dim], order[-1] = order[-1], order[dim]
    return _swapped(build, logits, np.array(order, np.int32), op_type, name)


def is_dynamic(dim: Any) -> bool:
    """True for an axis that is the value of a tensor."""
    return isinstance(dim, Tensor)


def _swapped(build: Callable, logits: Tensor, swap: Tensor | np.ndarray, op_type: str,
             name: str | None) -> Tensor:
    with name_scope(name, op_type, [logits]) as scope:
        return raw_ops.Transpose(build(raw_ops.Transpose(logits, swap)), swap, name=scope)


def _swap_of_unknown(logits: Tensor, dim: Any) -> Tensor:
    """The permutation that swaps axis `dim` with the last one."""
    rank, zero, one = raw_ops.Rank(logits), np.int32(0), np.int32(1)
    axes, last = raw_ops.Range(zero, rank, one), raw_ops.Sub(rank, one)
    dim = raw_ops.Cast(dim, DstT=dtypes.int32)
    dim = raw_ops.Add(dim, raw_ops.Mul(rank, raw_ops.Cast(raw_ops.Less(dim, zero),
                                                          DstT=dtypes.int32)))

    def put(axis: Tensor, other: Tensor) -> Tensor:
        return raw_ops.Mul(raw_ops.Cast(raw_ops.Equal(axes, axis), DstT=dtypes.int32),
                           raw_ops.Sub(other, axis))

    return raw_ops.Add(axes, raw_ops.Add(put(dim, last), put(last, dim)))


def swish(features: TensorLike, name: str | None = None) -> Tensor:
    """Return x · sigmoid(x) (Ramachandran et al., 2017)."""
    with name_scope(name, "swish", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        return raw_ops.Mul(features, raw_ops.Sigmoid(features), name=scope)


@also_called(axis="dim")
def softmax(logits: TensorLike, dim: int = -1, name: str | None = None) -> Tensor:
    """Return exp(logits) / Σ exp(logits) along `dim`."""
    return _along("Softmax", logits, dim, name)


@also_called(axis="dim")
def log_softmax(logits: TensorLike, dim: int = -1, name: str | None = None) -> Tensor:
    """Return logits - log Σ exp(logits) along `dim`."""
    return _along("LogSoftmax", logits, dim, name)


def bias_add(value: TensorLike, bias: TensorLike, data_format: str | None = None,
             name: str | None = None) -> Tensor:
    """Add the vector `bias` along the channels of `value`, a tensor of two or more dimensions.

    `data_format` is ``"NHWC"`` (the default: channels last) or ``"NCHW"`` (channels second).
    Raises ``ValueError`` for shapes that do not fit.
    """
    value = convert_to_tensor(value, name="input")
    return raw_ops.BiasAdd(value, bias, data_format=data_format, name=name)


def xw_plus_b(x: TensorLike, weights: TensorLike, biases: TensorLike,
              name: str | None = None) -> Tensor:
    """Return matmul(x, weights) + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        biases = convert_to_tensor(biases, name="biases")
        return raw_ops.BiasAdd(matmul(x, weights), biases, name=scope)


def relu_layer(x: TensorLike, weights: TensorLike, biases: TensorLike,
               name: str | None = None) -> Tensor:
    """Return relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return raw_ops.Relu(raw_ops.BiasAdd(matmul(x, weights), biases), name=scope)


def dropout(x: TensorLike, keep_prob: Any = None, noise_shape: ShapeLike | None = None,
            seed: int | None = None, name: str | None = None, rate: Any = None) -> Tensor:
    """Return x with each element zero with probability `rate`, else divided by 1 - `rate`
    (Srivastava et al., JMLR 15, 2014).

    `keep_prob` is 1 - `rate`; `noise_shape`, which must broadcast to the shape of `x`, says which
    elements are dropped together. Raises ``ValueError`` unless 0 <= rate < 1, where it is known.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout: give keep_prob or rate, one of them")
    if isinstance(keep_prob, (list, tuple)):
        raise ValueError(f"keep_prob must be a scalar, got {keep_prob}")
    rate = 1 - keep_prob if rate is None else rate
    with name_scope(name, "dropout", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError("x has to be a floating point tensor since it's going to be scaled, "
                             f"got {x.dtype.name}")
        if isinstance(rate, (int, float, np.number)) and not 0 <= rate < 1:
            raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got "
                             f"{rate:g}")
        rate = convert_to_tensor(rate, x.dtype.base_dtype, name="rate")
        if rate._dims not in ((), None):
            raise ValueError(f"rate must be a scalar, got shape {rate.shape}")
        if constant_value(rate) == 0:
            return x
        shape = raw_ops.Shape(x) if noise_shape is None else _filled(noise_shape, x)
        noise = random_uniform(shape, dtype=x.dtype.base_dtype, seed=seed)
        one = np.ones((), x.dtype.base_dtype.np)
        scale = raw_ops.RealDiv(one, raw_ops.Sub(one, rate, name="sub"), name="truediv")
        kept = raw_ops.Cast(raw_ops.GreaterEqual(noise, rate), x.dtype.base_dtype)
        result = raw_ops.Mul(raw_ops.Mul(x, scale, name="mul_1"), kept, name="mul")
        result.set_shape(x.shape)
        return result


def _filled(noise_shape: ShapeLike, x: Tensor) -> Any:
    """`noise_shape` with the sizes of `x` for those that are not given."""
    if isinstance(noise_shape, Tensor):
        return noise_shape
    if isinstance(noise_shape, (list, tuple)) and any(isinstance(d, Tensor) for d in noise_shape):
        dims: list = list(noise_shape)
    else:
        dims = as_shape(noise_shape).as_list()
    if None not in dims:
        return dims
    if x._dims is not None and len(x._dims) != len(dims):
        raise ValueError(f"noise_shape {noise_shape} must have the rank of x {show(x._dims)}")
    dims = [known if d is None else d for d, known in zip(dims, x._dims or dims, strict=True)]
    if None not in dims:
        return dims
    sizes = raw_ops.Shape(x)
    return [sizes[i] if d is None else d for i, d in enumerate(dims)]
