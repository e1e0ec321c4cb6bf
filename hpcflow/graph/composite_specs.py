"""Specifications of values that are made of several tensors: sparse tensors and slices."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.graph.type_spec import BatchableTypeSpec, TypeSpec, all_arrays
from hpcflow.shapes import ShapeLike, TensorShape, as_shape


class CompositeTensor(metaclass=ABCMeta):  # noqa: B024  (nothing is to be defined)
    """What is made of several tensors: sparse tensors and slices are instances."""


CompositeTensor.register(SparseTensor)
CompositeTensor.register(IndexedSlices)


class SparseTensorSpec(BatchableTypeSpec):
    """A specification of a sparse tensor: its dense shape and its element type."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: ShapeLike = None, dtype: DTypeLike = dtypes.float32) -> None:
        self._shape, self._dtype = as_shape(shape), dtypes.as_dtype(dtype)

    @classmethod
    def from_value(cls, value: SparseTensor | SparseTensorValue) -> SparseTensorSpec:
        """Return what is known of a sparse tensor, or of a value of arrays.

        Raises ``TypeError`` for anything else.
        """
        if isinstance(value, SparseTensor):
            return cls(value.shape, value.dtype.base_dtype)
        if isinstance(value, SparseTensorValue):
            return cls(tuple(value.dense_shape), np.asarray(value.values).dtype)
        raise TypeError(f"Expected SparseTensor or SparseTensorValue, got {value!r}")

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The dense shape, as far as it is known."""
        return self._shape

    @property
    def value_type(self) -> type:
        """The class ``SparseTensor``."""
        return SparseTensor

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """True if a sparse tensor, its value or another specification fits this one."""
        if isinstance(spec_or_value, SparseTensorValue):
            spec_or_value = self.from_value(spec_or_value)
        return super().is_compatible_with(spec_or_value)

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype

    @property
    def _component_specs(self) -> list[TensorSpec]:
        rank = self._shape.ndims
        return [TensorSpec([None, rank], dtypes.int64), TensorSpec([None], self._dtype),
                TensorSpec([rank], dtypes.int64)]

    def _to_components(self, value: Any) -> list[Any]:
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, components: Sequence[Any]) -> SparseTensor | SparseTensorValue:
        if all_arrays(components):
            return SparseTensorValue(*components)
        return SparseTensor(*components)

    @property
    def _flat_tensor_specs(self) -> list[TensorSpec]:
        return [TensorSpec(None, dtypes.variant)]

    def _to_tensor_list(self, value: SparseTensor) -> list[Tensor]:
        return [raw_ops.SerializeSparse(value.indices, value.values, value.dense_shape,
                                        out_type=dtypes.variant)]

    def _to_batched_tensor_list(self, value: SparseTensor) -> list[Tensor]:
        """The sparse tensors along the first dimension of `value`, each as a row."""
        if value.shape.ndims == 0:
            raise ValueError("Unbatching a sparse tensor is only supported for rank >= 1")
        return [raw_ops.SerializeManySparse(value.indices, value.values, value.dense_shape,
                                            out_type=dtypes.variant)]

    def _from_tensor_list(self, tensor_list: Sequence[Tensor]) -> SparseTensor:
        parts = raw_ops.DeserializeSparse(serialized_sparse=tensor_list[0], dtype=self._dtype)
        rank = self._shape.ndims
        parts[0].set_shape([None, rank])
        parts[2].set_shape([rank])
        return SparseTensor(*parts)

    def _batch(self, batch_size: int | None) -> SparseTensorSpec:
        return SparseTensorSpec(TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> SparseTensorSpec:
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a sparse tensor is only supported for rank >= 1")
        return SparseTensorSpec(self._shape[1:], self._dtype)


class IndexedSlicesSpec(TypeSpec):
    """A specification of slices: the dense shape and the types of the parts.

    Args:
        shape: the shape of the dense tensor.
        dtype, indices_dtype: the types of the values and of the indices.
        dense_shape_dtype: the type of the dense shape; None if slices have none.
        indices_shape: the shape of the indices, ``[None]`` by default.
    """

    __slots__ = ("_dense_shape_dtype", "_indices_dtype", "_indices_shape", "_shape",
                 "_values_dtype")

    def __init__(self, shape: ShapeLike = None, dtype: DTypeLike = dtypes.float32,
                 indices_dtype: DTypeLike = dtypes.int64,
                 dense_shape_dtype: DTypeLike | None = None,
                 indices_shape: ShapeLike = None) -> None:
        self._shape, self._values_dtype = as_shape(shape), dtypes.as_dtype(dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = (None if dense_shape_dtype is None
                                   else dtypes.as_dtype(dense_shape_dtype))
        self._indices_shape = as_shape(indices_shape).with_rank(1)

    @classmethod
    def from_value(cls, value: IndexedSlices) -> IndexedSlicesSpec:
        """Return what is known of slices."""
        dense = value.dense_shape
        return cls(value.shape, value.values.dtype.base_dtype, value.indices.dtype.base_dtype,
                   None if dense is None else dense.dtype.base_dtype, value.indices.get_shape())

    @property
    def value_type(self) -> type:
        """The class ``IndexedSlices``."""
        return IndexedSlices

    def _serialize(self) -> tuple[Any, ...]:
        return (self._shape, self._values_dtype, self._indices_dtype, self._dense_shape_dtype,
                self._indices_shape)

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        # A shape of unknown rank says nothing of the rank of the values either.
        rows = (self._shape if self._shape.ndims is None
                else self._indices_shape.concatenate(self._shape[1:]))
        specs = (TensorSpec(rows, self._values_dtype),
                 TensorSpec(self._indices_shape, self._indices_dtype))
        if self._dense_shape_dtype is None:
            return specs
        return (*specs, TensorSpec([self._shape.ndims], self._dense_shape_dtype))

    def _to_components(self, value: Any) -> tuple[Any, ...]:
        parts = (value.values, value.indices)
        return parts if value.dense_shape is None else (*parts, value.dense_shape)

    def _from_components(self, components: Sequence[Any]) -> IndexedSlices | IndexedSlicesValue:
        parts = tuple(components) + (None,) * (3 - len(components))
        if all_arrays(components):
            return IndexedSlicesValue(*parts)
        return IndexedSlices(*parts)


_CONVERTERS: list[tuple[type, Callable[[Any], Any], bool]] = []


def register_type_spec_from_value_converter(
        type_object: type, converter_fn: Callable[[Any], TypeSpec],
        allow_subclass: bool = False) -> None:
    """Let ``converter_fn(value)`` make the specifications of values of a class, and of its
    subclasses with `allow_subclass`."""
    _CONVERTERS.append((type_object, converter_fn, allow_subclass))


def type_spec_from_value(value: Any) -> TypeSpec:
    """Return the specification of a tensor, an array, a sparse tensor or slices.

    A class of a program's own has it as `_type_spec`, or a function that was registered for it.
    Raises ``TypeError`` for values without one.
    """
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    for kind, convert, allow_subclass in reversed(_CONVERTERS):
        if type(value) is kind or (allow_subclass and isinstance(value, kind)):
            return convert(value)
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        return SparseTensorSpec.from_value(value)
    if isinstance(value, IndexedSlices):
        return IndexedSlicesSpec.from_value(value)
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return TensorSpec(value.shape, value.dtype)
    raise TypeError(f"Could not build a TypeSpec for {value!r} with type {type(value).__name__}")
