"""Kernels that quantize, dequantize, and pretend to (fake quantization)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.quantized_numbers import (
    bounds_of,
    number,
    to_float,
    to_quantized,
    widened,
)
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_LEVELS = 255  # fake quantization is to 8 bits


@kernel("QuantizeV2", device="CPU", fresh=True)
def _quantize(node: KernelNode) -> Callable:
    dtype, mode = node.output_dtypes[0].np, node.attr("mode")
    bounds = bounds_of(dtype)
    half = (bounds.steps / 2) if bounds.lowest < 0 else 0

    def run(x: Any, low: Any, high: Any) -> tuple:
        first, last = number(low, "min_range"), number(high, "max_range")
        if first > last:
            raise invalid(f"max_range must be larger than min_range, but they are {last} and "
                          f"{first}")
        first, last = widened(first, last)
        if mode == b"MIN_FIRST":
            found = to_quantized(x, first, last, dtype)
        else:
            scale = (bounds.highest - bounds.lowest) / (last - first)
            scaled = (np.clip(np.asarray(x, np.float64), first, last) - first) * scale
            # Halves are rounded away from zero.
            rounded = _away(scaled - half) if half else np.floor(scaled + 0.5)
            found = np.clip(rounded, bounds.lowest, bounds.highest).astype(dtype)
        return found, np.float32(first), np.float32(last)

    return run


def _away(x: np.ndarray) -> np.ndarray:
    """The nearest integers, of two the one farther from zero."""
    return np.trunc(x + np.copysign(0.5, x))


@kernel("Dequantize", device="CPU", fresh=True)
def _dequantize(node: KernelNode) -> Callable:
    mode = node.attr("mode")

    def run(x: Any, low: Any, high: Any) -> Any:
        first, last = number(low, "min_range"), number(high, "max_range")
        if mode == b"MIN_FIRST":
            return to_float(x, first, last).astype(np.float32)
        bounds = bounds_of(x.dtype)
        half = (bounds.steps / 2) if bounds.lowest < 0 else 0
        step = (last - first) / (bounds.highest - bounds.lowest)
        return ((x.astype(np.float64) + half) * step + first).astype(np.float32)

    return run


@kernel("QuantizeAndDequantize", device="CPU", fresh=True)
def _quantize_and_dequantize(node: KernelNode) -> Callable:
    signed, bits, given = node.attr("signed_input"), node.attr("num_bits"), node.attr("range_given")
    low_attr, high_attr = node.attr("input_min"), node.attr("input_max")
    if not 1 <= bits <= 62:
        raise invalid(f"num_bits must be between 1 and 62, but is {bits}")
    if given and low_attr > high_attr:
        raise invalid(f"input_min {low_attr} is larger than input_max {high_attr}")
    least = -(1 << (bits - 1)) if signed else 0
    most = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1

    def run(x: Any) -> Any:
        if not x.size:
            return x.copy()
        low, high = (low_attr, high_attr) if given else (float(x.min()), float(x.max()))
        scale, low, high = _symmetric(low, high, least, most)
        if not np.isfinite(scale) or not scale:
            return x.copy()
        clipped = np.clip(x, low, high) if given else x
        return (np.rint(clipped * scale) / scale).astype(x.dtype)

    return run


def _symmetric(low: float, high: float, least: int, most: int) -> tuple[float, float, float]:
    """(integers per unit, the range that they reach) with 0 at the integer 0."""
    below = least / low if least * low > 0 else np.inf
    above = most / high if most * high > 0 else np.inf
    if below < above:
        return below, low, most / below
    return above, (least / above if np.isfinite(above) else low), high


# ---------------------------------------------------------------- fake quantization


class _Levels:
    """The integers that a fake quantization rounds to: the lowest and the highest."""

    def __init__(self, node: KernelNode) -> None:
        self.xp = node.xp
        bits = node.attr("num_bits")
        if not 2 <= bits <= 16:
            raise invalid(f"num_bits must be between 2 and 16, inclusive, but is {bits}")
        self.first = np.float32(1 if node.attr("narrow_range") else 0)
        self.last = np.float32(2**bits - 1)

    def nudged(self, low: Any, high: Any) -> tuple[Any, Any, Any]:
        """(low, high, step) with 0 exactly at one of the levels."""
        xp = self.xp
        low, high = xp.asarray(low, np.float32), xp.asarray(high, np.float32)
        with np.errstate(all="ignore"):
            step = (high - low) / (self.last - self.first)
            place = self.first - low / step
            zero = xp.clip(xp.floor(place + np.float32(0.5)), self.first, self.last)
        zero = zero.astype(np.float32)
        return (self.first - zero) * step, (self.last - zero) * step, step

    def fake(self, x: Any, low: Any, high: Any) -> Any:
        """`x` rounded to the levels."""
        xp = self.xp
        first, last, step = self.nudged(low, high)
        with np.errstate(all="ignore"):
            shifted = xp.clip(x, first, last) - first
            y = xp.floor(shifted * (np.float32(1) / step) + np.float32(0.5)) * step + first
        return xp.where(step == 0, np.float32(0), y).astype(np.float32)

    def passes(self, grads: Any, x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        """Where the gradient goes: to the input, to the minimum, to the maximum."""
        xp = self.xp
        first, last, step = self.nudged(low, high)
        flat = step == 0
        below, above = xp.logical_and(x < first, ~flat), xp.logical_and(x > last, ~flat)
        inside = xp.logical_and(~below, ~above)
        zero = np.float32(0)
        return (xp.where(inside, grads, zero), xp.where(below, grads, zero),
                xp.where(above, grads, zero))

    def bounds(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Two scalars; on a device they stay there."""
        if self.xp is np:
            return number(low, "min"), number(high, "max")
        for value, name in ((low, "min"), (high, "max")):
            if value.ndim:
                raise invalid(f"{name} must be a scalar, got shape {shown(value)}")
        return low, high


def _fixed_range(node: KernelNode) -> tuple[float, float]:
    low, high = node.attr("min"), node.attr("max")
    if not low < high:
        raise invalid(f"min has to be smaller than max, but they are {low} and {high}")
    return low, high


@kernel("FakeQuantWithMinMaxArgs", fresh=True)
def _fake_args(node: KernelNode) -> Callable:
    levels, (low, high) = _Levels(node), _fixed_range(node)
    return lambda x: levels.fake(x, low, high)


@kernel("FakeQuantWithMinMaxArgsGradient", fresh=True)
def _fake_args_gradient(node: KernelNode) -> Callable:
    levels, (low, high) = _Levels(node), _fixed_range(node)

    def run(grads: Any, x: Any) -> Any:
        _check_same(grads, x)
        return levels.passes(grads, x, low, high)[0]

    return run


def _check_same(grads: Any, x: Any) -> None:
    if grads.shape != x.shape:
        raise invalid(f"gradients and inputs must have one shape, but have {shown(grads)} and "
                      f"{shown(x)}")


@kernel("FakeQuantWithMinMaxVars", fresh=True)
def _fake_vars(node: KernelNode) -> Callable:
    levels = _Levels(node)

    def run(x: Any, low: Any, high: Any) -> Any:
        return levels.fake(x, *levels.bounds(low, high))

    return run


@kernel("FakeQuantWithMinMaxVarsGradient", fresh=True)
def _fake_vars_gradient(node: KernelNode) -> Callable:
    levels = _Levels(node)

    def run(grads: Any, x: Any, low: Any, high: Any) -> tuple:
        _check_same(grads, x)
        inside, below, above = levels.passes(grads, x, *levels.bounds(low, high))
        return inside, below.sum(dtype=np.float32), above.sum(dtype=np.float32)

    return run


def _check_channels(x: Any, low: Any, high: Any) -> None:
    if not x.ndim >= 1:
        raise invalid("inputs must have at least one dimension")
    for value, what in ((low, "min"), (high, "max")):
        if np.shape(value) != x.shape[-1:]:
            raise invalid(f"{what} has incorrect size: expected [{x.shape[-1]}], got "
                          f"{shown(np.shape(value))}")


@kernel("FakeQuantWithMinMaxVarsPerChannel", fresh=True)
def _fake_channels(node: KernelNode) -> Callable:
    levels = _Levels(node)

    def run(x: Any, low: Any, high: Any) -> Any:
        _check_channels(x, low, high)
        return levels.fake(x, low, high)

    return run


@kernel("FakeQuantWithMinMaxVarsPerChannelGradient", fresh=True)
def _fake_channels_gradient(node: KernelNode) -> Callable:
    levels = _Levels(node)

    def run(grads: Any, x: Any, low: Any, high: Any) -> tuple:
        _check_same(grads, x)
        _check_channels(x, low, high)
        inside, below, above = levels.passes(grads, x, low, high)
        axes = tuple(range(x.ndim - 1))
        return inside, below.sum(axes, dtype=np.float32), above.sum(axes, dtype=np.float32)

    return run
