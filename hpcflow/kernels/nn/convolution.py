"""Kernels of Conv2D and Conv3D and of their gradients: columns times a matrix, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.kernels.common.device_windows import moves_of
from hpcflow.kernels.common.windows import (
    Moves,
    Window,
    blocks,
    check_rank,
    in_float32,
    is_pointwise,
    last,
    matrix,
    plain_moves,
    restored,
    window_of,
)
from hpcflow.kernels.cublas import products
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_TYPES = {"T": ("float16", "float32", "float64", "int32")}


def checked_spans(window: Window, x_dims: Sequence[int], w_dims: Sequence[int],
                  dy_dims: Sequence[int] | None = None) -> tuple[Span, ...]:
    """The spans of a convolution of shapes with the channels last; checks that they agree."""
    if len(w_dims) != 4:
        check_same_depth(x_dims, w_dims)
    groups = groups_of(x_dims[-1], w_dims)
    if groups * w_dims[-2] != x_dims[-1]:
        raise invalid(f"depth of the input {shown(x_dims)} must be a multiple of the input depth "
                      f"of the filter {shown(w_dims)}")
    if w_dims[-1] % groups:
        raise invalid(f"filter {shown(w_dims)} must have as many channels for each of the {groups} "
                      f"groups of channels of the input {shown(x_dims)}")
    if min(w_dims[:-2]) < 1:
        raise invalid(f"filter must not have zero elements: {shown(w_dims)}")
    over = window.over(x_dims[1:-1], w_dims[:-2])
    if dy_dims is not None:
        expected = [x_dims[0], *(s.out for s in over), w_dims[-1]]
        if list(dy_dims) != expected:
            raise invalid(f"out_backprop must be {expected} but is {list(dy_dims)}")
    return over


def check_same_depth(x_dims: Sequence[int], w_dims: Sequence[int]) -> None:
    """Raise InvalidArgumentError if the channels would fall into groups."""
    if x_dims[-1] != w_dims[-2]:
        raise invalid(f"depth of the input {shown(x_dims)} and of the filter {shown(w_dims)} must "
                      "be equal")


def groups_of(depth: int, w_dims: Sequence[int]) -> int:
    """Return the number of channel groups of a convolution, each with filters of its own."""
    return max(depth // max(w_dims[-2], 1), 1)


def _split(x: Any, groups: int) -> list[Any]:
    """Split an array into `groups` views, groups of its channels, which come last."""
    size = x.shape[-1] // groups
    return [x[..., k * size : (k + 1) * size] for k in range(groups)]


def _bytes_per_image(x: Any, over: Sequence[Span]) -> int:
    return math.prod(s.out * s.window for s in over) * x.shape[-1] * x.itemsize


def convolve(xp: Any, x: Any, w: Any, over: Sequence[Span], moves: Moves | None = None) -> Any:
    """The convolution of `x` [batch, *space, in] with `w` [*window, in, out].

    If `w` is less deep than `x`, the channels of both, `in` and `out`, fall into groups.
    """
    moves = moves or plain_moves(xp)
    groups = groups_of(x.shape[-1], w.shape)
    if groups > 1:
        parts = zip(_split(x, groups), _split(w, groups), strict=True)
        return xp.concatenate([convolve(xp, *part, over, moves) for part in parts], axis=-1)
    weights = matrix(w)
    y = xp.empty((x.shape[0], *(s.out for s in over), w.shape[-1]), x.dtype)
    if is_pointwise(over):
        products.of(xp)(matrix(x), weights, out=matrix(y))
        return y
    for part in blocks(x.shape[0], _bytes_per_image(x, over), moves.block_bytes):
        products.of(xp)(moves.columns(x[part], over), weights, out=matrix(y[part]))
    return y


def input_gradient(xp: Any, w: Any, dy: Any, over: Sequence[Span], moves: Moves,
                   groups: int = 1) -> Any:
    """The gradient of :func:`convolve` by `x`."""
    if groups > 1:
        parts = zip(_split(w, groups), _split(dy, groups), strict=True)
        return xp.concatenate([input_gradient(xp, *part, over, moves) for part in parts], axis=-1)
    space = [s.size for s in over]
    weights = matrix(w).T
    if is_pointwise(over):
        return products.of(xp)(matrix(dy), weights).reshape(dy.shape[0], *space, w.shape[-2])
    row_bytes = math.prod(s.out * s.window for s in over) * w.shape[-2] * dy.itemsize
    dx = xp.empty((dy.shape[0], *space, w.shape[-2]), dy.dtype)
    for part in blocks(dy.shape[0], row_bytes, moves.block_bytes):
        moves.fold(products.of(xp)(matrix(dy[part]), weights), dx[part], over)
    return dx


def filter_gradient(xp: Any, x: Any, w_dims: Sequence[int], dy: Any, over: Sequence[Span],
                    moves: Moves) -> Any:
    """The gradient of :func:`convolve` by `w`, whose shape is `w_dims`."""
    groups = groups_of(x.shape[-1], w_dims)
    if groups > 1:
        dims = (*w_dims[:-1], w_dims[-1] // groups)
        parts = zip(_split(x, groups), _split(dy, groups), strict=True)
        return xp.concatenate([filter_gradient(xp, a, dims, b, over, moves) for a, b in parts],
                              axis=-1)
    if is_pointwise(over):
        return products.of(xp)(matrix(x), matrix(dy), flip_a=True).reshape(w_dims)
    dw = None
    for part in blocks(x.shape[0], _bytes_per_image(x, over), moves.block_bytes):
        found = products.of(xp)(moves.columns(x[part], over), matrix(dy[part]), flip_a=True)
        dw = found if dw is None else xp.add(dw, found, out=dw)
    return (xp.zeros(w_dims, x.dtype) if dw is None else dw).reshape(w_dims)


# ---------------------------------------------------------------- kernels


def described(sizes: Any, what: str, rank: int) -> tuple[int, ...]:
    """A shape given as the value of an input, checked."""
    dims = tuple(int(n) for n in np.asarray(sizes).reshape(-1))
    if len(dims) != rank or min(dims) < 0:
        raise invalid(f"{what} must be {rank} sizes but is {shown(dims)}")
    return dims


def channels_last(dims: Sequence[int], first: bool) -> tuple[int, ...]:
    """Return dims with the channels last, as :func:`~hpcflow.kernels.common.windows.last` does."""
    return (dims[0], *dims[2:], dims[1]) if first else tuple(dims)


@kernel("Conv2D", "Conv3D", types=_TYPES, fresh=True)
def forward(node: KernelNode) -> Callable:
    """The convolution of input and filter."""
    xp, window, moves = node.xp, window_of(node), moves_of(node.device)
    rank, first = len(window.strides) + 2, window.channels_first

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("filter", w, rank)
        x = last(x, first)
        return restored(convolve(xp, x, w, checked_spans(window, x.shape, w.shape), moves), first)

    return in_float32(node, run)


def _by_input(node: KernelNode, dims_of: Callable) -> Callable:
    xp, window, moves = node.xp, window_of(node), moves_of(node.device)
    rank, first = len(window.strides) + 2, window.channels_first

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("filter", w, rank)
        check_rank("out_backprop", dy, rank)
        x_dims = channels_last(described(dims_of(sizes), "input_sizes", rank), first)
        dy = last(dy, first)
        over = checked_spans(window, x_dims, w.shape, dy.shape)
        groups = groups_of(x_dims[-1], w.shape)
        return restored(input_gradient(xp, w, dy, over, moves, groups), first)

    return in_float32(node, run)


def _by_filter(node: KernelNode, dims_of: Callable) -> Callable:
    xp, window, moves = node.xp, window_of(node), moves_of(node.device)
    rank, first = len(window.strides) + 2, window.channels_first

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, rank)
        check_rank("out_backprop", dy, rank)
        w_dims = described(dims_of(sizes), "filter_sizes", rank)
        x, dy = last(x, first), last(dy, first)
        over = checked_spans(window, x.shape, w_dims, dy.shape)
        return filter_gradient(xp, x, w_dims, dy, over, moves)

    return in_float32(node, run)


@kernel("Conv2DBackpropInput", "Conv3DBackpropInputV2", types=_TYPES, fresh=True,
        host_inputs=(0,))
def backprop_input(node: KernelNode) -> Callable:
    """The gradient by the input, whose shape is the first input's value."""
    return _by_input(node, lambda sizes: sizes)


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", types=_TYPES, fresh=True,
        host_inputs=(1,))
def backprop_filter(node: KernelNode) -> Callable:
    """The gradient by the filter, whose shape is the second input's value."""
    return _by_filter(node, lambda sizes: sizes)


@kernel("Conv3DBackpropInput", types=_TYPES, fresh=True)
def backprop_input_v1(node: KernelNode) -> Callable:
    """The gradient by the input, which the first input has the shape of."""
    return _by_input(node, np.shape)


@kernel("Conv3DBackpropFilter", types=_TYPES, fresh=True)
def backprop_filter_v1(node: KernelNode) -> Callable:
    """The gradient by the filter, which the second input has the shape of."""
    return _by_filter(node, np.shape)
