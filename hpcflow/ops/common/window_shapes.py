"""Shape functions of ops that slide a window: what convolutions, poolings and patches share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.base.geometry.windows import Axes, Padding, axes_of, explicit_pairs, out_size
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import show, with_rank

#: Declarations of attributes, in the notation of ``register_op``.
PADDING = "padding: {'SAME', 'VALID'}"
PADDING_OR_EXPLICIT = "padding: {'SAME', 'VALID', 'EXPLICIT'}"
FORMAT_2D = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"
FORMAT_3D = "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'"
#: Axes of space per data format.
SPACE = {b"NHWC": 2, b"NCHW": 2, b"NDHWC": 3, b"NCDHW": 3}


def axes(op: Operation, rank: int) -> Axes:
    """The axes of the op's data format; NHWC or NDHWC if it has none."""
    return axes_of(op.attr("data_format") or b"NHWC", rank)


def in_space(op: Operation, attr: str, rank: int, depth: bool = False) -> list[int]:
    """The elements of the list `attr` along the axes of space.

    Raises ``ValueError`` if it has another length than `rank`, an element below one, or moves
    along the batch (or along the channels, unless `depth`).
    """
    values = [int(v) for v in op.attr(attr)]
    if len(values) != rank:
        raise ValueError(f"{attr} must have {rank} elements, one per dimension, but is {values}")
    if min(values) < 1:
        raise ValueError(f"{attr} must be positive but is {values}")
    where = axes(op, rank)
    if values[0] != 1 or (values[where.channel] != 1 and not depth):
        raise ValueError(f"{attr} in the batch{'' if depth else ' and depth'} dimensions must be 1 "
                         f"but {attr} is {values}")
    return [values[a] for a in where.space]


def slid(op: Operation, dims: Any, windows: Sequence[int | None], strides: Sequence[int],
         rates: Sequence[int] | None = None) -> list[int | None]:
    """The sizes of the output along the axes of space, for an input of shape `dims`."""
    space = axes(op, len(dims)).space
    rates = rates or [1] * len(space)
    try:
        return [_slid(dims[a], w, s, p, r) for a, w, s, p, r in
                zip(space, windows, strides, paddings(op, len(dims)), rates, strict=True)]
    except ValueError as e:
        raise ValueError(f"{e}: input {show(dims)}, window {show(tuple(windows))}") from None


def paddings(op: Operation, rank: int) -> Sequence[Padding]:
    """The padding of each dimension of space.

    Raises ``ValueError`` for explicit numbers that are negative, not a pair per dimension, pad
    the batch or the channels, or come with another kind of padding.
    """
    where, padding = axes(op, rank), op.attr("padding")
    numbers = [int(n) for n in op.attr("explicit_paddings") or ()]
    if padding != b"EXPLICIT":
        if numbers:
            raise ValueError(f"explicit_paddings must be empty for padding {padding.decode()} but "
                             f"is {numbers}")
        return [padding] * len(where.space)
    if len(numbers) != 2 * rank:
        raise ValueError(f"explicit_paddings must have {2 * rank} elements, two per dimension, but "
                         f"is {numbers}")
    if min(numbers) < 0:
        raise ValueError(f"All elements of explicit_paddings must be nonnegative: {numbers}")
    if any(numbers[2 * a] or numbers[2 * a + 1] for a in (0, where.channel)):
        raise ValueError("explicit_paddings must be 0 in the batch and depth dimensions but is "
                         f"{numbers}")
    return explicit_pairs(numbers, where)


def _slid(size: int | None, window: int | None, stride: int, padding: Padding,
          rate: int) -> int | None:
    if size is None or (window is None and padding != b"SAME"):
        return None
    return out_size(size, window or 1, stride, padding, rate)


def placed(op: Operation, batch: int | None, space: Sequence[int | None],
           channels: int | None) -> Dims:
    """The shape of an output in the op's data format."""
    if axes(op, len(space) + 2).channel == 1:
        return (batch, channels, *space)
    return (batch, *space, channels)


def agreeing(op: Operation, expected: Any, index: int, what: str) -> None:
    """Check that input `index` has the shape `expected`, as far as both are known."""
    given = with_rank(op.input_dims(index), len(expected), what)
    if any(a is not None and b is not None and a != b for a, b in zip(given, expected)):
        raise ValueError(f"{what} must be {show(expected)} but is {show(given)}")
