"""The NumPy forms of Python values, and TensorProto protobufs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import add_values, is_uniform, make_ndarray, with_shape
from hpcflow.dtypes import DType
from hpcflow.shapes import Dimension, TensorShape, as_shape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

__all__ = ["make_ndarray", "make_tensor_proto", "numpy_value"]

# Of these types more than one value goes as bytes; the other types, and one value, as numbers.
_BY_CONTENT = frozenset((
    "float32", "float64", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
    "qint32", "qint16", "qint8", "quint16", "quint8"))  # fmt: skip
#: What a protobuf can hold.
MOST_BYTES = 1 << 31
TOO_LARGE = "Cannot create a tensor proto whose content is larger than 2GB."
_PYTHON_DEFAULTS = {np.dtype(np.float64): dtypes.float32, np.dtype(np.int64): dtypes.int32}


def numpy_value(values: TensorLike, dtype: DType | None = None,
                shape: TensorShape | None = None) -> np.ndarray:
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
        array = with_shape(array, as_shape(shape))
    return array


def _from_numpy(values: np.ndarray | np.generic, dtype: DType | None) -> np.ndarray:
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
    if isinstance(values, range):
        values = list(values)
    if dtype is dtypes.string or _holds_text(values):
        if dtype is not None and dtype is not dtypes.string:
            raise TypeError(f"Expected {dtype.name}, got {_first(values)!r} of type "
                            f"'{type(_first(values)).__name__}' instead.")
        return _encode_nested(values)
    try:
        array = np.array(values)
    except ValueError as e:
        raise ValueError(f"Argument must be a dense tensor: {values!r} has no regular shape "
                         f"(setting an array element with a sequence)") from e
    if array.dtype.kind == "O" and any(isinstance(v, Dimension) for v in array.flat):
        array = np.array([int(v) if isinstance(v, Dimension) else v for v in array.flat]).reshape(
            array.shape)
    if array.dtype.kind in "OSU":  # NumPy makes texts of numbers that are listed with texts
        raise TypeError(_not_a_tensor(values))
    if dtype is None:
        default = dtypes.float32 if array.size == 0 else _default_for(array)
        return array.astype(default.np, copy=False) if default is not None else array
    _check_python_kind(values, array, dtype)
    if dtype.is_quantized and array.shape[-1:] == (1,) and _ends_in_tuples(values):
        array = array[..., 0]
    return array.astype(dtype.np)


def _ends_in_tuples(values: Any) -> bool:
    """True if the innermost of nested sequences are tuples: of one number they are one element of a
    quantized type."""
    inner = values
    while isinstance(inner, (list, tuple)) and inner:
        values, inner = inner, inner[0]
    return isinstance(values, tuple)


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
    if _is_wrong(kind, dtype):
        item = _first(values, lambda v: _is_wrong(np.asarray(v).dtype.kind, dtype))
        raise TypeError(f"Expected {dtype.name}, got {item!r} of type '{type(item).__name__}' "
                        "instead.")
    if dtype.is_integer and kind in "iu":
        info = np.iinfo(dtype.np)
        if array.min() < info.min or array.max() > info.max:
            item = _first(values, lambda v: not info.min <= np.min(v) <= np.max(v) <= info.max)
            raise ValueError(f"{item!r} does not fit in {dtype.name}")


def _is_wrong(kind: str, dtype: DType) -> bool:
    return (((dtype.is_integer or dtype.is_quantized) and kind not in "iub")
            or (dtype.is_bool and kind != "b") or (dtype.is_floating and kind == "c"))


def _first(values: Any, wanted: Callable[[Any], bool] = lambda value: True) -> Any:
    """The first entry of nested lists for which ``wanted(entry)`` holds."""
    if not isinstance(values, (list, tuple)):
        return values
    return next((v for v in _entries(values) if wanted(v)), values)


def _entries(values: Any) -> Iterator[Any]:
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from _entries(value)
    else:
        yield values


def _holds_text(values: Any) -> bool:
    """True if the first value is a text; then all must be."""
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


def _as_bytes(item: str | bytes | int) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if not isinstance(item, bytes):
        raise TypeError(f"Expected string, got {item!r} of type '{type(item).__name__}' instead.")
    return item


def _not_a_tensor(values: Any) -> str:
    return (f"Failed to convert object of type {type(values)} to Tensor. Contents: {values!r}. "
            "Consider casting elements to a supported type.")


def make_tensor_proto(values: Any, dtype: DType | None = None, shape: Any = None,
                      verify_shape: bool = False, allow_broadcast: bool = False) -> Any:
    """Return a ``TensorProto`` holding `values` (Python, NumPy, or what offers an array).

    `allow_broadcast` is accepted: fewer values than `shape` has elements are always completed.
    Raises ``TypeError``/``ValueError`` as :func:`numpy_value`; with `verify_shape` also when the
    shape of the values is not exactly `shape`.
    """
    from tensorboard.compat.proto import tensor_pb2

    if isinstance(values, tensor_pb2.TensorProto):
        return values
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        values = np.asarray(values)
    if shape is None and isinstance(values, np.ndarray) and is_uniform(values):
        values, shape = values[(slice(1),) * values.ndim].reshape(()), values.shape
    given = array = numpy_value(values, None if dtype is None else dtypes.as_dtype(dtype))
    if shape is not None:
        if verify_shape and tuple(as_shape(shape).as_list()) != array.shape:
            raise TypeError(f"Expected Tensor's shape: {tuple(shape)}, got {array.shape}.")
        array = with_shape(array, as_shape(shape))
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.as_dtype(array.dtype)
    proto = tensor_pb2.TensorProto(dtype=kind.base_dtype.enum)
    proto.tensor_shape.CopyFrom(TensorShape(array.shape).as_proto())
    if is_uniform(array):
        add_values(proto, kind, given.reshape(-1)[:1])
    elif given.size == array.size > 1 and kind.base_dtype.name in _BY_CONTENT:
        if array.nbytes >= MOST_BYTES:
            raise ValueError(TOO_LARGE)
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    else:  # the last value stands for those that are missing
        add_values(proto, kind, given.reshape(-1))
    return proto
