"""Batches and windows of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data import nest
from hpcflow.data.arguments import partial_shape_to_tensor
from hpcflow.data.structure import ArrayLeaf, DatasetLeaf, Leaf, SparseLeaf, Structure
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import BoolLike, Nest, Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset


def static_size(size: Tensor, drop_remainder: Tensor) -> int | None:
    """The first dimension of batches, where it is known."""
    if not constant_value(drop_remainder):
        return None
    value = constant_value(size)
    return None if value is None else int(value)


def batch(dataset: Dataset, batch_size: TensorLike, drop_remainder: BoolLike) -> Any:
    """See ``Dataset.batch``."""
    size = convert_to_tensor(batch_size, dtypes.int64, "batch_size")
    drop = convert_to_tensor(drop_remainder, dtypes.bool, "drop_remainder")
    structure = dataset._structure.batched(static_size(size, drop))
    return dataset._derived("BatchDatasetV2", structure, batch_size=size, drop_remainder=drop)


def unbatch(dataset: Dataset) -> Dataset:
    """See ``Dataset.unbatch``."""
    sizes = {leaf.shape[0].value for leaf in dataset._structure.leaves if leaf.shape.ndims}
    if len(sizes - {None}) > 1:
        raise ValueError("Cannot unbatch an input with components of different batch sizes, but "
                         f"they have the shapes {dataset.output_shapes}")
    structure = dataset._structure.map_shapes(
        lambda s: s.with_rank_at_least(1)[1:] if s.ndims is not None else s)
    if not any(isinstance(leaf, SparseLeaf) for leaf in structure.leaves):
        return dataset._derived("UnbatchDataset", structure)
    return dataset.flat_map(lambda *parts: dataset.from_tensor_slices(
        parts if len(parts) > 1 else parts[0]))


def padded_batch(dataset: Any, batch_size: Any, padded_shapes: Nest | None,
                 padding_values: Sequence[Any] | None, drop_remainder: BoolLike) -> Any:
    """See ``Dataset.padded_batch``."""
    structure: Structure = dataset._structure
    if any(isinstance(leaf, (SparseLeaf, DatasetLeaf, ArrayLeaf)) for leaf in structure.leaves):
        raise TypeError("Batching of padded sparse tensors is not currently supported")
    size = convert_to_tensor(batch_size, dtypes.int64, "batch_size")
    drop = convert_to_tensor(drop_remainder, dtypes.bool, "drop_remainder")
    flat = ([leaf.shape for leaf in structure.leaves] if padded_shapes is None
            else nest.flatten_up_to(structure.tree, padded_shapes))
    if any(isinstance(s, TensorShape) and s.ndims is None for s in flat):
        raise ValueError("padded_batch needs `padded_shapes` where the rank of a component is not "
                         "known")
    shapes = [_shape_tensor(s, leaf) for s, leaf in zip(flat, structure.leaves, strict=True)]
    values = ([None] * len(flat) if padding_values is None
              else nest.flatten_up_to(structure.tree, padding_values))
    fills = [_padding(v, leaf) for v, leaf in zip(values, structure.leaves, strict=True)]
    first = static_size(size, drop)
    leaves = [leaf.with_shape(TensorShape([first]).concatenate(_known(s)))
              for leaf, s in zip(structure.leaves, shapes, strict=True)]
    result = Structure(nest.pack_as(structure.tree, leaves))
    variant = raw_ops.PaddedBatchDatasetV2(
        input_dataset=dataset._variant_tensor, batch_size=size, padded_shapes=shapes,
        padding_values=fills, drop_remainder=drop, output_shapes=result.attrs["output_shapes"])
    return type(dataset)._of(variant, result, dataset._options)


def _shape_tensor(shape: Any, leaf: Leaf) -> Tensor:
    """Convert a padded shape to a vector, in which -1 means the longest size in the batch."""
    tensor = partial_shape_to_tensor(shape)
    _check_padded(_known(tensor), leaf)
    return tensor


def _check_padded(padded: TensorShape, leaf: Leaf) -> None:
    if padded.ndims is None or leaf.shape.ndims is None:
        return
    fits = padded.ndims == leaf.shape.ndims and all(
        p is None or n is None or p >= n for p, n in zip(
            padded._dims or (), leaf.shape._dims or (), strict=True))
    if not fits:
        raise ValueError(f"The padded shape {padded} is not compatible with the corresponding "
                         f"input component shape {leaf.shape}.")


def _known(shape: Tensor) -> TensorShape:
    """Return the statically known part of a padded shape."""
    value = constant_value(shape)
    if value is None:
        dims = shape.get_shape()
        return TensorShape(None if dims.ndims is None or dims[0].value is None
                           else [None] * dims[0].value)
    return TensorShape([None if d < 0 else int(d) for d in value])


def _padding(value: Any, leaf: Leaf) -> Tensor:
    if value is None:
        value = b"" if leaf.dtype is dtypes.string else np.zeros((), leaf.dtype.np)
    tensor = convert_to_tensor(value, name="padding_value")
    if not tensor.get_shape().is_compatible_with(TensorShape([])):
        raise ValueError(f"Padding value should be a scalar, but is {value}")
    if tensor.dtype is not leaf.dtype:
        raise TypeError(f"Padding value tensor ({tensor}) does not match output type: "
                        f"{leaf.dtype.name}")
    return tensor


def window(dataset: Dataset, size: TensorLike, shift: TensorLike | None, stride: Sizes,
           drop_remainder: BoolLike) -> Any:
    """See ``Dataset.window``."""
    tree = nest.map_structure(lambda leaf: DatasetLeaf(Structure(leaf)), dataset._structure.tree)
    numbers = {name: convert_to_tensor(value, dtypes.int64, name) for name, value in (
        ("size", size), ("shift", size if shift is None else shift), ("stride", stride))}
    drop = convert_to_tensor(drop_remainder, dtypes.bool, "drop_remainder")
    return dataset._derived("WindowDataset", Structure(tree), drop_remainder=drop, **numbers)
