"""Kernels of reductions over segments of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hpcflow.errors import OutOfRangeError
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import are_rows, check_rows, combine_rows
from hpcflow.kernels.common.text import string_array
from hpcflow.kernels.math.reductions import highest, lowest
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NATIVE

_NATIVE = {"T": NATIVE}

# ---------------------------------------------------------------- sorted ids


def _check_sorted(ids: Any, rows: int) -> None:
    if ids.ndim != 1:
        raise invalid(f"segment_ids should be a vector. Got shape {shown(ids)}")
    if ids.shape[0] != rows:
        raise invalid("segment_ids should be the same size as dimension 0 of input: "
                      f"{shown(ids)} for {rows} rows")
    if rows and (int(ids[0]) < 0 or (ids[1:] < ids[:-1]).any()):
        raise invalid(_wrong_order(ids.tolist()))


def _wrong_order(ids: list[int]) -> str:
    """What is wrong first with ids, of which there are as many as the last one says."""
    count = ids[-1] + 1
    if count <= 0:
        return f"segment ids must be >= 0, got {ids[-1]}"
    for segment, following in zip(ids, [*ids[1:], None]):
        if following is not None and following < segment:
            return f"segment ids are not increasing: {following} follows {segment}"
        if following != segment and not 0 <= segment < count:
            return (f"Segment id {segment} out of range [0, {count}), possibly because "
                    "'segment_ids' input is not sorted.")
    raise AssertionError("the ids are sorted")


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


def _segments(name: str, initial: Callable[[np.dtype], Any], default: int) -> Callable:
    """As `_sorted_segments`, but large rows by the loop over rows, which starts from `initial`."""
    small, ufunc = _sorted_segments(name, default), getattr(np, name)

    def reduce(_: Any, target: np.ndarray, segments: Any, rows: Any) -> None:
        target[:] = small(rows, segments)

    def run(data: Any, ids: Any) -> Any:
        if data.ndim < 2 or data.nbytes < tuning.SEGMENT_LARGE_BYTES:
            return small(data, ids)
        _check_sorted(ids, data.shape[0])
        width = data.size // data.shape[0]
        start = initial(data.dtype)
        out = np.full((int(ids[-1]) + 1, width), start, data.dtype)
        combine_rows(ufunc, out, ids, data.reshape(-1, width), reduce)
        if start != default:
            absent = np.ones(len(out), bool)
            absent[ids] = False
            out[absent] = default
        return out.reshape(len(out), *data.shape[1:])

    return run


_segment_sums = _segments("add", lambda _: 0, 0)


def _row_counts(ids: Any, like: Any, dtype: Any) -> Any:
    """Return the number of rows in each segment, at least 1, in a shape that divides `like`."""
    counts = np.maximum(np.bincount(ids, minlength=like.shape[0]), 1).astype(dtype)
    return counts.reshape((-1,) + (1,) * (like.ndim - 1))


def _segment_means(data: Any, ids: Any) -> Any:
    sums = _segment_sums(data, ids)
    if data.dtype.kind not in "iu":
        return np.true_divide(sums, _row_counts(ids, sums, data.dtype), out=sums)
    counts = _row_counts(ids, sums, data.dtype)
    return ((sums - np.fmod(sums, counts)) // counts).astype(data.dtype, copy=False)


for _op_type, _run in (
        ("SegmentSum", _segment_sums), ("SegmentMean", _segment_means),
        ("SegmentProd", _segments("multiply", lambda _: 1, 1)),
        ("SegmentMin", _segments("minimum", highest, 0)),
        ("SegmentMax", _segments("maximum", lowest, 0))):
    kernel(_op_type, device="CPU", fresh=True, types=_NATIVE)(lambda node, run=_run: run)

# ---------------------------------------------------------------- any ids


def add_rows(xp: Any, name: str, out: Any, ids: Any, rows: Any) -> None:
    """``out[ids[i]] = f(out[ids[i]], rows[i])`` for every i, with the ufunc `name`; repeated ids
    included.

    `out` and `rows` are matrices.
    """
    if xp is np:
        combine_rows(getattr(np, name), out, ids, rows)
    else:
        repeated_rows.combine(xp, name, out, ids, rows)


def _unsorted(node: KernelNode, name: str, initial: Any) -> Callable:
    xp, ufunc = node.xp, getattr(np, name)

    def run(data: Any, ids: Any, num_segments: Any) -> Any:
        count = _segment_count(data, ids, num_segments)
        shape = (count, *data.shape[ids.ndim :])
        width = math.prod(shape[1:])
        if initial == 0:
            out = xp.zeros((count, width), data.dtype)
        else:
            out = xp.full((count, width), initial, data.dtype)
        rows, flat = data.reshape(ids.size, width), ids.reshape(-1)
        if xp is np and flat.size and width and are_rows(flat, count):  # none is negative
            combine_rows(ufunc, out, flat, rows)
            return out.reshape(shape)
        _check_below(xp, ids, count)
        if xp is not np:
            return _reduced_on_device(xp, name, out, flat, rows, initial).reshape(shape)
        kept = flat >= 0
        if width and kept.any():
            combine_rows(ufunc, out, flat[kept], rows[kept])
        return out.reshape(shape)

    return run


def _segment_count(data: Any, ids: Any, num_segments: Any) -> int:
    """The number of segments, when the inputs fit each other."""
    if np.ndim(num_segments):
        raise invalid(f"num_segments should be a scalar, not shape {shown(num_segments)}")
    count = int(num_segments)
    if count < 0:
        raise invalid(f"Input num_segments == {count} must not be negative.")
    if data.shape[: ids.ndim] != ids.shape:
        raise invalid(f"data.shape = {shown(data)} does not start with segment_ids.shape = "
                      f"{shown(ids)}")
    return count


def _check_below(xp: Any, ids: Any, count: int) -> None:
    """Refuse ids that are too large; negative ones count as none."""
    if count:
        check_rows(xp, xp.maximum(ids, 0), count, "= {} is out of range [0, {}): segment ids must "
                   "be < num_segments", "segment_ids")
    elif ids.size and bool((ids >= 0).any()):
        raise invalid(f"segment_ids: {int(ids.max())} is out of range [0, 0)")


def _reduced_on_device(xp: Any, name: str, out: Any, ids: Any, rows: Any, initial: Any) -> Any:
    """Combine the rows of non-negative ids into `out`; a spare row takes those of negative ids."""
    more = xp.full((1, out.shape[1]), initial, out.dtype)
    target = xp.concatenate([out, more])
    add_rows(xp, name, target, xp.where(ids < 0, len(out), ids), rows)
    return target[: len(out)]


@kernel("UnsortedSegmentSum", fresh=True, host_inputs=(2,), types=_NATIVE)
def _unsorted_segment_sum(node: KernelNode) -> Any:
    return _unsorted(node, "add", 0)


@kernel("UnsortedSegmentProd", fresh=True, host_inputs=(2,), types=_NATIVE)
def _unsorted_segment_prod(node: KernelNode) -> Any:
    return _unsorted(node, "multiply", 1)


@kernel("UnsortedSegmentMax", "UnsortedSegmentMin", fresh=True, host_inputs=(2,))
def _unsorted_segment_extremum(node: KernelNode) -> Any:
    dtype = node.np_dtype()
    info = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)
    if node.op_type == "UnsortedSegmentMin":
        return _unsorted(node, "minimum", info.max)
    return _unsorted(node, "maximum", info.min)


@kernel("UnsortedSegmentJoin", device="CPU", fresh=True)
def _unsorted_segment_join(node: KernelNode) -> Any:
    """The strings of each segment, in their order."""
    separator = node.attr("separator")

    def run(texts: Any, ids: Any, num_segments: Any) -> Any:
        texts, ids = np.asarray(texts, object), np.asarray(ids)
        count = int(num_segments)
        if count < 0:
            raise invalid(f"num_segments must be non-negative, got {count}")
        if ids.ndim > texts.ndim:
            raise OutOfRangeError(None, None, f"Invalid segment_id rank {ids.ndim} for input with "
                                  f"{texts.ndim} dimension(s)")
        if not ids.ndim or texts.shape[: ids.ndim] != ids.shape:
            raise invalid(f"the shape of inputs {shown(texts)} must start with that of "
                          f"segment_ids, {shown(ids)}")
        rest = texts.shape[ids.ndim:]
        rows, flat = texts.reshape(ids.size, math.prod(rest)), ids.reshape(-1)
        check_rows(np, flat, count)
        parts: list[list] = [[[] for _ in range(math.prod(rest))] for _ in range(count)]
        for row, segment in zip(rows, flat.tolist()):
            for into, text in zip(parts[segment], row):
                into.append(text)
        joined = [_joined(separator, found) for segment in parts for found in segment]
        return string_array(joined, (count, *rest))

    return run


def _joined(separator: bytes, texts: list[bytes]) -> bytes:
    """The texts with the separator between them, from the first that is not empty."""
    start = next((i for i, text in enumerate(texts) if text), len(texts))
    return separator.join(texts[start:])


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
    kernel(_op_type, device="CPU", fresh=True, types=_NATIVE)(
        lambda node, run=_run: _gathered(run))


def _scaled_rows(kind: str, grad: Any, indices: Any, ids: Any, rows: int) -> Any:
    """Gather the rows of `grad` by `ids`, divided by the count or its root for means."""
    if indices.shape != ids.shape:
        raise invalid(f"segment_ids and indices must have the same size: {shown(ids)}, "
                      f"{shown(indices)}")
    check_rows(np, indices, rows, "== {0}: Index {0} out of range [0, {1})")
    check_rows(np, ids, grad.shape[0], "== {0}: Segment id {0} out of range [0, {1}): Invalid "
               "number of segments", "segment_ids")
    if kind != "Sum":
        counts = _row_counts(ids, grad, grad.dtype)
        grad = grad / (np.sqrt(counts) if kind == "SqrtN" else counts)
    return grad.reshape(grad.shape[0], -1 if grad.size else math.prod(grad.shape[1:]))[ids]


def _add_up(rows: Any, places: Any, count: int, rest: tuple) -> Any:
    """Return `count` rows of shape `rest`: zeros with `rows` added at `places`."""
    out = np.zeros((count, math.prod(rest)), rows.dtype)
    if rows.size:
        add_rows(np, "add", out, places, rows)
    return out.reshape(count, *rest)


def _spread(kind: str) -> Callable:
    """The transpose of a sum, mean (or sum over the root of the count) of gathered rows."""

    def run(grad: Any, indices: Any, ids: Any, dim0: Any) -> Any:
        rows = _scaled_rows(kind, grad, indices, ids, int(dim0))
        return _add_up(rows, indices, int(dim0), grad.shape[1:])

    return run


def _spread_to_unique(kind: str) -> Callable:
    """Kernel factory of the same gradient in sparse form: the unique rows, and their numbers."""

    def run(grad: Any, indices: Any, ids: Any, dim0: Any) -> tuple:
        rows = _scaled_rows(kind, grad, indices, ids, int(dim0))
        unique, places = np.unique(indices, return_inverse=True)
        return _add_up(rows, places.reshape(-1), len(unique), grad.shape[1:]), unique

    return run


for _kind in ("Sum", "Mean", "SqrtN"):
    kernel(f"SparseSegment{_kind}Grad", device="CPU", fresh=True, types=_NATIVE)(
        lambda node, kind=_kind: _spread(kind))
    kernel(f"SparseSegment{_kind}GradV2", device="CPU", fresh=True, types=_NATIVE)(
        lambda node, kind=_kind: _spread_to_unique(kind))
