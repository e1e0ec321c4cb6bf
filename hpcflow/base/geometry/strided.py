"""The rule of strided slices: begin, end, strides and bit masks as an index of NumPy's.

Position i of the three vectors stands for one dimension of the input, unless bit i of a mask says
otherwise: `ellipsis` stands for all dimensions that nothing else mentions, `new_axis` inserts a
dimension of size 1, `shrink_axis` takes the single element ``begin[i]`` and drops the dimension;
`begin` and `end` leave the bound out. Source: the StridedSlice op of the GraphDef format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

ELLIPSIS, NEW_AXIS, SHRINK, SLICE = "ellipsis", "new_axis", "shrink", "slice"


class Masks(NamedTuple):
    """The five bit masks, in the order of the op's attributes."""

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    @classmethod
    def of(cls, attrs: dict[str, Any]) -> Masks:
        """The masks in the attributes of a StridedSlice op or one of its relatives."""
        return cls(*(attrs[f"{name}_mask"] for name in cls._fields))

    def kinds(self, length: int) -> list[str]:
        """Return the meaning of each of `length` positions.

        Raises ``ValueError`` for more than one ellipsis.
        """
        if self.ellipsis & (self.ellipsis - 1):
            raise ValueError("Multiple ellipses in slice spec not allowed")
        return [self._kind(1 << i) for i in range(length)]

    def _kind(self, bit: int) -> str:
        if self.ellipsis & bit:
            return ELLIPSIS
        if self.new_axis & bit:
            return NEW_AXIS
        return SHRINK if self.shrink_axis & bit else SLICE


def strided_index(masks: Masks, begin: Sequence[int], end: Sequence[int],
                  strides: Sequence[int]) -> tuple:
    """The tuple of ints, slices, None and Ellipsis that indexes an array in the same way.

    Raises ``ValueError`` for a stride of zero, vectors of different lengths, several ellipses, or
    a negative stride where one element is taken.
    """
    if not len(begin) == len(end) == len(strides):
        raise ValueError("Expected begin, end, and strides to be 1D equal size tensors, but got "
                         f"sizes {len(begin)}, {len(end)} and {len(strides)}")
    return tuple([strided_entry(masks, i, kind, begin[i], end[i], strides[i])
                  for i, kind in enumerate(masks.kinds(len(begin)))])


def strided_entry(masks: Masks, i: int, kind: str, begin: int, end: int, stride: int) -> Any:
    """The index at position i, which is of `kind`."""
    if kind == ELLIPSIS:
        return Ellipsis
    if kind == NEW_AXIS:
        return None
    if stride == 0:
        raise ValueError(f"strides[{i}] must be non-zero")
    if kind == SHRINK:
        if stride < 0:
            raise ValueError("only stride 1 allowed on non-range indexing.")
        return begin
    return slice(None if masks.begin >> i & 1 else begin, None if masks.end >> i & 1 else end,
                 stride)
