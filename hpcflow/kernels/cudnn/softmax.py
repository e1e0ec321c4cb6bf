"""Softmax over rows by cuDNN."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.registry import KernelNode, find_kernel, kernel

_ACCURATE, _LOG, _OVER_CHANNELS = 1, 2, 1
_TYPES = {"T": ("float16", "float32", "float64")}


@functools.lru_cache(maxsize=256)
def _call(lib: Any, algorithm: int, rows: int, columns: int, dtype: np.dtype) -> Callable:
    """(x, y): the function for a matrix of this size."""
    (one, zero), matrix = c.scales(dtype), c.tensor(lib, (rows, 1, 1, columns), dtype)
    return lib.prepare("SoftmaxForward", algorithm, _OVER_CHANNELS, one, matrix, c.ARRAY, zero,
                       matrix, c.ARRAY)


@kernel("Softmax", "LogSoftmax", device="GPU", types=_TYPES, fresh=True)
def softmax(node: KernelNode) -> Callable:
    """The exponentials of each row, divided by their sum; or the logarithms of that."""
    plain: Any = find_kernel(node.op_type, "any other", node.attrs)
    simple, lib, xp = plain.factory(node), c.serving(node.xp), node.xp
    if lib is None:
        return simple
    algorithm = _ACCURATE if node.op_type == "Softmax" else _LOG

    def run(x: Any) -> Any:
        if not x.ndim or not x.size:
            return simple(x)
        y = xp.empty(x.shape, x.dtype)
        _call(lib, algorithm, math.prod(x.shape[:-1]), x.shape[-1], x.dtype)(
            xp.ascontiguousarray(x), y)
        return y

    return run
