"""TensorProto protobufs as NumPy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

# TensorProto's typed fields hold values where tensor_content is empty.
_VALUE_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip


def make_ndarray(tensor: Message) -> np.ndarray:
    """Return the array held by a ``TensorProto``.

    Raises ``TypeError`` for an unknown type, ``ValueError`` for a shape that the content does not
    fill, or that is larger than any content.
    """
    array = compact_ndarray(tensor)
    return array.copy() if is_uniform(array) else array


def is_uniform(array: np.ndarray) -> bool:
    """True if the elements are one and the same in memory, and are more than one."""
    return array.size > 1 and not any(
        step for step, n in zip(array.strides, array.shape, strict=True) if n > 1)


def compact_ndarray(tensor: Message) -> np.ndarray:
    """As :func:`make_ndarray`; but one value that stands for all elements is held once, and cannot
    be written."""
    dtype = dtypes.as_dtype(tensor.dtype).base_dtype
    if not dtype.is_numpy_compatible:
        raise TypeError(f"A TensorProto of type {dtype.name} has no array form")
    shape = tuple(d.size for d in tensor.tensor_shape.dim)
    _check_claim(dtype, shape)
    if dtype is dtypes.string:
        return _strings(list(tensor.string_val), shape)
    if tensor.tensor_content:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.np.itemsize
        if len(tensor.tensor_content) != size:
            raise ValueError(f"TensorProto of {dtype.name} {shape} holds "
                             f"{len(tensor.tensor_content)} bytes, expected {size}")
        return np.frombuffer(tensor.tensor_content, dtype=dtype.np).copy().reshape(shape)
    return _with_shape_or_zeros(typed_values(tensor, dtype), dtype, shape)


def typed_values(tensor: Message, dtype: DType) -> np.ndarray:
    """The values in the field of a ``TensorProto`` that is for its `dtype`, a vector."""
    if dtype.name in ("float16", "bfloat16"):
        return np.array(tensor.half_val, dtype=np.uint16).view(dtype.np)
    if dtype.is_complex:
        field = tensor.scomplex_val if dtype is dtypes.complex64 else tensor.dcomplex_val
        pairs = np.array(field, dtype=dtype.real_dtype.np)
        return pairs.view(dtype.np)
    return np.array(getattr(tensor, _VALUE_FIELDS.get(dtype.name, "int_val")), dtype=dtype.np)


def add_values(tensor: Message, dtype: DType, values: np.ndarray) -> None:
    """Add `values`, a vector, to the field of a ``TensorProto`` that is for its `dtype`."""
    dtype = dtype.base_dtype
    if dtype is dtypes.string:
        tensor.string_val.extend(values.tolist())
    elif dtype.name in ("float16", "bfloat16"):
        tensor.half_val.extend(values.view(np.uint16).tolist())
    elif dtype.is_complex:
        field = tensor.scomplex_val if dtype is dtypes.complex64 else tensor.dcomplex_val
        field.extend(np.ascontiguousarray(values).view(dtype.real_dtype.np).tolist())
    else:
        getattr(tensor, _VALUE_FIELDS.get(dtype.name, "int_val")).extend(values.tolist())


# What the content of a protobuf may come to, and so a constant in a graph.
_MOST_BYTES = 1 << 31


def _check_claim(dtype: DType, shape: tuple) -> None:
    """Refuse a shape that says more than there can be, before memory is taken for it."""
    if any(size < 0 for size in shape):
        raise ValueError(f"TensorProto of {dtype.name} {list(shape)}: a constant needs a fully "
                         "defined shape")
    nbytes = math.prod(shape) * dtype.np.itemsize
    if nbytes > _MOST_BYTES:
        raise ValueError(f"TensorProto of {dtype.name} {list(shape)} claims {nbytes} bytes: a "
                         "constant may have at most 2 GiB")


def _with_shape_or_zeros(values: np.ndarray, dtype: DType, shape: tuple) -> np.ndarray:
    if values.size == 0:
        return with_shape(np.zeros(1, dtype=dtype.np), TensorShape(shape))
    return with_shape(values, TensorShape(shape))


def _strings(values: list[bytes], shape: tuple) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64))
    held = values[:size] or [b""]
    out = np.empty(len(held), dtype=object)
    out[:] = held
    return with_shape(out, TensorShape(shape))


def with_shape(array: np.ndarray, shape: TensorShape) -> np.ndarray:
    """`array` in `shape`; a shorter list repeats its last element, as constants do in 1.x.

    One element that is repeated is held once: such an array cannot be written.
    """
    if not shape.is_fully_defined():
        raise ValueError(f"A constant needs a fully defined shape, got {shape}")
    want: Any = shape._dims
    if array.shape == want:
        return array
    size = int(np.prod(want, dtype=np.int64))
    if array.size == size:
        return array.reshape(want)
    if size == 0:
        return np.empty(want, dtype=array.dtype)
    if array.size > size or array.size == 0:
        raise ValueError(f"Too many elements provided. Needed at most {size}, but received "
                         f"{array.size}" if array.size else "An empty list has no last element")
    if array.size == 1:
        return np.broadcast_to(array.reshape(()).copy(), want)
    flat = np.empty(size, dtype=array.dtype)
    flat[: array.size] = array.reshape(-1)
    flat[array.size :] = array.reshape(-1)[-1]
    return flat.reshape(want)
