"""The geometry of sliding windows, which convolutions and poolings share: plain integers.

Along one dimension, output position ``o`` sees the input positions
``o * stride + k * rate - before`` for ``k`` in ``range(window)``. ``VALID`` adds no padding;
``SAME`` adds as little as makes the output ``ceil(size / stride)`` long, the odd one at the end;
an explicit padding is a pair of numbers per dimension: what is added before and after.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: The padding of one dimension.
Padding = bytes | tuple[int, int]


class Axes(NamedTuple):
    """Which axes of an array are its channels and its space; axis 0 is the batch."""

    channel: int
    space: tuple[int, ...]


def axes_of(data_format: bytes, rank: int) -> Axes:
    """The axes of an array of `rank` dimensions in NHWC, NCHW, NDHWC or NCDHW."""
    if data_format[1:2] == b"C":
        return Axes(1, tuple(range(2, rank)))
    return Axes(rank - 1, tuple(range(1, rank - 1)))


class Span(NamedTuple):
    """A window that slides along one dimension."""

    size: int
    window: int
    stride: int
    rate: int
    out: int
    before: int
    after: int

    def tap(self, k: int) -> tuple[slice, slice] | None:
        """Input positions that element `k` of the window sees, and the outputs that see them."""
        shift = k * self.rate - self.before
        first = max(0, -(shift // self.stride))
        last = min(self.out - 1, (self.size - 1 - shift) // self.stride)
        if last < first:
            return None
        start = first * self.stride + shift
        stop = start + (last - first) * self.stride + 1
        return slice(start, stop, self.stride), slice(first, last + 1)


def extent(window: int, rate: int) -> int:
    """Return the number of positions that a window spans whose elements are `rate` apart."""
    return (window - 1) * rate + 1


def out_size(size: int, window: int, stride: int, padding: Padding, rate: int = 1) -> int:
    """The length of the output; ``ValueError`` if the window does not fit once."""
    reach = extent(window, rate)
    if padding == b"SAME":
        return -(-size // stride)
    if not isinstance(padding, bytes):
        size += sum(padding)
    if size < reach and reach > 1:
        raise ValueError(f"Negative dimension size: a window of {reach} does not fit into a "
                         f"dimension of {size} without more padding")
    return -(-(size - reach + 1) // stride)


def span(size: int, window: int, stride: int, padding: Padding, rate: int = 1) -> Span:
    """The span of a window over a dimension; ``ValueError`` if the window does not fit once."""
    out = out_size(size, window, stride, padding, rate)
    if padding == b"VALID":
        return Span(size, window, stride, rate, out, 0, 0)
    if not isinstance(padding, bytes):
        return Span(size, window, stride, rate, out, *padding)
    missing = max((out - 1) * stride + extent(window, rate) - size, 0)
    return Span(size, window, stride, rate, out, missing // 2, missing - missing // 2)


def moves(s: Span) -> bool:
    """False for a window of one element that visits every position."""
    return s.window > 1 or s.stride > 1 or s.out != s.size


def whole(size: int) -> Span:
    """A dimension along which a window of one element visits every position."""
    return Span(size, 1, 1, 1, size, 0, 0)


def explicit_pairs(numbers: Sequence[int], where: Axes) -> tuple[tuple[int, int], ...]:
    """The pairs along the axes of space, of the attribute that lists those of all dimensions."""
    return tuple((int(numbers[2 * a]), int(numbers[2 * a + 1])) for a in where.space)


def spans(sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int],
          padding: bytes | Sequence[Padding], rates: Sequence[int] | None = None,
          ) -> tuple[Span, ...]:
    """One :func:`span` per dimension of space; `padding` is one for all or one for each."""
    rates = rates or (1,) * len(sizes)
    each = [padding] * len(sizes) if isinstance(padding, bytes) else padding
    return tuple(span(s, w, t, p, r)
                 for s, w, t, p, r in zip(sizes, windows, strides, each, rates, strict=True))


def taps(over: Sequence[Span]) -> Iterator[tuple[tuple, tuple, tuple]]:
    """For every element of the window, row by row: its index, input slices and output slices."""
    for index in itertools.product(*(range(s.window) for s in over)):
        pairs = [s.tap(k) for s, k in zip(over, index)]
        if None not in pairs:
            found = [p for p in pairs if p is not None]
            yield index, tuple(p[0] for p in found), tuple(p[1] for p in found)
