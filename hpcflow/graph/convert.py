"""Conversion of Python values to tensors: the registry, and the conversions that always exist."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import is_uniform
from hpcflow.base.hooks import Hook
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.graph import Graph, get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import get_op_def
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.tensor_proto import MOST_BYTES, TOO_LARGE, numpy_value
from hpcflow.host import memory
from hpcflow.shapes import Dimension, ShapeLike, TensorShape

_registry: list[tuple[int, int, Any, Callable]] = []
_numbers = (int, float, bool, str, bytes, complex, np.ndarray, np.generic, list, tuple, range)


#: ``build_op(op_type, name, **inputs_and_attrs)`` adds an operation; `build` provides it.
build_op = Hook("the builder of operations")


def register_tensor_conversion_function(base_type: Sequence[type] | type | str,
                                        conversion_func: Callable, priority: int = 100) -> None:
    """Convert values of `base_type` (a type or a tuple of types) by `conversion_func`.

    ``conversion_func(value, dtype=None, name=None, as_ref=False)`` returns a Tensor or
    ``NotImplemented``; lower `priority` is tried first, then the order of registration.
    """
    if not (isinstance(base_type, type) or (
            isinstance(base_type, tuple) and all(isinstance(t, type) for t in base_type))):
        raise TypeError("base_type must be a type or a tuple of types.")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    entry = (priority, len(_registry), base_type, conversion_func)
    bisect.insort(_registry, entry, key=lambda e: e[:2])


def convert_to_tensor(value: Any, dtype: DTypeLike | None = None, name: str | None = None,
                      preferred_dtype: DTypeLike | None = None, as_ref: bool = False,
                      dtype_hint: DType | None = None) -> Tensor:
    """Return `value` (tensor, variable, array, number, string, or nested lists) as a Tensor.

    `dtype` must be met (``TypeError`` otherwise); `preferred_dtype`, or `dtype_hint`, is tried
    first; `as_ref` keeps the reference to a variable. Raises ``ValueError`` when the value cannot
    be converted.
    """
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, Tensor):
        if dtype is not None and not dtype.is_compatible_with(value._dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtype.name} for Tensor with "
                             f"dtype {value._dtype.name}: {value!r}")
        return value
    preferred_dtype = dtype_hint if preferred_dtype is None else preferred_dtype
    if preferred_dtype is not None and dtype is None:
        try:
            return convert_to_tensor(value, preferred_dtype, name, as_ref=as_ref)
        except (TypeError, ValueError):
            pass
    for _, _, base_type, convert in _registry:
        if isinstance(value, base_type):
            tensor = convert(value, dtype=dtype, name=name, as_ref=as_ref)
            if tensor is NotImplemented:
                continue
            if dtype is not None and not dtype.is_compatible_with(tensor.dtype):
                raise RuntimeError(f"Conversion function {convert!r} for {base_type} returned "
                                   f"incompatible dtype: requested {dtype.name}, got "
                                   f"{tensor.dtype.name}")
            return tensor
    if value is None:
        raise ValueError("None values not supported.")
    raise TypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: "
                    f"{value!r}. Cannot convert it: no conversion function is registered.")


def internal_convert_to_tensor(value: Any, dtype: DTypeLike | None = None, name: str | None = None,
                               as_ref: bool = False,
                               preferred_dtype: DTypeLike | None = None) -> Tensor:
    """The conversion with every option (ref tensors kept when `as_ref`)."""
    return convert_to_tensor(value, dtype, name, preferred_dtype, as_ref)


def convert_n_to_tensor(values: int | Sequence[Any], dtype: DTypeLike | None = None,
                        name: str | None = None) -> list[Tensor]:
    """Convert each value; names get ``_0``, ``_1``, ... appended."""
    if not isinstance(values, (list, tuple)):
        raise TypeError("values must be a list.")
    return [convert_to_tensor(v, dtype, None if name is None else f"{name}_{i}")
            for i, v in enumerate(values)]


def constant(value: TensorLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None,
             name: str = "Const", verify_shape: bool = False) -> Tensor:
    """Return a constant tensor of `value`.

    Without a dtype, Python floats become float32 and integers int32. A `shape` reshapes the
    value; a shorter list is filled up with its last element, unless `verify_shape`.

    Raises ``TypeError`` where the dtype cannot hold the value or the shape is verified and differs.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array = numpy_value(value, wanted)
    if shape is not None:
        target = TensorShape(shape)
        if verify_shape and target._dims != array.shape:
            raise TypeError(f"Expected Tensor's shape: {target}, got {TensorShape(array.shape)}.")
        array = numpy_value(array, wanted, target)
    return constant_array(array, wanted, name)


def constant_array(array: np.ndarray, dtype: DType | None = None, name: str | None = "Const",
                   graph: Graph | None = None) -> Tensor:
    """A Const op that holds `array` (copied if the caller could still change it).

    Raises ``ValueError`` for one that no GraphDef can hold.
    """
    if array.nbytes >= MOST_BYTES and not is_uniform(array):
        raise ValueError(TOO_LARGE)
    if array.flags.writeable:
        array = memory.copy(array)
        array.flags.writeable = False
    dtype = (dtype or dtypes.as_dtype(array.dtype)).base_dtype
    attrs = {"dtype": dtype, "value": array}
    graph = graph or get_default_graph()
    op = graph._add_op(get_op_def("Const"), [], attrs, name or "Const", [dtype])
    return op._outputs[0]


def _constant_conversion(value: Any, dtype: DType | None = None, name: str | None = None,
                         as_ref: bool = False) -> Any:
    del as_ref
    if isinstance(value, (list, tuple)) and _holds_graph_values(value):
        return NotImplemented
    return constant(value, dtype, name=name or "Const")


def _holds_graph_values(value: TensorLike) -> bool:
    """True if a nest of lists holds tensors, variables or the like: a case for Pack."""
    if isinstance(value, (list, tuple)):
        return any(_holds_graph_values(v) for v in value)
    return hasattr(value, "graph") and hasattr(value, "dtype")


def _pack_conversion(value: Sequence[Any], dtype: DType | None = None, name: str | None = None,
                     as_ref: bool = False) -> Any:
    """Lists that hold tensors become Pack ops, level by level; a `dtype` that is asked for is what
    the tensors are cast to."""
    del as_ref
    if not _holds_graph_values(value):
        return NotImplemented
    wanted = dtype or _first_dtype(value)
    with name_scope(name or "packed") as scope:
        items = [_packed(v, wanted, dtype is not None, str(i)) for i, v in enumerate(value)]
        return build_op("Pack", scope, values=items, axis=0)


def _packed(value: Any, dtype: DType | None, casts: bool, name: str) -> Tensor:
    if isinstance(value, (list, tuple)) or not _holds_graph_values(value):
        return convert_to_tensor(value, dtype, name=name)
    if not casts and value.dtype.base_dtype is not dtype:
        raise TypeError(f"Cannot convert a list containing a tensor of dtype {value.dtype!r} to "
                        f"{dtype!r} (Tensor is: {value!r})")
    tensor = convert_to_tensor(value, name=name)
    return tensor if tensor.dtype.base_dtype is dtype else build_op("Cast", None, x=tensor,
                                                                    DstT=dtype)


def _first_dtype(value: Tensor | int | Sequence[Any]) -> DType | None:
    if isinstance(value, (list, tuple)):
        return next((t for t in map(_first_dtype, value) if t is not None), None)
    found = getattr(value, "dtype", None)
    return found.base_dtype if isinstance(found, DType) else None


def _shape_conversion(value: TensorShape, dtype: DType | None = None, name: str | None = None,
                      as_ref: bool = False) -> Tensor:
    del as_ref
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    dims = np.array(value.as_list(), dtype=np.int64)
    if dtype is None:
        fits = dims.max(initial=0) <= np.iinfo(np.int32).max
        dtype = dtypes.int32 if fits else dtypes.int64
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype: {dtype.name}")
    elif dtype is dtypes.int32 and dims.max(initial=0) > np.iinfo(np.int32).max:
        raise ValueError(f"Cannot convert a TensorShape to int32: a dimension is too large "
                         f"({dims.max()}); int64 can hold it")
    return constant(dims.astype(dtype.np), dtype, name=name or "shape_as_tensor")


def _dimension_conversion(value: Dimension, dtype: DType | None = None, name: str | None = None,
                          as_ref: bool = False) -> Tensor:
    del as_ref
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    return constant(value.value, dtype or dtypes.int32, name=name or "shape_as_tensor")


def _operation_conversion(value: Operation, dtype: DType | None = None, name: str | None = None,
                          as_ref: bool = False) -> Tensor:
    raise TypeError(f"Can't convert Operation '{value.name}' to Tensor "
                    f"(target dtype={dtype.name if dtype else None!r}, name={name!r})")


def _object_conversion(value: Any, dtype: DType | None = None, name: str | None = None,
                       as_ref: bool = False) -> Any:
    """Objects that know their tensor by ``_as_tensor`` or an array by ``__array__``."""
    to_tensor = getattr(value, "_as_tensor", None)
    if to_tensor is not None:
        return to_tensor(dtype=dtype, name=name, as_ref=as_ref)
    if hasattr(value, "__array__"):
        return constant(np.asarray(value), dtype, name=name or "Const")
    return NotImplemented


register_tensor_conversion_function((list, tuple), _pack_conversion, 99)
register_tensor_conversion_function(_numbers, _constant_conversion, 100)
register_tensor_conversion_function(TensorShape, _shape_conversion, 100)
register_tensor_conversion_function(Dimension, _dimension_conversion, 100)
register_tensor_conversion_function(Operation, _operation_conversion, 100)
register_tensor_conversion_function(object, _object_conversion, 200)
