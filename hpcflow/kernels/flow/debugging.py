"""Kernels that look at values for a debugger."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel


def _check_numbers(node: KernelNode, also_bool: bool) -> None:
    dtype = node.input_dtypes[0].base_dtype
    if not (dtype.is_floating or dtype.is_integer or (also_bool and dtype.is_bool)):
        raise invalid(f"{node.op_type} takes real numbers, got {dtype.name}")


@kernel("DebugNanCount", fresh=True)
def _nan_count(node: KernelNode) -> Callable:
    _check_numbers(node, also_bool=True)
    xp = node.xp
    return lambda values: xp.isnan(values).sum(dtype=np.int64).reshape(1)


@kernel("DebugNumericSummary", device="CPU", fresh=True)
def _summary(node: KernelNode) -> Callable:
    """Initialized, size, then how many are NaN, -inf, negative, zero, positive, +inf; then the
    least, the largest, the mean and the variance of those that are finite."""
    _check_numbers(node, also_bool=True)
    return _summarize


def _summarize(values: Any) -> np.ndarray:
    numbers = np.asarray(values).astype(np.float64).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    counts = [1, numbers.size, np.isnan(numbers).sum(), (numbers == -np.inf).sum(),
              (finite < 0).sum(), (finite == 0).sum(), (finite > 0).sum(),
              (numbers == np.inf).sum()]
    measures = [np.inf, -np.inf, np.nan, np.nan]
    if finite.size:
        measures = [finite.min(), finite.max(), finite.mean(), finite.var()]
    return np.array(counts + measures, np.float64)


@kernel("Timestamp", fresh=True, host_outputs=(0,))
def _timestamp(node: KernelNode) -> Callable:
    return lambda: np.float64(time.time())
