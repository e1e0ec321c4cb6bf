"""Reductions of large arrays by a ufunc, in the order in which NumPy is fast.

NumPy's loops are fast along rows of many elements. So an array is taken as [outer, reduced, inner]:
where the inner rows are short, several reduced rows side by side count as one; where there is no
inner dimension, short rows are transposed. Blocks are computed on all cores. The order depends on
the shape alone.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from hpcflow import aligned, copies
from hpcflow.kernels.parallel import block_of_copies, over_rows

_LARGE_BYTES = 1 << 17
_BLOCK_BYTES = 1 << 19
_WIDE = 1024  # elements of a row that NumPy's loops are good for
_NARROW = 64  # elements of a row that is better transposed
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
    if (type(x) is not np.ndarray or x.nbytes < _LARGE_BYTES or x.dtype.kind not in "fiu"
            or x.itemsize == 2 or dtype not in (None, x.dtype) or not x.flags.c_contiguous
            or ufunc.__name__ not in _ASSOCIATIVE):
        return ufunc.reduce(x, axis, dtype, None, keep)
    form = _form(x.shape, axis, keep)
    if form is None:
        return ufunc.reduce(x, axis, dtype, None, keep)
    dims, out_dims = form
    return _whole(ufunc, x.reshape(dims)).reshape(out_dims)[()]


@functools.lru_cache(maxsize=1024)
def _form(dims: tuple, axis: Any, keep: bool) -> tuple | None:
    """([outer, reduced, inner], dims of the result); None unless the axes are neighbours."""
    rank = len(dims)
    axes = sorted(range(rank) if axis is None else
                  {a % rank for a in ((axis,) if isinstance(axis, int) else axis)})
    first, last = axes[0], axes[-1] + 1
    if last - first != len(axes) or 0 in dims:
        return None
    middle = (1,) * len(axes) if keep else ()
    parts = dims[:first], dims[first:last], dims[last:]
    return tuple(map(math.prod, parts)), (*parts[0], *middle, *parts[2])


def _whole(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """`x` of [outer, reduced, inner] reduced to [outer, inner], in blocks on all cores."""
    outer, reduced, inner = x.shape
    if outer * x[0].nbytes < 2 * _BLOCK_BYTES or x[0].nbytes <= 2 * _BLOCK_BYTES:
        out = aligned.empty((outer, inner), x.dtype)
        transposes = inner == 1 and reduced <= 2 * _NARROW
        block_bytes = _BLOCK_BYTES if transposes else block_of_copies(outer, x[0].nbytes)

        def rows(block: slice) -> None:
            out[block] = _block(ufunc, x[block])

        over_rows(outer, x[0].nbytes, rows, block_bytes)
        return out
    step = max(1, _BLOCK_BYTES // x[0, :1].nbytes)
    partial = aligned.empty((outer, -(-reduced // step), inner), x.dtype)

    def work(block: slice) -> None:
        for number in range(block.start, block.stop):
            i, part = divmod(number, partial.shape[1])
            piece = x[i : i + 1, part * step : (part + 1) * step]
            partial[i : i + 1, part] = _block(ufunc, piece)

    over_rows(outer * partial.shape[1], step * x[0, :1].nbytes, work, _BLOCK_BYTES)
    return ufunc.reduce(partial, 1, x.dtype)


def _block(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """`x` of [outer, reduced, inner] reduced to [outer, inner] by one thread."""
    _, reduced, inner = x.shape
    if inner == 1:
        if reduced > _NARROW and ufunc is not np.multiply:  # of which NumPy makes vectors itself
            return ufunc.reduce(x[:, :, 0], 1, x.dtype)[:, None]
        while reduced > 2 * _NARROW:
            x = _folded(ufunc, x, max(_NARROW, min(_WIDE, reduced // 8)))
            reduced = x.shape[1]
        return ufunc.reduce(_transposed(x[:, :, 0]), 0, x.dtype)[:, None]
    side_by_side = min(_WIDE // inner, reduced // 8)
    if side_by_side > 1:
        x = _folded(ufunc, x, side_by_side)
    return ufunc.reduce(x, 1, x.dtype)


def _transposed(x: np.ndarray) -> np.ndarray:
    """A copy of the transposed matrix, whose rows do not start at multiples of a power of two,
    for such places share a few lines of the cache."""
    gap = 64 // x.itemsize
    out = aligned.empty((x.shape[1], len(x) + gap), x.dtype)[:, : len(x)]
    copies.assign(out, x.T)
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
