"""Coordinate grids: meshgrid."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__ = ["meshgrid"]

def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Return for N vectors of coordinates N tensors of rank N: the coordinates at each grid point.

    Args:
        args: vectors (or scalars) of one type.
        kwargs: ``indexing="xy"`` (the default: the first two dimensions are exchanged, so that rows
            are y) or ``"ij"``; ``name`` of the scope.

    Raises ``ValueError`` for another indexing, ``TypeError`` for other keywords.
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with name_scope(name, "meshgrid", list(args)):
        vectors = [raw_ops.Reshape(convert_to_tensor(a), [-1]) for a in args]
        order = list(range(len(vectors)))
        if indexing == "xy" and len(order) > 1:
            order[:2] = [1, 0]
        sizes = [raw_ops.Size(vectors[i]) for i in order]
        shape = raw_ops.Pack(sizes) if sizes else None
        return [_along(v, order.index(i), len(order), shape) for i, v in enumerate(vectors)]


def _along(vector: Tensor, axis: int, rank: int, shape: Any) -> Tensor:
    """`vector` laid along `axis` and repeated along the others."""
    row = np.ones(rank, np.int32)
    row[axis] = -1
    ones = raw_ops.Fill(shape, np.ones((), vector.dtype.base_dtype.np))
    return raw_ops.Reshape(vector, row) * ones
