"""Convolutions of each channel by itself on a device, in kernels that are written out.

One launch each; the gradient by the filter sums for each image, and then over these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.common import device_windows as w
from hpcflow.kernels.common.windows import Window, check_rank, in_float32, last, restored, window_of
from hpcflow.kernels.math.device_sums import reducer
from hpcflow.kernels.nn import depthwise as plain
from hpcflow.kernels.nn.convolution import channels_last, described
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops.cuda import Programs
from hpcflow.loops.elements import ElementKernel, typed

_TYPES = {"T": ("float16", "float32", "float64")}
_INSIDE = " && ".join(f"p{k} >= 0 && p{k} < size{k}" for k in range(2))
# Where element k of the window is for output o.
_PLACES = w.each(2, "const position p# = o# * stride# + k# * rate# - before#;")
_TAPS = "for (position k# = 0; k# < window#; k#++)"
_GIVEN = ("position channels", "position multiple", *w.parameters(2))
_X = f"x[{w.place(2, 'n', 'size', 'p')} * channels + c]"
_W = "w[((k0 * window1 + k1) * channels + c) * multiple + m]"
_DY = f"dy[({w.place(2, 'n', 'out', 'o')} * channels + c) * multiple + m]"


def _forward(dtype: str) -> ElementKernel:
    """(x, w, y, channels, multiple, geometry)."""
    body = f"""
position rest = i;
const position m = rest % multiple; rest /= multiple;
const position c = rest % channels; rest /= channels;
{w.taken_apart(2, "out", "o")}
const position n = rest;
value total = 0;
{w.nested(2, _TAPS, f"{_PLACES} if ({_INSIDE}) total += {_X} * {_W};")}
y[i] = total;"""
    return ElementKernel(("const stored* x", "const stored* w", "stored* y", *_GIVEN), body,
                         typed(dtype))


def _input_gradient(dtype: str) -> ElementKernel:
    """(w, dy, dx, channels, multiple, geometry)."""
    inner = f"""
{w.each(2, "const position t# = p# + before# - k# * rate#;")}
if (t0 >= 0 && t1 >= 0 && t0 % stride0 == 0 && t1 % stride1 == 0) {{
  {w.each(2, "const position o# = t# / stride#;")}
  if (o0 < out0 && o1 < out1)
    for (position m = 0; m < multiple; m++) total += {_DY} * {_W};
}}"""
    body = f"""
position rest = i;
const position c = rest % channels; rest /= channels;
{w.taken_apart(2, "size", "p")}
const position n = rest;
value total = 0;
{w.nested(2, _TAPS, inner)}
dx[i] = total;"""
    return ElementKernel(("const stored* w", "const stored* dy", "stored* dx", *_GIVEN), body,
                         typed(dtype))


def _filter_gradient(dtype: str) -> ElementKernel:
    """(x, dy, dw [images, *window, channels, multiple], channels, multiple, geometry)."""
    body = f"""
position rest = i;
const position m = rest % multiple; rest /= multiple;
const position c = rest % channels; rest /= channels;
{w.taken_apart(2, "window", "k")}
const position n = rest;
value total = 0;
{w.nested(2, "for (position o# = 0; o# < out#; o#++)",
          f"{_PLACES} if ({_INSIDE}) total += {_X} * {_DY};")}
dw[i] = total;"""
    return ElementKernel(("const stored* x", "const stored* dy", "stored* dw", *_GIVEN), body,
                         typed(dtype))


class _Node:
    """What the kernels of an op share."""

    def __init__(self, node: KernelNode, programs: Programs,
                 make: Callable[[str], ElementKernel]) -> None:
        self.xp, self.programs = node.xp, programs
        self.window: Window = window_of(node)
        self.first = self.window.channels_first
        self._run = w.runs_of_windows(programs, lambda axes, dtype: make(dtype))

    def launch(self, to: Any, a: Any, b: Any, over: Any, w_dims: Any) -> Any:
        """Fill `to`, and return it."""
        channels, multiple = w_dims[-2:]
        run = self._run(over, to.dtype.name, channels=channels, multiple=multiple)
        run(to.size, *map(self.programs.dense, (a, b)), to, channels, multiple, *w.numbers(over))
        return to


def _factory(make: Callable[[str], ElementKernel], plain_of: Callable, body: Callable) -> Callable:
    def factory(node: KernelNode) -> Callable:
        programs = w.programs_of(node.device)
        if programs is None:
            return plain_of(node)
        return in_float32(node, body(node, _Node(node, programs, make)))

    return factory


def _compute(node: KernelNode, n: _Node) -> Callable:
    def run(x: Any, filters: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("filter", filters, 4)
        x = last(x, n.first)
        over, dims = plain.checked_spans(n.window, x.shape, filters.shape), filters.shape
        y = n.xp.empty((x.shape[0], *(s.out for s in over), dims[-2] * dims[-1]), x.dtype)
        return restored(n.launch(y, x, filters, over, dims), n.first)

    return run


def _by_input(node: KernelNode, n: _Node) -> Callable:
    def run(sizes: Any, filters: Any, dy: Any) -> Any:
        check_rank("filter", filters, 4)
        check_rank("out_backprop", dy, 4)
        dims, dy = channels_last(described(sizes, "input_sizes", 4), n.first), last(dy, n.first)
        over = plain.checked_spans(n.window, dims, filters.shape, dy.shape)
        dx = n.launch(n.xp.empty(dims, dy.dtype), filters, dy, over, filters.shape)
        return restored(dx, n.first)

    return run


def _by_filter(node: KernelNode, n: _Node) -> Callable:
    total = reducer(node.device, "sum")

    def run(x: Any, sizes: Any, dy: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("out_backprop", dy, 4)
        dims = described(sizes, "filter_sizes", 4)
        x, dy = last(x, n.first), last(dy, n.first)
        over = plain.checked_spans(n.window, x.shape, dims, dy.shape)
        parts = n.xp.empty((x.shape[0], *dims), dy.dtype)
        return total(n.launch(parts, x, dy, over, dims), 0)

    return run


kernel("DepthwiseConv2dNative", device="GPU", types=_TYPES, fresh=True)(
    _factory(_forward, plain.forward, _compute))
kernel("DepthwiseConv2dNativeBackpropInput", device="GPU", types=_TYPES, fresh=True,
       host_inputs=(0,))(_factory(_input_gradient, plain.by_input, _by_input))
kernel("DepthwiseConv2dNativeBackpropFilter", device="GPU", types=_TYPES, fresh=True,
       host_inputs=(1,))(_factory(_filter_gradient, plain.by_filter, _by_filter))
