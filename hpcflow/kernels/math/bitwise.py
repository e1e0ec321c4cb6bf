"""Integers bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.compiled import integer_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown, ufunc

for _op_type, _name in (("Invert", "invert"), ("BitwiseAnd", "bitwise_and"),
                        ("BitwiseOr", "bitwise_or"), ("BitwiseXor", "bitwise_xor")):
    ufunc(_op_type, _name)


@kernel("LeftShift", "RightShift", fresh=True, elementwise=True)
def _shift(node: KernelNode) -> Any:
    """By at most the width less one, as shifts by more are not defined."""
    xp, dtype = node.xp, node.np_dtype()
    shift = xp.left_shift if node.op_type == "LeftShift" else xp.right_shift
    largest = dtype.type(dtype.itemsize * 8 - 1)

    def run(x: Any, y: Any, out: Any = None) -> Any:
        return shift(x, xp.clip(y, dtype.type(0), largest), out=out)

    sign = "<<" if node.op_type == "LeftShift" else ">>"
    return run if xp is not np else integer_loops.with_loop(
        run, f"X {sign} min(max(Y, 0), {largest})")


@kernel("PopulationCount", device="CPU", fresh=True)
def _population_count(node: KernelNode) -> Callable:
    def run(x: Any) -> Any:
        array = np.ascontiguousarray(x)
        parts = array.reshape(-1, 1).view(np.uint8)
        return np.unpackbits(parts, axis=1).sum(1, dtype=np.uint8).reshape(np.shape(x))[()]

    return run


@kernel("PopulationCount", device="GPU", fresh=True)
def _population_count_there(node: KernelNode) -> Callable:
    """The counts of two bits, of four and so on are added up side by side."""
    xp, whole = node.xp, np.dtype(f"u{node.input_dtypes[0].size}")
    masks = [(shift, whole.type(sum(((1 << shift) - 1) << at for at in range(
        0, 8 * whole.itemsize, 2 * shift)))) for shift in (1, 2, 4, 8, 16, 32)
        if shift < 8 * whole.itemsize]

    def run(x: Any) -> Any:
        counts = x.view(whole)
        for shift, mask in masks:
            counts = (counts & mask) + (xp.right_shift(counts, whole.type(shift)) & mask)
        return counts.astype(np.uint8)

    return run


@kernel("CompareAndBitpack", fresh=True)
def _compare_and_bitpack(node: KernelNode) -> Callable:
    """Bits of elements above a threshold, the first of eight the highest of a byte."""
    xp = node.xp

    def run(x: Any, threshold: Any) -> Any:
        if np.ndim(threshold):
            raise invalid(f"Compare must be a scalar, but has shape {shown(threshold)}")
        if not np.ndim(x) or x.shape[-1] % 8:
            raise invalid("The last dimension of input must be a multiple of 8, but its shape is "
                          f"{shown(x)}")
        bits = x > threshold
        return np.packbits(bits, axis=-1) if xp is np else xp.packbits(bits).reshape(
            *x.shape[:-1], -1)

    return run
