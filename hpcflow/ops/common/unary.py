"""Functions of one argument, element by element: their signatures, gradients and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import unchanged


def register_unary(types: str, *op_types: str, deprecated: str | None = None) -> None:
    """Register op types with one input and one output, of one of `types` and of one shape."""
    for op_type in op_types:
        register_op(op_type, "x: T", "y: T", f"T: {types}", shape=unchanged,
                    deprecated=deprecated)


def derivative(op_type: str, of: Callable[[Any], Tensor]) -> None:
    """Register ``of(x)`` as the derivative at x: the gradient is ``grad * conj(of(x))``."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Tensor) -> Tensor:
        return raw_ops.Mul(grad, of(conj(op.inputs[0])))


def derivative_by_value(op_type: str, of: Callable[[Any], Tensor]) -> None:
    """Register ``of(y)`` as the derivative where the function has the value y."""

    @RegisterGradient(op_type)
    def gradient(op: Operation, grad: Tensor) -> Tensor:
        return raw_ops.Mul(grad, of(conj(op.outputs[0])))


def conj(x: Tensor) -> Any:
    """Return the complex conjugate of `x`: itself if it is real."""
    return raw_ops.Conj(x) if x.dtype.is_complex else x


def number(like: Any, value: float) -> Any:
    """Return `value` as a scalar of the dtype of `like`."""
    return like.dtype.base_dtype.np.type(value)


def over_values(function: Callable[[Any], Any], x: Any) -> Any:
    """Return ``function(x)``; of a sparse tensor a sparse one, with that of the values it holds."""
    if not isinstance(x, Tensor) and all(
            hasattr(x, part) for part in ("indices", "values", "dense_shape")):
        return type(x)(indices=x.indices, values=function(x.values), dense_shape=x.dense_shape)
    return function(x)
