"""Distances between sequences: EditDistance."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dims, with_rank

__all__ = ["edit_distance"]


def _edit_distance_shape(op: Operation) -> list[Dims]:
    """The dimensions but the last; where the two sides differ, the larger."""
    for first in (0, 3):
        indices = with_rank(op.input_dims(first), 2, "indices")
        with_rank(op.input_dims(first + 1), 1, "values")
        merge_dims((indices[1],), with_rank(op.input_dims(first + 2), 1, "shape"))
    a, b = constant_value_as_dims(op.inputs[2]), constant_value_as_dims(op.inputs[5])
    if a is None or b is None:
        known = b if a is None else a
        return [None if known is None else (None,) * (len(known) - 1)]
    if len(a) != len(b):
        raise ValueError(f"hypothesis and truth must have the same rank, but have {len(a)} and "
                         f"{len(b)}")
    return [tuple(None if x is None or y is None else max(x, y) for x, y in zip(a[:-1], b[:-1]))]


register_op("EditDistance",
            "hypothesis_indices: int64; hypothesis_values: T; hypothesis_shape: int64; "
            "truth_indices: int64; truth_values: T; truth_shape: int64", "output: float",
            "normalize: bool = true; T: type", shape=_edit_distance_shape)
not_differentiable("EditDistance")


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True,
                  name: str = "edit_distance") -> Tensor:
    """Return the Levenshtein distances between the sequences of two sparse tensors.

    Args:
        hypothesis: a sparse tensor of rank R; its last dimension runs along the sequences.
        truth: a sparse tensor of the same rank and type.
        normalize: divide each distance by the length of the true sequence (infinity for a
            hypothesis where the truth is empty).
        name: name of the operation.

    Returns float32 distances of rank R-1. Raises ``TypeError`` for arguments that are not sparse.
    """
    parts: list[Any] = []
    for what, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if isinstance(value, (Tensor, IndexedSlices)) or not hasattr(value, "dense_shape"):
            raise TypeError(f"{what} must be a SparseTensor, got {value!r}.")
        parts += [_int64(value.indices), value.values, _int64(value.dense_shape)]
    return raw_ops.EditDistance(*parts, normalize=normalize, name=name)


def _int64(value: TensorLike) -> Any:
    return value if isinstance(value, Tensor) else np.asarray(value, np.int64)
