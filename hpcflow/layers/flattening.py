"""Tensors as one vector per example."""

from __future__ import annotations

import math

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import is_channels_first
from hpcflow.ops.arrays.shape_ops import reshape


def flatten(inputs: Tensor, name: str | None = None,
            data_format: str = "channels_last") -> Tensor:
    """Return `inputs`, of shape ``[batch, ...]``, as ``[batch, size]``.

    With the format ``channels_first`` channels become the last dimension before. Raises
    ``ValueError`` for a scalar.
    """
    with name_scope(name, "flatten", [inputs]):
        inputs = convert_to_tensor(inputs, name="inputs")
        dims = inputs._dims
        if dims is not None and len(dims) > 2 and is_channels_first(data_format):
            inputs = raw_ops.Transpose(inputs, np.array([0, *range(2, len(dims)), 1], np.int32))
            dims = inputs._dims
        if dims == ():
            raise ValueError("flatten: the inputs must have a batch dimension, got a scalar")
        batch = dims[0] if dims else None
        if batch is None:
            batch = raw_ops.StridedSlice(raw_ops.Shape(inputs), [0], [1], [1], shrink_axis_mask=1,
                                         name="strided_slice")
        result = reshape(inputs, [batch, -1])
        result.set_shape(_flat(dims))
        return result


def _flat(dims: Dims) -> list[int | None]:
    """The shape ``[batch, size]`` of the flat form of what has the shape `dims`."""
    if dims is None:
        return [None, None]
    return [dims[0], None if None in dims[1:] else math.prod(dims[1:])]
