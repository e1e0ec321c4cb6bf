"""Reduction of the values of several ranks to one: the operations, and the fixed tree they are
applied in.

Floating-point addition is not associative. So that every rank gets the same bits in every run,
values are always joined in the same binary tree over the indices of their owners, whatever the
order in which they arrive. The tree over S leaves joins neighbours, then pairs of neighbours, and
so on; a node without a neighbour moves up as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcflow.dtypes import DTypeLike
from hpcflow.host.tuning import comm as tuning

SUM, MEAN, MIN, MAX = "sum", "mean", "min", "max"
REDUCTIONS = (SUM, MEAN, MIN, MAX)
#: The largest power of two that every floating type can divide one by.
_MOST_EXACT = 1 << 14
#: A node of the tree: (level, index); it covers the leaves [index << level, (index + 1) << level).
TreeNode = tuple[int, int]


def joiner(reduction: str, dtype: DTypeLike) -> Callable[..., Any]:
    """``f(a, b, out)`` that joins two arrays of `dtype`."""
    if reduction in (SUM, MEAN):
        return np.add
    if dtype == np.bool_:
        return np.logical_and if reduction == MIN else np.logical_or
    return np.minimum if reduction == MIN else np.maximum


def is_narrow(dtype: Any) -> bool:
    """True for floating types of 16 bits: they are summed in 32 and rounded once."""
    return dtype.itemsize == 2 and dtype.kind not in "iub"


def wide_type(reduction: str, dtype: Any) -> Any:
    """The type in which values of `dtype` are joined; `dtype` itself if that is wide enough."""
    if is_narrow(dtype):
        return np.dtype(np.float32)
    if reduction == MEAN and dtype.kind in "iu" and dtype.itemsize < 8:
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return dtype


def cover(start: int, stop: int, leaves: int) -> list[TreeNode]:
    """The fewest nodes of the tree over `leaves` that make up the leaves [start, stop)."""
    found: list[TreeNode] = []
    while start < stop:
        level = 0
        # As high as the left edge and the right one allow; the last leaf of all ends every node.
        while start % (2 << level) == 0 and min(start + (2 << level), leaves) <= stop and (
            1 << level
        ) < leaves:
            level += 1
        found.append((level, start >> level))
        start = min(start + (1 << level), leaves)
    return found


def join(
    values: dict[TreeNode, Any],
    leaves: int,
    add: Callable[[Any, Any], Any],
    top: TreeNode | None = None,
) -> Any:
    """The value of the node `top` (the root), from those of nodes that cover its leaves once."""

    def value_of(level: int, index: int) -> Any:
        known = values.get((level, index))
        if known is not None:
            return known
        left = value_of(level - 1, 2 * index)
        if (2 * index + 1) << (level - 1) >= leaves:
            return left
        return add(left, value_of(level - 1, 2 * index + 1))

    return value_of(*((leaves - 1).bit_length(), 0) if top is None else top)


def join_into(
    values: dict[TreeNode, Any],
    leaves: int,
    function: Callable[..., Any],
    out: Any,
    make: Callable[[], Any],
) -> Any:
    """The root of the tree, joined by ``function(a, b, out=...)``: in `out`, unless it is one of
    `values`; ``make()`` makes an array for what is joined besides."""
    free = [out]  # what no value that is still needed lies in
    taken: set[int] = set()

    def add(left: Any, right: Any) -> Any:
        if id(left) in taken:
            target = left
            if id(right) in taken:
                free.append(right)
        elif id(right) in taken:
            target = right
        else:
            target = free.pop() if free else make()
            taken.add(id(target))
        return function(left, right, out=target)

    return join(values, leaves, add)


class Reducer:
    """Joins the pieces of one reduction; ``divisor`` is what a mean is divided by.

    `nodes` says per owner which nodes of the tree over `leaves` its pieces are; by default every
    owner is one leaf. Then narrow types are summed in 32 bits, and integers for a mean in 64;
    pieces of a tree that is given have been summed in their own type, and go on so. The means of
    integers are rounded towards zero.
    """

    def __init__(
        self,
        reduction: str,
        dtype: Any,
        owners: int,
        divisor: int | None = None,
        nodes: Sequence[Sequence[TreeNode]] | None = None,
        leaves: int | None = None,
    ) -> None:
        self.dtype = dtype
        self._join = joiner(reduction, dtype)
        self._leaves = owners if leaves is None else leaves
        self.nodes = [[(0, i)] for i in range(owners)] if nodes is None else nodes
        self._order = [node for owned in self.nodes for node in owned]
        self._divisor = (divisor or self._leaves) if reduction == MEAN else 1
        self._wide = dtype if nodes is not None else wide_type(reduction, dtype)
        self._scale = _divider(self._divisor, self._wide)

    def reduce(self, pieces: list[Any], out: Any) -> None:
        """Join `pieces` (flat arrays, in the order of the owners' nodes) into `out`, which is none
        of them."""
        if len(pieces) == 2 and self._wide is self.dtype:
            self._reduce_two(pieces[0], pieces[1], out)
            return
        for start in range(0, len(out), tuning.REDUCE_BLOCK):
            part = slice(start, start + tuning.REDUCE_BLOCK)
            self._reduce_block([piece[part] for piece in pieces], out[part])

    def _reduce_two(self, left: Any, right: Any, out: Any) -> None:
        if self._divisor == 1:
            self._join(left, right, out=out)
            return
        for start in range(0, len(out), tuning.REDUCE_BLOCK):
            part = slice(start, start + tuning.REDUCE_BLOCK)
            target = out[part]
            self._join(left[part], right[part], out=target)
            self._scale(target, out=target)

    def _reduce_block(self, pieces: list[Any], out: Any) -> None:
        total = out
        if self._wide is not self.dtype:
            pieces = [piece.astype(self._wide) for piece in pieces]
            total = np.empty(len(out), self._wide)
        joined = self._joined(dict(zip(self._order, pieces, strict=True)), total)
        if self._divisor != 1:
            joined = self._scale(joined, out=total)
        if joined is not out:
            out[...] = joined

    def _joined(self, values: dict[TreeNode, Any], out: Any) -> Any:
        """The root of the tree: in `out`, unless it is one of `values`."""
        return join_into(values, self._leaves, self._join, out,
                         lambda: np.empty(len(out), self._wide))


def _divider(divisor: int, dtype: Any) -> Callable[..., Any]:
    """``f(x, out)`` that divides by a whole number: by a power of two it multiplies by what that
    is one over, which has the same bits and takes less time. Integers are rounded towards zero."""
    if dtype.kind in "iu":
        return partial(_divide_integers, divisor)
    if divisor & (divisor - 1) or dtype.kind not in "fc" or divisor > _MOST_EXACT:
        return partial(_divide, np.asarray(divisor, dtype))
    return partial(np.multiply, np.asarray(1 / divisor, dtype))


def _divide(divisor: Any, value: Any, out: Any) -> Any:
    return np.divide(value, divisor, out=out)


def _divide_integers(divisor: int, value: Any, out: Any) -> Any:
    """`out` may be `value`. A divisor above all values of the type gives zeros."""
    if divisor > np.iinfo(out.dtype).max:
        out[...] = 0
        return out
    whole = np.asarray(divisor, out.dtype)
    np.subtract(value, np.fmod(value, whole), out=out)
    return np.floor_divide(out, whole, out=out)


def divided(value: Any, divisor: int) -> Any:
    """`value` over a whole number, in its own type (of narrow types rounded once, of integers
    towards zero)."""
    if divisor == 1:
        return value
    if is_narrow(value.dtype):
        return (value.astype(np.float32) / np.float32(divisor)).astype(value.dtype)
    if value.dtype.kind in "iu":
        return _divide_integers(divisor, value, np.empty_like(value))[()]
    return value / np.asarray(divisor, value.dtype)
