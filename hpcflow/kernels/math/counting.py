"""Counts of equal integers, and histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import compiling


@kernel("HistogramFixedWidth", device="CPU", fresh=True)
def _histogram(node: KernelNode) -> Any:
    dtype = node.np_dtype()

    def run(values: Any, limits: Any, count: Any) -> Any:
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise invalid("value_range should be a vector of 2 elements, increasing numbers, got "
                          f"{limits.tolist()}")
        if count <= 0:
            raise invalid(f"nbins should be a positive number, got {int(count)}")
        low, values = float(limits[0]), np.ravel(values)
        line = np.array([low, int(count) / (float(limits[1]) - low)])
        return _counted(_HISTOGRAM, [values, line], int(count),
                        lambda: by_arrays(values, line[0], line[1], int(count))).astype(dtype)

    def by_arrays(values: Any, low: float, scale: float, count: int) -> Any:
        place = (values.astype(np.float64) - low) * scale
        if np.isnan(place).any():
            raise invalid("the values of a histogram must be numbers, got a NaN")
        return np.bincount(np.clip(place, 0, count - 1).astype(np.int64), minlength=count)

    return run


# Values from `line[0]` on, `line[1]` bins to one.
_HISTOGRAM = """
def loop(values, line, out):
    low, scale, last = line[0], line[1], np.float64(out.size - 1)
    for i in range(values.size):
        place = (np.float64(values[i]) - low) * scale
        if place != place:
            return False
        out[np.uint64(min(max(place, 0.0), last))] += 1
    return True
"""


def _counted(source: str, given: list, size: int, compute: Callable[[], Any]) -> Any:
    """`size` counts by a loop, or ``compute()`` where there is none, or where it returns False."""
    found = array_loops.find(source, given, [(1, np.int64)])
    if found is not None and found.function is not None:
        out = np.zeros(size, np.int64)
        if found.function(*given, out):
            return out
    return compiling.timed(found, compute)


@kernel("DenseBincount", "Bincount", device="CPU", fresh=True)
def _bincount(node: KernelNode) -> Any:
    dtype, binary = node.np_dtype(), bool(node.attr("binary_output"))
    by_rows = node.op_type == "DenseBincount"

    def run(values: Any, size: Any, weights: Any) -> Any:
        if weights.size and weights.shape != values.shape:
            raise invalid(f"weights must have shape {shown(values)}, got "
                          f"{shown(weights)}")
        is_plain = not (weights.size or binary or by_rows and values.ndim == 2)
        if size < 0 or not is_plain:
            return by_arrays(values, size, weights)
        return _counted(_BINCOUNT, [np.ravel(values)], int(size),
                        lambda: by_arrays(values, size, weights)).astype(dtype)

    def by_arrays(values: Any, size: Any, weights: Any) -> Any:
        if size < 0 or values.size and values.min() < 0:
            raise invalid("values and size must be non-negative")
        if by_rows and values.ndim == 2:
            filled = weights if weights.size else [weights] * len(values)
            rows = [count(v, int(size), w) for v, w in zip(values, filled, strict=True)]
            return np.array(rows, dtype).reshape(len(values), int(size))
        return count(values, int(size), weights)

    def count(values: Any, size: int, weights: Any) -> Any:
        values = np.ravel(values)
        kept = values < size
        if not weights.size and not binary:
            return np.bincount(values[kept], minlength=size).astype(dtype)
        out = np.zeros(size, dtype)
        if binary:
            out[values[kept]] = 1
        else:
            np.add.at(out, values[kept], np.ravel(weights)[kept])
        return out

    return run


_BINCOUNT = """
def loop(values, out):
    for i in range(values.size):
        value = np.int64(values[i])
        if value < 0:
            return False
        if value < out.size:
            out[np.uint64(value)] += 1
    return True
"""
