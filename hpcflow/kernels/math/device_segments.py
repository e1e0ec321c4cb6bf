"""Reductions over segments of rows, on devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import check_rows
from hpcflow.kernels.math.reductions import highest, lowest
from hpcflow.kernels.math.segments import _check_sorted
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NATIVE

_NATIVE = {"T": NATIVE}


def _count(xp: Any, data: Any, ids: Any) -> int:
    """The number of segments of sorted ids; the size of the result, for which the host waits."""
    if not data.ndim:
        raise invalid("data must have at least one dimension")
    if ids.shape != data.shape[:1]:
        _check_sorted(xp.asnumpy(ids), data.shape[0])
    if not ids.size:
        return 0
    falls = (ids[1:] < ids[:-1]).any()
    facts = [x.astype(np.int64) for x in (ids[0], ids[-1], falls)]
    first, last, is_wrong = xp.asnumpy(xp.stack(facts)).tolist()
    if first < 0 or is_wrong:
        _check_sorted(xp.asnumpy(ids), data.shape[0])
    return int(last) + 1


def _reduced(xp: Any, name: str, data: Any, ids: Any, count: int, start: Any) -> Any:
    """`count` rows that begin as `start`, with the rows of `data` combined into those of `ids`."""
    rows = data.reshape(len(data), math.prod(data.shape[1:]))
    out = xp.full((count, rows.shape[1]), start, data.dtype)
    repeated_rows.combine(xp, name, out, ids, rows)
    return out.reshape(count, *data.shape[1:])


def _by_rows(vector: Any, like: Any) -> Any:
    return vector.reshape((-1,) + (1,) * (like.ndim - 1))


def _row_counts(xp: Any, ids: Any, like: Any) -> Any:
    """Return the number of rows in each segment, at least 1, in a shape that divides `like`."""
    counts = xp.zeros(len(like), np.int32)
    repeated_rows.combine(xp, "add", counts, ids, xp.ones(len(ids), np.int32))
    return _by_rows(xp.maximum(counts, 1).astype(like.dtype), like)


def _sums(xp: Any, data: Any, ids: Any) -> Any:
    return _reduced(xp, "add", data, ids, _count(xp, data, ids), 0)


def _means(xp: Any, data: Any, ids: Any) -> Any:
    sums = _sums(xp, data, ids)
    counts = _row_counts(xp, ids, sums)
    if sums.dtype.kind not in "iu":
        return sums / counts
    return ((sums - xp.fmod(sums, counts)) // counts).astype(sums.dtype)


def _root_means(xp: Any, data: Any, ids: Any) -> Any:
    sums = _sums(xp, data, ids)
    return sums / xp.sqrt(_row_counts(xp, ids, sums))


def _products(xp: Any, data: Any, ids: Any) -> Any:
    return _reduced(xp, "multiply", data, ids, _count(xp, data, ids), 1)


def _extrema(name: str, start: Callable[[np.dtype], Any]) -> Callable:
    def run(xp: Any, data: Any, ids: Any) -> Any:
        found = _reduced(xp, name, data, ids, _count(xp, data, ids), start(data.dtype))
        present = xp.zeros(len(found), bool)
        present[ids] = True
        chosen = xp.where(_by_rows(present, found), found, xp.zeros((), data.dtype))
        return chosen.astype(data.dtype, copy=False)  # CuPy's makes float32 of bfloat16

    return run


for _op_type, _run in (
        ("SegmentSum", _sums), ("SegmentMean", _means), ("SegmentProd", _products),
        ("SegmentMin", _extrema("minimum", highest)), ("SegmentMax", _extrema("maximum", lowest))):
    kernel(_op_type, fresh=True, types=_NATIVE)(
        lambda node, run=_run: lambda data, ids: run(node.xp, data, ids))

# ---------------------------------------------------------------- gathered rows


def _check_same(indices: Any, ids: Any) -> None:
    if indices.shape != ids.shape:
        raise invalid(f"segment_ids and indices must have the same size: {shown(ids)}, "
                      f"{shown(indices)}")


def _gathered(node: KernelNode, reduce: Callable) -> Callable:
    xp = node.xp

    def run(data: Any, indices: Any, ids: Any) -> Any:
        _check_same(indices, ids)
        check_rows(xp, indices, data.shape[0], "== {} out of range [0, {})")
        return reduce(xp, data[indices], ids)

    return run


for _op_type, _run in (("SparseSegmentSum", _sums), ("SparseSegmentMean", _means),
                       ("SparseSegmentSqrtN", _root_means)):
    kernel(_op_type, fresh=True, types=_NATIVE)(lambda node, run=_run: _gathered(node, run))


def _scaled(xp: Any, kind: str, grad: Any, indices: Any, ids: Any, rows: int) -> Any:
    """Gather the rows of `grad` by `ids`, divided by the count or its root for means."""
    _check_same(indices, ids)
    check_rows(xp, indices, rows)
    check_rows(xp, ids, grad.shape[0])
    if kind != "Sum":
        counts = _row_counts(xp, ids, grad)
        grad = grad / (xp.sqrt(counts) if kind == "SqrtN" else counts)
    return grad[ids]


def _spread(node: KernelNode, kind: str) -> Callable:
    """Kernel factory of the gradient of sums or means of gathered rows."""
    xp = node.xp

    def run(grad: Any, indices: Any, ids: Any, dim0: Any) -> Any:
        rows = _scaled(xp, kind, grad, indices, ids, int(dim0))
        return _reduced(xp, "add", rows, indices, int(dim0), 0)

    return run


def _spread_to_unique(node: KernelNode, kind: str) -> Callable:
    """Kernel factory of the same gradient in sparse form: the unique rows, and their numbers."""
    xp = node.xp

    def run(grad: Any, indices: Any, ids: Any, dim0: Any) -> tuple:
        rows = _scaled(xp, kind, grad, indices, ids, int(dim0))
        unique, places = xp.unique(indices, return_inverse=True)
        return _reduced(xp, "add", rows, places.reshape(-1), len(unique), 0), unique

    return run


for _kind in ("Sum", "Mean", "SqrtN"):
    kernel(f"SparseSegment{_kind}Grad", fresh=True, types=_NATIVE, host_inputs=(3,))(
        lambda node, kind=_kind: _spread(node, kind))
    kernel(f"SparseSegment{_kind}GradV2", fresh=True, types=_NATIVE, host_inputs=(3,))(
        lambda node, kind=_kind: _spread_to_unique(node, kind))
