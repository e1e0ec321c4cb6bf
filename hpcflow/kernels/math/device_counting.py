"""Places in sorted rows, buckets, counts and histograms, on devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels import late_errors
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("LowerBound", "UpperBound", fresh=True)
def _bound(node: KernelNode) -> Any:
    xp, dtype = node.xp, node.np_dtype()
    side = "left" if node.op_type == "LowerBound" else "right"

    def run(rows: Any, values: Any) -> Any:
        if rows.ndim != 2 or values.ndim != 2 or len(rows) != len(values):
            raise invalid(f"both inputs must be matrices with as many rows, got "
                          f"{shown(rows)} and {shown(values)}")
        if not values.size:
            return xp.zeros(values.shape, dtype)
        found = [xp.searchsorted(rows[i], values[i], side=side) for i in range(len(rows))]
        return xp.stack(found).astype(dtype)

    return run


@kernel("Bucketize", fresh=True)
def _bucketize(node: KernelNode) -> Any:
    xp, limits = node.xp, np.array(node.attr("boundaries"), np.float32)
    if (np.diff(limits) < 0).any():
        raise invalid(f"Expected sorted boundaries, got {limits.tolist()}")
    # NumPy compares float32 limits with wide numbers in the wider type.
    on_device = xp.asarray(limits.astype(np.float64))
    return lambda x: xp.searchsorted(
        on_device, x.astype(np.float64).reshape(-1), side="right").astype(
            np.int32).reshape(x.shape)


def check_nth(x: Any, n: Any) -> int:
    """Return the size of the last dimension, of which `n` is a position.

    Raises ``InvalidArgumentError`` for anything else.
    """
    if np.ndim(n):
        raise invalid(f"n must be scalar, got shape {shown(np.shape(n))}")
    if not x.ndim:
        raise invalid("Input must be >= 1-D, got a scalar")
    if n < 0:
        raise invalid(f"Need n >= 0, got {int(n)}")
    if n >= x.shape[-1]:
        raise invalid(f"Input must have at least n+1 columns: n is {int(n)}, the input has "
                      f"{x.shape[-1]}")
    return x.shape[-1]


@kernel("NthElement", fresh=True, host_inputs=(1,))
def _nth_element(node: KernelNode) -> Callable:
    xp, backwards = node.xp, node.attr("reverse")

    def run(x: Any, n: Any) -> Any:
        size = check_nth(x, n)
        return xp.sort(x, axis=-1)[..., size - 1 - int(n) if backwards else int(n)]

    return run


@kernel("HistogramFixedWidth", fresh=True, host_inputs=(1, 2))
def _histogram(node: KernelNode) -> Any:
    xp, dtype = node.xp, node.np_dtype()

    def run(values: Any, limits: Any, count: Any) -> Any:
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise invalid("value_range should be a vector of 2 elements, increasing numbers, got "
                          f"{limits.tolist()}")
        if count <= 0:
            raise invalid(f"nbins should be a positive number, got {int(count)}")
        low, high = float(limits[0]), float(limits[1])
        place = (values.reshape(-1).astype(np.float64) - low) * (int(count) / (high - low))
        late_errors.note(xp, xp.isnan(place).any(), lambda: invalid(
            "the values of a histogram must be numbers, got a NaN"))
        place = xp.clip(xp.nan_to_num(place), 0, int(count) - 1).astype(np.int64)
        out = xp.zeros(int(count), np.int64)
        repeated_rows.combine(xp, "add", out, place, xp.ones(place.size, np.int64))
        return out.astype(dtype)

    return run


@kernel("DenseBincount", "Bincount", fresh=True, host_inputs=(1,))
def _bincount(node: KernelNode) -> Any:
    xp, dtype, binary = node.xp, node.np_dtype(), bool(node.attr("binary_output"))
    by_rows = node.op_type == "DenseBincount"

    def run(values: Any, size: Any, weights: Any) -> Any:
        if weights.size and weights.shape != values.shape:
            raise invalid(f"weights must have shape {shown(values)}, got {shown(weights)}")
        if size < 0:
            raise invalid("values and size must be non-negative")
        late_errors.note(xp, (values < 0).any(), lambda: invalid(
            "values and size must be non-negative"))
        bins, rows = int(size), len(values) if by_rows and values.ndim == 2 else 1
        flat = values.reshape(rows, values.size // max(rows, 1))
        # What is out of range is counted in a bin more, which is dropped.
        wanted = xp.where((flat < 0) | (flat >= bins), bins, flat).astype(np.int64)
        places = (wanted + xp.arange(rows)[:, None] * (bins + 1)).reshape(-1)
        out = xp.zeros(rows * (bins + 1), dtype)
        if binary:
            out[places] = 1
        else:
            amounts = weights.reshape(-1) if weights.size else xp.ones(places.size, dtype)
            repeated_rows.combine(xp, "add", out, places, amounts)
        out = out.reshape(rows, bins + 1)[:, :bins]
        return xp.ascontiguousarray(out if by_rows and values.ndim == 2 else out[0])

    return run
