"""Element-wise ops of two inputs: their shape, and gradients summed over the repeated axes.

What the shapes say of the gradients is decided while the graph is built, so that a step runs no
shape arithmetic for equal shapes, biases or scalars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import broadcast_dims, constant_value_as_dims


def broadcast_shape(op: Operation) -> list[Dims]:
    """Shape function: the broadcast shape of the two inputs."""
    return [broadcast_dims(op._inputs[0]._dims, op._inputs[1]._dims)]


class Repeated(NamedTuple):
    """The axes of a broadcast result that one input was repeated along.

    `leading` axes at the front are absent from the input; along the `ones` it has size one.
    """

    leading: int
    ones: tuple[int, ...]


def repeated_axes(dims: Dims, other: Dims) -> Repeated | None:
    """Where an input of shape `dims` is repeated beside one of shape `other`.

    None where the shapes do not say.
    """
    if dims is None or other is None:
        return None
    leading = max(len(other) - len(dims), 0)
    absent = max(len(dims) - len(other), 0)
    ones = []
    for i, size in enumerate(dims):
        beside = 1 if i < absent else other[i + leading - absent]
        if size == 1 and beside != 1:
            ones.append(i + leading)
        elif size is None and beside != 1:
            return None
    return Repeated(leading, tuple(ones))


def unbroadcast(x: Tensor, y: Tensor, grad_x: TensorLike, grad_y: TensorLike | None) -> tuple:
    """Reduce the gradients of an op of `x` and `y` to the shapes of `x` and `y`.

    `grad_x` and `grad_y` have the broadcast shape of both, or are None.
    """
    if x is y:
        return grad_x, grad_y
    at_x, at_y = repeated_axes(x._dims, y._dims), repeated_axes(y._dims, x._dims)
    if (grad_x is None or at_x) and (grad_y is None or at_y):
        return _reduce(grad_x, at_x), _reduce(grad_y, at_y)
    # Only a step knows: the axes for both inputs come from one op.
    shape_x, shape_y = _shape(x), _shape(y)
    axes_x, axes_y = raw_ops.BroadcastGradientArgs(shape_x, shape_y)
    return (_reduce(grad_x, at_x) if at_x else _reduce_by(grad_x, axes_x, shape_x),
            _reduce(grad_y, at_y) if at_y else _reduce_by(grad_y, axes_y, shape_y))


def _reduce(grad: TensorLike | None, at: Repeated | None) -> Any:
    if grad is None or at is None:
        return grad
    if at.ones:
        grad = raw_ops.Sum(grad, np.array(at.ones, np.int32), keep_dims=True)
    if at.leading:
        grad = raw_ops.Sum(grad, np.arange(at.leading, dtype=np.int32))
    return grad


def _reduce_by(grad: Any, axes: Tensor, shape: Tensor | np.ndarray) -> Any:
    return None if grad is None else raw_ops.Reshape(raw_ops.Sum(grad, axes), shape)


def _shape(x: Tensor) -> Any:
    """The shape of `x`, as a constant where it is known."""
    if x._dims is not None and None not in x._dims:
        return np.array(x._dims, np.int32)
    return raw_ops.Shape(x)


# ---------------------------------------------------------------- BroadcastTo


def _broadcast_to_shape(op: Operation) -> list[Dims]:
    return [constant_value_as_dims(op.inputs[1])]


# Not an op of the first format; gradients of reductions need it, newer readers know it.
register_op("BroadcastTo", "input: T; shape: Tidx", "output: T",
            "T: type; Tidx: {int32, int64} = int32", shape=_broadcast_to_shape)


@RegisterGradient("BroadcastTo")
def _broadcast_to_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = op.inputs[0], op.outputs[0]
    return unbroadcast(x, y, grad, None)[0], None
