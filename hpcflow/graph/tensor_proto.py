"""TensorProto protobufs to and from NumPy arrays, and the NumPy forms of Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.shapes import TensorShape, as_shape

_PYTHON_DEFAULTS = {np.dtype(np.float64): dtypes.float32, np.dtype(np.int64): dtypes.int32}

# TensorProto's typed fields hold values where tensor_content is empty.
_VALUE_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip


def numpy_value(values: Any, dtype: DType | None = None, shape: Any = None) -> np.ndarray:
    """Return `values` (Python or NumPy) as an array of `dtype`.

    Without a dtype, Python floats become float32 and Python integers int32 (int64 where they do
    not fit), as in 1.x; NumPy values keep their type. Raises ``TypeError`` for values that the
    dtype cannot hold and ``ValueError`` for ragged nests or a `shape` that does not fit.
    """
    if dtype is not None:
        dtype = dtype.base_dtype
    array = _from_numpy(values, dtype) if isinstance(values, (np.ndarray, np.generic)) else (
        _from_python(values, dtype))
    if shape is not None:
        array = _with_shape(array, as_shape(shape))
    return array


def _from_numpy(values: Any, dtype: DType | None) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "USO":
        if dtype is not None and dtype is not dtypes.string:
            if array.dtype.kind == "O":
                return _from_python(array.tolist(), dtype)
            raise TypeError(f"Expected {dtype.name}, got string array")
        return _encode(array)
    if dtype is None:
        # Raises TypeError for what the library has no type for; foreign byte orders become native.
        return array.astype(dtypes.as_dtype(array.dtype).np, copy=False)
    if dtype is dtypes.string:
        raise TypeError(f"Expected string, got array of {array.dtype}")
    return array.astype(dtype.np, copy=False)


def _from_python(values: Any, dtype: DType | None) -> np.ndarray:
    if values is None:
        raise ValueError("None values not supported.")
    if dtype is dtypes.string or _holds_text(values):
        if dtype is not None and dtype is not dtypes.string:
            raise TypeError(f"Expected {dtype.name}, got {_first(values)!r} of type "
                            f"'{type(_first(values)).__name__}' instead.")
        return _encode_nested(values)
    try:
        array = np.array(values)
    except ValueError as e:
        raise ValueError(f"Argument must be a dense tensor: {values!r} has no regular shape") from e
    if array.dtype.kind == "O":
        raise TypeError(_not_a_tensor(values))
    if dtype is None:
        default = dtypes.float32 if array.size == 0 else _default_for(array)
        return array.astype(default.np, copy=False) if default is not None else array
    _check_python_kind(values, array, dtype)
    return array.astype(dtype.np)


def _default_for(array: np.ndarray) -> DType | None:
    """The narrower type that numbers in lists take, NumPy's included; None leaves the type."""
    default = _PYTHON_DEFAULTS.get(array.dtype)
    if default is dtypes.int32 and array.size:
        info = np.iinfo(np.int32)
        if array.min() < info.min or array.max() > info.max:
            return dtypes.int64
    return default


def _check_python_kind(values: Any, array: np.ndarray, dtype: DType) -> None:
    """Refuse what loses meaning: floats for integers, numbers for booleans, complex for reals.

    Booleans count as the numbers 0 and 1.
    """
    kind = array.dtype.kind
    if array.size == 0:
        return
    wrong = (
        ((dtype.is_integer or dtype.is_quantized) and kind not in "iub")
        or (dtype.is_bool and kind != "b")
        or (dtype.is_floating and kind == "c")
    )
    if wrong:
        item = _first(values)
        raise TypeError(f"Expected {dtype.name}, got {item!r} of type '{type(item).__name__}' "
                        "instead.")
    if dtype.is_integer and kind in "iu":
        info = np.iinfo(dtype.np)
        if array.min() < info.min or array.max() > info.max:
            raise ValueError(f"{_first(values)!r} does not fit in {dtype.name}")


def _first(values: Any) -> Any:
    while isinstance(values, (list, tuple)) and len(values):
        values = values[0]
    return values


def _holds_text(values: Any) -> bool:
    return isinstance(_first(values), (str, bytes))


def _encode(array: np.ndarray) -> np.ndarray:
    """An array of str or bytes as an array of bytes objects of the same shape."""
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1).tolist()):
        flat[i] = _as_bytes(item)
    return out


def _encode_nested(values: Any) -> np.ndarray:
    return _encode(np.array(values, dtype=object))


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if not isinstance(item, bytes):
        raise TypeError(f"Expected string, got {item!r} of type '{type(item).__name__}' instead.")
    return item


def _not_a_tensor(values: Any) -> str:
    return (f"Failed to convert object of type {type(values)} to Tensor. Contents: {values!r}. "
            "Consider casting elements to a supported type.")


def _with_shape(array: np.ndarray, shape: TensorShape) -> np.ndarray:
    """`array` in `shape`; a shorter list repeats its last element, as constants do in 1.x."""
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
    flat = np.empty(size, dtype=array.dtype)
    flat[: array.size] = array.reshape(-1)
    flat[array.size :] = array.reshape(-1)[-1]
    return flat.reshape(want)


def make_tensor_proto(values: Any, dtype: Any = None, shape: Any = None,
                      verify_shape: bool = False) -> Any:
    """Return a ``TensorProto`` holding `values` (Python or NumPy).

    Raises ``TypeError``/``ValueError`` as :func:`numpy_value`; with `verify_shape` also when the
    shape of the values is not exactly `shape`.
    """
    from tensorboard.compat.proto import tensor_pb2

    if isinstance(values, tensor_pb2.TensorProto):
        return values
    array = numpy_value(values, None if dtype is None else dtypes.as_dtype(dtype))
    if shape is not None:
        if verify_shape and tuple(as_shape(shape).as_list()) != array.shape:
            raise TypeError(f"Expected Tensor's shape: {tuple(shape)}, got {array.shape}.")
        array = _with_shape(array, as_shape(shape))
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.as_dtype(array.dtype)
    proto = tensor_pb2.TensorProto(dtype=kind.base_dtype.enum)
    proto.tensor_shape.CopyFrom(TensorShape(array.shape).as_proto())
    if array.dtype.kind == "O":
        proto.string_val.extend(array.reshape(-1).tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return proto


def make_ndarray(tensor: Any) -> np.ndarray:
    """Return the array held by a ``TensorProto``; ``TypeError`` for an unknown type."""
    dtype = dtypes.as_dtype(tensor.dtype).base_dtype
    if not dtype.is_numpy_compatible:
        raise TypeError(f"A TensorProto of type {dtype.name} has no array form")
    shape = tuple(d.size for d in tensor.tensor_shape.dim)
    if dtype is dtypes.string:
        return _strings(list(tensor.string_val), shape)
    if tensor.tensor_content:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.np.itemsize
        if len(tensor.tensor_content) != size:
            raise ValueError(f"TensorProto of {dtype.name} {shape} holds "
                             f"{len(tensor.tensor_content)} bytes, expected {size}")
        return np.frombuffer(tensor.tensor_content, dtype=dtype.np).copy().reshape(shape)
    return _with_shape_or_zeros(_typed_values(tensor, dtype), dtype, shape)


def _typed_values(tensor: Any, dtype: DType) -> np.ndarray:
    if dtype.name in ("float16", "bfloat16"):
        return np.array(tensor.half_val, dtype=np.uint16).view(dtype.np)
    if dtype.is_complex:
        field = tensor.scomplex_val if dtype is dtypes.complex64 else tensor.dcomplex_val
        pairs = np.array(field, dtype=dtype.real_dtype.np)
        return pairs.view(dtype.np)
    return np.array(getattr(tensor, _VALUE_FIELDS.get(dtype.name, "int_val")), dtype=dtype.np)


def _with_shape_or_zeros(values: np.ndarray, dtype: DType, shape: tuple) -> np.ndarray:
    if values.size == 0:
        return np.zeros(shape, dtype=dtype.np)
    return _with_shape(values, TensorShape(shape))


def _strings(values: list[bytes], shape: tuple) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64))
    if len(values) < size:
        values = values + [values[-1] if values else b""] * (size - len(values))
    out = np.empty(size, dtype=object)
    out[:] = values[:size]
    return out.reshape(shape)
