"""Tensors as one vector per example."""

from __future__ import annotations

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import is_channels_first


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
        rest = None if dims is None else dims[1:]
        if dims is not None and rest is not None and None not in rest:
            size = int(np.prod(rest, dtype=np.int64))
            if size or dims[0] is not None:
                batch = -1 if dims[0] is None else dims[0]
                return raw_ops.Reshape(inputs, np.array([batch, size], np.int32))
        rows = raw_ops.StridedSlice(raw_ops.Shape(inputs), [0], [1], [1], shrink_axis_mask=1)
        return raw_ops.Reshape(inputs, raw_ops.Pack([rows, np.int32(-1)], axis=0))
