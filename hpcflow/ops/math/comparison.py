"""Comparisons and logic, element-wise with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    merge_dims,
    register_constant_value,
    unchanged,
)
from hpcflow.ops.common.broadcasting import broadcast_shape
from hpcflow.ops.common.type_sets import LATER, NUMBER, ORDERED

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]

_COMPARABLE = ("{half, float, double, uint8, int8, int16, int32, int64, complex64, quint8, qint8, "
               f"qint32, string, bool, complex128, uint16, {LATER}}}")  # fmt: skip
_ORDERS = ("Less", "LessEqual", "Greater", "GreaterEqual")


for _op_type in ("Equal", "NotEqual"):
    register_op(_op_type, "x: T; y: T", "z: bool", f"T: {_COMPARABLE}", shape=broadcast_shape,
                commutative=True)
for _op_type in _ORDERS:
    register_op(_op_type, "x: T; y: T", "z: bool", f"T: {ORDERED}", shape=broadcast_shape)
for _op_type in ("LogicalAnd", "LogicalOr"):
    register_op(_op_type, "x: bool; y: bool", "z: bool", shape=broadcast_shape, commutative=True)
register_op("LogicalNot", "x: bool", "y: bool", shape=unchanged)
not_differentiable("Equal", "NotEqual", *_ORDERS, "LogicalAnd", "LogicalOr", "LogicalNot")


def _same(op: Operation) -> Any:
    x, y = (constant_value(t) for t in op.inputs)
    return None if x is None or y is None else np.asarray(x == y)


def _different(op: Operation) -> Any:
    same = _same(op)
    return None if same is None else ~same


def _compared(compare: Callable) -> Callable:
    """The value of an op whose operands are known."""

    def value(op: Operation) -> Any:
        x, y = (constant_value(t) for t in op.inputs)
        return None if x is None or y is None else np.asarray(compare(x, y))

    return value


register_constant_value("Equal")(_same)
register_constant_value("NotEqual")(_different)
for _op_type, _compare in (("Less", np.less), ("LessEqual", np.less_equal),
                           ("Greater", np.greater), ("GreaterEqual", np.greater_equal)):
    register_constant_value(_op_type)(_compared(_compare))


def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x == y element-wise, with broadcasting.

    `x` and `y` are of one type, any; the result is boolean, of their broadcast shape.
    """
    return raw_ops.Equal(x=x, y=y, name=name)


def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x != y element-wise, with broadcasting.

    `x` and `y` are of one type, any; the result is boolean, of their broadcast shape.
    """
    return raw_ops.NotEqual(x=x, y=y, name=name)


def less(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x < y element-wise, with broadcasting.

    `x` and `y` are of one type, of real numbers; the result is boolean, of their broadcast shape.
    """
    return raw_ops.Less(x=x, y=y, name=name)


def less_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x <= y element-wise, with broadcasting.

    `x` and `y` are of one type, of real numbers; the result is boolean, of their broadcast shape.
    """
    return raw_ops.LessEqual(x=x, y=y, name=name)


def greater(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x > y element-wise, with broadcasting.

    `x` and `y` are of one type, of real numbers; the result is boolean, of their broadcast shape.
    """
    return raw_ops.Greater(x=x, y=y, name=name)


def greater_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x >= y element-wise, with broadcasting.

    `x` and `y` are of one type, of real numbers; the result is boolean, of their broadcast shape.
    """
    return raw_ops.GreaterEqual(x=x, y=y, name=name)


def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x and y element-wise.

    `x` and `y` are boolean, as is the result, of their broadcast shape.
    """
    return raw_ops.LogicalAnd(x=x, y=y, name=name)


def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x or y element-wise.

    `x` and `y` are boolean, as is the result, of their broadcast shape.
    """
    return raw_ops.LogicalOr(x=x, y=y, name=name)


def logical_not(x: TensorLike, name: str | None = None) -> Tensor:
    """Return not x element-wise."""
    return raw_ops.LogicalNot(x=x, name=name)


def logical_xor(x: TensorLike, y: TensorLike, name: str | None = "LogicalXor") -> Tensor:
    """Return x or y but not both, element-wise.

    `x` and `y` are boolean, as is the result, of their broadcast shape.
    """
    with name_scope(name, "LogicalXor", [x, y]) as scope:
        return raw_ops.NotEqual(x=_boolean(x), y=_boolean(y), name=scope)


def _boolean(x: TensorLike) -> Tensor:
    return convert_to_tensor(x, "bool")

register_op("ApproximateEqual", "x: T; y: T", "z: bool",
            f"T: {NUMBER}; tolerance: float = 0.00001",
            shape=lambda op: [merge_dims(op.input_dims(0), op.input_dims(1))])
not_differentiable("ApproximateEqual")
