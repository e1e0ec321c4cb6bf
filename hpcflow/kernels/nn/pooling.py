"""Kernels of poolings and of their gradients.

They slide the window over every axis but the batch, so both data formats, and windows over the
channels, are the same code. Padding is never written out: the outermost outputs see fewer inputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, moves, spans, taps
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import check_rows
from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_REAL = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64")
_FLOATS = {"T": ("float16", "float32", "float64")}
_EVERY = slice(None)


def _geometry(node: KernelNode) -> Callable:
    """A function of an input's shape: the spans of all axes but the batch."""
    windows, strides = node.attr("ksize")[1:], node.attr("strides")[1:]
    padding, rank = node.attr("padding"), len(windows) + 1

    def over(x: Any, what: str = "input") -> tuple[Span, ...]:
        check_rank(what, x, rank)
        return of(x.shape)

    def of(dims: Sequence[int]) -> tuple[Span, ...]:
        try:
            return spans(dims[1:], windows, strides, padding)
        except ValueError as e:
            raise invalid(str(e)) from None

    over.of = of  # type: ignore[attr-defined]
    return over


def _out_shape(dims: Sequence[int], over: Sequence[Span]) -> tuple[int, ...]:
    return (dims[0], *(s.out for s in over))


def _check_shape(what: str, x: Any, dims: Sequence[int]) -> None:
    if x.shape != tuple(dims):
        raise invalid(f"{what} must be {shown(dims)} but is {shown(x)}")


def _lowest(dtype: np.dtype) -> Any:
    return dtype.type(-np.inf) if dtype.kind == "f" else np.iinfo(dtype).min


def _along(xp: Any, x: Any, axis: int, s: Span, combine: Callable, start: Any) -> Any:
    """Reduce each window of `x` along one axis."""
    before = (_EVERY,) * axis
    y = xp.full((*x.shape[:axis], s.out, *x.shape[axis + 1 :]), start, x.dtype)
    for k in range(s.window):
        pair = s.tap(k)
        if pair is not None:
            to, source = (*before, pair[1]), (*before, pair[0])
            combine(y[to], x[source], out=y[to])
    return y


def _reduced(xp: Any, x: Any, over: Sequence[Span], combine: Callable, start: Any) -> Any:
    """Reduce all windows, axis by axis."""
    for axis, s in enumerate(over, 1):
        if moves(s):
            x = _along(xp, x, axis, s, combine, start)
    return x


# ---------------------------------------------------------------- maxima


@kernel("MaxPool", "MaxPool3D", types={"T": _REAL}, fresh=True)
def max_pool(node: KernelNode) -> Callable:
    """The largest element of each window."""
    xp, geometry, lowest = node.xp, _geometry(node), _lowest(node.np_dtype())

    def run(x: Any) -> Any:
        over = geometry(x)
        if not any(map(moves, over)):
            return x.copy()
        return _reduced(xp, x, over, xp.maximum, lowest)

    return run


def _matches(xp: Any, x: Any, y: Any, over: Sequence[Span]) -> Any:
    """Per element of the window: input and output slices, and which outputs it is the first to
    equal. NaN, the output wherever an input is NaN, equals NaN."""
    free = xp.ones(y.shape, bool)
    unknown = xp.isnan(x) if x.dtype.kind == "f" else None
    for _, inside, outside in taps(over):
        here, there = (_EVERY, *inside), (_EVERY, *outside)
        hit = xp.equal(x[here], y[there])
        if unknown is not None:
            hit |= unknown[here]
        hit &= free[there]
        free[there] ^= hit
        yield here, there, hit


@kernel("MaxPoolGrad", types={"T": _REAL}, fresh=True)
@kernel("MaxPool3DGrad", types={"T": _REAL, "TInput": _REAL}, fresh=True)
def max_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient at the first of its window's largest elements."""
    xp, geometry = node.xp, _geometry(node)

    def run(x: Any, y: Any, dy: Any) -> Any:
        over = geometry(x, "orig_input")
        dims = _out_shape(x.shape, over)
        _check_shape("orig_output", y, dims)
        _check_shape("grad", dy, dims)
        return _by_elements(xp, x, y, dy, over)

    return run


def _by_elements(xp: Any, x: Any, y: Any, dy: Any, over: Sequence[Span]) -> Any:
    """Return the gradient of max pooling, computed for one window element after the other."""
    dx, zero = xp.zeros(x.shape, dy.dtype), dy.dtype.type(0)
    for here, there, hit in _matches(xp, x, y, over):
        dx[here] += xp.where(hit, dy[there], zero)
    return dx


@kernel("MaxPoolGradGrad", "MaxPool3DGradGrad", types={"T": _REAL}, fresh=True)
def max_pool_grad_grad(node: KernelNode) -> Callable:
    """Return the second gradient of max pooling: `ddx` at the position of each window's maximum."""
    xp, geometry = node.xp, _geometry(node)

    def run(x: Any, y: Any, ddx: Any) -> Any:
        over = geometry(x, "orig_input")
        _check_shape("orig_output", y, _out_shape(x.shape, over))
        _check_shape("grad", ddx, x.shape)
        ddy, zero = xp.zeros(y.shape, ddx.dtype), ddx.dtype.type(0)
        for here, there, hit in _matches(xp, x, y, over):
            ddy[there] += xp.where(hit, ddx[here], zero)
        return ddy

    return run


@kernel("MaxPoolWithArgmax", types={"T": _REAL}, fresh=True)
def max_pool_with_argmax(node: KernelNode) -> Callable:
    """The largest elements, and where they are in the flattened image, or in all images."""
    xp, geometry, lowest = node.xp, _geometry(node), _lowest(node.np_dtype())
    index_dtype, in_batch = node.np_dtype(1), node.attr("include_batch_in_index", False)

    def run(x: Any) -> tuple:
        over = geometry(x)
        y = xp.ascontiguousarray(_reduced(xp, x, over, xp.maximum, lowest))
        where = xp.arange(math.prod(x.shape[1:]), dtype=index_dtype).reshape(x.shape[1:])
        argmax = xp.zeros(y.shape, index_dtype)
        for here, there, hit in _matches(xp, x, y, over):
            argmax[there] += where[here[1:]] * hit
        if in_batch:
            starts = xp.arange(len(y), dtype=index_dtype) * math.prod(x.shape[1:])
            argmax += starts.reshape(-1, 1, 1, 1)
        return (y.copy() if y is x else y), argmax

    return run


def _flat(xp: Any, argmax: Any, images: int, size: int, in_batch: bool) -> Any:
    """Return checked indices into the flattened batch, from such (`in_batch`) or ones per image."""
    if in_batch:
        return _flat(xp, argmax, 1, images * size, False).reshape(images, -1)
    if xp is not np:
        check_rows(xp, argmax, size, what="argmax")
    elif argmax.size and (argmax.min() < 0 or argmax.max() >= size):
        raise invalid(f"argmax must be in [0, {size}) but is in [{argmax.min()}, {argmax.max()}]")
    starts = xp.arange(images, dtype=np.int64) * size
    return argmax.reshape(images, -1) + starts[:, None]


@kernel("MaxPoolGradWithArgmax", types={"T": _REAL}, fresh=True)
def _argmax_grad(node: KernelNode) -> Callable:
    xp = node.xp
    geometry, in_batch = _geometry(node), node.attr("include_batch_in_index", False)

    def run(x: Any, dy: Any, argmax: Any) -> Any:
        dims = _out_shape(x.shape, geometry(x))
        _check_shape("grad", dy, dims)
        _check_shape("argmax", argmax, dims)
        dx = xp.zeros(x.size, dy.dtype)
        if x.size:
            index = _flat(xp, argmax, x.shape[0], x.size // x.shape[0], in_batch)
            if xp is np:
                np.add.at(dx, index.reshape(-1), dy.reshape(-1))
            else:
                repeated_rows.combine(xp, "add", dx, index.reshape(-1), dy.reshape(-1))
        return dx.reshape(x.shape)

    return run


@kernel("MaxPoolGradGradWithArgmax", types={"T": _REAL}, fresh=True)
def _argmax_grad_grad(node: KernelNode) -> Callable:
    xp = node.xp
    geometry, in_batch = _geometry(node), node.attr("include_batch_in_index", False)

    def run(x: Any, ddx: Any, argmax: Any) -> Any:
        dims = _out_shape(x.shape, geometry(x))
        _check_shape("grad", ddx, x.shape)
        _check_shape("argmax", argmax, dims)
        if not x.size:
            return xp.zeros(dims, ddx.dtype)
        index = _flat(xp, argmax, x.shape[0], x.size // x.shape[0], in_batch)
        return ddx.reshape(-1)[index].reshape(dims)

    return run


# ---------------------------------------------------------------- averages


def _counting(xp: Any) -> Callable[[tuple[Span, ...], np.dtype], Any]:
    """``f(spans, dtype)``: as :func:`_counts`; those of a device are brought there once, as a graph
    of kernels must not copy from the host."""
    return functools.lru_cache(maxsize=64)(functools.partial(_counts, xp))


def _counts(xp: Any, over: Sequence[Span], dtype: np.dtype) -> Any:
    """Return the number of inputs that each output's window covers; it broadcasts to the output."""
    counts = np.ones((1,) * (len(over) + 1), dtype)
    for axis, s in enumerate(over, 1):
        seen = np.zeros(s.out, dtype)
        for k in range(s.window):
            pair = s.tap(k)
            if pair is not None:
                seen[pair[1]] += 1
        counts = counts * seen.reshape((-1,) + (1,) * (len(over) - axis))
    return xp.asarray(np.maximum(counts, 1))


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float16 else x


@kernel("AvgPool", "AvgPool3D", types=_FLOATS, fresh=True)
def avg_pool(node: KernelNode) -> Callable:
    """The mean of each window, without padding."""
    xp, geometry, dtype = node.xp, _geometry(node), node.np_dtype()
    counts = _counting(xp)

    def run(x: Any) -> Any:
        over = geometry(x, "value")
        x = _wide(x)
        total = _reduced(xp, x, over, xp.add, x.dtype.type(0))
        return (total / counts(over, x.dtype)).astype(dtype, copy=False)

    return run


@kernel("AvgPoolGrad", "AvgPool3DGrad", types=_FLOATS, fresh=True, host_inputs=(0,))
def avg_pool_grad(node: KernelNode) -> Callable:
    """Each output's gradient in equal parts over its window."""
    xp, geometry, dtype = node.xp, _geometry(node), node.np_dtype()
    rank, counts = len(node.attr("ksize")), _counting(xp)

    def run(shape: Any, dy: Any) -> Any:
        dims = tuple(int(n) for n in np.asarray(shape).reshape(-1))
        if len(dims) != rank or min(dims) < 0:
            raise invalid(f"orig_input_shape must be {rank} sizes but is {shown(dims)}")
        over = geometry.of(dims)  # type: ignore[attr-defined]
        _check_shape("grad", dy, _out_shape(dims, over))
        wide = _wide(dy)
        part = wide / counts(over, wide.dtype)
        for axis, s in enumerate(over, 1):
            if moves(s):
                part = _spread(xp, part, axis, s)
        return part.astype(dtype, copy=False)

    return run


def _spread(xp: Any, y: Any, axis: int, s: Span) -> Any:
    """Apply the transpose of a sum over windows along one axis."""
    before = (_EVERY,) * axis
    x = xp.zeros((*y.shape[:axis], s.size, *y.shape[axis + 1 :]), y.dtype)
    for k in range(s.window):
        pair = s.tap(k)
        if pair is not None:
            to, source = (*before, pair[0]), (*before, pair[1])
            x[to] += y[source]
    return x
