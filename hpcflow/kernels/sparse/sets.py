"""Kernels of sets along the last dimension.

Every element becomes a pair of numbers: its row, and the rank of its value among all values; sets
are then sorted lists of such pairs without duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.strings import box
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import (
    check_sparse,
    dense_size,
    group_starts,
    is_sorted,
    keys_of,
    strides_of,
)


def _dense_rows(x: Any) -> tuple:
    """(row of each element, values, shape of the rows)."""
    x = box(x)
    if x.ndim < 2:
        raise invalid(f"a set needs at least 2 dimensions, but has shape {shown(x)}")
    shape = np.array(x.shape[:-1], np.int64)
    count = x.size // x.shape[-1] if x.shape[-1] else 0
    return np.repeat(np.arange(count, dtype=np.int64), x.shape[-1]), x.reshape(-1), shape


def _sparse_rows(parts: tuple, validate: bool, what: str) -> tuple:
    """As :func:`_dense_rows`, of a sparse tensor."""
    indices, values, shape = parts
    if np.any(shape < 0):
        raise invalid(f"{what}shape must not be negative, got {shape.tolist()}")
    check_sparse(indices, values, shape, what)
    if validate and not is_sorted(keys_of(indices, shape)):
        raise invalid(f"{what}indices are out of order")
    if len(shape) < 2:
        raise invalid(f"a set needs at least 2 dimensions, but has {len(shape)}")
    return keys_of(indices[:, :-1], shape[:-1]), values, shape[:-1]


@kernel("SetSize", device="CPU", fresh=True)
def _size(node: KernelNode) -> Callable:
    validate = node.attr("validate_indices", True)

    def run(indices: Any, values: Any, shape: Any) -> Any:
        rows, values, outer = _sparse_rows((indices, values, shape), validate, "set_")
        out = np.zeros(dense_size(outer), np.int32)
        pairs = _pairs([rows], [values])[0]
        out.reshape(-1)[:] = np.bincount(pairs[:, 0], minlength=out.size)
        return out

    return run


def _pairs(rows: list, values: list) -> list[Any]:
    """Per set the sorted pairs (row, rank of the value), each once; the rank's order is that of the
    values."""
    ranks = np.unique(np.concatenate(values), return_inverse=True)[1].reshape(-1)
    found, start = [], 0
    for row, value in zip(rows, values):
        rank = ranks[start:start + len(value)]
        start += len(value)
        order = np.lexsort((rank, row))
        pairs = np.stack([row[order], rank[order]], axis=1)
        fresh = np.ones(len(pairs), bool)
        fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
        found.append(pairs[fresh])
    return found


def _operate(a: tuple, b: tuple, operation: str) -> tuple:
    """The sparse tensor of the operation on two sets of rows."""
    if not np.array_equal(a[2], b[2]):
        raise invalid(f"the rows of the sets differ: shapes {a[2].tolist()} and {b[2].tolist()}")
    values = np.concatenate([a[1], b[1]])
    distinct = np.unique(values)
    width = max(len(distinct), 1)
    first, second = (p[:, 0] * width + p[:, 1] for p in _pairs([a[0], b[0]], [a[1], b[1]]))
    keys = _OPERATIONS[operation](first, second)
    rows, ranks = keys // width, keys % width
    starts = group_starts(rows)
    lengths = np.diff(starts, append=len(rows))
    place = np.arange(len(rows)) - np.repeat(starts, lengths)
    return _sparse(rows, place, distinct[ranks] if len(ranks) else values[:0], a[2],
                   int(lengths.max(initial=0)))


def _sparse(rows: Any, place: Any, values: Any, outer: Any, size: int) -> tuple:
    indices = np.empty((len(rows), len(outer) + 1), np.int64)
    rest = rows
    for i, stride in enumerate(strides_of(outer)):  # one pass for each dimension
        indices[:, i] = rest // stride
        rest = rest - indices[:, i] * stride
    indices[:, -1] = place
    return indices, values, np.concatenate([outer, [size]]).astype(np.int64)


def _without(a: Any, b: Any) -> Any:
    return np.setdiff1d(a, b, assume_unique=True)


_OPERATIONS: dict[str, Callable] = {
    "a-b": _without,
    "b-a": lambda a, b: _without(b, a),
    "intersection": lambda a, b: np.intersect1d(a, b, assume_unique=True),
    "union": np.union1d,
}


def _operation_of(node: KernelNode) -> str:
    name = node.attr("set_operation").decode().lower()
    if name not in _OPERATIONS:
        raise invalid(f"set_operation must be one of {', '.join(_OPERATIONS)}, got '{name}'")
    return name


@kernel("DenseToDenseSetOperation", device="CPU", fresh=True)
def _dense_dense(node: KernelNode) -> Callable:
    name = _operation_of(node)
    return lambda a, b: _operate(_dense_rows(a), _dense_rows(b), name)


@kernel("DenseToSparseSetOperation", device="CPU", fresh=True)
def _dense_sparse(node: KernelNode) -> Callable:
    name, validate = _operation_of(node), node.attr("validate_indices", True)
    return lambda a, *b: _operate(_dense_rows(a), _sparse_rows(b, validate, "set2_"), name)


@kernel("SparseToSparseSetOperation", device="CPU", fresh=True)
def _sparse_sparse(node: KernelNode) -> Callable:
    name, validate = _operation_of(node), node.attr("validate_indices", True)
    return lambda *parts: _operate(_sparse_rows(parts[:3], validate, "set1_"),
                                   _sparse_rows(parts[3:], validate, "set2_"), name)
