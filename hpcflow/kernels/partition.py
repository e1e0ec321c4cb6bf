"""Kernels of sets and partitions: Unique, ListDiff, DynamicPartition and DynamicStitch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.indices import check_rows, stable_order
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.strings import also_strings

# ---------------------------------------------------------------- Unique, ListDiff


@kernel("Unique", "UniqueWithCounts", fresh=True)
@also_strings("Unique", "UniqueWithCounts")
def unique(node: KernelNode) -> Callable:
    """Distinct elements in the order of their first occurrence."""
    xp, dtype, counted = node.xp, node.np_dtype(1), len(node.output_dtypes) == 3

    def run(x: Any) -> tuple:
        if x.ndim != 1:
            raise invalid("unique expects a 1D vector.")
        first, group = _groups(xp, x)
        order = xp.argsort(first)
        place = xp.empty(len(order), dtype)
        place[order] = xp.arange(len(order), dtype=dtype)
        outputs = x[first[order]], place[group]
        return (*outputs, xp.bincount(group)[order].astype(dtype)) if counted else outputs

    return run


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
            out[index.reshape(-1)] = value.reshape((index.size, *rest))
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
