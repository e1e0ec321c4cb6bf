"""Batches made together with a function, taken apart, or of sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data import batches
from hpcflow.data.batches import static_size
from hpcflow.data.dataset import Dataset
from hpcflow.data.functions import ElementFunction
from hpcflow.data.structure import Leaf, Structure
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import BoolLike, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

Transformation = Callable[[Dataset], Dataset]


def map_and_batch(map_func: Callable, batch_size: TensorLike,
                  num_parallel_batches: int | None = None, drop_remainder: BoolLike = False,
                  num_parallel_calls: TensorLike | None = None) -> Transformation:
    """``map`` and ``batch`` in one: `num_parallel_calls` calls at a time, or those of
    `num_parallel_batches` batches; ``ValueError`` if both are given."""
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("The `num_parallel_batches` and `num_parallel_calls` arguments are "
                         "mutually exclusive.")

    def change(dataset: Dataset) -> Dataset:
        size = convert_to_tensor(batch_size, dtypes.int64, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool, "drop_remainder")
        calls = num_parallel_calls
        if calls is None:
            calls = raw_ops.Mul(size, num_parallel_batches or 1)
        function = ElementFunction(map_func, [dataset._structure], "map_and_batch")
        return dataset._derived(
            "MapAndBatchDataset", function.structure.batched(static_size(size, drop)),
            batch_size=size, drop_remainder=drop,
            num_parallel_calls=convert_to_tensor(calls, dtypes.int64, "num_parallel_calls"),
            preserve_cardinality=True, **function.inputs())

    return change


def batch_and_drop_remainder(batch_size: TensorLike) -> Transformation:
    """Batches of exactly `batch_size` elements."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: TensorLike, padded_shapes: Sequence[ShapeLike],
                                    padding_values: Any = None) -> Transformation:
    """Padded batches of exactly `batch_size` elements."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values,
                                                drop_remainder=True)


def unbatch() -> Transformation:
    """The slices of the elements along their first dimension."""
    return batches.unbatch


def dense_to_sparse_batch(batch_size: TensorLike, row_shape: Any) -> Transformation:
    """Batches as sparse tensors of shape ``[batch_size, *row_shape]``, of dense elements of any
    smaller shape; `row_shape` may have None for sizes that are those of the largest element.

    Raises ``TypeError`` for elements of several components; in a step, ``InvalidArgumentError``
    for an element of another rank than `row_shape`, ``DataLossError`` for a larger one.
    """

    full = as_shape(row_shape)
    bounds = [-1 if d is None else d for d in full._dims or ()]

    def change(dataset: Dataset) -> Dataset:
        if len(dataset._structure.leaves) != 1 or isinstance(dataset.output_types, (tuple, dict)):
            raise TypeError("DenseToSparseDataset requires an input whose elements have a single "
                            f"component, whereas the input has {dataset.output_types}.")
        dtype = dataset.output_types
        encoded = dataset._derived(
            "DenseToSparseBatchDataset", Structure(Leaf(dtypes.variant, TensorShape([3]))),
            batch_size=convert_to_tensor(batch_size, dtypes.int64, "batch_size"),
            row_shape=convert_to_tensor(np.array(bounds, np.int64)))
        result = encoded.map(lambda parts: SparseTensor(
            *raw_ops.DeserializeSparse(serialized_sparse=parts, dtype=dtype)))
        result._structure.leaves[0].shape = TensorShape([None]).concatenate(full)
        return result

    return change
