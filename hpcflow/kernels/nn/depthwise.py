"""Kernels of DepthwiseConv2dNative and of its gradients: one product per element of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.base.geometry.windows import Span, taps
from hpcflow.kernels.common.windows import Window, check_rank, in_float32, last, restored, window_of
from hpcflow.kernels.nn.convolution import channels_last, described
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_TYPES = {"T": ("float16", "float32", "float64")}
_EVERY = slice(None)


def checked_spans(window: Window, x_dims: Sequence[int], w_dims: Sequence[int],
                  dy_dims: Sequence[int] | None = None) -> tuple[Span, ...]:
    """The spans of a convolution of shapes with the channels last; checks that they agree."""
    if x_dims[-1] != w_dims[-2]:
        raise invalid(f"depth of the input {shown(x_dims)} and of the filter {shown(w_dims)} must "
                      "be equal")
    if min(w_dims[:-2]) < 1:
        raise invalid(f"filter must not have zero elements: {shown(w_dims)}")
    over = window.over(x_dims[1:-1], w_dims[:-2])
    expected = [x_dims[0], *(s.out for s in over), w_dims[-2] * w_dims[-1]]
    if dy_dims is not None and list(dy_dims) != expected:
        raise invalid(f"out_backprop must be {expected} but is {list(dy_dims)}")
    return over


def _split(y: Any, w_dims: Sequence[int]) -> Any:
    """The output's channels as [channel of the input, multiple]."""
    return y.reshape(*y.shape[:-1], *w_dims[-2:])


@kernel("DepthwiseConv2dNative", types=_TYPES, fresh=True)
def forward(node: KernelNode) -> Callable:
    """The convolution of input and filter."""
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(x: Any, w: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("filter", w, 4)
        x = last(x, first)
        over = checked_spans(window, x.shape, w.shape)
        y = xp.zeros((x.shape[0], *(s.out for s in over), w.shape[-2] * w.shape[-1]), x.dtype)
        parts = _split(y, w.shape)
        for index, inside, outside in taps(over):
            here, there = (_EVERY, *inside), (_EVERY, *outside)
            parts[there] += x[here][..., None] * w[index]
        return restored(y, first)

    return in_float32(node, run)


@kernel("DepthwiseConv2dNativeBackpropInput", types=_TYPES, fresh=True, host_inputs=(0,))
def by_input(node: KernelNode) -> Callable:
    """The gradient by the input, whose shape is the first input's value."""
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(sizes: Any, w: Any, dy: Any) -> Any:
        check_rank("filter", w, 4)
        check_rank("out_backprop", dy, 4)
        dims = channels_last(described(sizes, "input_sizes", 4), first)
        dy = last(dy, first)
        over = checked_spans(window, dims, w.shape, dy.shape)
        dx, parts = xp.zeros(dims, dy.dtype), _split(dy, w.shape)
        for index, inside, outside in taps(over):
            here, there = (_EVERY, *inside), (_EVERY, *outside)
            dx[here] += (parts[there] * w[index]).sum(axis=-1)
        return restored(dx, first)

    return in_float32(node, run)


@kernel("DepthwiseConv2dNativeBackpropFilter", types=_TYPES, fresh=True, host_inputs=(1,))
def by_filter(node: KernelNode) -> Callable:
    """The gradient by the filter, whose shape is the second input's value."""
    xp, window = node.xp, window_of(node)
    first = window.channels_first

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("out_backprop", dy, 4)
        dims = described(sizes, "filter_sizes", 4)
        x, dy = last(x, first), last(dy, first)
        over = checked_spans(window, x.shape, dims, dy.shape)
        dw, parts = xp.zeros(dims, dy.dtype), _split(dy, dims)
        for index, inside, outside in taps(over):
            here, there = (_EVERY, *inside), (_EVERY, *outside)
            dw[index] = xp.einsum("nhwc,nhwcm->cm", x[here], parts[there])
        return dw

    return in_float32(node, run)
