"""Sliding windows of kernels: geometry at run time, views, im2col matrices and col2im folds.

Bodies work on arrays whose channels come last; other data formats are transposed views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.base.geometry.windows import (
    Padding,
    Span,
    axes_of,
    explicit_pairs,
    extent,
    moves,
    spans,
    taps,
)
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.registry import KernelNode, invalid, shown


class Window(NamedTuple):
    """The attributes of an op with a window, along the axes of space."""

    windows: tuple[int, ...]
    strides: tuple[int, ...]
    rates: tuple[int, ...]
    padding: bytes | tuple[Padding, ...]
    channels_first: bool

    def over(self, sizes: Sequence[int], windows: Sequence[int] | None = None) -> tuple[Span, ...]:
        """The spans over dimensions of these sizes; InvalidArgumentError if it does not fit."""
        try:
            return spans(sizes, windows or self.windows, self.strides, self.padding, self.rates)
        except ValueError as e:
            raise invalid(str(e)) from None


def window_of(node: KernelNode, ksize: str = "ksize") -> Window:
    """Return the window of an op, from its attributes; without `ksize` its size is the filter's."""
    strides = node.attr("strides")
    where = axes_of(node.attr("data_format") or b"NHWC", len(strides))

    def pick(name: str) -> tuple[int, ...]:
        values = node.attr(name) or [1] * len(strides)
        return tuple(int(values[a]) for a in where.space)

    padding = node.attr("padding")
    if padding == b"EXPLICIT":
        padding = explicit_pairs(node.attr("explicit_paddings"), where)
    rates = "rates" if node.attr("rates") else "dilations"
    return Window(pick(ksize), pick("strides"), pick(rates), padding, where.channel == 1)


def last(x: Any, first: bool) -> Any:
    """A view of `x` with the channels last."""
    return x.transpose(0, *range(2, x.ndim), 1) if first else x


def restored(x: Any, first: bool) -> Any:
    """Move the channels back: the inverse of :func:`last`, as a new array."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1)).copy() if first else x


def check_rank(what: str, x: Any, rank: int) -> None:
    """Raise InvalidArgumentError unless `x` has `rank` dimensions."""
    if x.ndim != rank:
        raise invalid(f"{what} must be rank {rank} but is rank {x.ndim}: {shown(x)}")


def in_float32(node: KernelNode, run: Callable) -> Callable:
    """Run an op on half precision in single precision."""

    def wide(*arrays: Any, out: Any = None) -> Any:  # no half can be computed in place
        return run(*[x.astype(np.float32) if x.dtype == np.float16 else x
                     for x in arrays]).astype(np.float16)

    return wide if node.np_dtype() == np.float16 else run


def pad(xp: Any, x: Any, over: Sequence[Span]) -> Any:
    """`x` with zeros around its space, only as far as windows reach."""
    sizes = [max((s.out - 1) * s.stride + extent(s.window, s.rate), 0) for s in over]
    if all(s.before == 0 and s.size >= n for s, n in zip(over, sizes)):
        return x
    padded = xp.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    kept = [max(min(s.size, n - s.before), 0) for s, n in zip(over, sizes)]
    inner = tuple(slice(s.before, s.before + k) for s, k in zip(over, kept))
    inside, source = (slice(None), *inner), (slice(None), *(slice(k) for k in kept))
    padded[inside] = x[source]
    return padded


def windows_view(xp: Any, padded: Any, over: Sequence[Span]) -> Any:
    """A view [batch, *out, *window, channels] of a padded input."""
    batch, *space, channels = padded.strides
    steps = [t * s.stride for t, s in zip(space, over)]
    inner = [t * s.rate for t, s in zip(space, over)]
    return xp.lib.stride_tricks.as_strided(
        padded, (padded.shape[0], *(s.out for s in over), *(s.window for s in over),
                 padded.shape[-1]), (batch, *steps, *inner, channels))


def blocks(batch: int, row_bytes: int, most: int) -> Iterator[slice]:
    """Slices of the batch whose columns fit a block of `most` bytes."""
    step = max(1, most // max(row_bytes, 1))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def matrix(x: Any) -> Any:
    """`x` as [everything, channels]."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def is_pointwise(over: Sequence[Span]) -> bool:
    """True for a window of one element that visits every position: a plain matrix product."""
    return not any(map(moves, over))


def columns(xp: Any, x: Any, over: Sequence[Span]) -> Any:
    """The matrix [batch·out, window·channels] of all windows of `x`."""
    view = windows_view(xp, pad(xp, x, over), over)
    rows = view.shape[0] * math.prod(s.out for s in over)
    return view.reshape(rows, math.prod(s.window for s in over) * x.shape[-1])


def fold(target: Any, values: Any, over: Sequence[Span]) -> None:
    """Add `values` [batch, *out, *window, channels] to the positions of `target` they came from."""
    every = slice(None)
    for index, inside, outside in taps(over):
        to, source = (every, *inside), (every, *outside, *index)
        target[to] += values[source]


class Moves(NamedTuple):
    """How a device moves between images and the matrices of all their windows.

    Attributes:
        columns: ``(x, over)``: the matrix [batch·out, window·channels].
        fold: ``(values, to, over)``: make each element of the images `to` the sum of those of
            `values` [batch, *out, *window, channels] that it would be copied to.
        block_bytes: the most of a matrix that is made at once.
    """

    columns: Callable[[Any, Sequence[Span]], Any]
    fold: Callable[[Any, Any, Sequence[Span]], None]
    block_bytes: int


def plain_moves(xp: Any) -> Moves:
    """Moves by functions of the array module."""
    def folded(values: Any, to: Any, over: Sequence[Span]) -> None:
        to.fill(0)
        shape = (len(to), *(s.out for s in over), *(s.window for s in over), to.shape[-1])
        fold(to, values.reshape(shape), over)

    return Moves(lambda x, over: columns(xp, x, over), folded, tuning.WINDOW_BLOCK_BYTES)
