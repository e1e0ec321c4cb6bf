"""The name of 1.x for gathers of coordinates in each place of a batch."""

from __future__ import annotations

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.indexing import gather_nd


def batch_gather_nd(params: TensorLike, indices: TensorLike, batch_dims: int,
                    name: str | None = None) -> Tensor:
    """Return :func:`gather_nd` of these tensors, whose first `batch_dims` dimensions agree."""
    return gather_nd(params, indices, name, batch_dims)
