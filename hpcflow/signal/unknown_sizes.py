"""Signals of unknown rank or size: one dimension in the place of all leading ones, and the size as
a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def over_last(function: Callable[[Tensor], Tensor], x: Tensor, count: int) -> Tensor:
    """Return ``function(x)``, where the last `count` dimensions of `x` matter.

    For an `x` of unknown rank the dimensions before them are one while `function` runs, which
    keeps the first dimension, and are those of `x` again in the result.
    """
    if x.get_shape().ndims is not None:
        return function(x)
    dims: Any = raw_ops.Shape(x)
    leading = dims[:-count]
    together = raw_ops.Pack([raw_ops.Prod(leading, np.int32(0))])
    flat = raw_ops.Reshape(x, raw_ops.ConcatV2([together, dims[-count:]], np.int32(0)))
    flat.set_shape([None] * (1 + count))
    result = function(flat)
    after: Any = raw_ops.Shape(result)
    return raw_ops.Reshape(result, raw_ops.ConcatV2([leading, after[1:]], np.int32(0)))


def last_size(x: Tensor) -> Any:
    """The size of the last dimension: a number where it is known, else an int32 scalar tensor."""
    shape = x.get_shape()
    known = None if shape.ndims is None else shape.as_list()[-1]
    if known is not None:
        return known
    dims: Any = raw_ops.Shape(x)
    return dims[-1]
