"""Kernels of Cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import UnimplementedError
from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.loops.cuda_code import WRAPPED


@kernel("Cast", fresh=True, accepts_out=True, elementwise=True)
def _cast(node: KernelNode) -> Any:
    """Floating values are cut towards zero, complex ones lose their imaginary part."""
    dtype = node.np_dtype()
    source, target = node.input_dtypes[0], node.output_dtypes[0]
    if dtypes.string in (source, target) and source is not target:
        raise UnimplementedError(
            None, None, f"Cast {source.name} to {target.name} is not supported")
    xp = node.xp
    drop_imaginary = node.input_dtypes[0].is_complex and not node.output_dtypes[0].is_complex
    wraps = xp is not np and dtype.name in WRAPPED and not (
        source.is_integer or source.is_bool or source.is_quantized)

    def run(x: Any, out: Any = None) -> Any:
        if drop_imaginary:
            x = x.real
        if wraps:
            x = x.astype(np.int64)
        if out is not None:
            out[...] = x
            return out
        if (getattr(x, "nbytes", 0) < loops_tuning.PARALLEL_LARGE_BYTES or xp is not np
                or not x.flags.c_contiguous):
            return x.astype(dtype)
        return _cast_in_blocks(x, dtype)

    return run


def _cast_in_blocks(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``x.astype(dtype)`` on all cores."""
    result = memory.empty(x.shape, dtype)
    source, target = x.reshape(-1), result.reshape(-1)

    def work(block: slice) -> None:
        target[block] = source[block]

    over_rows(source.size, x.itemsize + dtype.itemsize, work, tuning.BLOCK_ONCE_BYTES)
    return result

_TRUTHS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "string")


@kernel("ToBool", fresh=True, host_inputs=(0,), host_outputs=(0,))
def _to_bool(node: KernelNode) -> Callable:
    """A number is true if it is not zero, a string or an array if it is not empty."""

    dtype = node.input_dtypes[0].name

    def run(x: Any) -> Any:
        if np.ndim(x):
            return np.bool_(x.size > 0)
        if dtype not in _TRUTHS:
            raise invalid(f"{dtype} cannot be converted to a boolean")
        return np.bool_(len(x) > 0 if isinstance(x, bytes) else bool(x))

    return run
