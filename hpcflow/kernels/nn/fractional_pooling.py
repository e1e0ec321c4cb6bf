"""Kernels of fractional pooling (Graham, "Fractional max-pooling", 2014).

The windows along an axis begin where a random increasing sequence says, and end where the next one
begins, or there inclusive where they overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.errors import UnimplementedError
from hpcflow.kernels.random.random import make_generator
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_NUMBERS = {"T": ("float32", "float64", "int32", "int64")}

# ---------------------------------------------------------------- sequences


def _sequence(rng: np.random.Generator, size: int, out: int, pseudo: bool) -> np.ndarray:
    """``out + 1`` increasing positions from 0 to `size`."""
    if pseudo:
        steps = _pseudo_random_steps(rng, size, out)
    else:
        step, longer = divmod(size, out)
        steps = np.full(out, step)
        steps[:longer] += 1
        rng.shuffle(steps)
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)


def _pseudo_random_steps(rng: np.random.Generator, size: int, out: int) -> np.ndarray:
    """Differences of ``ceil(ratio * (i + u))`` for one random u: section 2 of the paper."""
    if size == out:
        return np.ones(out, np.int64)
    ratio = size / out
    step = math.floor(ratio)
    highest = min((step + 2) / ratio - 1, (size + 1 - step) / ratio - (out - 1))
    u = rng.random() * highest
    ends = [1, *(math.ceil(ratio * (i + u)) for i in range(1, out)), size + 1]
    return np.diff(ends)


class _Windows:
    """The windows along one axis."""

    def __init__(self, sequence: Any, size: int, overlapping: bool, what: str) -> None:
        cuts = np.asarray(sequence)
        if cuts.ndim != 1 or len(cuts) < 2 or (np.diff(cuts) < 1).any() or cuts[0] < 0 or (
                cuts[-1] > size):
            raise invalid(f"{what} must be an increasing sequence within [0, {size}], got "
                          f"{cuts.tolist()}")
        self.starts = cuts[:-1]
        self.ends = np.minimum(cuts[1:] + 1, size) if overlapping else cuts[1:]
        self.lengths = self.ends - self.starts
        self.out = len(self.starts)

    def taps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Per element of the longest window: input positions, and the outputs that see them."""
        for k in range(int(self.lengths.max())):
            seen = np.flatnonzero(self.lengths > k)
            yield self.starts[seen] + k, seen


def _reduced(xp: Any, x: Any, windows: _Windows, axis: int, combine: Callable) -> Any:
    """All elements of each window along an axis, combined."""
    taps = windows.taps()
    before = (slice(None),) * axis
    y = xp.take(x, xp.asarray(next(taps)[0]), axis=axis)
    for source, to in taps:
        there = (*before, xp.asarray(to))
        y[there] = combine(y[there], xp.take(x, xp.asarray(source), axis=axis))
    return y


# ---------------------------------------------------------------- forward


def _register(op_type: str, pool: Callable) -> None:
    @kernel(op_type, types=_NUMBERS, fresh=True, host_outputs=(1, 2))
    def factory(node: KernelNode) -> Callable:
        xp, ratios = node.xp, node.attr("pooling_ratio")
        overlapping, pseudo = node.attr("overlapping"), node.attr("pseudo_random")
        rng = _generator(node)
        if ratios[0] != 1 or ratios[3] != 1:
            raise UnimplementedError(None, None, "Fractional pooling is not yet supported on the "
                                     "batch nor channel dimension: their ratios must be 1, got "
                                     f"{list(ratios)}")

        def run(x: Any) -> tuple:
            if x.ndim != 4:
                raise invalid(f"value must be 4-dimensional, got shape {shown(x)}")
            draw = rng()
            sequences, windows = [], []
            for axis, name in ((1, "rows"), (2, "columns")):
                size, out = x.shape[axis], int(x.shape[axis] / ratios[axis])
                if out < 1:
                    raise invalid(f"the pooling_ratio {ratios[axis]} leaves nothing of the "
                                  f"{size} {name}")
                sequences.append(_sequence(draw, size, out, pseudo))
                windows.append(_Windows(sequences[-1], size, overlapping, name))
            return (pool(xp, x, windows), *sequences)

        return run


def _generator(node: KernelNode) -> Callable:
    """Gives the generator of a step: one that goes on, or (deterministic) the same each time."""
    seeds = node.attr("seed"), node.attr("seed2")
    if node.attr("deterministic"):
        if seeds == (0, 0):
            seeds = node.state(lambda: tuple(
                int(n) for n in make_generator(0, 0, node.name).integers(1, 1 << 62, 2)))
        return lambda: make_generator(*seeds, node.name)
    if seeds != (0, 0):
        raise invalid(f"Both seed and seed2 should be 0 if deterministic is false, got {seeds}")
    rng = node.state(lambda: make_generator(*seeds, node.name))
    return lambda: rng


def _largest(xp: Any, x: Any, windows: list[_Windows]) -> Any:
    for axis, over in enumerate(windows, 1):
        x = _reduced(xp, x, over, axis, xp.maximum)
    return x


def _mean(xp: Any, x: Any, windows: list[_Windows]) -> Any:
    y = x
    for axis, over in enumerate(windows, 1):
        y = _reduced(xp, y, over, axis, xp.add)
    return _divided(xp, y, _counts(xp, windows).astype(x.dtype))


def _divided(xp: Any, y: Any, counts: Any) -> Any:
    """The quotients; those of integers towards zero."""
    if y.dtype.kind == "f":
        return y / counts
    whole = xp.abs(y) // counts
    return xp.where(y < 0, -whole, whole)


def _counts(xp: Any, windows: list[_Windows]) -> Any:
    rows, columns = (xp.asarray(w.lengths) for w in windows)
    return (rows[:, None] * columns[None, :])[None, :, :, None]


_register("FractionalMaxPool", _largest)
_register("FractionalAvgPool", _mean)

# ---------------------------------------------------------------- gradients


def _checked_windows(dims: Any, dy: Any, rows: Any, columns: Any,
                     overlapping: bool) -> list[_Windows]:
    if dy.ndim != 4:
        raise invalid(f"out_backprop must be 4-dimensional, got shape {shown(dy)}")
    windows = [_Windows(rows, dims[1], overlapping, "row_pooling_sequence"),
               _Windows(columns, dims[2], overlapping, "col_pooling_sequence")]
    expected = (dims[0], windows[0].out, windows[1].out, dims[3])
    if dy.shape != expected:
        raise invalid(f"out_backprop must have shape {shown(expected)}, got {shown(dy)}")
    return windows


@kernel("FractionalMaxPoolGrad", types=_NUMBERS, fresh=True, host_inputs=(3, 4))
def _max_grad(node: KernelNode) -> Callable:
    """Each output's gradient at the first of its window's largest elements."""
    xp, overlapping = node.xp, node.attr("overlapping")

    def run(x: Any, y: Any, dy: Any, rows: Any, columns: Any) -> Any:
        if x.ndim != 4:
            raise invalid(f"orig_input must be 4-dimensional, got shape {shown(x)}")
        down, right = _checked_windows(x.shape, dy, rows, columns, overlapping)
        if y.shape != dy.shape:
            raise invalid(f"orig_output must have shape {shown(dy)}, got {shown(y)}")
        dx, free = xp.zeros(x.shape, x.dtype), xp.ones(y.shape, bool)
        across = list(right.taps())
        for row, out_row in down.taps():
            for column, out_column in across:
                here = (slice(None), *map(xp.asarray, np.ix_(row, column)))
                there = (slice(None), *map(xp.asarray, np.ix_(out_row, out_column)))
                hit = free[there] & (x[here] == y[there])
                dx[here] += xp.where(hit, dy[there], dy.dtype.type(0))
                free[there] &= ~hit
        return dx

    return run


@kernel("FractionalAvgPoolGrad", types=_NUMBERS, fresh=True, host_inputs=(0, 2, 3))
def _avg_grad(node: KernelNode) -> Callable:
    """An equal share of each output's gradient at all of its window."""
    xp, overlapping = node.xp, node.attr("overlapping")

    def run(shape: Any, dy: Any, rows: Any, columns: Any) -> Any:
        if np.shape(shape) != (4,) or np.min(shape) < 1:
            raise invalid(f"orig_input_tensor_shape must be four positive numbers, got {shape}")
        dims = tuple(int(n) for n in shape)
        windows = _checked_windows(dims, dy, rows, columns, overlapping)
        share = _divided(xp, dy, _counts(xp, windows).astype(dy.dtype))
        for axis, over in enumerate(windows, 1):
            sizes = list(share.shape)
            sizes[axis] = dims[axis]
            wider = xp.zeros(sizes, share.dtype)
            before = (slice(None),) * axis
            for source, to in over.taps():
                at = (*before, xp.asarray(source))
                wider[at] += xp.take(share, xp.asarray(to), axis=axis)
            share = wider
        return share

    return run
