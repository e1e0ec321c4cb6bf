"""Variables in parts; partitioners say into how many ``get_variable`` cuts each dimension.

A partitioner is called with ``shape`` and ``dtype`` and returns one number of parts per dimension,
at most one of them more than 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, InitializerLike
from hpcflow.ops.state.variable_scope import default_store, variable_scope
from hpcflow.ops.state.variable_store import Reuse
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = [
    "create_partitioned_variables",
    "fixed_size_partitioner",
    "min_max_variable_partitioner",
    "variable_axis_size_partitioner",
]


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Callable:
    """Return a partitioner that cuts dimension `axis` into `num_shards` parts.

    A dimension smaller than that is cut into parts of size 1.
    """

    def partitioner(shape: ShapeLike, **unused: Any) -> list[int]:
        dims: list[Any] = as_shape(shape).as_list()
        parts = [1] * len(dims)
        parts[axis] = min(num_shards, dims[axis])
        return parts

    return partitioner


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0,
                                   bytes_per_string_element: int = 16,
                                   max_shards: int | None = None) -> Callable:
    """Return a partitioner that cuts `axis` into as few parts as hold `max_shard_bytes` each.

    Args:
        max_shard_bytes: the largest size of a part; a part has at least one slice.
        axis: the dimension to cut.
        bytes_per_string_element: an estimate for strings, whose size is not known.
        max_shards: no more parts than this.

    Raises ``ValueError`` for numbers that are not positive, and, when called, for an unknown
    shape or an axis out of range.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(f"max_shard_bytes and bytes_per_string_element must be positive, got "
                         f"{max_shard_bytes} and {bytes_per_string_element}")
    if max_shards is not None and max_shards < 1:
        raise ValueError(f"max_shards must be positive, got {max_shards}")

    def partitioner(shape: ShapeLike, dtype: DTypeLike) -> list[int]:
        dims, size = _known(shape, axis), _element_size(dtype, bytes_per_string_element)
        slice_bytes = size * math.prod(d for i, d in enumerate(dims) if i != axis)
        per_shard = max(1, max_shard_bytes // max(1, slice_bytes))
        wanted = math.ceil(dims[axis] / per_shard)
        parts = [1] * len(dims)
        parts[axis] = max(1, min(wanted, max_shards or wanted))
        return parts

    return partitioner


def min_max_variable_partitioner(max_partitions: int = 1, axis: int = 0,
                                 min_slice_size: int = 256 << 10,
                                 bytes_per_string_element: int = 16) -> Callable:
    """Return a partitioner that cuts `axis` into at most `max_partitions` parts, none smaller
    than `min_slice_size` bytes.

    Raises ``ValueError`` for numbers that are not positive, and, when called, for an unknown
    shape or an axis out of range.
    """
    for name, value in (("max_partitions", max_partitions), ("min_slice_size", min_slice_size),
                        ("bytes_per_string_element", bytes_per_string_element)):
        if value < 1:
            raise ValueError(f"{name} must be positive, got {value}")

    def partitioner(shape: ShapeLike, dtype: DTypeLike) -> list[int]:
        dims, size = _known(shape, axis), _element_size(dtype, bytes_per_string_element)
        fitting = math.ceil(size * math.prod(dims) / min_slice_size)
        parts = [1] * len(dims)
        parts[axis] = max(1, min(dims[axis], max_partitions, fitting))
        return parts

    return partitioner


def _known(shape: ShapeLike, axis: int) -> list:
    shape = shape if isinstance(shape, TensorShape) else as_shape(shape)
    if not shape.is_fully_defined():
        raise ValueError(f"only a variable of known shape can be partitioned, got {shape}")
    dims = shape.as_list()
    if axis >= len(dims) or axis < 0:
        raise ValueError(f"cannot partition axis {axis} of shape {shape}")
    return dims


def _element_size(dtype: DTypeLike, string_size: int) -> int:
    dtype = dtypes.as_dtype(dtype).base_dtype
    return string_size if dtype is dtypes.string else dtype.size


def create_partitioned_variables(shape: ShapeLike, slicing: Sequence[int],
                                 initializer: InitializerLike, dtype: DTypeLike = "float32",
                                 trainable: bool = True, collections: Collections | None = None,
                                 name: str | None = None, reuse: Reuse = None) -> list[Variable]:
    """Return the slices of a new (or reused) partitioned variable.

    Args:
        shape: shape of the whole.
        slicing: number of parts for each dimension, at most one above 1.
        initializer: a function of shape and dtype, or a tensor of the whole initial value.
        dtype: element type; that of an initial value comes first.
        trainable: whether optimizers change it.
        collections: collections to add to.
        name: name; "PartitionedVariable" made unique if None.
        reuse: as in ``variable_scope``.

    Raises ``ValueError`` if shape and slicing do not fit.
    """
    if len(as_shape(shape).as_list()) != len(slicing):
        raise ValueError(f"The slicing must have one number per dimension: {list(slicing)} for "
                         f"shape {as_shape(shape)}")
    if not callable(initializer):
        dtype = convert_to_tensor(initializer).dtype.base_dtype
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        # Without a name of its own the variable is called like the scope.
        return list(scope.get_variable(
            default_store(), None, shape, dtype, initializer, trainable=trainable,
            collections=collections, partitioner=lambda **unused: list(slicing)))
