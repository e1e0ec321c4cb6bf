"""Tensors as one vector per example."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def flatten(inputs: Any, name: str | None = None) -> Tensor:
    """Return `inputs`, of shape ``[batch, ...]``, as ``[batch, size]``.

    Raises ``ValueError`` for a scalar.
    """
    with name_scope(name, "flatten", [inputs]):
        inputs = convert_to_tensor(inputs, name="inputs")
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
