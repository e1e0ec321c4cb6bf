"""Repeating the elements of a tensor, each as often as is said."""

from __future__ import annotations

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import computed_value
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.masks import boolean_mask, sequence_mask

__all__: list[str] = []


def repeat(input: TensorLike, repeats: TensorLike, axis: int | None = None,
           name: str | None = None) -> Tensor:
    """Return `input` with its parts along `axis` repeated, as ``numpy.repeat`` does.

    Args:
        input: a tensor.
        repeats: how often: an integer for all parts, or one for each in a vector. Those below zero
            count as zero.
        axis: the dimension of the parts; None for the elements of the flattened tensor.
        name: name of the operations' scope ("Repeat").

    Raises ``ValueError`` for an axis that there is not, or `repeats` of two or more dimensions;
    ``InvalidArgumentError``, at the latest when run, for a vector of another length than the
    dimension.
    """
    with name_scope(name, "Repeat", [input, repeats]):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = raw_ops.Reshape(x, np.array([-1], np.int32)), 0
        rank = x.shape.ndims
        if rank is not None and not -rank <= axis < rank:
            raise ValueError(f"repeat: there is no axis {axis} in {x.name} of shape {x.shape}")
        counts = cast(convert_to_tensor(repeats), dtypes.int32)
        if counts.shape.ndims not in (0, 1, None):
            raise ValueError(f"repeat: repeats must be a scalar or a vector, got {counts.shape}")
        size = raw_ops.Shape(x)[axis]  # type: ignore[index]
        counts = raw_ops.Maximum(raw_ops.BroadcastTo(counts, raw_ops.Pack([size])), np.int32(0))
        often = sequence_mask(counts)
        parts = raw_ops.ExpandDims(raw_ops.Range(np.int32(0), size, np.int32(1)), np.int32(1))
        places = boolean_mask(raw_ops.BroadcastTo(parts, raw_ops.Shape(often)), often)
        repeated: Tensor = raw_ops.GatherV2(x, places, np.int32(axis))
        known = computed_value(counts)
        if known is not None and x._dims is not None:
            dims = list(x._dims)
            dims[axis] = int(known.sum())
            repeated.set_shape(dims)
        return repeated
