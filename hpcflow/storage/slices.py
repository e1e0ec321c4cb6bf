"""Parts of variables: the `shape_and_slice` strings and the arithmetic of rectangular regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.shapes import format_shape


class Region(NamedTuple):
    """A rectangular part of an array of shape `full`: per dimension a start and an extent."""

    full: tuple[int, ...]
    start: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements in the region."""
        return prod(self.extent)

    @property
    def is_whole(self) -> bool:
        """True if the region is the whole array."""
        return self.extent == self.full

    def selector(self) -> tuple[Any, ...]:
        """The index that selects the region from the full array (a view also at rank 0)."""
        return (*[slice(s, s + e) for s, e in zip(self.start, self.extent)], ...)

    def selector_within(self, outer: Region) -> tuple[Any, ...]:
        """The index that selects this region from an array that holds `outer`."""
        offsets = [s - o for s, o in zip(self.start, outer.start)]
        return (*[slice(o, o + e) for o, e in zip(offsets, self.extent)], ...)

    def contains(self, other: Region) -> bool:
        """True if `other` lies inside this region."""
        return all(
            s <= t and t + f <= s + e
            for s, e, t, f in zip(self.start, self.extent, other.start, other.extent)
        )

    def overlaps(self, other: Region) -> bool:
        """True if the two regions of the same array share an element."""
        return (
            self.size > 0
            and other.size > 0
            and all(
                s < t + f and t < s + e
                for s, e, t, f in zip(self.start, self.extent, other.start, other.extent)
            )
        )

    def row_blocks(self, rows: int) -> Iterator[Region]:
        """Cut the region along its first dimension into parts of at most `rows` rows."""
        if not self.extent:
            yield self
            return
        for first in range(0, self.extent[0], rows):
            count = min(rows, self.extent[0] - first)
            start = (self.start[0] + first, *self.start[1:])
            yield Region(self.full, start, (count, *self.extent[1:]))

    def runs(self) -> tuple[int, np.ndarray]:
        """The contiguous runs of the region in the row-major full array.

        Returns the length of a run and the offsets at which runs start (int64, increasing),
        all in elements. Runs are as long as possible: a region of whole rows is a single one.
        """
        if self.size == 0:
            return 0, np.empty(0, np.int64)
        last = len(self.full) - 1  # the last dimension that is not taken completely
        while last > 0 and self.extent[last] == self.full[last]:
            last -= 1
        strides = [prod(self.full[axis + 1 :]) for axis in range(len(self.full))]
        offsets = np.zeros(1, np.int64)
        for axis in range(last):
            steps = (
                np.arange(self.start[axis], self.start[axis] + self.extent[axis]) * strides[axis]
            )
            offsets = (offsets[:, None] + steps).reshape(-1)
        tail = sum(s * stride for s, stride in zip(self.start[last:], strides[last:]))
        return prod(self.extent[last:]), offsets + tail


def whole(shape: Sequence[int]) -> Region:
    """The region of all elements of an array."""
    full = tuple([int(d) for d in shape])
    return Region(full, (0,) * len(full), full)


def intersection(one: Region, other: Region) -> Region:
    """The part that two regions of the same array, which overlap, have in common."""
    start = [max(s, t) for s, t in zip(one.start, other.start)]
    ends = [min(s + e, t + f)
            for s, e, t, f in zip(one.start, one.extent, other.start, other.extent)]
    return Region(one.full, tuple(start), tuple([e - s for s, e in zip(start, ends)]))


def make_region(full: Sequence[int], start: Sequence[int], extent: Sequence[int]) -> Region:
    """A checked region. Raises InvalidArgumentError if it does not lie inside the full shape."""
    region = Region(
        tuple([int(d) for d in full]),
        tuple([int(d) for d in start]),
        tuple([int(d) for d in extent]),
    )
    if not len(region.full) == len(region.start) == len(region.extent):
        raise _invalid(f"a slice of {format_shape(region.full)} needs one part per dimension")
    for axis, (dim, first, length) in enumerate(zip(*region)):
        if first < 0 or length < 0 or first + length > dim:
            raise _invalid(
                f"slice {first},{length} of dimension {axis} lies outside "
                f"shape {format_shape(region.full)}"
            )
    return region


def parse_slice_spec(spec: str | bytes) -> Region | None:
    """Read a `shape_and_slice` string; None for an empty one (the whole variable).

    The string holds the full dimensions, then one slice per dimension, joined by colons, each
    `start,length` or `-` for all: `"4 5 0,2:-"` is the first two rows of a [4,5] variable.
    Raises InvalidArgumentError for anything else.
    """
    text = spec.decode() if isinstance(spec, bytes) else spec
    words = text.split()
    if not words:
        return None
    try:
        full = [int(word) for word in words[:-1]]
        parts = [_parse_part(part) for part in words[-1].split(":")]
    except ValueError:
        raise _invalid(
            f"bad shape_and_slice {text!r}: expected dimensions, then start,length or - "
            "for each, as in '4 5 0,2:-'"
        ) from None
    if len(parts) != len(full):
        raise _invalid(
            f"bad shape_and_slice {text!r}: {len(full)} dimensions but {len(parts)} slices"
        )
    start = [0 if part is None else part[0] for part in parts]
    extent = [dim if part is None else part[1] for dim, part in zip(full, parts)]
    return make_region(full, start, extent)


def _parse_part(part: str) -> tuple[int, int] | None:
    if part == "-":
        return None
    start, length = part.split(",")
    return int(start), int(length)


def format_slice_spec(full: Sequence[int], start: Sequence[int], extent: Sequence[int]) -> str:
    """The `shape_and_slice` string of a region; see `parse_slice_spec`."""
    region = make_region(full, start, extent)
    parts = ["-" if length == dim else f"{first},{length}" for dim, first, length in zip(*region)]
    return " ".join([str(dim) for dim in region.full]) + " " + ":".join(parts)


def as_region(spec: str | None, shape: Sequence[int], name: str) -> Region:
    """The region of variable `name` (of full shape `shape`) that a slice spec selects.

    `spec` is None, a `shape_and_slice` string or a Region. Raises InvalidArgumentError if its
    full shape is not `shape`.
    """
    region = spec if isinstance(spec, Region) or spec is None else parse_slice_spec(spec)
    if region is None:
        return whole(shape)
    if region.full != tuple(shape):
        raise _invalid(
            f"'{name}': the slice is of a variable of shape {format_shape(region.full)}, "
            f"the stored shape is {format_shape(shape)}"
        )
    return region


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)
