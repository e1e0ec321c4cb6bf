"""Masks: the entries that one holds, and those of sequences of given lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.arrays.indexing import gather
from hpcflow.ops.common.static_shape import normalize_axis
from hpcflow.shapes import TensorShape

__all__ = ["boolean_mask", "sequence_mask"]


def boolean_mask(tensor: TensorLike, mask: TensorLike, name: str = "boolean_mask",
                 axis: AxisLike | None = None) -> Tensor:
    """Return the entries of `tensor` for which `mask` is true, in row-major order.

    Args:
        tensor: a tensor of rank N.
        mask: booleans of known rank K, 0 < K <= N, whose shape is that of K dimensions.
        name: name of the operation.
        axis: the first of these dimensions; 0 when None.

    Returns a tensor of rank N-K+1. Raises ``ValueError`` if the shapes do not fit.
    """
    with name_scope(name, "boolean_mask", [tensor, mask]):
        tensor, mask = convert_to_tensor(tensor), convert_to_tensor(mask, name="mask")
        if mask._dims is None:
            raise ValueError("Number of mask dimensions must be specified, even if some dimensions "
                             "are None.  E.g. shape=[None] is ok, but shape=None is not.")
        rank = len(mask._dims)
        if rank == 0:
            raise ValueError("mask cannot be scalar.")
        first = _first_masked(tensor, rank, _known_axis(axis))
        if tensor._dims is not None:
            masked = TensorShape.from_dims(tensor._dims[first : first + rank])
            masked.assert_is_compatible_with(TensorShape.from_dims(mask._dims))
        # Reshaped even if K = 1, as the reference does: the gradient is dense, no IndexedSlices.
        rows = _joined_dimensions(tensor, first, rank)
        chosen = raw_ops.Where(mask if rank == 1 else raw_ops.Reshape(mask, [-1]))
        return gather(rows, raw_ops.Squeeze(chosen, squeeze_dims=[1]), axis=first)


def _known_axis(axis: Any) -> int:
    """`axis` as a number; one that is a tensor must follow from the graph."""
    value = constant_value(axis) if isinstance(axis, Tensor) else axis or 0
    if value is None:
        raise ValueError(f"the value of the axis {axis!r} must be known as the graph is built")
    return int(value)


def _first_masked(tensor: Tensor, rank: int, axis: int) -> int:
    """The first dimension that a mask of `rank` covers, counted from the front."""
    if axis >= 0:
        return axis
    if tensor._dims is None:
        raise ValueError(f"the rank of the tensor must be known for axis {axis}")
    return normalize_axis(axis, len(tensor._dims))


def _joined_dimensions(tensor: Tensor, first: int, count: int) -> Tensor:
    """`tensor` with `count` dimensions from `first` on made one."""
    dims = tensor._dims
    joined = None if dims is None else (*dims[:first], None, *dims[first + count :])
    if joined is not None and joined.count(None) == 1:
        return raw_ops.Reshape(tensor, np.array([-1 if d is None else d for d in joined], np.int32))
    shape = raw_ops.Shape(tensor)
    before = raw_ops.StridedSlice(shape, [0], [first], [1])
    after = raw_ops.StridedSlice(shape, [first + count], [0], [1], end_mask=1)
    rows = raw_ops.Reshape(tensor, raw_ops.ConcatV2([before, np.array([-1], np.int32), after], 0))
    rows.set_shape(joined)
    return rows


def sequence_mask(lengths: TensorLike, maxlen: TensorLike | None = None,
                  dtype: DTypeLike = dtypes.bool, name: str | None = None) -> Tensor:
    """Return a mask ``lengths.shape + [maxlen]`` whose row i starts with ``lengths[i]`` ones.

    Args:
        lengths: integers of any shape.
        maxlen: a scalar; the largest length if left out.
        dtype: element type of the mask.
        name: name of the operation.

    Raises ``ValueError`` if `maxlen` is no scalar.
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert_to_tensor(lengths)
        kind = lengths.dtype.base_dtype
        if maxlen is None:
            maxlen = _largest(lengths)
        maxlen = convert_to_tensor(maxlen, kind if not isinstance(maxlen, Tensor) else None)
        if maxlen.shape.ndims not in (0, None):
            raise ValueError("maxlen must be scalar for sequence_mask")
        zero, one = np.zeros((), maxlen.dtype.np), np.ones((), maxlen.dtype.np)
        steps = raw_ops.Range(zero, maxlen, one)
        ends = raw_ops.ExpandDims(lengths, -1)
        if ends.dtype.base_dtype is not steps.dtype.base_dtype:
            ends = raw_ops.Cast(ends, DstT=steps.dtype)
        mask = raw_ops.Less(steps, ends)
        wanted = dtypes.as_dtype(dtype)
        return mask if wanted is dtypes.bool else raw_ops.Cast(mask, DstT=wanted)


def _largest(lengths: Tensor) -> Any:
    """The largest of `lengths`, 0 if there are none; a number where it is known."""
    known, kind = constant_value(lengths), lengths.dtype.base_dtype.np.type
    if known is not None:
        return kind(max(known.max(initial=0), 0))
    largest = raw_ops.Max(raw_ops.Reshape(lengths, [-1]), [0])
    return raw_ops.Maximum(largest, kind(0))
