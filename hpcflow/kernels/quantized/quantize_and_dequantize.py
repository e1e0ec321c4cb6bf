"""Kernels of later op types that round to integers and back, with one range or one per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4",
        fresh=True, host_inputs=(1, 2, 3))
def _quantize_and_dequantize(node: KernelNode) -> Callable:
    xp, axis, given = node.xp, node.attr("axis"), node.attr("range_given")
    signed, narrow = node.attr("signed_input"), node.attr("narrow_range")
    half_up = node.attr("round_mode") == b"HALF_UP"
    fixed_bits = node.attr("num_bits")

    def run(x: Any, low: Any, high: Any, bits: Any = fixed_bits) -> Any:
        if np.ndim(bits) or not 1 <= bits <= 62 or signed and bits < 2:
            raise invalid(f"num_bits must be between {1 + signed} and 62, got {bits}")
        rows = _Channels(xp, x, axis)
        if given:
            if not (np.asarray(low) <= np.asarray(high)).all():
                raise invalid(f"Invalid range: input_min {np.ravel(low).tolist()} > input_max "
                              f"{np.ravel(high).tolist()}")
            lows, highs = rows.check(low, "input_min"), rows.check(high, "input_max")
        elif not x.size:
            return x.copy()
        else:
            lows, highs = rows.extremes()
        scale, inverse, lows, highs = _levels(xp, lows, highs, int(bits), signed, narrow)
        scaled = (xp.clip(x, lows, highs) if given else x) * scale
        rounded = xp.floor(scaled + x.dtype.type(0.5)) if half_up else xp.rint(scaled)
        return (rounded * inverse).astype(x.dtype)

    return run


class _Channels:
    """An array, as a whole or (from axis 0 on) place by place along an axis."""

    def __init__(self, xp: Any, x: Any, axis: int) -> None:
        if axis >= x.ndim:
            raise invalid(f"axis {axis} is not one of the dimensions of {shown(x)}")
        self._xp = xp
        self._x = x
        self._dims = () if axis < 0 else (x.shape[axis],)
        self._spread = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
        self._others = tuple(i for i in range(x.ndim) if i != axis)

    def check(self, value: Any, name: str) -> Any:
        """A bound, so that it broadcasts against the array."""
        if np.shape(value) != self._dims:
            raise invalid(f"{name} must have shape {shown(self._dims)}, got "
                          f"{shown(np.shape(value))}")
        return self._xp.asarray(value).reshape(self._spread)

    def extremes(self) -> tuple[Any, Any]:
        """The least and the greatest number of each channel."""
        return (self._x.min(self._others, keepdims=True), self._x.max(self._others, keepdims=True))


def _levels(xp: Any, low: Any, high: Any, bits: int, signed: bool, narrow: bool) -> tuple:
    """(integers per unit, units per integer, lower bound, upper bound), with 0 at the integer 0."""
    dtype = low.dtype.type
    least = dtype(-(1 << (bits - 1)) + narrow if signed else 0)
    most = dtype((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    largest = dtype(ml_dtypes.finfo(low.dtype).max)
    with np.errstate(all="ignore"):
        below = xp.where(least * low > 0, least / low, largest)
        above = xp.where(most * high > 0, most / high, largest)
        from_below = below < above
        inverse = xp.where(from_below, low / least, high / most)
    return (xp.where(from_below, below, above), inverse,
            xp.where(from_below, low, least * inverse),
            xp.where(from_below, most * inverse, high))


@kernel("QuantizeAndDequantizeV4Grad", fresh=True)
def _gradient(node: KernelNode) -> Callable:
    """Return the gradient: `grad` where `x` is in the range, 0 elsewhere, and 0 for the range."""
    xp, axis = node.xp, node.attr("axis")

    def run(grad: Any, x: Any, low: Any, high: Any) -> tuple:
        if grad.shape != x.shape:
            raise invalid(f"gradients {shown(grad)} and input {shown(x)} must have one shape")
        rows = _Channels(xp, x, axis)
        inside = (x >= rows.check(low, "input_min")) & (x <= rows.check(high, "input_max"))
        return (xp.where(inside, grad, grad.dtype.type(0))[()], xp.zeros_like(low)[()],
                xp.zeros_like(high)[()])

    return run
