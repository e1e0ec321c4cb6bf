"""Kernels of reductions over segments of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.indices import check_rows, combine_rows
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

# ---------------------------------------------------------------- sorted ids


def _check_sorted(ids: Any, rows: int) -> None:
    if ids.ndim != 1 or ids.shape[0] != rows:
        raise invalid("segment_ids should be the same size as dimension 0 of input: "
                      f"{shown(ids)} for {rows} rows")
    if ids.shape[0] and int(ids[0]) < 0:
        raise invalid(f"segment ids must be >= 0, got {int(ids[0])}")
    if (ids[1:] < ids[:-1]).any():
        raise invalid("segment ids are not increasing")


def _sorted_segments(name: str, default: int) -> Callable:
    """A function of (data, sorted ids) -> one row per id up to the last; `default` in the gaps."""
    reduceat = getattr(np, name).reduceat

    def run(data: Any, ids: Any) -> Any:
        if not data.ndim:
            raise invalid("data must have at least one dimension")
        _check_sorted(ids, data.shape[0])
        if not ids.shape[0]:
            return np.zeros((0, *data.shape[1:]), data.dtype)
        changes = np.empty(ids.shape[0], bool)
        changes[0] = True
        np.not_equal(ids[1:], ids[:-1], out=changes[1:])
        starts = np.flatnonzero(changes)
        found = reduceat(data, starts, axis=0, dtype=data.dtype)
        present = ids[starts]
        count = int(ids[-1]) + 1
        if count == present.shape[0]:
            return found
        out = np.full((count, *data.shape[1:]), default, data.dtype)
        out[present] = found
        return out

    return run


_LARGE = 1 << 18  # bytes of data from which on a loop over rows is worth it
_reduced_sums = _sorted_segments("add", 0)


def _segment_sums(data: Any, ids: Any) -> Any:
    if data.ndim < 2 or data.nbytes < _LARGE:
        return _reduced_sums(data, ids)
    _check_sorted(ids, data.shape[0])
    out = np.zeros((int(ids[-1]) + 1, *data.shape[1:]), data.dtype)
    width = data.size // data.shape[0]

    def reduce(_: Any, target: np.ndarray, segments: Any, rows: Any) -> None:
        target[:] = _reduced_sums(rows, segments)

    combine_rows(np.add, out.reshape(-1, width), ids, data.reshape(-1, width), reduce)
    return out


def _row_counts(ids: Any, like: Any, dtype: Any) -> Any:
    """How many rows each segment has (one if none), in a shape that divides `like` by rows."""
    counts = np.maximum(np.bincount(ids, minlength=like.shape[0]), 1).astype(dtype)
    return counts.reshape((-1,) + (1,) * (like.ndim - 1))


def _segment_means(data: Any, ids: Any) -> Any:
    sums = _segment_sums(data, ids)
    if data.dtype.kind == "f":
        return np.true_divide(sums, _row_counts(ids, sums, data.dtype), out=sums)
    counts = _row_counts(ids, sums, data.dtype)
    return ((sums - np.fmod(sums, counts)) // counts).astype(data.dtype, copy=False)


for _op_type, _run in (
        ("SegmentSum", _segment_sums), ("SegmentMean", _segment_means),
        ("SegmentProd", _sorted_segments("multiply", 1)),
        ("SegmentMin", _sorted_segments("minimum", 0)),
        ("SegmentMax", _sorted_segments("maximum", 0))):
    kernel(_op_type, device="CPU", fresh=True)(lambda node, run=_run: run)

# ---------------------------------------------------------------- any ids


def add_rows(xp: Any, ufunc: Any, out: Any, ids: Any, rows: Any) -> None:
    """``out[ids[i]] = ufunc(out[ids[i]], rows[i])`` for every i, repeated ids included.

    `out` and `rows` are matrices.
    """
    if xp is np:
        combine_rows(ufunc, out, ids, rows)
    else:
        ufunc.at(out, ids, rows)


def _unsorted(node: KernelNode, name: str, initial: Any) -> Callable:
    xp, ufunc = node.xp, getattr(node.xp, name)

    def run(data: Any, ids: Any, num_segments: Any) -> Any:
        count = int(num_segments)
        if count < 0:
            raise invalid(f"num_segments must be non-negative, got {count}")
        if data.shape[: ids.ndim] != ids.shape:
            raise invalid(f"data's shape {shown(data)} must start with that of segment_ids, "
                          f"{shown(ids)}")
        shape = (count, *data.shape[ids.ndim :])
        width = int(np.prod(shape[1:], dtype=np.int64))
        out = xp.full((count, width), initial, data.dtype)
        rows, ids = data.reshape(ids.size, width), ids.reshape(-1)
        kept = ids >= 0
        if not kept.all():
            rows, ids = rows[kept], ids[kept]
        check_rows(xp, ids, count)
        if ids.size and width:
            add_rows(xp, ufunc, out, ids, rows)
        return out.reshape(shape)

    return run


@kernel("UnsortedSegmentSum", fresh=True, host_inputs=(2,))
def _unsorted_segment_sum(node: KernelNode) -> Any:
    return _unsorted(node, "add", 0)


@kernel("UnsortedSegmentMax", fresh=True, host_inputs=(2,))
def _unsorted_segment_max(node: KernelNode) -> Any:
    dtype = node.np_dtype()
    info = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return _unsorted(node, "maximum", info.min)


# ---------------------------------------------------------------- gathered rows


def _gathered(reduce: Callable) -> Callable:
    def run(data: Any, indices: Any, ids: Any) -> Any:
        if indices.shape != ids.shape:
            raise invalid(f"segment_ids and indices must have the same size: {shown(ids)}, "
                          f"{shown(indices)}")
        check_rows(np, indices, data.shape[0], "== {} out of range [0, {})")
        return reduce(data[indices], ids)

    return run


def _segment_root_means(data: Any, ids: Any) -> Any:
    sums = _segment_sums(data, ids)
    return np.true_divide(sums, np.sqrt(_row_counts(ids, sums, data.dtype)), out=sums)


for _op_type, _run in (("SparseSegmentSum", _segment_sums),
                       ("SparseSegmentMean", _segment_means),
                       ("SparseSegmentSqrtN", _segment_root_means)):
    kernel(_op_type, device="CPU", fresh=True)(lambda node, run=_run: _gathered(run))


def _spread(root: bool) -> Callable:
    """The transpose of a mean (or sum over the root of the count) of gathered rows."""

    def run(grad: Any, indices: Any, ids: Any, dim0: Any) -> Any:
        rows = int(dim0)
        if indices.shape != ids.shape:
            raise invalid(f"segment_ids and indices must have the same size: {shown(ids)}, "
                          f"{shown(indices)}")
        check_rows(np, indices, rows)
        check_rows(np, ids, grad.shape[0])
        counts = _row_counts(ids, grad, grad.dtype)
        scaled = grad / (np.sqrt(counts) if root else counts)
        width = int(np.prod(grad.shape[1:], dtype=np.int64))
        out = np.zeros((rows, width), grad.dtype)
        if ids.size and width:
            add_rows(np, np.add, out, indices, scaled.reshape(-1, width)[ids])
        return out.reshape(rows, *grad.shape[1:])

    return run


kernel("SparseSegmentMeanGrad", device="CPU", fresh=True)(lambda node: _spread(False))
kernel("SparseSegmentSqrtNGrad", device="CPU", fresh=True)(lambda node: _spread(True))
