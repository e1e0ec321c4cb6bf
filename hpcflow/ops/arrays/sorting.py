"""Sorting along a dimension: sort and argsort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    known_number,
    show,
    with_rank_at_least,
)
from hpcflow.ops.common.static_shape import normalize_axis
from hpcflow.ops.common.type_sets import ORDERED

__all__ = ["argsort", "sort"]

_DIRECTIONS = ("ASCENDING", "DESCENDING")


def sort(values: Sequence[TensorLike], axis: int = -1, direction: str = "ASCENDING",
         name: str | None = None) -> Tensor:
    """Return `values` sorted along the dimension `axis`, a number.

    `direction` is "ASCENDING" or "DESCENDING". Raises ``ValueError`` for another one, and for an
    axis out of range.
    """
    with name_scope(name, "sort", [values]):
        return _sorted(values, axis, direction)[0]


def argsort(values: Sequence[TensorLike], axis: int = -1, direction: str = "ASCENDING",
            stable: bool = False, name: str | None = None) -> Tensor:
    """Return the int32 places of the elements in their order along the dimension `axis`.

    Equal elements stay in the order in which they are, with or without `stable`. `direction` and
    errors are as of :func:`sort`.
    """
    del stable
    with name_scope(name, "argsort", [values]):
        return _sorted(values, axis, direction)[1]


def _sorted(values: Sequence[TensorLike], axis: int, direction: str) -> tuple[Tensor, Tensor]:
    if direction not in _DIRECTIONS:
        raise ValueError(f"`direction` should be one of {', '.join(_DIRECTIONS)}, got "
                         f"{direction!r}")
    x = convert_to_tensor(values, name="values")
    order = _axis_last(x, axis)
    if order is not None:
        x = raw_ops.Transpose(x, order)
    rising = direction == "ASCENDING"
    last = raw_ops.StridedSlice(raw_ops.Shape(x), np.array([-1], np.int32),
                                np.zeros(1, np.int32), np.ones(1, np.int32), shrink_axis_mask=1)
    found, places = raw_ops.TopKV2(_mirrored(x) if rising else x, last)
    found = _mirrored(found) if rising else found
    if order is None:
        return found, places
    return raw_ops.Transpose(found, order), raw_ops.Transpose(places, order)


def _axis_last(x: Tensor, axis: int) -> Tensor | None:
    """The permutation that exchanges `axis` and the last dimension; None if they are the same."""
    if axis == -1:
        return None
    if x._dims is None:
        return _exchanged(raw_ops.Rank(x), np.int32(axis))
    rank = len(x._dims)
    if not -rank <= axis < rank:
        raise ValueError(f"axis = {axis} not in [{-rank}, {rank}): slice index {axis} of the shape "
                         "is out of bounds")
    position = normalize_axis(axis, rank)
    if position == rank - 1:
        return None
    order = np.arange(rank, dtype=np.int32)
    order[[position, -1]] = order[[-1, position]]
    return convert_to_tensor(order, name="transposition")


def _exchanged(rank: Tensor, axis: np.int32) -> Tensor:
    """The permutation for a rank that is known in the step."""
    position = convert_to_tensor(axis)
    if axis < 0:
        position = raw_ops.AddV2(rank, axis)  # below zero, it is no axis: as far as the end
        position = raw_ops.Select(raw_ops.Less(position, np.int32(0)), rank, position)
    last = raw_ops.Sub(rank, np.int32(1))
    places = raw_ops.Range(np.int32(0), rank, np.int32(1))
    ones = raw_ops.OnesLike(places)
    order = raw_ops.Select(raw_ops.Equal(places, position), raw_ops.Mul(ones, last), places)
    return raw_ops.Select(raw_ops.Equal(places, last), raw_ops.Mul(ones, position), order)


def _mirrored(x: Tensor) -> Tensor:
    """The values in reverse order; twice gives them back."""
    dtype = x.dtype.base_dtype
    if not dtype.is_integer:
        return raw_ops.Neg(x)
    # No integer is without its mirror image in max - x, or -1 - x.
    return raw_ops.Sub(np.array(dtype.max if dtype.is_unsigned else -1, dtype.np), x)

# ---------------------------------------------------------------- the n-th in order


def _without_last(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "input")
    if op.input_dims(1):
        raise ValueError(f"n must be a scalar but has rank {len(op.input_dims(1) or ())}")
    n = known_number(op, 1)
    if n is not None and n < 0:
        raise ValueError(f"n must be non-negative but is {int(n)}")
    if dims is None:
        return [None]
    if n is not None and dims[-1] is not None and n >= dims[-1]:
        raise ValueError(f"Input must have last dimension > n = {int(n)} but has {show(dims)}")
    return [dims[:-1]]


register_op("NthElement", "input: T; n: int32", "values: T", f"reverse: bool = false; T: {ORDERED}",
            shape=_without_last)


@RegisterGradient("NthElement")
def _nth_element_grad(op: Operation, grad: Tensor) -> tuple:
    """The elements equal to the one that was chosen share its gradient."""
    x, last = op.inputs[0], np.int32(-1)
    chosen = raw_ops.Cast(raw_ops.Equal(raw_ops.ExpandDims(op.outputs[0], last), x),
                          DstT=x.dtype.base_dtype)
    count = raw_ops.Sum(chosen, last, keep_dims=True)
    return raw_ops.Mul(raw_ops.RealDiv(chosen, count), raw_ops.ExpandDims(grad, last)), None
