"""Reductions of large arrays by a ufunc, in the order in which NumPy is fast.

NumPy's loops are fast along rows of many elements. So an array is taken as [outer, reduced, inner]:
where the inner rows are short, several reduced rows side by side count as one, and sums of floats
are products with ones; where there is no inner dimension, short rows are transposed; where the
inner rows are long, they are cut. Axes that lie apart are reduced one after the other. Blocks are
computed on all cores. The order depends on the shape alone.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from hpcflow.host import blas, memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import block_of_copies, over_rows
from hpcflow.kernels.compiled import row_loops
from hpcflow.loops import strided_copy

_ASSOCIATIVE = ("add", "multiply", "maximum", "minimum")


def reduce(ufunc: Any, x: Any, axis: Any, dtype: Any, keep: bool) -> Any:
    """``ufunc.reduce(x, axis, dtype, None, keep)``, but for the order of a large array's elements.

    Args:
        ufunc: of two arguments, associative.
        x: an array, of any kind.
        axis: a number, a tuple, or None for all.
        dtype: of the result; None for that of `x`.
        keep: reduced dimensions stay, with size 1.
    """
    if (type(x) is not np.ndarray or x.nbytes < tuning.REDUCTION_LARGE_BYTES
            or x.dtype.kind not in "fiu"
            or x.itemsize == 2 or dtype not in (None, x.dtype) or not x.flags.c_contiguous
            or ufunc.__name__ not in _ASSOCIATIVE):
        return ufunc.reduce(x, axis, dtype, None, keep)
    form = _form(x.shape, axis, keep)
    if form is None:
        return ufunc.reduce(x, axis, dtype, None, keep)
    steps, out_dims = form
    for outer, reduced, inner in steps:
        if inner == 1 and ufunc.__name__ in row_loops.REDUCTIONS:
            x = row_loops.reduce(ufunc, x.reshape(outer, reduced),
                                 lambda rows: _whole(ufunc, rows[:, :, None])[:, 0])
        else:
            x = _whole(ufunc, x.reshape(outer, reduced, inner))
    return x.reshape(out_dims)[()]


@functools.lru_cache(maxsize=1024)
def _form(dims: tuple, axis: Any, keep: bool) -> tuple | None:
    """([outer, reduced, inner] of one reduction after the other, dims of the result); None for an
    empty array. Neighbouring axes are reduced together, those of most elements first."""
    rank = len(dims)
    axes = set(range(rank) if axis is None else
               {a % rank for a in ((axis,) if isinstance(axis, int) else axis)})
    if 0 in dims:
        return None
    runs: list[tuple[bool, int]] = []  # neighbours: whether they are reduced, their elements
    for is_reduced, sizes in itertools.groupby(
            [(i in axes, d) for i, d in enumerate(dims) if d > 1], lambda run: run[0]):
        runs.append((is_reduced, math.prod(d for _, d in sizes)))
    steps = []
    while any([is_reduced for is_reduced, _ in runs]):
        at = max(range(len(runs)), key=lambda i: runs[i])
        before, after = (math.prod(n for _, n in part) for part in (runs[:at], runs[at + 1 :]))
        steps.append((before, runs.pop(at)[1], after))
    out_dims = tuple([1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes])
    return tuple(steps) or ((1, 1, math.prod(dims)),), out_dims


def _whole(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """`x` of [outer, reduced, inner] reduced to [outer, inner], in blocks on all cores."""
    outer, reduced, inner = x.shape
    if (outer * x[0].nbytes < 2 * tuning.REDUCTION_BLOCK_BYTES
            or x[0].nbytes <= 2 * tuning.REDUCTION_BLOCK_BYTES):
        return _by_outer(ufunc, x)
    if inner >= tuning.REDUCTION_LONG:
        return _by_columns(ufunc, x)
    step = max(1, tuning.REDUCTION_BLOCK_BYTES // x[0, :1].nbytes)
    partial = memory.empty((outer, -(-reduced // step), inner), x.dtype)

    def work(block: slice) -> None:
        for number in range(block.start, block.stop):
            i, part = divmod(number, partial.shape[1])
            piece = x[i : i + 1, part * step : (part + 1) * step]
            partial[i : i + 1, part] = _block(ufunc, piece)

    with blas.alone():
        over_rows(outer * partial.shape[1], step * x[0, :1].nbytes, work,
                  tuning.REDUCTION_BLOCK_BYTES)
    return ufunc.reduce(partial, 1, x.dtype)


def _by_outer(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """As :func:`_whole`, every block of rows of `outer`."""
    outer, reduced, inner = x.shape
    out = memory.empty((outer, inner), x.dtype)
    # What depends on where the blocks end.
    is_short = inner == 1 and reduced <= 2 * tuning.REDUCTION_NARROW
    block_bytes = tuning.REDUCTION_BLOCK_BYTES if is_short else block_of_copies(outer, x[0].nbytes)

    def rows(block: slice) -> None:
        out[block] = _block(ufunc, x[block])

    with blas.alone():
        over_rows(outer, x[0].nbytes, rows, block_bytes)
    return out


def _by_columns(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """As :func:`_whole`, every block of columns of `inner`: no partial results, which would be as
    long as the rows."""
    outer, reduced, inner = x.shape
    out = memory.empty((outer, inner), x.dtype)
    width = max(tuning.REDUCTION_WIDE, tuning.REDUCTION_BLOCK_BYTES // (reduced * x.itemsize))
    count = -(-inner // width)

    def work(block: slice) -> None:
        for number in range(block.start, block.stop):
            i, part = divmod(number, count)
            columns = slice(part * width, (part + 1) * width)
            ufunc.reduce(x[i, :, columns], 0, x.dtype, out[i, columns])

    over_rows(outer * count, width * reduced * x.itemsize, work, tuning.REDUCTION_BLOCK_BYTES)
    return out


def _block(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """`x` of [outer, reduced, inner] reduced to [outer, inner] by one thread."""
    _, reduced, inner = x.shape
    adds_floats = ufunc is np.add and x.dtype.kind == "f"
    if inner == 1:
        # Of products NumPy makes vectors itself.
        if reduced > tuning.REDUCTION_NARROW and ufunc is not np.multiply:
            return ufunc.reduce(x[:, :, 0], 1, x.dtype)[:, None]
        if adds_floats:
            return x[:, :, 0].dot(_ones(reduced, x.dtype))[:, None]
        while reduced > 2 * tuning.REDUCTION_NARROW:
            x = _folded(ufunc, x, max(tuning.REDUCTION_NARROW,
                                      min(tuning.REDUCTION_WIDE, reduced // 8)))
            reduced = x.shape[1]
        return ufunc.reduce(_transposed(x[:, :, 0]), 0, x.dtype)[:, None]
    by_product = adds_floats and inner < tuning.REDUCTION_WIDE
    side_by_side = min(tuning.REDUCTION_WIDE // inner, reduced // 8)
    if side_by_side > 1 and not (by_product and reduced <= tuning.REDUCTION_MOST_ADDED):
        x = _folded(ufunc, x, side_by_side)
    if by_product and x.shape[1] <= tuning.REDUCTION_MOST_ADDED:
        return np.matmul(_ones(x.shape[1], x.dtype), x)
    return ufunc.reduce(x, 1, x.dtype)


@functools.lru_cache(maxsize=256)
def _ones(count: int, dtype: np.dtype) -> np.ndarray:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def _transposed(x: np.ndarray) -> np.ndarray:
    """A copy of the transposed matrix, whose rows do not start at multiples of a power of two,
    for such places share a few lines of the cache."""
    gap = 64 // x.itemsize
    out = memory.empty((x.shape[1], len(x) + gap), x.dtype)[:, : len(x)]
    strided_copy.assign(out, x.T)
    return out


def _folded(ufunc: Any, x: np.ndarray, count: int) -> np.ndarray:
    """`count` rows of each, to which those that come `count` rows later are added, and so on."""
    outer, reduced, inner = x.shape
    full = reduced - reduced % count
    rows = x[:, :full].reshape(outer, full // count, count * inner)
    y = ufunc.reduce(rows, 1, x.dtype).reshape(outer, count, inner)
    rest = y[:, : reduced - full]
    ufunc(rest, x[:, full:], out=rest)
    return y
