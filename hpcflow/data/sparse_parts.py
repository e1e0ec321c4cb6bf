"""Nests of tensors and sparse tensors, with each sparse tensor as one variant tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.data import nest
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.shapes import TensorShape


def any_sparse(classes: Any) -> bool:
    """True if one of a nest of classes is ``SparseTensor``."""
    return any(kind is SparseTensor for kind in nest.flatten(classes))


def get_classes(tensors: Any) -> Any:
    """The class of each value of a nest: ``SparseTensor`` or ``Tensor``."""
    return nest.map_structure(
        lambda value: SparseTensor if isinstance(value, SparseTensor) else Tensor, tensors)


def as_dense_types(types: Any, classes: Any) -> Any:
    """The types of the tensors that stand for values of these types and classes."""
    return _dense(types, classes, dtypes.variant)


def as_dense_shapes(shapes: Any, classes: Any) -> Any:
    """The shapes of the tensors that stand for values of these shapes and classes."""
    return _dense(shapes, classes, TensorShape(None))


def _dense(parts: Any, classes: Any, of_sparse: Any) -> Any:
    pairs = zip(nest.flatten(parts), nest.flatten(classes), strict=True)
    return nest.pack_as(parts, [of_sparse if kind is SparseTensor else part
                                for part, kind in pairs])


def serialize_sparse_tensors(tensors: Any) -> Any:
    """The nest with each sparse tensor as a vector of three variants."""
    return _serialized(tensors, raw_ops.SerializeSparse)


def serialize_many_sparse_tensors(tensors: Any) -> Any:
    """The nest with each sparse tensor as a matrix of variants: a row for each of its slices."""
    return _serialized(tensors, raw_ops.SerializeManySparse)


def _serialized(tensors: Any, serialize: Callable) -> Any:
    def one(value: Any) -> Any:
        if not isinstance(value, SparseTensor):
            return value
        return serialize(value.indices, value.values, value.dense_shape, out_type=dtypes.variant)

    return nest.map_structure(one, tensors)


def deserialize_sparse_tensors(tensors: Any, types: Any, shapes: Any, classes: Any) -> Any:
    """The nest that was serialized, by the types, shapes and classes of its values."""
    def one(value: Any, dtype: Any, shape: Any, kind: Any) -> Any:
        if kind is not SparseTensor:
            return value
        parts = raw_ops.DeserializeSparse(serialized_sparse=value, dtype=dtype)
        rank = shape.ndims
        parts[0].set_shape([None, rank])
        parts[2].set_shape([rank])
        return SparseTensor(*parts)

    flat = [nest.flatten_up_to(types, part) for part in (tensors, types, shapes, classes)]
    return nest.pack_as(types, [one(*parts) for parts in zip(*flat, strict=True)])
