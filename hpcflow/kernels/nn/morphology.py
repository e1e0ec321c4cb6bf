"""Kernels of Dilation2D and its gradients, and of ExtractImagePatches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import taps
from hpcflow.kernels.common.windows import check_rank, pad, window_of, windows_view
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NATIVE

_EVERY = slice(None)


def _lowest(dtype: np.dtype) -> Any:
    return dtype.type(-np.inf) if dtype.kind == "f" else np.iinfo(dtype).min


def _geometry(node: KernelNode) -> Callable:
    window = window_of(node)

    def over(x: Any, w: Any) -> Any:
        check_rank("input", x, 4)
        check_rank("filter", w, 3)
        if x.shape[3] != w.shape[2]:
            raise invalid(f"depth of the input {shown(x)} and of the filter "
                          f"{shown(w)} must be equal")
        return window.over(x.shape[1:3], w.shape[:2])

    return over


def _sums(x: Any, w: Any, over: Any) -> Any:
    """Per element of the window: index, slices of input and output, and input plus filter."""
    for index, inside, outside in taps(over):
        here, there = (_EVERY, *inside), (_EVERY, *outside)
        yield index, here, there, x[here] + w[index]


@kernel("Dilation2D", fresh=True, types={"T": NATIVE})
def _dilation(node: KernelNode) -> Callable:
    """The largest sum of input and filter in each window; padding never counts."""
    xp, geometry, lowest = node.xp, _geometry(node), _lowest(node.np_dtype())

    def run(x: Any, w: Any) -> Any:
        over = geometry(x, w)
        y = xp.full((x.shape[0], *(s.out for s in over), x.shape[3]), lowest, x.dtype)
        for _, _, there, total in _sums(x, w, over):
            xp.maximum(y[there], total, out=y[there])
        return y

    return run


def _winners(xp: Any, x: Any, w: Any, over: Any) -> Any:
    """For each output the number of the first element of the window that gives the maximum."""
    dims = (x.shape[0], *(s.out for s in over), x.shape[3])
    best, winner = xp.full(dims, _lowest(x.dtype), x.dtype), xp.full(dims, -1, np.int32)
    for index, _, there, total in _sums(x, w, over):
        better = (total > best[there]) | (winner[there] < 0)
        best[there] = xp.where(better, total, best[there])
        winner[there] = xp.where(better, index[0] * w.shape[1] + index[1], winner[there])
    return winner


def _checked(node: KernelNode) -> Callable:
    geometry, xp = _geometry(node), node.xp

    def winners(x: Any, w: Any, dy: Any) -> tuple:
        over = geometry(x, w)
        dims = (x.shape[0], *(s.out for s in over), x.shape[3])
        if dy.shape != dims:
            raise invalid(f"out_backprop must be {shown(dims)} but is {shown(dy)}")
        return over, _winners(xp, x, w, over)

    return winners


@kernel("Dilation2DBackpropInput", fresh=True, types={"T": NATIVE})
def _by_input(node: KernelNode) -> Callable:
    xp, winners = node.xp, _checked(node)

    def run(x: Any, w: Any, dy: Any) -> Any:
        over, winner = winners(x, w, dy)
        dx = xp.zeros(x.shape, dy.dtype)
        for (i, j), inside, outside in taps(over):
            there = (_EVERY, *outside)
            to = (_EVERY, *inside)
            dx[to] += dy[there] * (winner[there] == i * w.shape[1] + j)
        return dx

    return run


@kernel("Dilation2DBackpropFilter", fresh=True, types={"T": NATIVE})
def _by_filter(node: KernelNode) -> Callable:
    xp, winners = node.xp, _checked(node)

    def run(x: Any, w: Any, dy: Any) -> Any:
        over, winner = winners(x, w, dy)
        dw = xp.zeros(w.shape, dy.dtype)
        for (i, j), _, outside in taps(over):
            there = (_EVERY, *outside)
            hit = dy[there] * (winner[there] == i * w.shape[1] + j)
            dw[i, j] = hit.sum(axis=(0, 1, 2), dtype=dy.dtype)
        return dw

    return run


@kernel("ExtractImagePatches", "ExtractVolumePatches", fresh=True)
def _patches(node: KernelNode) -> Callable:
    xp, window = node.xp, window_of(node, "ksizes")
    rank = len(node.attr("ksizes"))

    def run(x: Any) -> Any:
        check_rank("images", x, rank)
        over = window.over(x.shape[1:-1])
        view = windows_view(xp, pad(xp, x, over), over)
        patch = math.prod(window.windows) * x.shape[-1]
        return view.reshape(x.shape[0], *(s.out for s in over), patch).copy()

    return run
