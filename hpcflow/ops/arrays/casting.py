"""Conversion between element types: Cast and the functions made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    register_constant_shape,
    register_constant_value,
    scalar,
    unchanged,
)

__all__ = [
    "cast",
    "saturate_cast",
    "to_bfloat16",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
]

register_op("Cast", "x: SrcT", "y: DstT", "SrcT: type; DstT: type", shape=unchanged)


@register_constant_value("Cast")
def _cast_value(op: Operation) -> Any:
    value = constant_value(op.inputs[0])
    target = op.attr("DstT")
    if value is None or value.dtype.kind == "O" or not target.is_numpy_compatible:
        return None
    if value.dtype.kind == "c" and not target.is_complex:
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(target.np)


@register_constant_shape("Cast")
def _cast_of_shape(op: Operation) -> Any:
    """A cast of a shape between integer types describes the same shape."""
    dims = op.input_dims(0)
    if not op.attr("DstT").is_integer or dims is None or len(dims) != 1:
        return None
    return constant_value_as_dims(op.inputs[0])


@RegisterGradient("Cast")
def _cast_grad(op: Operation, grad: Tensor) -> Any:
    """Back to the type it came from; nothing flows through integers."""
    source, target = op.attr("SrcT"), op.attr("DstT")
    flows = all(t.is_floating or t.is_complex for t in (source, target))
    return raw_ops.Cast(grad, DstT=source) if flows else None


def cast(x: Any, dtype: DTypeLike, name: str | None = None) -> Any:
    """Convert `x` (a tensor, sparse tensor or IndexedSlices) to `dtype`.

    Floating values are cut towards zero for integers; a value that is of the type already is
    returned as it is. Raises ``TypeError`` for types that do not convert.
    """
    target = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, target, name), x.indices, x.dense_shape)
    if not isinstance(x, Tensor) and hasattr(x, "indices") and hasattr(x, "values"):
        return type(x)(x.indices, cast(x.values, target, name), x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.base_dtype is target:
        return x
    return raw_ops.Cast(x, DstT=target, name=name)


def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Convert to `dtype`; what is too small or too large for it becomes its lowest or highest."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        target = dtypes.as_dtype(dtype).base_dtype
        source = value.dtype.base_dtype
        if source.min < target.min:
            value = raw_ops.Maximum(value, source.np.type(target.min))
        if source.max > target.max:
            value = raw_ops.Minimum(value, _largest_in(source.np, target.max))
        return cast(value, target, name=scope)


def _largest_in(source: np.dtype[Any], bound: int) -> Any:
    """The largest number of the type `source` that is no more than `bound`."""
    number = source.type(bound)
    return np.nextafter(number, source.type(0)) if int(number) > int(bound) else number


def to_float(x: TensorLike, name: str = "ToFloat") -> Any:
    """Convert to float32."""
    return cast(x, dtypes.float32, name)


def to_double(x: TensorLike, name: str = "ToDouble") -> Any:
    """Convert to float64."""
    return cast(x, dtypes.float64, name)


def to_int32(x: TensorLike, name: str = "ToInt32") -> Any:
    """Convert to int32."""
    return cast(x, dtypes.int32, name)


def to_int64(x: TensorLike, name: str = "ToInt64") -> Any:
    """Convert to int64."""
    return cast(x, dtypes.int64, name)


def to_bfloat16(x: TensorLike, name: str = "ToBFloat16") -> Any:
    """Convert to bfloat16."""
    return cast(x, dtypes.bfloat16, name)

register_op("ToBool", "input: T", "output: bool", "T: type", shape=scalar)
not_differentiable("ToBool")


def to_complex64(x: TensorLike, name: str = "ToComplex64") -> Any:
    """Convert to complex64."""
    return cast(x, dtypes.complex64, name)


def to_complex128(x: TensorLike, name: str = "ToComplex128") -> Any:
    """Convert to complex128."""
    return cast(x, dtypes.complex128, name)
