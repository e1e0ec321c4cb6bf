"""Kernels of sets and partitions: Unique, ListDiff, DynamicPartition and DynamicStitch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import check_rows, stable_order
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import compiling

# ---------------------------------------------------------------- Unique, ListDiff


@kernel("Unique", "UniqueWithCounts", fresh=True)
@also_strings("Unique", "UniqueWithCounts")
def unique(node: KernelNode) -> Callable:
    """Distinct elements in the order of their first occurrence."""
    xp, dtype, counted = node.xp, node.np_dtype(1), len(node.output_dtypes) == 3

    def run(x: Any) -> tuple:
        if x.ndim != 1:
            raise invalid("unique expects a 1D vector.")
        first, group = _in_order(xp, x, dtype)
        outputs = x[first], group
        if not counted:
            return outputs
        return *outputs, xp.bincount(group, minlength=len(first)).astype(dtype)

    return run


def _in_order(xp: Any, x: Any, dtype: np.dtype) -> tuple:
    """The first position of every distinct element, in this order, and for each element the number
    of the one that it equals, of `dtype`."""
    keys = _keys(x) if xp is np else None
    found = None if keys is None else array_loops.find(
        _DISTINCT, [keys], [(1, np.int64), (1, dtype), (1, np.int64), (1, np.int64)],
        least=tuning.PARTITION_FEW)
    if found is None or found.function is None:
        return compiling.timed(found, lambda: _in_order_by_sorting(xp, x, dtype))
    first, group, state = np.empty(len(x), np.int64), np.empty(len(x), dtype), np.zeros(2, np.int64)
    size = tuning.PARTITION_LEAST_TABLE
    while not found.function(keys, first, group, np.zeros(size, np.int64), state):
        size *= 4
    return first[: state[1]], group


def _in_order_by_sorting(xp: Any, x: Any, dtype: np.dtype) -> tuple:
    first, group = _groups(xp, x)
    order = xp.argsort(first)
    place = xp.empty(len(order), np.int64)
    place[order] = xp.arange(len(order))
    return first[order], place[group].astype(dtype)


def _keys(x: np.ndarray) -> np.ndarray | None:
    """Unsigned numbers that are equal where the elements are; None if there are none such."""
    if x.dtype.kind in "iub":
        return array_loops.words(np.ascontiguousarray(x))
    if x.dtype.kind != "f" or np.isnan(x).any():
        return None
    return array_loops.words(x + x.dtype.type(0))  # -0 becomes 0


# A table of the numbers of elements, each at the first free place from that of its hash on. Where
# it is half full the loop returns False, to be given a larger one; ``state`` are the elements that
# are done, and the distinct ones among them.
_DISTINCT = """
def loop(keys, first, group, table, state):
    shift, step, size = np.uint64(64), np.uint64(1), table.size
    while size > 1:
        shift -= step
        size >>= 1
    count = state[1]
    for k in range(count):
        place = (np.uint64(keys[first[k]]) * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[place] != 0:
            place = (place + step) & np.uint64(table.size - 1)
        table[place] = k + 1
    for i in range(state[0], keys.size):
        if 2 * count >= table.size:
            state[0], state[1] = i, count
            return False
        key = keys[i]
        place = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[place] != 0 and keys[first[table[place] - 1]] != key:
            place = (place + step) & np.uint64(table.size - 1)
        if table[place] == 0:
            first[count] = i
            count += 1
            table[place] = count
        group[i] = table[place] - 1
    state[1] = count
    return True
"""


def _groups(xp: Any, x: Any) -> tuple:
    """The groups of equal elements in sorted order: the first position of each, and for each
    element its group. Every NaN is a group of its own."""
    order = stable_order(xp, x)
    ordered = x[order]
    starts = xp.ones(len(x), bool)
    xp.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    group = xp.empty(len(x), np.intp)
    group[order] = xp.cumsum(starts) - 1
    return order[starts], group


@kernel("ListDiff", fresh=True)
@also_strings("ListDiff")
def list_diff(node: KernelNode) -> Callable:
    """The elements of the first vector that the second lacks, with their positions."""
    xp, dtype = node.xp, node.np_dtype(1)

    def run(x: Any, y: Any) -> tuple:
        for name, value in (("x", x), ("y", y)):
            if value.ndim != 1:
                raise invalid(f"{name} should be a 1D vector.")
        if x.dtype == object:
            there = set(y.tolist())
            keep = np.array([v not in there for v in x.tolist()], dtype=bool)
        else:
            keep = ~xp.isin(x, y)
        positions = xp.flatnonzero(keep)
        return x[positions], positions.astype(dtype)

    return run


# ---------------------------------------------------------------- DynamicPartition


@kernel("DynamicPartition", fresh=True)
@also_strings("DynamicPartition")
def dynamic_partition(node: KernelNode) -> Callable:
    """One selection for each part."""
    xp, number = node.xp, node.attr("num_partitions")

    def run(data: Any, partitions: Any) -> Any:
        rank = partitions.ndim
        if data.shape[:rank] != partitions.shape:
            raise invalid("data.shape must start with partitions.shape, got data.shape = "
                          f"{shown(data)}, partitions.shape = {shown(partitions)}")
        check_rows(xp, partitions, number, what="partitions")
        rows = data.reshape((partitions.size, *data.shape[rank:]))
        flat = partitions.reshape(-1)
        parts = tuple([rows[flat == i] for i in range(number)])
        return parts[0] if number == 1 else parts

    return run


# ---------------------------------------------------------------- DynamicStitch


@kernel("DynamicStitch", fresh=True)
@also_strings("DynamicStitch")
def dynamic_stitch(node: KernelNode) -> Callable:
    """Rows written in the order of the inputs; those that nothing is written to are zero."""
    xp, number = node.xp, node.attr("N")
    dtype = node.np_dtype()
    empty: Any = b"" if dtype.kind == "O" else 0

    def run(*inputs: Any) -> Any:
        indices, data = inputs[:number], inputs[number:]
        rest = _row_shape(indices, data)
        rows = 1 + max((int(i.max()) for i in indices if i.size), default=-1)
        out = xp.full((rows, *rest), empty, dtype)
        for n, (index, value) in enumerate(zip(indices, data)):
            check_rows(xp, index, rows, "= {} is out of range [0, {})", f"indices[{n}]")
            where, values = index.reshape(-1), value.reshape((index.size, *rest))
            if xp is np:  # the last of equal rows stays
                out[where] = values
            else:
                repeated_rows.put(xp, out, where, values)
        return out

    return run


def _row_shape(indices: tuple, data: tuple) -> tuple:
    """The shape of a row, which all pieces share."""
    rest = data[0].shape[indices[0].ndim :]
    for n, (index, value) in enumerate(zip(indices, data)):
        if value.shape != index.shape + rest:
            raise invalid(f"Need data[{n}].shape to be indices[{n}].shape {shown(index)} "
                          f"followed by {shown(rest)}, got {shown(value)}")
    return rest
