"""Conversions between quantized integers and real numbers, shared by all quantized kernels.

A tensor of a quantized type comes with the range [low, high] of the floats that its integers stand
for. Two schemes exist: *linear* steps between the lowest and the highest integer, as the quantized
ops on networks use them, and that of fake quantization, whose range is nudged so that 0 is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.registry import invalid, shown


class Bounds(NamedTuple):
    """The integers of a quantized type."""

    lowest: int
    highest: int

    @property
    def steps(self) -> int:
        """The number of integers in the range."""
        return self.highest - self.lowest + 1


def bounds_of(dtype: Any) -> Bounds:
    """The integers of a NumPy dtype."""
    info = np.iinfo(dtype)
    return Bounds(int(info.min), int(info.max))


def number(value: Any, what: str) -> float:
    """A scalar input, as a Python float."""
    array = np.asarray(value)
    if array.size != 1:
        raise invalid(f"{what} must be a scalar, but has shape {shown(array)}")
    return float(array.reshape(()))


def one_level(bounds: Bounds, low: float, high: float) -> np.float32:
    """Return the float difference between two adjacent integers of the scheme.

    In float32, as the ranges of products are in other runtimes: those are millions of times the
    values that are there, so a last bit of them is seen in what is requantized.
    """
    return (np.float32(high) - np.float32(low)) / np.float32(bounds.highest - bounds.lowest)


def _scale(bounds: Bounds, low: float, high: float) -> float:
    """Return the number of integers per unit."""
    steps, width = bounds.steps, np.float32(high) - np.float32(low)
    return steps / (float(width) * (steps / (steps - 1.0)))


def _round(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def to_quantized(values: Any, low: float, high: float, dtype: Any) -> Any:
    """The integers for float `values`, kept within those of `dtype`."""
    bounds = bounds_of(dtype)
    values = np.asarray(values, np.float64)
    if low == high:
        return np.full(values.shape, bounds.lowest, dtype)
    found = _unclamped(values, low, high, bounds)
    return np.clip(found, bounds.lowest, bounds.highest).astype(dtype)


def zero_point(low: float, high: float, dtype: Any) -> int:
    """The integer that stands for 0, which may lie outside those of the type."""
    bounds = bounds_of(dtype)
    return bounds.lowest if low == high else int(_unclamped(np.float64(0.0), low, high, bounds))


def _unclamped(values: Any, low: float, high: float, bounds: Bounds) -> Any:
    scale = _scale(bounds, low, high)
    return _round(values * scale) - _round(np.float64(low) * scale) + bounds.lowest


def to_float(values: Any, low: float, high: float) -> Any:
    """The float64 numbers that the integers `values` stand for."""
    bounds = bounds_of(values.dtype)
    if low == high:
        return np.full(np.shape(values), low, np.float64)
    step = 1.0 / _scale(bounds, low, high)
    first = _round(np.float64(low) / step) * step
    return first + (values.astype(np.float64) - bounds.lowest) * step


def rounded_to_float(values: Any, low: float, high: float) -> Any:
    """As :func:`to_float`, but float32 numbers whose range begins where other runtimes have it,
    which round that in float32."""
    bounds = bounds_of(values.dtype)
    if low == high:
        return np.full(np.shape(values), low, np.float32)
    step = 1.0 / _scale(bounds, low, high)
    single = np.float32(step)
    first = _round(np.float32(low) / single) * single
    return (first + (values.astype(np.float64) - bounds.lowest) * step).astype(np.float32)


def requantized(values: Any, before: tuple[float, float], after: tuple[float, float],
                dtype: Any) -> Any:
    """The integers of type `dtype` in the range `after` of integers in the range `before`.

    From 32 to 8 bits in fixed-point numbers with 16 bits behind the point, as other runtimes do
    it, where those fit 64 bits: the last bit of the results is theirs.
    """
    low, high, least, most = map(np.float32, (*before, *after))
    width = float(most - least)
    with np.errstate(all="ignore"):  # in float32 and float64 as they have it
        scale = np.float64(255.0 * (1 << 16) * float(high - low)) / width
        per_unit = np.float32(np.float64(255.0) / width)
        middle = (low + high) / np.float32(2) * per_unit * np.float32(1 << 16)
        begin = np.float64((1 << 16) * (float(least) * 255.0)) / width
    largest = max(-int(values.min()), int(values.max())) if values.size else 0
    fits = max(abs(scale) * (largest + 1), abs(middle), abs(begin)) < 1 << 62
    if (values.dtype, np.dtype(dtype)) != (np.int32, np.uint8) or not fits:
        return to_quantized(to_float(values, *before), *after, dtype)
    moved = (values.astype(np.int64) * int(scale) >> 32) + (int(middle) - int(begin) + (1 << 15))
    return np.clip(moved >> 16, 0, 255).astype(np.uint8)


def product_range(a: tuple[Any, float, float], b: tuple[Any, float, float],
                  out: Any) -> tuple[np.float32, np.float32]:
    """The range of integers of type `out` whose step is the product of the steps of two inputs,
    each given as (dtype, low, high)."""
    step = one_level(bounds_of(a[0]), *a[1:]) * one_level(bounds_of(b[0]), *b[1:])
    bounds = bounds_of(out)
    return step * np.float32(bounds.lowest), step * np.float32(bounds.highest)


def widened(low: float, high: float) -> tuple[float, float]:
    """A range that contains 0 and is not empty, for quantizing to it."""
    least = min(0.0, low)
    margin = max(1.0, abs(low), abs(high)) / 100.0
    return least, max(0.0, high, least + margin)
